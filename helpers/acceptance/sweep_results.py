"""The results of a sweep: a row a point, on disk as results.jsonl, for reading as a table, for figures as a frame."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.acceptance.bench_text import cause_text, difference_text, table
from helpers.acceptance.breaking_even import ONCE
from helpers.acceptance.intervals import few
from helpers.acceptance.journal import write_whole
from helpers.acceptance.past_end import past_end_said
from helpers.acceptance.points import Point
from helpers.acceptance.speed_words import contradictions
from helpers.acceptance.sweep_state import Row
from helpers.errors import UsageError
from helpers.library_errors import why

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "results.jsonl"
#: Columns of `sweep_frame` beside the axes.
FIGURES = (
    "accept_length",
    "accept_rate",
    "low",
    "high",
    "survival",
    "survival_ci95",
    "histogram",
    "verify_steps",
    "proposed",
    "tokens_per_s",
    "tokens_per_s_low",
    "tokens_per_s_high",
    "step_s",
    "step_s_low",
    "step_s_high",
    "decode_steps",
    "running",
    "first_token_s",
    "inter_token_s",
    "requests",
    "prompts",
    "speed_ratio",
    "speed_ratio_low",
    "speed_ratio_high",
    "greedy_equal",
    "boundaries",
    "run",
    "cause",
)
AXES = ("profile", "wiring", "ids", "num_steps", "topk", "num_draft_tokens", "draft", "backend", "batch_size")


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found so far.

    Attributes:
        rows: of finished points, in the grid's order. missing: points without a row.
    """

    folder: Path
    rows: tuple[Row, ...]
    missing: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Every point has all its answers."""
        return not self.missing and all(row.status == "done" for row in self.rows)

    @property
    def counts(self) -> str:
        """``12 done, 1 failed``."""
        number = Counter(row.status for row in self.rows)
        said = [f"{number[status]} {status}" for status in ("done", "partial", "failed") if number[status]]
        return ", ".join([*said, *([f"{len(self.missing)} missing"] if self.missing else [])]) or "nothing"

    def record(self) -> dict[str, Any]:
        """The object of ``workbook sweep --json``."""
        return {
            "folder": str(self.folder),
            "good": self.good,
            "missing": list(self.missing),
            "rows": [row.model_dump(mode="json") for row in self.rows],
        }


def write_results(every: Sequence[Point], rows: Mapping[str, Row], out: Path) -> Sweep:
    """results.jsonl anew, from the rows so far, in the grid's order."""
    found = tuple(rows[point.id] for point in every if point.id in rows)
    lines = [json.dumps(row.model_dump(mode="json"), ensure_ascii=False) + "\n" for row in found]
    write_whole(out / RESULTS, "".join(lines))
    return Sweep(out, found, tuple(point.id for point in every if point.id not in rows))


def read_rows(path: Path) -> list[Row]:
    """The rows of a results.jsonl, or of the folder that holds one.

    Raises:
        UsageError: WB-RESUME-ROWS.
    """
    path = path / RESULTS if path.is_dir() else path
    try:
        return [Row.model_validate_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, ValueError) as error:
        raise UsageError(
            "WB-RESUME-ROWS",
            f"{path} holds no results of a sweep: {why(error)}",
            expected="results.jsonl as `workbook sweep` writes it",
            next="workbook sweep BOX --grid F",
        ) from error


def sweep_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """A row a point, tidy: ``point``, ``status``, ``baseline``, then `AXES`, then `FIGURES`.

    ``low`` and ``high`` are the 95% interval of ``accept_rate``; ``survival`` is a list, S(1) first; seconds and tokens
    per second as in `Measurement`; ``cause`` is the code of a failure. What a point does not have is None.
    """
    import pandas as pd

    columns = ["point", "status", "baseline", *AXES, *FIGURES]
    return pd.DataFrame([_flat(row) for row in rows], columns=columns)


def _flat(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {"point": row.point, "status": row.status, "baseline": row.baseline}
    flat |= {name: row.axes.get(name) for name in AXES}
    flat["cause"] = None if row.cause is None else row.cause.code
    if row.measurement is not None:
        measured = row.measurement.model_dump()
        flat |= {name: measured[name] for name in FIGURES if name in measured}
        flat["low"], flat["high"] = measured["ci95"] or (None, None)
        for name in ("tokens_per_s", "step_s"):
            flat[f"{name}_low"], flat[f"{name}_high"] = measured[f"{name}_ci95"] or (None, None)
    if row.versus is not None:
        flat["greedy_equal"] = row.versus.greedy_equal
        if row.versus.speed is not None:
            flat["speed_ratio"] = row.versus.speed.ratio
            flat["speed_ratio_low"], flat["speed_ratio_high"] = row.versus.speed.ci95
    return flat


def sweep_text(found: Sweep) -> str:
    """For people: a line a point, then what went wrong."""
    head = ["point", "ids", "steps", "batch", "accept rate [95%]", "length", "break-even", "n", "tok/s"]
    lines = table([[*head, "x baseline [95%]", "greedy"], *(_line(row) for row in found.rows)], left=2)
    if any(row.versus is not None and row.versus.break_even is not None for row in found.rows):
        lines.append(f"break-even: {ONCE} (--rounds N starts each point N times)")
    if any(row.versus is not None and row.versus.speed is not None for row in found.rows):
        lines.append(
            "x baseline: one start a point, so the interval is over prompts only; what a restart changes is in none of "
            "it (--rounds N)"
        )
    needed = [(row.point, row.versus.break_even) for row in found.rows if row.versus is not None]
    lines += contradictions([(point, one) for point, one in needed if one is not None])
    for row in found.rows:
        if row.versus is not None and row.versus.first is not None:
            lines.append(f"{row.point}: first difference: {difference_text(row.versus.first)}")
        if row.cause is not None:
            lines += ["", f"{row.point}: {row.status}", *cause_text(row.cause)]
        if row.preflight:
            lines.append(f"{row.point}: preflight found {', '.join(row.preflight)}")
    lines += few_prompts(found.rows) + beyond_the_end(found.rows)
    lines += [f"not measured yet: {', '.join(found.missing)}"] if found.missing else []
    return "\n".join([*lines, f"{found.counts}; rows: {found.folder / RESULTS}"])


def few_prompts(rows: Iterable[Row]) -> list[str]:
    """What has to be said where a point rests on few prompts."""
    prompts = min((row.measurement.units for row in rows if row.measurement is not None), default=0)
    return [f"note: {said}"] if prompts and (said := few(prompts, "prompt")) is not None else []


def beyond_the_end(rows: Iterable[Row]) -> list[str]:
    """What has to be said where a point's answers go on after an end-of-text."""
    ends = "natural_end = true under [load] of the grid"
    measured = [(row.point, row.measurement) for row in rows if row.measurement is not None]
    beyond = (past_end_said(point, one.past_end, ends) for point, one in measured)
    return [f"note: {said}" for said in beyond if said is not None]


def _line(row: Row) -> list[str]:
    axes, measured, against = row.axes, row.measurement, row.versus
    cells = [row.point, "-" if axes["ids"] is None else ",".join(map(str, axes["ids"]))]
    cells += [str(axes["num_steps"] or "-"), str(axes["batch_size"])]
    if measured is None:
        return [*cells, f"{row.status.upper()}: {row.cause.code if row.cause else 'no answer'}", *["-"] * 6]
    rate, length, steps = "-", "-", "-"
    if measured.accept_rate is not None and measured.ci95 is not None:
        rate = f"{measured.accept_rate:.3f} [{measured.ci95[0]:.3f}, {measured.ci95[1]:.3f}]"
        length, steps = f"{measured.accept_length:.2f}", str(measured.verify_steps)
    needs, ratio = "-", "-"
    if against is not None and against.break_even is not None:
        needs = against.break_even.cell
    if against is not None and against.speed is not None:
        ratio = f"{against.speed.ratio:.2f} [{against.speed.ci95[0]:.2f}, {against.speed.ci95[1]:.2f}]"
    equal = "-" if against is None or against.greedy_equal is None else "equal" if against.greedy_equal else "DIFFERENT"
    partial = " (PARTIAL)" if row.status == "partial" else ""
    return [*cells, rate + partial, length, needs, steps, f"{measured.tokens_per_s:.1f}", ratio, equal]
