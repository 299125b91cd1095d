"""One call for any source: looks at how a file begins, and reads it with the parser that fits."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from helpers.acceptance.sources.lines import Line, split_lines
from helpers.acceptance.sources.log import LogReader
from helpers.acceptance.sources.metrics_page import read_page
from helpers.acceptance.sources.records import answers_in
from helpers.acceptance.sources.responses import Responses
from helpers.acceptance.sources.result import Counters
from helpers.acceptance.sources.server_info import is_server_info, read_server_info
from helpers.errors import UsageError

Kind = Literal["log", "metrics", "responses", "server-info"]
BLOCK = 1 << 20
_PAGE = re.compile(r"# (?:HELP|TYPE) \S+|(?:sglang|vllm|python|process|http)[:_][\w:]+(?:\{[^}]*\})? [-+.\deE]+\s*$")


def read_counters(
    path: Path | str,
    *,
    engine: str | None = None,
    kind: Kind | None = None,
    draft_tokens: int | None = None,
    num_steps: int | None = None,
    each: Callable[[int], None] = lambda _: None,
) -> Counters:
    """Reads acceptance from a saved answer file, a server's log, a /metrics page or a /server_info answer.

    The file is streamed; memory does not grow with its size (but for a JSON document that is not line by line).

    Args:
        engine: such as ``sglang==0.5.9``; decides only where a source's own figures allow two meanings.
        kind: what the file is; None looks at how it begins.
        draft_tokens: num_draft_tokens, where the source does not tell it.
        num_steps: draft steps a verify step: the length of ``survival`` for answers of a server with topk > 1.
        each: told the bytes read so far.

    Raises:
        UsageError: ``WB-COUNTERS-FILE`` (no such file), ``WB-COUNTERS-NONE`` (no figures in it),
            ``WB-COUNTERS-UNREADABLE`` (an answer without what is needed).
        WrongResult: ``WB-COUNTERS-CONTRADICT`` naming the identity that does not hold.

    >>> read_counters("answers.jsonl").survival      # doctest: +SKIP
    [0.72, 0.58, 0.5]
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            blocks = _blocks(iter(lambda: file.read(BLOCK), b""), each)
            return read_blocks(
                blocks, str(path), engine=engine, kind=kind, draft_tokens=draft_tokens, num_steps=num_steps
            )
    except OSError as error:
        raise UsageError(
            "WB-COUNTERS-FILE",
            f"{path} cannot be read: {error.strerror}",
            expected="saved answers, a log, a /metrics page or a /server_info answer",
            next="for a run on a box: workbook counters BOX RUN",
        ) from error


def read_blocks(
    blocks: Iterable[bytes],
    name: str = "input",
    *,
    engine: str | None = None,
    kind: Kind | None = None,
    draft_tokens: int | None = None,
    num_steps: int | None = None,
) -> Counters:
    """As `read_counters`, from bytes as they come."""
    stream = iter(blocks)
    begin = b""
    for block in stream:
        begin += block
        if len(begin) >= 65536:
            break
    found = kind or kind_of(begin)
    whole = itertools.chain([begin], stream)
    if found == "log":
        return LogReader(engine=engine, draft_tokens=draft_tokens).feed_all(split_lines(whole)).result()
    if found == "metrics":
        return read_page(split_lines(whole), engine=engine, draft_tokens=draft_tokens)
    return _read_json(whole, name, found, draft_tokens, num_steps)


def kind_of(begin: bytes) -> Kind:
    """What a file is by how it begins.

    >>> kind_of(b'{"text": "a", "meta_info": {}}'), kind_of(b"# HELP sglang:x y"), kind_of(b"[2026-01-02 TP0] Decode")
    ('responses', 'metrics', 'log')
    """
    text = begin.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if "meta_info" not in text and any(mark in text for mark in ("Decode batch", "SpecDecoding metrics:")):
        return "log"  # also one that was written as JSON lines
    if text.startswith(("{", "data:")) or re.match(r"\[\s*[\[{\]]", text):
        return "responses"
    lines = text.splitlines()[:200]
    if any(_PAGE.match(line) for line in lines) and not any("Decode batch" in line for line in lines):
        return "metrics"
    return "log"


def _read_json(
    blocks: Iterable[bytes], name: str, kind: str, draft_tokens: int | None, num_steps: int | None
) -> Counters:
    responses, broken, read = Responses(num_steps=num_steps), [], 0
    for line, record in _records(split_lines(blocks), name):
        if record is None:
            broken.append(line)
            continue
        read += 1
        if isinstance(record, dict) and (is_server_info(record) or kind == "server-info"):
            return read_server_info(record, draft_tokens=draft_tokens)
        for answer in answers_in(record):
            responses.add(answer)
    if not read:
        first = f", the first is line {broken[0].number}: {broken[0].text.strip()[:80]!r}" if broken else ""
        raise UsageError(
            "WB-COUNTERS-NONE",
            f"{name} has no whole JSON record; {len(broken)} broken lines{first}",
            expected="one JSON answer a line, or one JSON document",
            next="save answers as they came: one json.dumps(answer) a line",
        )
    found = responses.result()
    notes = [
        f"{len(broken)} lines are no JSON and were left out (cut?), the first is line {broken[0].number}: "
        f"{broken[0].text.strip()[:80]!r}"
        for _ in broken[:1]
    ]
    return found.model_copy(update={"warnings": [*found.warnings, *notes]})


def _records(lines: Iterable[Line], name: str) -> Iterator[tuple[Line, Any]]:
    """(line, JSON value) for JSON lines, None for a broken line; a document over several lines is read as one."""
    stream = iter(lines)
    first = next(stream, None)
    if first is None:
        return
    value = _json(first)
    if value is None and first.text.lstrip().startswith(("{", "[")):
        # Perhaps the first line of a document, perhaps a cut line of many.
        rest = list(stream)
        document = _json(Line(first.number, "\n".join([first.text, *(line.text for line in rest)])))
        if document is not None:
            yield first, document
            return
        yield first, None
        stream = iter(rest)
    elif _payload(first):
        yield first, value
    for line in stream:
        if _payload(line):
            yield line, _json(line)


def _payload(line: Line) -> str:
    text = line.text.strip().lstrip("\ufeff")
    if text.startswith(("event:", "id:", ":", "retry:")):
        return ""
    text = text.removeprefix("data:").strip()
    return "" if text == "[DONE]" else text


def _json(line: Line) -> Any:
    try:
        value = json.loads(_payload(line))
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _blocks(blocks: Iterator[bytes], each: Callable[[int], None]) -> Iterator[bytes]:
    read = 0
    for block in blocks:
        read += len(block)
        each(read)
        yield block
