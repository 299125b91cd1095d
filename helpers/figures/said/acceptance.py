"""What figures of acceptance show: rates, survival, prompts, and curves against steps, position and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from helpers.figures.said.phrasing import NOBODY, listed, rows_of, sentence, span, steps

if TYPE_CHECKING:
    import pandas as pd


def survival(rows: pd.DataFrame) -> str:
    """Who keeps how much after the first draft and after the last, and from which draft on the others fall behind.

    Args:
        rows: as `helpers.acceptance.tables.survival_rows` gives.
    """
    parts = {str(name): rows_of(part.sort_values("k")) for name, part in rows.groupby("profile", sort=False)}
    if not parts:
        return NOBODY
    best = max(parts, key=lambda name: sum(row["survival"] for row in parts[name]))
    told = [f"S(1) is {listed([f'{_share(part[0])} ({name})' for name, part in parts.items()])}"]
    if len(parts[best]) > 1:
        lasts = [f"{_share(part[-1])} ({name})" for name, part in parts.items()]
        told.append(f"all {parts[best][-1]['k']} drafts survive in {listed(lasts)}")
    return ". ".join([sentence("; ".join(told)), *(_behind(name, parts, best) for name in parts if name != best)]) + "."


def _share(row: dict[str, Any]) -> str:
    return span(row, "survival", ".1%")


def _behind(name: str, parts: dict[str, list[dict[str, Any]]], best: str) -> str:
    pairs = list(zip(parts[name], parts[best], strict=False))
    if all(abs(row["survival"] - other["survival"]) < 1e-9 for row, other in pairs):
        return f"The curve of {name} is that of {best}"
    apart = [row["k"] for row, other in pairs if row["high"] < other["low"]]
    if not apart:
        return f"The bands of {name} and {best} overlap at every k, which a paired comparison may still part"
    first = "already at the first draft" if apart[0] == 1 else f"from k = {apart[0]} on"
    return f"The band of {name} lies below that of {best} {first}"


def rates(rows: pd.DataFrame) -> str:
    """Every accept rate, and which of them are below the highest one as far as their intervals tell.

    Args:
        rows: as `helpers.acceptance.tables.rate_rows` gives.
    """
    parts = rows_of(rows)
    if not parts:
        return NOBODY
    best = max(parts, key=lambda row: row["accept_rate"])
    each = [f"{span(row, 'accept_rate', '.1%')} ({row['profile']})" for row in parts]
    told = [f"The accept rate is {listed(each)}"]
    for row in parts:
        if row is best:
            continue
        if all(row[name] == best[name] for name in ("accept_rate", "low", "high")):
            told.append(f"That of {row['profile']} is that of {best['profile']}")
        elif row["high"] < best["low"]:
            told.append(f"The interval of {row['profile']} lies below that of {best['profile']}")
        else:
            told.append(
                f"The intervals of {row['profile']} and {best['profile']} overlap, which a paired comparison may still "
                "part"
            )
    return ". ".join(told) + "."


def prompts(rows: pd.DataFrame, *, first: str, second: str) -> str:
    """In how many prompts the second configuration is ahead, and by how much in the middle and at the ends.

    Args:
        rows: as `helpers.acceptance.tables.prompt_rows` gives.
    """
    if not len(rows):
        return f"{first} and {second} have no prompt in common."
    gains = (rows["second"] - rows["first"]).astype(float)
    ahead, equal = int((gains > 0).sum()), int((gains == 0).sum())
    behind = len(gains) - ahead - equal
    return (
        f"{second} is ahead of {first} in {ahead} of {len(gains)} prompts, equal in {equal} and behind in {behind}; "
        f"the gain is {gains.median():+.2f} tokens per verify step in the middle prompt, and {gains.min():+.2f} to "
        f"{gains.max():+.2f} over all."
    )


def lengths(rows: pd.DataFrame) -> str:
    """Tokens a verify step with the fewest draft steps and with the most.

    Args:
        rows: as `helpers.acceptance.tables.length_rows` gives.
    """
    return _ends(rows, "num_steps", lambda value: f"with {steps(int(value))}")


def positions(rows: pd.DataFrame) -> str:
    """Tokens a verify step at the beginning of the answers and at their end.

    Args:
        rows: columns ``profile``, ``position`` (tokens), ``accept_length``, ``low``, ``high``.
    """
    return _ends(rows, "position", lambda value: f"around new token {value:.0f}")


def over_time(rows: pd.DataFrame) -> str:
    """The accept lengths of each server's log: how many intervals, their middle and their ends.

    Args:
        rows: columns ``server``, ``accept_length``.
    """
    told = []
    for server, part in rows.groupby("server", sort=False):
        values = part["accept_length"].astype(float).dropna()
        if len(values):
            told.append(
                f"{str(server) or 'the server'} has {values.median():.2f} in the middle of {len(values)} intervals, "
                f"{values.min():.2f} to {values.max():.2f} over all"
            )
    return f"Accept length by the log: {'; '.join(told)}." if told else "The log has no interval."


def _ends(rows: pd.DataFrame, column: str, where: Callable[[float], str]) -> str:
    told = []
    for profile, part in rows.groupby("profile", sort=False):
        points = rows_of(part.sort_values(column))
        ends = [points[0], *points[1:][-1:]]
        text = listed([f"{span(row, 'accept_length', '.2f')} {where(row[column])}" for row in ends])
        told.append(f"{profile} has {text}")
    return f"Tokens a verify step: {'; '.join(told)}." if told else NOBODY
