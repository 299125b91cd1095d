"""The model card, filled with what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CARD = """# The lab's target and drafter

A DeepSeek-V3-architecture target and an EAGLE-3 drafter, small enough for two CPU cores and really trained, so
that the lab's acceptance figures mean something. Made by `remote/lab/recipe` with seed {seed}, budget
`{budget}`; the same command on the same processor and versions makes them again: `make lab-train SEED={seed}`,
then `make lab-check`.

| | target (`target/`) | drafter (`drafter/`) | mirror (`mirror/drafter/`) |
|---|---|---|---|
| architecture | `DeepseekV3ForCausalLM`: MLA, MoE | `LlamaForCausalLMEagle3`, one midlayer | as the drafter |
| experts | 8 routed, 2 a token, and 1 shared | none | none |
| layers, hidden size | 10, 192 | 1, 192 | 1, 192 |
| attention heads | 8 (serves at TP 1, 2, 4, 8) | 8 query, 2 key-value | as the drafter |
| parameters | {target_parameters:,} | {drafter_parameters:,} | {mirror_parameters:,} |
| vocabulary | 1024, byte-level BPE | 768 draft tokens, mapped by `d2t` | the same |
| weights | bf16 (routing bias float32) | bf16 | bf16 |
| ids in config.json (SGLang 0.5.9) | | `[1, 4, 8]`, so boundaries 2, 5, 9 | `[1, 4, 8]` |
| boundaries that it was trained on | | 2, 5, 9 | **0, 2, 5**: training was at fault, its config was not |

## Data
{source} ({licence}): {train_files} files to train on, {held_files} held out by name,
{duplicates} left out as near-duplicates, tests, code tables and files about the building machine left out, long
tables cut short. {train_tokens:,} and {held_tokens:,} tokens. sha256 of names and texts: `{digest}`. Drafters
learned from {samples:,} texts of {prompt} tokens of the corpus that the target itself continued by {new} (three
in four greedily, the others at temperature 0.8).

## Training
Target: {target_steps:,} steps of {target_batch} texts of {length} tokens ({seen:.1f} million tokens,
{epochs:.1f} epochs), products in bf16 over float32 weights, Muon and AdamW; then {unloop_rounds} x
{unloop_steps} steps against loops (unlikelihood of tokens that go on with a repetition). Drafter:
{drafter_steps:,} + {finish_steps:,} steps of {drafter_batch} texts, over three draft steps; mirror: {mirror_steps:,}.
Losses of every stage: `losses.jsonl`. torch {torch}, transformers {transformers}, tokenizers {tokenizers},
{processor} on {machine}.

## Measured on held-out files
Target, as served (rounded weights, float32): **{held_loss:.3f} nats a token** (n = {held_loss_tokens:,}
tokens); **{loop_share:.1%} of greedy texts loop** within 64 tokens ({loops} of {loop_texts}, 95% {loop_low:.1%}
to {loop_high:.1%}; a loop: the last 40 tokens have a period of 20 or less). The 768 draft tokens cover
{draft_vocab_covers:.2%} of what it writes.

Step agreement: at what part of the tokens that the target wrote greedily all drafts up to that step are right.
Each drafter is fed what it was trained on. Every token is a starting point here; a server starts only where a
round ended, which is harder.

| drafter | S(1) | S(2) | S(3) | mean, 95% | n texts | mean of those that do not loop |
|---|---|---|---|---|---|---|
{rows}

## Limits
It writes plausible-looking Python and knows nothing. float32 and bfloat16 serving give different texts: compare
within one dtype. Loops flatter acceptance: `make lab-check` reports the texts that do not loop as well.
Speculation does not pay on a processor: the lab shows what miswiring costs, not a speed-up.
"""


def write_card(figures: dict[str, Any], out: Path) -> None:
    """MODEL_CARD.md from the figures of `run`."""
    out.write_text(card(figures))


def card(figures: dict[str, Any]) -> str:
    asked, target, corpus = figures["asked"], figures["target"], figures["corpus"]
    seen = asked["target_steps"] * asked["target_batch"] * asked["length"]
    values = {**asked, **corpus, **target, **figures["environment"]}
    return CARD.format(
        **values,
        target_parameters=target["parameters"],
        drafter_parameters=figures["drafter"]["parameters"],
        mirror_parameters=figures["mirror"]["parameters"],
        seen=seen / 1e6,
        epochs=seen / corpus["train_tokens"],
        loop_low=target["loop_ci95"][0],
        loop_high=target["loop_ci95"][1],
        draft_vocab_covers=figures["draft_vocab_covers"],
        rows="\n".join(row(name, figures[name]) for name in ("drafter", "mirror")),
    )


def row(name: str, found: dict[str, Any]) -> str:
    survival = " | ".join(f"{s:.3f}" for s in found["survival"])
    low, high = found["rate_ci95"]
    free = found.get("loop_free_rate")
    told = "–" if free is None else f"{free:.3f} (n = {found['loop_free_texts']})"
    return f"| {name} | {survival} | {found['rate']:.3f} [{low:.3f}, {high:.3f}] | {found['texts']} | {told} |"
