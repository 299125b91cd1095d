"""Measurements as tidy tables, ready for `helpers.figures` and for reading in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.measurement import Measurement
from helpers.acceptance.sources.result import Counters
from helpers.acceptance.speed import SpeedModel
from helpers.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

#: What a profile's settings say about it, rather than what it does.
_NOT_COMPARED = ("name", "note", "port")


def survival_rows(rows: Iterable[Measurement]) -> pd.DataFrame:
    """S(k) of each configuration: columns ``profile``, ``k``, ``survival``, ``low``, ``high``."""
    import pandas as pd

    table = [
        (row.name, k, value, *interval)
        for row in rows
        if row.survival is not None and row.survival_ci95 is not None
        for k, (value, interval) in enumerate(zip(row.survival, row.survival_ci95, strict=True), start=1)
    ]
    return pd.DataFrame(table, columns=["profile", "k", "survival", "low", "high"])


def rate_rows(rows: Iterable[Measurement]) -> pd.DataFrame:
    """Accept rate of each configuration: columns ``profile``, ``accept_rate``, ``low``, ``high``."""
    import pandas as pd

    table = [
        (row.name, row.accept_rate, *row.ci95) for row in rows if row.accept_rate is not None and row.ci95 is not None
    ]
    return pd.DataFrame(table, columns=["profile", "accept_rate", "low", "high"])


def length_rows(rows: Iterable[tuple[str, Measurement]]) -> pd.DataFrame:
    """Accept length against draft steps: columns ``profile``, ``num_steps``, ``accept_length``, ``low``, ``high``.

    Args:
        rows: (curve that the point belongs to, measurement). A tree's interval is of its proposed drafts, too.
    """
    import pandas as pd

    table = [
        (
            curve,
            len(row.survival),
            row.accept_length,
            *(1 + (row.drafts_per_step or len(row.survival)) * end for end in row.ci95),
        )
        for curve, row in rows
        if row.survival is not None and row.ci95 is not None
    ]
    found = pd.DataFrame(table, columns=["profile", "num_steps", "accept_length", "low", "high"])
    return found.sort_values(["profile", "num_steps"], kind="stable", ignore_index=True)


def prompt_rows(first: Mapping[str, RequestCounters], second: Mapping[str, RequestCounters]) -> pd.DataFrame:
    """Accept length of each prompt under two configurations: columns ``prompt``, ``first``, ``second``, ``steps``.

    Args:
        first, second: counters by the prompt's id; prompts that both have are compared.
    """
    import pandas as pd

    table = [
        (key, _length(first[key]), _length(second[key]), min(first[key].verify_steps, second[key].verify_steps))
        for key in first
        if key in second and first[key].verify_steps and second[key].verify_steps
    ]
    return pd.DataFrame(table, columns=["prompt", "first", "second", "steps"])


def prediction_rows(model: SpeedModel) -> pd.DataFrame:
    """The speed model's points, one a number of draft steps, for `helpers.figures.acceptance_speed.predicted`.

    Columns ``num_steps``, ``accept_length``, ``seconds``, ``tokens_per_s``, ``low``, ``high`` (95%, or the bounds where
    survival is extrapolated and nothing else is known), ``break_even``, ``break_even_low``, ``break_even_high`` (95%
    over starts; NaN where there was one, or the number of steps was not measured), ``starts``, ``ratio``, ``basis``,
    ``baseline_low``, ``baseline_high`` (95% of the speed without speculation; NaN where it has no interval).
    """
    import pandas as pd

    table = []
    for point in model.points:
        low, high = point.tokens_per_s_ci95 or point.bounds
        over, starts = point.over_starts, model.starts if point.seconds_measured else None
        basis = "survival measured" if point.survival_measured else "survival extrapolated"
        table.append(
            (
                point.num_steps,
                point.accept_length,
                point.seconds,
                point.tokens_per_s,
                min(low, point.bounds[0]),
                max(high, point.bounds[1]),
                point.break_even,
                *((None, None, starts) if over is None else (*over.bounds, over.starts)),
                point.ratio,
                basis,
                *(model.baseline_ci95 or (None, None)),
            )
        )
    names = ["num_steps", "accept_length", "seconds", "tokens_per_s", "low", "high", "break_even"]
    ends = ["break_even_low", "break_even_high"], ["baseline_low", "baseline_high"]
    found = pd.DataFrame(table, columns=[*names, *ends[0], "starts", "ratio", "basis", *ends[1]])
    return found.astype({**dict.fromkeys([*ends[0], *ends[1]], float), "starts": "Int64"})


def counters_rows(found: Mapping[str, Counters]) -> pd.DataFrame:
    """The same run read from several sources, side by side: one row a source, its n and what it had meant.

    Columns: ``accept_length``, ``low``, ``high``, ``accept_rate``, ``verify_steps``, ``lines``, ``source``,
    ``definition``.
    """
    import pandas as pd

    table = []
    for one in found.values():
        low, high = one.accept_length_ci95 or (None, None)
        table.append(
            {
                "accept_length": one.accept_length,
                "low": low,
                "high": high,
                "accept_rate": one.accept_rate,
                "verify_steps": one.n.verify_steps,
                "lines": one.n.lines,
                "source": one.source,
                "definition": one.definition,
            }
        )
    rows = pd.DataFrame(table, index=pd.Index(list(found), name="read from"))
    rows[["accept_length", "low", "high", "accept_rate"]] = rows[
        ["accept_length", "low", "high", "accept_rate"]
    ].astype(float)
    rows["verify_steps"] = rows["verify_steps"].astype("Int64")
    return rows


def comparison(
    rows: Sequence[Measurement], *, baseline: str, configs: Mapping[str, Mapping[str, Any]] | None = None
) -> pd.DataFrame:
    """One row a configuration, the pinned baseline first, with deltas against it.

    Args:
        baseline: name of the row that the deltas are against.
        configs: settings by name, such as ``profile.model_dump()``; only those that differ become columns.

    Returns:
        Index: names. Columns: settings that differ, ``accept_length``, ``accept_rate``, ``low``, ``high`` (its 95%
        interval), ``verify_steps``, ``tokens_per_s``, ``requests``, ``greedy_equal``, and against the baseline
        ``accept_length_delta``, ``accept_rate_delta``, ``speed_ratio`` (NaN where a side has none; the rate's also
        where the two draft different numbers a verify step).

    Raises:
        UsageError: ``WB-BASELINE-MISSING`` when no row has that name.
    """
    import pandas as pd

    named = {row.name: row for row in rows}
    if baseline not in named:
        raise UsageError(
            "WB-BASELINE-MISSING",
            f"there is no row {baseline!r} to compare with",
            expected=f"one of {', '.join(named)}",
            next="name one of them as the baseline",
        )
    pinned = named[baseline]
    names = [baseline, *(name for name in named if name != baseline)]
    settings = differences({name: (configs or {}).get(name, {}) for name in names}) if configs else {}
    table = []
    for name in names:
        row = named[name]
        low, high = row.ci95 or (None, None)
        table.append(
            {
                **{key: values[name] for key, values in settings.items()},
                "accept_length": row.accept_length,
                "accept_rate": row.accept_rate,
                "low": low,
                "high": high,
                "verify_steps": row.verify_steps,
                "tokens_per_s": row.tokens_per_s,
                "requests": row.requests,
                "greedy_equal": row.greedy_equal,
                "accept_length_delta": _minus(row.accept_length, pinned.accept_length),
                "accept_rate_delta": _minus(row.accept_rate, pinned.accept_rate) if alike(row, pinned) else None,
                "speed_ratio": row.tokens_per_s / pinned.tokens_per_s,
            }
        )
    found = pd.DataFrame(table, index=pd.Index(names, name="profile"))
    numbers = ["accept_length", "accept_rate", "low", "high", "accept_length_delta", "accept_rate_delta"]
    found[numbers] = found[numbers].astype(float)
    for key, values in settings.items():  # as they are: a missing one makes no number of another kind
        found[key] = pd.Series([values[name] for name in names], index=found.index, dtype=object)
    found["verify_steps"] = found["verify_steps"].astype("Int64")
    return found


def alike(row: Measurement, other: Measurement) -> bool:
    """Whether two accept rates are of the same thing, as far as is known: equal drafts a verify step."""
    drafts = {one.drafts_per_step for one in (row, other)} - {None}
    return len(drafts) < 2


def differences(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings that are not alike in all configurations: ``{setting: {name: value}}``, nested keys with dots.

    >>> differences({"a": {"tp": 8, "speculation": {"num_steps": 3}}, "b": {"tp": 8, "speculation": {"num_steps": 2}}})
    {'speculation.num_steps': {'a': 3, 'b': 2}}
    """
    flat = {name: _flat(config) for name, config in configs.items()}
    keys = list(dict.fromkeys(key for config in flat.values() for key in config))
    found = {key: {name: config.get(key) for name, config in flat.items()} for key in keys}
    return {key: values for key, values in found.items() if len({repr(value) for value in values.values()}) > 1}


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in config.items():
        if not before and key in _NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = list(value) if isinstance(value, tuple) else value
    return found


def _length(counters: RequestCounters) -> float:
    return 1 + counters.correct / counters.verify_steps


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
