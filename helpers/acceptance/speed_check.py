"""The speed model from measurements, and held against measurements that it was not told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.acceptance.breaking_even import break_even_of
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.positions import TextStep, steps_of_stream
from helpers.acceptance.prediction import continued, order_contradictions, speed_model
from helpers.acceptance.speed import SpeedModel, StepTime, step_cost
from helpers.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

#: What makes two points of a sweep one curve, their number of draft steps aside.
CURVE = ("profile", "wiring", "ids", "draft", "backend")


def step_time_of(row: Measurement) -> StepTime:
    """A measurement's step time.

    Raises:
        UsageError: ``WB-SPEED-INPUT`` when it has none (its answers were not streamed).
    """
    if not row.step_s:
        raise UsageError(
            "WB-SPEED-INPUT",
            f"{row.name} has no step time (step_s is {row.step_s})",
            expected="a measurement of streamed answers",
            next="workbook bench BOX RUN --prompts F",
        )
    return StepTime(len(row.survival or ()), row.step_s, float(row.concurrency), row.step_s_ci95)


def model_of(
    row: Measurement,
    baseline: Measurement,
    *,
    others: Sequence[Measurement] = (),
    requests: Sequence[RequestCounters] | None = None,
    max_steps: int = 8,
    what_if: float | None = None,
) -> SpeedModel:
    """The speed model of one configuration, as `helpers.acceptance.prediction.speed_model` describes.

    Args:
        row: what is asked about: its survival and step time.
        baseline: without speculation, at the same concurrency.
        others: the same drafter with other numbers of draft steps; their step times tell a draft's cost.
        requests: the counters of ``row``'s requests, for intervals.

    Raises:
        UsageError: ``WB-SPEED-INPUT``.
    """
    if not row.survival or baseline.survival:
        raise UsageError(
            "WB-SPEED-INPUT",
            f"{row.name} has survival {row.survival}, the baseline {baseline.name} has {baseline.survival}",
            expected="a configuration with speculation, and a baseline without",
            next="give the measurement without speculation as the baseline",
        )
    told = {time.num_steps: time for time in map(step_time_of, [*others, row])}
    pairs = {len(one.survival or ()): break_even_of(one.by_pass, baseline.by_pass) for one in [*others, row]}
    needed = {k: one for k, one in pairs.items() if one is not None}
    starts = min((one.starts for one in (row, baseline) if one.starts is not None), default=None)
    return speed_model(
        row.survival,
        [step_time_of(baseline), *told.values()],
        num_steps=len(row.survival),
        requests=requests,
        max_steps=max_steps,
        what_if=what_if,
        starts=needed[len(row.survival)].starts if len(row.survival) in needed else starts,
        break_evens=needed,
    )


def held_out(frame: pd.DataFrame) -> pd.DataFrame:
    """Each point of a sweep predicted from the others, beside what was measured.

    A point's survival comes from its curve's longest other chain (continued where that is shorter), its step time from
    the line through the other numbers of draft steps; its own figures are not looked at. Curves with fewer than three
    numbers of draft steps are left out, and so are points with topk > 1.

    Args:
        frame: `helpers.acceptance.sweep_results.sweep_frame` of a sweep with a baseline.

    Returns:
        Columns ``point``, ``curve``, ``num_steps``, ``predicted`` (tokens/s per request after the first token),
        ``measured``, ``low``, ``high`` (accept length / step time of the point itself, with the interval of its step
        time). `helpers.acceptance.prediction.order_contradictions` compares their order.
    """
    import pandas as pd

    rows = []
    used = frame[(frame["topk"] == 1) & frame["survival"].notna() & frame["step_s"].notna()]
    plain = frame[frame["baseline"] & frame["step_s"].notna()]
    keys = [key for key in (*CURVE, "batch_size") if key in used]
    shown = used.assign(**{key: used[key].map(str) for key in keys})
    for names, part in shown.groupby(keys, sort=False):
        size = dict(zip(keys, names, strict=True)).get("batch_size")
        base = plain[plain["batch_size"].map(str) == size] if size is not None else plain
        if len(part) < 3 or base.empty:
            continue
        for at in part.index:
            others, point = part.drop(index=at), part.loc[at]
            times = [StepTime(int(o["num_steps"]), float(o["step_s"])) for _, o in others.iterrows()]
            cost = step_cost([StepTime(0, float(base.iloc[0]["step_s"])), *times])
            longest = others.loc[others["num_steps"].idxmax(), "survival"]
            k = int(point["num_steps"])
            length = 1 + sum(continued(list(longest), k))
            own, seconds = 1 + sum(point["survival"]), float(point["step_s"])
            low, high = point["step_s_low"], point["step_s_high"]
            told = pd.notna(low) and pd.notna(high)
            told_by = dict(zip(keys, map(str, names), strict=True))
            curve = " ".join(told_by[key] for key in ("profile", "wiring") if told_by.get(key, "None") != "None")
            rows.append(
                (
                    point["point"],
                    curve,
                    k,
                    length / (cost.verify + k * cost.draft),
                    own / seconds,
                    own / float(high if told else seconds),
                    own / float(low if told else seconds),
                )
            )
    columns = ["point", "curve", "num_steps", "predicted", "measured", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class Order:
    """The order of speeds that the model predicts, beside the measured one.

    Attributes:
        points: how many were predicted from the others. apart: pairs of them whose measured intervals do not overlap.
        contradictions: those pairs, (slower, faster) by measurement, that the model orders otherwise.
        errors: predicted / measured - 1, by point.
    """

    points: int
    apart: int
    contradictions: tuple[tuple[str, str], ...]
    errors: dict[str, float]

    def lines(self) -> list[str]:
        """For people."""
        if not self.points:
            return ["speed model: no curve has three numbers of draft steps and a baseline, so nothing was predicted"]
        worst = max(self.errors, key=lambda point: abs(self.errors[point]))
        lines = [
            f"speed model: each of {self.points} points predicted from its curve's others; of {self.apart} pairs whose "
            f"intervals are apart it orders {self.apart - len(self.contradictions)} as measured; "
            f"furthest off: {worst}, {self.errors[worst]:+.0%}"
        ]
        return lines + [f"  ordered otherwise: {slow} is slower than {fast}" for slow, fast in self.contradictions]

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "points": self.points,
            "apart": self.apart,
            "contradictions": [list(pair) for pair in self.contradictions],
            "errors": self.errors,
        }


def order_of(frame: pd.DataFrame) -> Order:
    """Every point predicted by `held_out`, and the order of the predictions held against the measured one.

    Args:
        frame: as `held_out` takes it. One sweep's intervals know the prompts only; those of
            `helpers.acceptance.sweep_rounds.pooled_frame` know what another start changes too.
    """
    table = held_out(frame)
    rows = table.to_dict("records")
    measured = {row["point"]: (row["measured"], row["low"], row["high"]) for row in rows}
    apart = sum(a[2] < b[1] for a in measured.values() for b in measured.values())
    wrong = order_contradictions({row["point"]: row["predicted"] for row in rows}, measured)
    errors = {row["point"]: row["predicted"] / row["measured"] - 1 for row in rows}
    return Order(len(rows), apart, tuple(wrong), errors)


def steps_of_answer(answer: Answer) -> list[TextStep]:
    """A streamed answer's verify steps, by position in the text, for `helpers.acceptance.positions.position_rows`.

    Raises:
        UsageError: ``WB-STREAM-JOINED`` when its chunks do not stand for one verify step each.
    """
    counted = answer.counters.verify_steps if answer.counters is not None else None
    return steps_of_stream(answer.id, [have for _, have in answer.arrivals], verify_steps=counted)
