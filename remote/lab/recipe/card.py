"""The model card, filled with what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remote.lab.recipe.corpus import LICENCE
from remote.lab.recipe.loops import LONGEST, TAIL
from remote.lab.recipe.measure import SERVED
from remote.lab.recipe.state import write_text

CARD = """# The lab's target and drafter

A DeepSeek-V3-architecture target and an EAGLE-3 drafter, small enough for two CPU cores and really trained, so
that the lab's acceptance figures mean something. Made by `remote/lab/recipe` with seed {seed}, budget
`{budget}`; on the same processor, with the same versions, {again} makes them again, and
`make lab-check PAIR=` with their folder serves them.

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
learned from {samples:,} texts of {prompt} tokens of the corpus that the target itself continued by {new}
({greedy:,} greedily, the others at temperature 0.8).

## Training
Target: {target_steps:,} steps of {target_batch} texts of {length} tokens ({seen:.1f} million tokens,
{epochs:.1f} epochs), products in bf16 over float32 weights, Muon and AdamW; then {unloop_rounds} x
{unloop_steps} steps against loops (unlikelihood of tokens that go on with a repetition). Drafter:
{drafter_steps:,} + {finish_steps:,} steps of {drafter_batch} texts, over three draft steps; mirror: {mirror_steps:,}.
Losses of every stage: `losses.jsonl`. torch {torch}, transformers {transformers}, tokenizers {tokenizers},
{processor} on {machine}.

## Measured on held-out files
Both as they are served: rounded weights, float32. In brackets 95% intervals over texts.
Target: **{held_loss:.3f} {held_loss_between} nats a token** (n = {held_loss_tokens:,} tokens); {loop_words}.
The 768 draft tokens cover {draft_vocab_covers:.2%} of what it writes (n = {draft_vocab_tokens:,} tokens).

Step agreement: at what part of the tokens that the target wrote greedily all drafts up to that step are right.
Each drafter is fed what it was trained on. Every token is a starting point here; a server starts only where a
round ended, which is harder.

| drafter | S(1) | S(2) | S(3) | mean | n texts | mean of those that do not loop |
|---|---|---|---|---|---|---|
{rows}

## Limits
It writes plausible-looking Python and knows nothing. float32 and bfloat16 serving give different texts: compare
within one dtype. Loops flatter acceptance: `make lab-check` reports the texts that do not loop as well.
Speculation does not pay on a processor: the lab shows what miswiring costs, not a speed-up.
"""


def write_card(figures: dict[str, Any], out: Path) -> None:
    """MODEL_CARD.md from the figures of `run`."""
    write_text(out, card(figures))


def card(figures: dict[str, Any]) -> str:
    asked, target, corpus = figures["asked"], figures["target"], figures["corpus"]
    seen = asked["target_steps"] * asked["target_batch"] * asked["length"]
    return CARD.format(
        **asked,
        **corpus,
        **{name: target[name] for name in ("held_loss", "held_loss_tokens")},
        again=again(asked, corpus),
        greedy=figures["samples"]["greedy"],
        target_parameters=target["parameters"],
        drafter_parameters=figures["drafter"]["parameters"],
        mirror_parameters=figures["mirror"]["parameters"],
        seen=seen / 1e6,
        epochs=seen / corpus["train_tokens"],
        held_loss_between=between(target["held_loss_ci95"]),
        loop_words=loop_words(target, min(asked["new"], SERVED)),
        draft_vocab_covers=figures["draft_vocab_covers"],
        draft_vocab_tokens=figures["draft_vocab_tokens"],
        rows="\n".join(row(name, figures[name]) for name in ("drafter", "mirror")),
    )


def again(asked: dict[str, Any], corpus: dict[str, Any]) -> str:
    """The command that makes this pair: the Makefile's, where it has words for it."""
    if corpus["licence"] != LICENCE:
        return (
            f"`python -m remote.lab.recipe --seed {asked['seed']} --budget {asked['budget']} --text FOLDER --out OUT`"
        )
    budget = "" if asked["budget"] == "full" else f" BUDGET={asked['budget']}"
    return f"`make lab-train SEED={asked['seed']}{budget}`"


def loop_words(target: dict[str, Any], new: int) -> str:
    if not target["loops_judged"]:
        return f"loops were not looked for in texts of {new} tokens, as the last {TAIL} tell"
    low, high = target["loop_ci95"]
    return (
        f"**{target['loop_share']:.1%} of greedy texts loop**\nwithin {new} tokens ({target['loops']} of "
        f"{target['loop_texts']}, [{low:.1%}, {high:.1%}]; "
        f"a loop: the last {TAIL} tokens have a period of at most {LONGEST})"
    )


def between(ci95: Sequence[float]) -> str:
    return f"[{ci95[0]:.3f}, {ci95[1]:.3f}]"


def row(name: str, found: dict[str, Any]) -> str:
    survival = " | ".join(
        f"{s:.3f} {between(ci95)}" for s, ci95 in zip(found["survival"], found["survival_ci95"], strict=True)
    )
    free, told = found.get("loop_free_rate"), "–"
    if free is not None:
        told = f"{free:.3f} {between(found['loop_free_ci95'])} (n = {found['loop_free_texts']})"
    return f"| {name} | {survival} | {found['rate']:.3f} {between(found['rate_ci95'])} | {found['texts']} | {told} |"
