"""What each slot costs: the same rounds with one slot at a time put wrong, or put right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from helpers.wiring.drafter import Drafter, Target
from helpers.wiring.replay.judge import Judge
from helpers.wiring.replay.result import Replay, RequestScore, entropy_difference, rate_difference, summarise
from helpers.wiring.replay.run import say, score
from helpers.wiring.replay.taps import ZEROS, Source, Tap, Wiring, boundaries


class Ablation(BaseModel):
    """One slot changed.

    Attributes:
        change: ``zeros``, ``embedding``, ``earlier`` or ``later`` (the neighbouring boundary), ``right`` (the slot's
            tap in the wiring that is held to be right).
        taps: the wiring after the change.
        difference: accept rate after the change minus before; paired 95% interval over requests.
        cross_entropy_difference: the same of step-1 cross-entropy, in nats; None where it was not judged.
    """

    model_config = ConfigDict(frozen=True)

    slot: int
    change: str
    taps: list[int | str]
    accept_rate: float
    accept_length: float
    difference: float
    ci95: tuple[float, float]
    cross_entropy_difference: float | None
    cross_entropy_ci95: tuple[float, float] | None


def ablate(
    drafter: Drafter,
    target: Target,
    source: Source,
    wiring: Wiring,
    *,
    right: Sequence[int] | None = None,
    steps: int = 3,
    new_tokens: int | None = None,
    each: Callable[[str], None] = lambda _: None,
) -> list[Ablation]:
    """Change one slot of a wiring at a time.

    Args:
        right: boundaries of the wiring that is held to be right; then each slot that differs from it is also put right.
        each: called with a word on what is tried next.
    """

    judge = Judge(source, target, drafter.to_target)

    def scores(taps: Wiring) -> list[RequestScore]:
        return score(drafter, target, source, taps, steps=steps, new_tokens=new_tokens, judge=judge)

    before = scores(wiring)
    out = []
    for slot, change, tap in changes(source, wiring, None if right is None else boundaries(right)):
        each(f"slot {slot}: {change}")
        changed = [tap if place == slot else old for place, old in enumerate(wiring)]
        after = scores(changed)
        summary: Replay = summarise(say(changed), steps, after)
        difference, interval = rate_difference(after, before)
        entropy = entropy_difference(after, before)
        out.append(
            Ablation(
                slot=slot,
                change=change,
                taps=summary.taps,
                accept_rate=summary.accept_rate,
                accept_length=summary.accept_length,
                difference=difference,
                ci95=interval,
                cross_entropy_difference=None if entropy is None else entropy[0],
                cross_entropy_ci95=None if entropy is None else entropy[1],
            )
        )
    return out


def changes(source: Source, wiring: Wiring, right: Wiring | None) -> list[tuple[int, str, Tap]]:
    """(slot, word, its new tap): what the ladder allows and is a change."""
    ladder = source.rank.boundaries
    out = []
    for slot, tap in enumerate(wiring):
        tried = [("zeros", ZEROS)]
        if 0 in ladder:
            tried.append(("embedding", Tap("boundary", 0)))
        if tap.kind == "boundary":
            tried += [
                (word, Tap("boundary", tap.index + step))
                for word, step in (("earlier", -1), ("later", 1))
                if tap.index + step in ladder and (tap.index + step != 0)
            ]
        if right is not None:
            tried.append(("right", right[slot]))
        out += [(slot, word, new) for word, new in tried if new != tap]
    return out
