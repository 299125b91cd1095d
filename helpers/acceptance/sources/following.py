"""A log that still grows: figures each time a line brings new ones; and its lines as a table against time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from helpers.acceptance.sources import decode_log, vllm_log
from helpers.acceptance.sources.lines import Line
from helpers.acceptance.sources.log import LogReader
from helpers.acceptance.sources.result import Counters
from helpers.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


def numbered(lines: Iterable[str]) -> Iterator[Line]:
    """Lines of text, such as `Run.logs` gives, as the readers take them; a progress bar's pieces apart."""
    for number, text in enumerate(lines, start=1):
        for piece in text.split("\r"):
            if piece.strip():
                yield Line(number, piece, garbled="\ufffd" in piece)


def read_log(lines: Iterable[str], *, engine: str | None = None, draft_tokens: int | None = None) -> Counters:
    """What a log's lines say, such as ``run.logs()`` gives; errors as of `LogReader.result`.

    Footgun: SGLang writes a line of figures every 40 decode passes, and the first one is warm-up. A short run has none;
    see `figures_of`.
    """
    return LogReader(engine=engine, draft_tokens=draft_tokens).feed_all(numbered(lines)).result()


def figures_of(lines: Iterable[str], *, engine: str | None = None) -> Counters | str:
    """As `read_log`, for a look beside what is known otherwise: that a log has no figures yet is said, and no error."""
    try:
        return read_log(lines, engine=engine)
    except UsageError as error:
        if error.code != "WB-COUNTERS-NONE":
            raise
        return f"{error.message}: a server writes them every few dozen passes, and this run was too short for one"


def follow(lines: Iterable[str], *, engine: str | None = None, draft_tokens: int | None = None) -> Iterator[Counters]:
    """The figures so far, each time a line brings new ones (from the first line after the warm-up on).

    Args:
        lines: such as ``run.logs(follow=True)``, which ends with the server.

    >>> for counters in follow(run.logs(follow=True)): print(counters.accept_length)      # doctest: +SKIP
    """
    reader = LogReader(engine=engine, draft_tokens=draft_tokens)
    for line in numbered(lines):
        if not reader.feed(line):
            continue
        try:
            yield reader.result()
        except UsageError:  # the warm-up line alone
            continue


def decode_rows(lines: Iterable[str]) -> pd.DataFrame:
    """Each log interval as a row: ``time``, ``server``, ``accept_length``, ``running``, ``throughput`` (tokens/s).

    For `helpers.figures.acceptance_curves.over_time`. The warm-up line is left out where the log shows the start.
    """
    import pandas as pd

    rows: list[tuple[str | None, str, float, int | None, float | None]] = []
    starting: set[str] | None = None
    for line in numbered(lines):
        if decode_log.start_in(line.text):
            starting = set()
        for decoded in decode_log.parse(line.text):
            if decoded is None or decoded.accept_length is None:
                continue
            if starting is not None and decoded.server not in starting:
                starting.add(decoded.server)
                continue
            length = float(decoded.accept_length)
            rows.append((decoded.time, decoded.server, length, decoded.running, decoded.throughput))
        if "SpecDecoding metrics:" in line.text:
            found = vllm_log.parse(line.text, line.number)
            if found is not None and found.accept_length is not None:
                rows.append((found.time, found.server, found.accept_length.value, None, None))
    return pd.DataFrame(rows, columns=["time", "server", "accept_length", "running", "throughput"])
