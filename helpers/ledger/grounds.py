"""What evidence follows from that no command of its own gives: other evidence, files, or nobody's call at all.

What was recorded with ``of=`` comes first. Where a ledger has none of it, what the evidence holds tells: the files of a
capture or a bench that it shares with other evidence, the two sides of a difference, the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from helpers.ledger.files import EVIDENCE, place
from helpers.screen import visible

if TYPE_CHECKING:
    from helpers.ledger.records import Evidence
    from helpers.ledger.view import View

#: What a kind of evidence is, in words; all others are called by their kind.
KINDS = {
    "difference": "a difference",
    "figure": "a figure",
    "file": "a file as it is",
    "files": "files as they are",
    "profile": "a configuration as it was asked for",
    "stop": "the end of a server",
    "sweep": "the rows of a sweep",
    "table": "a table",
    "text": "words that somebody wrote down",
    "values": "numbers",
}
#: Kinds that nothing has to be found for: they follow from nothing.
FIRST = ("file", "files", "profile", "text")
#: Kinds that others are made of, and the file that each one's others share with it; "" stands for any.
_SHARED = {"capture": "capture.json", "bench": "summary.json", "sweep": "results.jsonl", "dump": "", "file": ""}
_MEASURED = ("measurement", "bench", "capture")


def grounds(ledger: View, e: Evidence) -> str:
    """What a piece of evidence is and what it follows from, on one line.

    Only ids, kinds and paths are in it: a title may be anybody's text, and this stands between lines for a shell.
    """
    others = [one for one in ledger.state.evidence() if one.id != e.id]
    found = [ledger.state.now(id) for id in e.made_of] if e.source in FIRST else made_of(ledger, e, others)
    named = [f"{one.id} ({visible(one.source)})" for id in found for one in others if one.id == id]
    known = {file.path for one in others if one.id in found for file in one.files}
    kept = [file.path for file in e.files if _is_kept(file.path)]
    rest = [file.path for file in e.files if not _is_kept(file.path) and file.path not in known]
    said = [KINDS.get(e.source, visible(e.source))]
    places = folders(place(path, ledger.folder) for path in rest)
    if e.source in FIRST:
        said += [*places, *([f"of {', '.join(named)}"] if named else [])]
    elif named or places:
        said.append(f"made of {', '.join([*named, *places])}")
    else:
        said.append(f"made of what run {visible(e.run)} gave" if e.run else "of what it was made is not recorded")
    said += [f"kept as {', '.join(map(visible, kept[:2]))}"] if kept else []
    return "; ".join(said)


def made_of(ledger: View, e: Evidence, others: list[Evidence]) -> list[str]:
    """The ids of the evidence that it was made of, as they are now."""
    state = ledger.state
    told = [state.now(id) for id in e.made_of]
    found = dict.fromkeys([*told, *_sides(e, others), *_sharing(e, others)])
    return list(found) or _of_run(e, others)


def folders(paths: Iterable[str]) -> list[str]:
    """Files by their folders, for a line: a file that is alone in its folder by its own name.

    >>> folders(["dump/a.pt", "dump/b.pt", "x.txt"])
    ['2 files of dump', 'x.txt']
    """
    grouped: dict[str, list[str]] = {}
    for path in paths:
        grouped.setdefault(str(PurePosixPath(path).parent), []).append(path)
    return [
        visible(inside[0]) if len(inside) == 1 else f"{len(inside)} files of {visible(folder)}"
        for folder, inside in grouped.items()
    ]


def _is_kept(path: str) -> bool:
    """Whether a file was written by the ledger itself, from what is told here anyway."""
    return path.startswith(f"{EVIDENCE}/")


def _sides(e: Evidence, others: list[Evidence]) -> list[str]:
    """The measurements of both sides of a difference; of several of one profile, the last on the same hypothesis."""
    pair = ("first", "second") if "first" in e.values else ("candidate", "baseline")
    names = [e.values.get(side) for side in pair] if e.source == "difference" else []
    found = []
    for name in names:
        rates = [one for one in others if one.source == "measurement" and one.profile == name]
        near = [one for one in rates if set(one.on) & set(e.on)] or rates
        found += [near[-1].id] if near else []
    return found


def _sharing(e: Evidence, others: list[Evidence]) -> list[str]:
    """What has the files of a capture, a bench, a dump that this has as well."""
    mine = {file.path for file in e.files if not _is_kept(file.path)}
    found = []
    for one in others:
        ending = _SHARED.get(one.source)
        if ending is not None and any(f.path.endswith(ending) for f in one.files if f.path in mine):
            found.append(one.id)
    return found


def _of_run(e: Evidence, others: list[Evidence]) -> list[str]:
    """What else was measured of the same run."""
    runs = set((e.run or "").split(", ")) - {""}
    return [one.id for one in others if one.source in _MEASURED and runs & set((one.run or "").split(", "))]
