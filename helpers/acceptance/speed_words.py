"""What the speed model found, in sentences for a person."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.acceptance.breaking_even import ONCE, BreakEven
from helpers.acceptance.speed import Predicted, SpeedModel

ONE_START = (
    "one start: the break-even has no interval, and those of speeds are over prompts only; another start of the same "
    "servers may move the step times, and with them the break-even and the shares of the loss"
)
ONE_NUMBER = (
    "no best number of draft steps is named: only num_steps {k} was measured, which does not tell a draft's cost from "
    "a verify pass's; measure a second number of steps"
)


def sentences(model: SpeedModel, at: Predicted, *, accept_rate: float | None = None) -> tuple[str, ...]:
    """The verdict, what would be best, and what the loss is made of.

    Args:
        at: the configuration that is spoken of.
        accept_rate: the one that `model.what_if` is for.
    """
    told = [_verdict(model, at)]
    if model.starts == 1:
        told.append(ONE_START)
    if accept_rate is not None:
        told.append(_if(model, at, accept_rate))
    best = model.best
    if best is None:
        told.append(ONE_NUMBER.format(k=", ".join(map(str, model.cost.measured))))
        told += [f"assumed: {model.cost.assumption}"] if model.cost.assumption else []
    elif best.num_steps == at.num_steps:
        told.append(f"no other number of steps up to {len(model.points)} is predicted to be faster")
    elif best.tokens_per_s < model.baseline_tokens_per_s:
        told.append(
            f"no number of steps up to {len(model.points)} beats {_speed(model.baseline_tokens_per_s)}: the best, "
            f"{_steps(best)}, would give {_range(best)}"
        )
    else:
        told.append(f"{_steps(best)} would give {_range(best)}, the best of 1 to {len(model.points)}")
    told.append(_loss(model, at))
    return tuple(told)


def _verdict(model: SpeedModel, at: Predicted) -> str:
    base = model.baseline_tokens_per_s
    over = at.over_starts
    needed = f"{at.break_even:.2f}" if over is None else str(over)
    text = (
        f"{_steps(at)}: a verify step takes {at.seconds * 1e3:.1f} ms against {model.cost.baseline * 1e3:.1f} ms of "
        f"plain decoding, so speculation needs an accept length of {needed} to equal {_speed(base)}; "
    )
    if (at.break_even if over is None else over.bounds[0]) > at.num_steps + 1:
        return text + f"{_steps(at)} cannot reach that whatever is accepted (at most {at.num_steps + 1})"
    side = ("above" if at.ratio > 1 else "below") if over is None else over.against(at.accept_length)
    outcome = {"above": "wins", "below": "loses", "within": "these starts do not tell whether it wins"}[side]
    return text + f"it has {at.accept_length:.2f} and {outcome}: {_range(at)}, {at.ratio:.2f} times the baseline"


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
        names = [name for name, length, needed in several if needed.against(length) == side]
        told += [f"speculation {words} at {', '.join(names)}"] if names else []
    lines = [f"against the break-even's interval over starts: {'; '.join(told)}"] if told else []
    once = [name for name, _, needed in points if needed.ci95 is None]
    return lines + ([f"break-even of {', '.join(once)}: {ONCE}"] if once else [])


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
    loss = model.loss
    return (
        f"all drafts accepted and free would be {_speed(perfect)}; acceptance leaves {_speed(base * at.accept_length)} "
        f"of it, the step's overhead {_speed(at.tokens_per_s)}: {loss.acceptance_share:.0%} of the loss is acceptance, "
        f"{loss.overhead_share:.0%} overhead (shares of the logarithm)"
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


def _steps(point: Predicted) -> str:
    return f"{point.num_steps} step{'' if point.num_steps == 1 else 's'}"
