"""What the speed model found, in sentences for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helpers.acceptance.breaking_even import CONTRADICT, ONCE, BreakEven
from helpers.acceptance.outcome import UNDECIDED, outcome, undecided
from helpers.acceptance.speed import Predicted, SpeedModel

ONE_START = (
    "one start: the break-even has no interval, and those of speeds are over prompts only; another start of the same "
    "servers may move the step times, and with them the break-even and the shares of the loss"
)
ONE_NUMBER = (
    "no best number of draft steps is named: only num_steps {k} was measured, which does not tell a draft's cost from "
    "a verify pass's; measure a second number of steps"
)
NOTHING_MORE = "no best number of draft steps is named, and no shares of a loss"


def sentences(model: SpeedModel, at: Predicted, *, accept_rate: float | None = None) -> tuple[str, ...]:
    """The verdict, what would be best, and what the loss is made of.

    Args:
        at: the configuration that is spoken of.
        accept_rate: the one that `model.what_if` is for.
    """
    told = [_verdict(model, at)]
    if model.starts == 1:
        told.append(ONE_START)
    if model.cost.impossible:
        return (*told, f"with num_steps {_listed(model.cost.impossible)} {CONTRADICT}; {NOTHING_MORE}")
    if accept_rate is not None:
        told.append(_if(model, at, accept_rate))
    best = model.best
    if best is None:
        told.append(ONE_NUMBER.format(k=_listed(model.cost.measured)))
        told += [f"assumed: {model.cost.assumption}"] if model.cost.assumption else []
    elif best.num_steps == at.num_steps:
        told.append(f"no other number of steps up to {len(model.points)} is predicted to be faster")
    elif best.tokens_per_s < model.baseline_tokens_per_s:
        told.append(
            f"no number of steps up to {len(model.points)} is predicted to beat {_speed(model.baseline_tokens_per_s)}: "
            f"the best, {_steps(best)}, would give {_range(best)}"
        )
    else:
        told.append(f"{_steps(best)} would give {_range(best)}, the best of 1 to {len(model.points)}")
    told.append(_loss(model, at))
    return tuple(told)


def _verdict(model: SpeedModel, at: Predicted) -> str:
    base = model.baseline_tokens_per_s
    over = at.over_starts
    found = outcome(
        at.accept_length,
        at.break_even,
        baseline=base,
        baseline_ci95=model.baseline_ci95,
        speed=at.tokens_per_s_ci95,
        starts=model.starts,
        over_starts=None if over is None else over.bounds,
    )
    if found == "contradicts":
        return (
            f"{_steps(at)}: a verify step was measured to take {at.seconds * 1e3:.1f} ms and plain decoding "
            f"{model.cost.baseline * 1e3:.1f} ms a step, so whether speculation wins is {UNDECIDED}"
        )
    needed = f"{at.break_even:.2f}" if over is None else str(over)
    text = (
        f"{_steps(at)}: a verify step takes {at.seconds * 1e3:.1f} ms against {model.cost.baseline * 1e3:.1f} ms of "
        f"plain decoding, so speculation needs an accept length of {needed} to equal {_speed(base)}; "
    )
    out_of_reach = (at.break_even if over is None else over.bounds[0]) > at.num_steps + 1
    if out_of_reach and (found == "loses" or at.tokens_per_s_ci95 is None):
        return text + f"at these times {_steps(at)} cannot reach that whatever is accepted (at most {at.num_steps + 1})"
    said = f"whether it wins is {undecided(model.starts)}" if found == "undecided" else found
    return text + f"it has {at.accept_length:.2f} and {said}: {_range(at)}, {at.ratio:.2f} times the baseline"


def paying(points: Sequence[tuple[str, float, BreakEven]]) -> list[str]:
    """Which points are above their break-even and which below, as far as starts tell; nothing of no points.

    Args:
        points: name, accept length, break-even.
    """
    if not points:
        return []
    several = [point for point in points if point[2].ci95 is not None]
    sides = (("above", "pays"), ("below", "does not pay"), ("within", "is not told apart from plain decoding"))
    told = []
    for side, words in sides:
        names = [n for n, length, needed in several if needed.against(length) == side and not needed.contradicts]
        told += [f"speculation {words} at {', '.join(names)}"] if names else []
    lines = [f"against the break-even's interval over starts: {'; '.join(told)}"] if told else []
    once = [name for name, _, needed in points if needed.ci95 is None]
    lines += [f"break-even of {', '.join(once)}: {ONCE}"] if once else []
    return lines + contradictions([(name, needed) for name, _, needed in points])


def contradictions(points: Sequence[tuple[str, BreakEven]]) -> list[str]:
    """Which points have a break-even that cannot be, and what that means; nothing where none has."""
    names = [name for name, needed in points if needed.contradicts]
    return [f"break-even of {', '.join(names)} below 1: {CONTRADICT}"] if names else []


def _if(model: SpeedModel, at: Predicted, rate: float) -> str:
    base, same = model.baseline_tokens_per_s, next(p for p in model.what_if if p.num_steps == at.num_steps)
    # Of one measured number of steps no other can be told to be better.
    best = same if model.best is None else max(model.what_if, key=lambda p: p.tokens_per_s)
    if same.tokens_per_s < base:
        text = f"at this step time even {rate:.0%} accepted cannot beat {_speed(base)} ({_speed(same.tokens_per_s)})"
    else:
        text = f"at this step time {rate:.0%} accepted would give {_speed(same.tokens_per_s)}"
    if best.num_steps != same.num_steps:
        text += f"; {_steps(best)} would give {_speed(best.tokens_per_s)}"
        text += "" if best.tokens_per_s >= base else ", still less than the baseline"
    return text


def _loss(model: SpeedModel, at: Predicted) -> str:
    base, perfect = model.baseline_tokens_per_s, model.baseline_tokens_per_s * (at.num_steps + 1)
    of_acceptance, of_overhead = model.loss.acceptance_share, model.loss.overhead_share
    text = (
        f"all drafts accepted and free would be {_speed(perfect)}; acceptance leaves {_speed(base * at.accept_length)} "
        f"of it, the step's overhead {_speed(at.tokens_per_s)}"
    )
    if of_acceptance is None or of_overhead is None:
        return f"{text}; {CONTRADICT}, so no shares of the loss are given"
    return (
        f"{text}: {of_acceptance:.0%} of the loss is acceptance, {of_overhead:.0%} overhead (shares of the logarithm)"
    )


def _range(point: Predicted) -> str:
    text = _speed(point.tokens_per_s)
    if point.tokens_per_s_ci95:
        low, high = point.tokens_per_s_ci95
        text += f" [{low:.1f}, {high:.1f}]"
    if not point.survival_measured:
        low, high = point.bounds
        text += f" (extrapolated; between {low:.1f} and {high:.1f} whatever the further drafts do)"
    return text


def _speed(tokens_per_s: float) -> str:
    return f"{tokens_per_s:.1f} tok/s"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _steps(point: Predicted) -> str:
    return f"{point.num_steps} step{'' if point.num_steps == 1 else 's'}"
