"""The source that a box serves from: searched, shown, and names looked up, each answer usable as evidence.

FILE is relative to the checkout (the folder that holds the package ``sglang``), or absolute, or starts with ``~/``.
Nothing on the box is changed or imported.
"""

from __future__ import annotations

import html
import re
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from helpers.box.result import printable
from helpers.errors import RemoteFailed, UsageError, WorkbookError
from helpers.source.checkout import Checkout
from helpers.source.excerpts import Excerpt, Line, shown
from helpers.source.imported import served_checkout
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box

Syntax = Literal["basic", "extended", "fixed"]
_FLAGS: dict[Syntax, list[str]] = {"basic": [], "extended": ["-E"], "fixed": ["-F"]}
_RANGE = re.compile(r"(?P<first>\d*)(?P<colon>:?)(?P<last>\d*)")


def grep(
    box: Box,
    pattern: str,
    file: str,
    *,
    syntax: Syntax = "basic",
    ignore_case: bool = False,
    checkout: Checkout | None = None,
    python: str | None = None,
) -> Excerpt:
    """The lines of ``file`` that match ``pattern``, by the box's own grep; a binary file is searched as text.

    Args:
        syntax: GNU basic regular expressions, extended ones (``-E``), or the pattern as it stands (``-F``). Newlines
            in it separate patterns.
        checkout: where relative names start; by default the running server's, else that of ``python``.

    Raises:
        UsageError: WB-GREP-PATTERN. RemoteFailed: WB-FILE-MISSING, WB-FILE-READ, or as `served_checkout`.
    """
    checkout = checkout or served_checkout(box, python)
    flags = [*_FLAGS[syntax], *(["-i"] if ignore_case else [])]
    words = ["workbook", "grep", box.name, *flags, *_safe(pattern, file)]
    request = {**_request(box, checkout, file), "pattern": pattern, "flags": flags}
    answer = _ask(box, checkout, "grep", request, pattern=pattern)
    return _excerpt(box, checkout, file, words, answer)


def show(
    box: Box,
    file: str,
    lines: str = ":",
    *,
    checkout: Checkout | None = None,
    python: str | None = None,
) -> Excerpt:
    """Lines of ``file``; in a notebook highlighted, with their numbers and a permalink.

    Args:
        lines: ``A:B`` (both included), ``A:``, ``:B`` or ``A``. Beyond the file's end there is nothing to show, and
            that is no error as long as A lies within.

    Raises:
        UsageError: WB-SHOW-RANGE. RemoteFailed: as `grep`.
    """
    first, last = parse_range(lines)
    checkout = checkout or served_checkout(box, python)
    request = {**_request(box, checkout, file), "first": first, "last": last}
    answer = _ask(box, checkout, "show", request)
    if not answer["lines"]:
        raise _bad_range(lines, f"{printable(file)} has {answer['total']} lines")
    return _excerpt(box, checkout, file, ["workbook", "show", box.name, *_safe(file, lines)], answer)


@dataclass(frozen=True)
class Site:
    """Where a name is defined.

    Attributes:
        kind: ``class``, ``function``, ``method``, ``variable`` (of a module or class), or ``attribute`` (set on self).
        qualname: as ``DeepseekV2Model.forward``. line, end: its first and last line. text: the first.
        sha256: of the whole file.
    """

    file: str
    line: int
    end: int
    kind: Literal["class", "function", "method", "variable", "attribute"]
    qualname: str
    text: str
    sha256: str


@dataclass(frozen=True)
class Sites:
    """All definitions of a name in a checkout.

    Attributes:
        searched: files looked through. unread: those that hold the name but are no Python for the box's interpreter.
    """

    name: str
    box: str
    checkout: str
    version: str | None
    sites: tuple[Site, ...]
    searched: int
    unread: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        found = [f"{site.file}:{site.line}: {site.kind} {site.qualname}" for site in self.sites]
        missed = [f"{file}: not read" for file in self.unread]
        return "\n".join([*found, *missed]) or f"{self.name} is defined in none of {self.searched} files"

    def _repr_html_(self) -> str:
        """Each file's definitions with their line numbers, under a permalink of its hash and version."""
        from helpers.source.highlighting import code_table

        parts = []
        for file in dict.fromkeys(site.file for site in self.sites):
            here = [site for site in self.sites if site.file == file]
            table = code_table(file, [(site.line, shown(site.text)) for site in here])
            link = f"sglang=={self.version}/{printable(file)}@sha256:{here[0].sha256}"
            parts.append(f"{table}<small><code>{html.escape(link)}</code></small>")
        if not parts:
            parts.append(f"<code>{html.escape(repr(self))}</code>")
        elif self.unread:
            parts.append(f"<small>not read: {html.escape(printable(', '.join(self.unread)))}</small>")
        return f"<div>{''.join(parts)}</div>"


def where_is(box: Box, name: str, *, checkout: Checkout | None = None, python: str | None = None) -> Sites:
    """Where ``name`` is defined, by the syntax tree of every file of the checkout: looked up on the box.

    Args:
        name: ``forward``, ``DeepseekV2Model.forward``, or an attribute (``enable_a2a_moe``).

    Raises:
        UsageError: WB-SOURCE-NAME, for what is no name.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(
            "WB-SOURCE-NAME",
            f"{printable(name)!r} is no name that Python can define",
            expected="a name, or Class.name",
            next=f"workbook grep {box.name} -F {shlex.quote(printable(name))} FILE",
        )
    checkout = checkout or served_checkout(box, python)
    request = {"root": checkout.root, "name": name}
    answer = call(box, "definitions", "find", request, python=checkout.python)
    sites = tuple(Site(**site) for site in answer["sites"])
    return Sites(name, box.name, checkout.root, checkout.version, sites, answer["files"], tuple(answer["unread"]))


def read_source(box: Box, file: str, checkout: Checkout) -> tuple[str, str]:
    """A whole file and its sha256; bytes that are no UTF-8 as surrogates."""
    answer = _ask(box, checkout, "read", _request(box, checkout, file))
    return answer["text"], answer["sha256"]


def parse_range(lines: str) -> tuple[int, int | None]:
    """First and last line of ``A:B``, ``A:``, ``:B`` or ``A``; the last is None for "to the end".

    >>> parse_range("2630:2640"), parse_range("7"), parse_range("7:")
    ((2630, 2640), (7, 7), (7, None))
    """
    found = _RANGE.fullmatch(lines) if lines.isascii() else None
    if found is None or not lines or len(lines) > 40:
        raise _bad_range(lines, "that is no range")
    first = int(found["first"] or 1)
    last = int(found["last"]) if found["last"] else None if found["colon"] else first
    if first < 1 or (last is not None and last < first):
        raise _bad_range(lines, "lines count from 1, the first before the last")
    return first, last


def _bad_range(lines: str, why: str) -> UsageError:
    return UsageError(
        "WB-SHOW-RANGE",
        f"the lines {printable(lines)!r} cannot be shown: {why}",
        expected="A:B, as in 2630:2640",
        next="workbook show BOX FILE 1:40",
    )


def _request(box: Box, checkout: Checkout, file: str) -> dict[str, Any]:
    if file.startswith(("/", "~/")):
        return {"path": box.path(file), "root": checkout.root}
    # A path from SGLang's repository starts with python/; a checkout is the folder that holds the package.
    relative = file.removeprefix("python/") if file.startswith("python/sglang/") else file
    return {"path": f"{checkout.root}/{relative}", "root": checkout.root}


def _safe(*words: str) -> list[str]:
    """Arguments behind ``--`` where one of them could be taken for an option."""
    return ["--", *words] if any(word.startswith("-") for word in words) else list(words)


def _excerpt(box: Box, checkout: Checkout, file: str, words: list[str], answer: dict[str, Any]) -> Excerpt:
    lines = tuple(Line(file, number, text) for number, text in answer["lines"])
    return Excerpt(
        box=box.name,
        checkout=checkout.root,
        version=checkout.version,
        file=file,
        sha256=answer["sha256"],
        lines=lines,
        command=shlex.join(words),
        total=answer.get("total"),
    )


def _ask(box: Box, checkout: Checkout, operation: str, request: dict[str, Any], *, pattern: str = "") -> dict[str, Any]:
    answer = call(box, "archaeology", operation, request, python=checkout.python)
    if error := answer.get("error"):
        raise _refusal(box.name, error, request, pattern)
    return answer


def _refusal(name: str, error: dict[str, Any], request: dict[str, Any], pattern: str) -> WorkbookError:
    code, message = error["code"], printable(error["message"])
    if code == "WB-GREP-PATTERN":
        return UsageError(
            code,
            f"{printable(pattern)!r} is no pattern: {message}",
            expected="a GNU basic regular expression; an extended one with -E; any text with -F",
            next=f"workbook grep {name} -F PATTERN FILE",
        )
    near = [printable(path) for path in error.get("near", [])]
    folder = printable(request["path"].rpartition("/")[0] or "/")
    return RemoteFailed(
        code,
        f"{message} (on {name})",
        expected="an ordinary file that may be read, relative to " + printable(request["root"]) + " or absolute",
        next=f"did you mean {near[0]}?" if near else f"workbook run {name} -- ls -l {shlex.quote(folder)}",
        lines=near,
    )
