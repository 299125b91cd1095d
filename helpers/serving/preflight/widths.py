"""Sizes that must fit: fc against slots and hidden size, drafter against target."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found
from helpers.source.reading.drafter import EAGLE3


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on widths, and on the algorithm that the drafter is for."""
    if not facts.speculates or facts.draft is None or facts.draft.config is None:
        return
    yield from _class(facts)
    yield from _algorithm(facts)
    yield from _target(facts)
    if facts.eagle3:
        yield from _fc(facts)
        yield from _form(facts)


def is_eagle3(facts: Facts) -> bool:
    """Whether the drafter is one of EAGLE-3: by its class, its section of ids, or an fc over several slots."""
    draft = facts.draft
    if draft is None:
        return False
    fc, hidden = fc_shape(facts), draft.size("hidden_size")
    wide = bool(fc and hidden and fc[1] >= 3 * hidden)
    return "eagle3" in (draft.architecture or "").lower() or bool(facts.eagle_config) or wide


def fc_shape(facts: Facts) -> tuple[int, int] | None:
    """Shape of the drafter's fc.weight, ``[hidden, width]``."""
    shapes = facts.draft.shapes if facts.draft else {}
    found_shape = shapes.get("fc.weight", shapes.get("model.fc.weight", ()))
    return (found_shape[0], found_shape[1]) if len(found_shape) == 2 else None


def _class(facts: Facts) -> Iterator[Finding]:
    """A checkpoint in another project's form names a class of its own."""
    name = facts.draft.architecture if facts.draft else None
    if name is not None and facts.source.find_class(name) is None:
        nested = isinstance(facts.draft_config.get("transformer_layer_config"), dict)
        form = " (a checkpoint of speculators: its config is nested too)" if nested else ""
        engine = f"sglang {facts.source.version}"
        yield found(
            "draft-class-unknown",
            "error",
            f"the drafter's config.json names {name}, and no model file of {engine} defines it{form}",
            architecture=name,
            fix=f'an export for SGLang: architectures ["{EAGLE3}"], a flat config, ids in eagle_config',
        )


def _algorithm(facts: Facts) -> Iterator[Finding]:
    algorithm = str(facts.settings["speculative_algorithm"]).upper()
    skip = facts.drafter.skip if facts.drafter else None
    if algorithm in ("EAGLE", "NEXTN") and is_eagle3(facts):
        yield found(
            "eagle-with-eagle3-drafter",
            "error",
            f"--speculative-algorithm {algorithm} with an EAGLE-3 drafter: it is fed one hidden state, and its fc is "
            "skipped without a word",
            skip,
            algorithm=algorithm,
            draft=facts.draft.architecture if facts.draft else None,
            fix="--speculative-algorithm EAGLE3",
        )
    if algorithm == "EAGLE3" and not is_eagle3(facts):
        yield found(
            "eagle3-with-other-drafter",
            "error",
            "--speculative-algorithm EAGLE3 with a drafter of another kind: "
            f"{facts.draft.architecture if facts.draft else None}",
        )


def _fc(facts: Facts) -> Iterator[Finding]:
    fc, hidden = fc_shape(facts), facts.target.size("hidden_size") if facts.target else None
    if fc is None or hidden is None:
        return
    slots = len(facts.ids) if facts.ids is not None else 3
    fixed = facts.drafter.slots if facts.drafter else None
    line = facts.drafter.fc if facts.drafter else None
    if fc[1] != slots * hidden:
        many = f"{fc[1] // hidden} slots" if fc[1] % hidden == 0 else "no whole number of slots"
        yield found(
            "fc-width",
            "error",
            f"{slots} ids times hidden size {hidden} are {slots * hidden}, and the drafter's fc takes {fc[1]} ({many})",
            line,
            slots=slots,
            hidden=hidden,
            fc=list(fc),
        )
    elif fixed is not None and slots != fixed:
        yield found(
            "fc-width",
            "error",
            f"this version builds fc for {fixed} slots, whatever ids are given; here are {slots}",
            line,
            slots=slots,
            engine_slots=fixed,
        )


def _target(facts: Facts) -> Iterator[Finding]:
    """The drafter borrows the target's embedding (and often its head): sizes must be those of this target."""
    target, draft = facts.target, facts.draft
    if target is None or draft is None or target.config is None:
        return
    config = draft.text_config
    hidden, vocab = target.size("hidden_size"), target.size("vocab_size")
    stated = config.get("target_hidden_size", config.get("hidden_size"))
    if hidden is not None and stated is not None and stated != hidden:
        yield found(
            "hidden-size-differs",
            "error",
            f"the drafter is for a hidden size of {stated}, the target has {hidden}: another target's drafter",
            draft=stated,
            target=hidden,
        )
    own = draft.size("vocab_size")
    if vocab is not None and own is not None and own != vocab:
        yield found(
            "vocab-differs",
            "error",
            f"the drafter's vocab_size is {own}, the target's {vocab}: another target's drafter (its smaller own "
            "vocabulary is draft_vocab_size)",
            draft=own,
            target=vocab,
        )


def _form(facts: Facts) -> Iterator[Finding]:
    if facts.eagle_config.get("use_aux_hidden_state") is False:
        yield found(
            "aux-switched-off",
            "error",
            "eagle_config.use_aux_hidden_state is false: no taps are taken, and fc is skipped",
            facts.drafter.skip if facts.drafter else None,
        )
    layers = facts.draft.size("num_hidden_layers") if facts.draft else None
    if facts.drafter is not None and "midlayer" in facts.drafter.parts and layers not in (None, 1):
        yield found(
            "drafter-layers", "error", f"the drafter has {layers} layers, and this version takes 1", layers=layers
        )
