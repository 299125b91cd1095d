"""Figures, tables, plain values and lists of results as evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.errors import UsageError
from helpers.ledger.redaction import tree_without_secrets
from helpers.ledger.results.base import Kept, Summary, jsonable, of_values, reader, saved, summarise

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

ROWS = 50  # of a table that the ledger and the report show; the file has all
FIGURE = ".plotly.json"
TABLE = ".table.json"


@reader("plotly.basedatatypes.BaseFigure")
def figure(result: go.Figure) -> Summary:
    """A figure, saved so that the report can draw it again. A caption of `helpers.figures` is taken along."""
    content = json.loads(result.to_json())
    title = result.layout.title.text or "figure"
    captions = [note.text for note in result.layout.annotations if note.text]
    clean = tree_without_secrets(content)
    text = json.dumps(clean, separators=(",", ":"), ensure_ascii=False) + "\n"
    return Summary(
        source="figure",
        title=title,
        summary=" ".join([title, *(f"({caption})" for caption in captions[-1:])]),
        values={"caption": captions[-1]} if captions else {},
        keep=(Kept(title[:40] + FIGURE, text.encode()),),
    )


@reader("pandas.core.frame.DataFrame", "pandas.DataFrame")
def table(result: pd.DataFrame) -> Summary:
    """A table: its first rows in the ledger, all of them in a file."""
    plain = result.reset_index() if result.index.name else result
    rows = jsonable(plain.to_dict(orient="records"))
    columns = [str(column) for column in plain.columns]
    return Summary(
        source="table",
        title="table of " + ", ".join(columns[:6]),
        summary=f"{len(rows)} rows of {', '.join(columns[:8])}",
        values={"columns": columns, "rows": rows[:ROWS]},
        keep=(saved("table" + TABLE, {"columns": columns, "rows": rows}),),
        n=len(rows),
        unit="rows",
    )


@reader("builtins.dict")
def values(result: Mapping[str, Any]) -> Summary:
    """Plain figures."""
    return of_values(result)


@reader("builtins.list", "builtins.tuple")
def several(result: Sequence[Any]) -> Summary:
    """Results of one kind as a table of their figures, with the commands that give them, one after the other."""
    if not result:
        raise UsageError(
            "WB-LEDGER-RESULT",
            "an empty list cannot be evidence",
            expected="at least one result",
            next="say what was not found: ledger.evidence({'found': 0}, on=h, supports=False, title='...')",
        )
    parts = [of_values(item) if isinstance(item, Mapping) else summarise(item) for item in result]
    told = dict.fromkeys(part.command for part in parts)
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.within(part)
    return Summary(
        source=parts[0].source,
        title=f"{len(parts)} of {parts[0].source}",
        summary="; ".join(f"{part.title}: {part.summary}" for part in parts[:4]) + ("; ..." if len(parts) > 4 else ""),
        values={"results": [part.values for part in parts]},
        files=joined.files,
        keep=tuple(kept for part in parts for kept in part.keep),
        patches=joined.patches,
        versions=joined.versions,
        seed=joined.seed,
        seed_of=joined.seed_of,
        n=sum(part.n or 0 for part in parts) or None,
        unit=parts[0].unit,
        config=joined.config,
        command=None if None in told else " && ".join(map(str, told)),
        places=joined.places,
    )
