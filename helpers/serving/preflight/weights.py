"""The drafter's tensors against what the engine's class claims: a name that nobody claims is dropped without a word."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found
from helpers.source.reading.drafter import EAGLE3, Drafter

#: What one layer needs, each by one name or by the fused one.
_LAYER = (
    ("self_attn.q_proj", "self_attn.qkv_proj"),
    ("self_attn.k_proj", "self_attn.qkv_proj"),
    ("self_attn.v_proj", "self_attn.qkv_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.gate_up_proj"),
    ("mlp.up_proj", "mlp.gate_up_proj"),
    ("mlp.down_proj",),
    ("input_layernorm",),
    ("hidden_norm",),
    ("post_attention_layernorm",),
)
_TABLES = ("d2t", "t2d")


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on missing and unclaimed tensors; only for the drafter class whose parts are known here."""
    draft, drafter = facts.draft, facts.drafter
    if not facts.eagle3 or draft is None or drafter is None or draft.config is None:
        return
    for problem in draft.problems:
        if not problem.startswith("config.json"):
            yield found("draft-unreadable", "error", f"a file of the drafter cannot be read: {problem}")
    if draft.architecture != EAGLE3 or draft.problems:
        return
    if draft.weights != "safetensors":
        facts.unread["draft weights"] = {
            "none": f"{draft.folder} holds no weights",
            "other": f"{draft.folder} holds weights that only a pickle opens",
        }[draft.weights]
        return
    names = {_meant(name, drafter): name for name in draft.shapes}
    unclaimed = sorted(stored for meant, stored in names.items() if not _claimed(meant, drafter))
    missing = [name for name in _needed(facts, drafter) if not any(_is(have, name) for have in names)]
    if missing:
        yield found(
            "weights-missing",
            "error",
            f"{len(missing)} tensors that the drafter needs are not in the checkpoint and stay as they were made: "
            + _some(["|".join(name) for name in missing]),
            drafter.loads,
            missing=["|".join(name) for name in missing],
        )
    if unclaimed:
        layer = any(name.removeprefix("model.").startswith("layers.0.") for name in unclaimed)
        hint = "; its layer is called midlayer here" if layer and "midlayer" in drafter.parts else ""
        yield found(
            "weights-unclaimed",
            "error",
            f"{len(unclaimed)} tensors are dropped without a word, since the engine's class has no such part{hint}: "
            + _some(unclaimed),
            drafter.loads,
            unclaimed=unclaimed,
        )


def _meant(name: str, drafter: Drafter) -> str:
    """The name as the engine's class has it: without ``model.``, and as its loader renames it."""
    plain = name.removeprefix("model.")
    for stored, meant in drafter.renames:
        if plain == stored or plain.startswith(f"{stored}."):
            return meant + plain.removeprefix(stored)
    return plain


def _claimed(name: str, drafter: Drafter) -> bool:
    first = name.partition(".")[0]
    known = {*drafter.parts, "lm_head", *_TABLES}
    if first == "layers" and "layers" in drafter.parts:
        return name.startswith("layers.0.")
    # Buffers that the engine computes by itself.
    return first in known or name.endswith("rotary_emb.inv_freq")


def _needed(facts: Facts, drafter: Drafter) -> list[tuple[str, ...]]:
    block = "midlayer" if "midlayer" in drafter.parts else "layers.0"
    needed: list[tuple[str, ...]] = [("fc",), ("norm",)]
    needed += [tuple(f"{block}.{name}" for name in names) for names in _LAYER]
    config = facts.draft_config
    # Without a vocabulary of its own the head is the target's; tied, it is the embedding.
    if config.get("draft_vocab_size") is not None and not config.get("tie_word_embeddings"):
        needed.append(("lm_head",))
    return needed


def _is(have: str, names: tuple[str, ...]) -> bool:
    return any(have.startswith(f"{name}.") for name in names)


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
