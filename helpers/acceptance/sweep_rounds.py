"""A sweep several times over, so that a speed's interval knows what another start of the same server changes.

One start a point says how a configuration accepts: greedy texts and counters come out the same each time. It does not
say how fast it is: two starts of one server differ, and so does what else the machine does meanwhile, neither of which
a bootstrap over prompts can see. So a round is a whole sweep in a folder of its own, ``round-1``, ``round-2``, ..., and
a point's speed is the mean over rounds, with Student's interval over rounds. What made a whole round slow or fast, for
all its points alike, is taken off before: points are compared within rounds, as pairs are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.acceptance.bench_text import table
from helpers.acceptance.breaking_even import BreakEven, over_starts
from helpers.acceptance.grid import Grid, invalid
from helpers.acceptance.intervals import t_interval
from helpers.acceptance.prompts import Prompt
from helpers.acceptance.speed_check import Order, order_of
from helpers.acceptance.speed_words import paying
from helpers.acceptance.sweep_results import Sweep, beyond_the_end, few_prompts, sweep_frame
from helpers.acceptance.sweep_run import sweep
from helpers.serving.profile import Profile

if TYPE_CHECKING:
    import pandas as pd

    from helpers.box import Box

#: What differs from round to round; a ratio to the round's own baseline has nothing in common with the round left.
SPEEDS = ("step_s", "tokens_per_s", "speed_ratio")
ABSOLUTE = ("step_s", "tokens_per_s")


@dataclass(frozen=True)
class Rounds:
    """What several sweeps of one grid have found.

    Attributes:
        sweeps: one a round; the last may be unfinished.
    """

    folder: Path
    sweeps: tuple[Sweep, ...]

    @property
    def good(self) -> bool:
        """Every point of every round has all its answers."""
        return all(one.good for one in self.sweeps)

    @property
    def frame(self) -> pd.DataFrame:
        """As `pooled_frame` gives it."""
        return pooled_frame([sweep_frame(one.rows) for one in self.sweeps])

    @property
    def break_evens(self) -> dict[str, BreakEven]:
        """Of each point that has one: a round is a start, and gives one ratio to its own baseline."""
        ratios: dict[str, list[float]] = {}
        for row in (row for one in self.sweeps for row in one.rows):
            if row.status == "done" and row.versus is not None and row.versus.break_even is not None:
                ratios.setdefault(row.point, []).append(row.versus.break_even.accept_length)
        return {point: found for point, told in ratios.items() if (found := over_starts(told)) is not None}

    @property
    def order(self) -> Order:
        """The speed model's order of the points, held against the measured one."""
        return order_of(self.frame)

    def record(self) -> dict[str, Any]:
        """The object of ``workbook sweep --rounds N --json``."""
        speeds = self.frame[["point", "rounds", *(name for name in _columns())]]
        spelled = speeds.astype(object).where(speeds.notna(), None)
        return {
            "folder": str(self.folder),
            "good": self.good,
            "rounds": [one.record() for one in self.sweeps],
            "speeds": spelled.to_dict("records"),
            "break_even": {point: one.model_dump(mode="json") for point, one in self.break_evens.items()},
            "order": self.order.record(),
        }


def sweep_rounds(
    box: Box,
    grid: Grid,
    profiles: Mapping[str, Profile],
    prompts: Sequence[Prompt],
    out: Path,
    *,
    rounds: int,
    retry: bool = False,
    progress: bool = True,
) -> Rounds:
    """Measure a grid `rounds` times, one after the other; the same call on the same folder goes on after a kill.

    Args:
        rounds: how many there shall be in all; more may be asked for later. Otherwise as `sweep`.

    Raises:
        UsageError: WB-GRID-INVALID, and what `sweep` raises.
    """
    if rounds < 1:
        raise invalid(f"{rounds} rounds", "ask for 1 or more; an interval of speeds takes 2, and 4 make it useful")
    asked = {"retry": retry, "progress": progress}
    done = [sweep(box, grid, profiles, prompts, out / f"round-{n}", **asked) for n in range(1, rounds + 1)]
    return Rounds(out, tuple(done))


def pooled_frame(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rounds of one grid as one frame, a row a point, shaped as `sweep_frame` gives it, with a column ``rounds``.

    Speeds (`SPEEDS`) are geometric means over the rounds in which the point was done; their ``_low`` and ``_high`` are
    Student's 95% interval over rounds, None with one, after each round's common factor was taken off (over the points
    that were done in every round). They are for comparing these points on these prompts, not for another day's speed.
    Acceptance is that of the pooled counts. Where all rounds counted the same (greedy texts do), its intervals are
    those of a round; else they reach from the lowest low to the highest high, for the prompts are the same.

    >>> import pandas as pd
    >>> row = {"point": "a", "status": "done", "histogram": [1, 1], "step_s": 0.02}
    >>> two = pooled_frame([pd.DataFrame([row]), pd.DataFrame([{**row, "step_s": 0.02}])])
    >>> int(two.loc[0, "rounds"]), round(float(two.loc[0, "step_s_low"]), 6)
    (2, 0.02)
    """
    import pandas as pd

    pooled: list[dict[str, Any]] = []
    every = pd.concat(_levelled(frames), ignore_index=True)
    for _, rows in every.groupby("point", sort=False):
        done = rows[rows["status"] == "done"]
        [first] = _records((done if len(done) else rows).head(1))
        pooled.append({**first, "rounds": len(done), **_speeds(done), **_acceptance(done)})
    return pd.DataFrame(pooled, columns=[*every.columns, "rounds", *(c for c in _columns() if c not in every.columns)])


def _levelled(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The rounds without the factor by which each was slower than usual, the median over points done in all of them."""
    done = [frame[frame["status"] == "done"].set_index("point") for frame in frames]
    out = [frame.copy() for frame in frames]
    for name in ABSOLUTE:
        if not all(name in frame for frame in frames):
            continue
        told = [frame[name].dropna().astype(float) for frame in done]
        common = sorted(set.intersection(*(set(values.index) for values in told)))
        if not common:
            continue
        logs = [{point: math.log(values[point]) for point in common} for values in told]
        usual = {point: statistics.fmean(log[point] for log in logs) for point in common}
        for frame, log in zip(out, logs, strict=True):  # the median: one point that went wrong is no slow round
            level = statistics.median(log[point] - usual[point] for point in common)
            frame[name] = frame[name].astype(float) * math.exp(-level)
    return out


def rounds_text(found: Rounds) -> str:
    """For people: a line a point, then what the speed model makes of it."""
    head = ["point", "rounds", "accept rate [95%]", "length", "break-even [95%]", "tok/s [95%, over rounds]"]
    rows, needed = _records(found.frame), found.break_evens
    lines = table([[*head, "a step, ms", "x baseline"], *(_line(row, needed.get(row["point"])) for row in rows)])
    counts = [f"round {n}: {one.counts}" for n, one in enumerate(found.sweeps, 1)]
    lengths = {row["point"]: row["accept_length"] for row in rows}
    pays = paying([(point, lengths[point], one) for point, one in needed.items()])
    every = [row for one in found.sweeps for row in one.rows]
    beyond = beyond_the_end(found.sweeps[-1].rows) if found.sweeps else []
    lines += ["", *pays, *found.order.lines(), *few_prompts(every), *beyond, *counts]
    return "\n".join([*lines, f"rows: {found.folder}/round-*/results.jsonl"])


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _columns() -> list[str]:
    return [f"{name}{end}" for name in SPEEDS for end in ("", "_low", "_high")]


def _speeds(done: pd.DataFrame) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in SPEEDS:
        values = [float(value) for value in done.get(name, ()) if value is not None and value == value]
        mean, low, high = t_interval(values) if len(values) > 1 else (values[0] if values else None, None, None)
        found |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    return found


def _acceptance(done: pd.DataFrame) -> dict[str, Any]:
    told = [list(h) for h in done["histogram"] if isinstance(h, list | tuple)]
    if len(told) < 2 or all(histogram == told[0] for histogram in told):
        return {}
    counts = [sum(column) for column in zip(*told, strict=True)]
    steps = sum(counts)
    survival = [sum(counts[k:]) / steps for k in range(1, len(counts))]
    proposed = sum(_proposed(row) for row in _records(done))
    spans = list(zip(*done["survival_ci95"], strict=True))
    return {
        "histogram": counts,
        "verify_steps": steps,
        "survival": survival,
        "survival_ci95": [(min(low for low, _ in span), max(high for _, high in span)) for span in spans],
        "accept_length": 1 + sum(survival),
        "accept_rate": sum(survival) * steps / proposed,
        "proposed": proposed,
        "low": done["low"].min(),
        "high": done["high"].max(),
    }


def _proposed(row: Mapping[str, Any]) -> int:
    """Drafts that a point's verify steps proposed: as it counted them; of an older row what its N says."""
    counted, tokens = row.get("proposed"), row.get("num_draft_tokens")
    if counted is not None and counted == counted:
        return int(counted)
    drafts = int(tokens) - 1 if tokens is not None and tokens == tokens else len(row["histogram"]) - 1
    return drafts * int(sum(row["histogram"]))


def _line(row: Mapping[str, Any], needed: BreakEven | None) -> list[str]:
    def shown(name: str, digits: int, factor: float = 1.0) -> str:
        value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
        if value is None or value != value:
            return "-"
        span = "" if low is None or low != low else f" [{low * factor:.{digits}f}, {high * factor:.{digits}f}]"
        return f"{value * factor:.{digits}f}{span}"

    rate, length = row.get("accept_rate"), row.get("accept_length")
    told = rate is not None and rate == rate
    return [
        row["point"],
        str(row["rounds"]),
        f"{rate:.3f} [{row['low']:.3f}, {row['high']:.3f}]" if told else "-",
        f"{length:.2f}" if told else "-",
        "-" if needed is None else needed.cell,
        shown("tokens_per_s", 1),
        shown("step_s", 1, 1000.0),
        shown("speed_ratio", 2),
    ]
