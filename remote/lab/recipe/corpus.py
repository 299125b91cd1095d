"""The text: Python's own standard library, as it lies beside the interpreter (PSF licence).

Left out: tests and code tables (thousands of lines of one form), what the build wrote about this machine, others'
packages, near-duplicates. Long tables inside of files are cut to their first lines: a model that has seen too many of
them can think of nothing but the next row. The split is by file, and by name, so that it is the same everywhere.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LICENCE = "Python Software Foundation License 2.0"
SKIPPED_FOLDERS = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idle_test",
    "encodings",
    "__pycache__",
    "pydoc_data",
}
# Written by the build: compilers, flags and folders of the machine.
OF_THE_MACHINE = re.compile(r"^(_sysconfigdata|_sysconfig_vars|config-)")
SMALLEST = 400  # bytes; shorter files are mere re-exports
HELD_OUT = 16  # one file in so many
TABLE_ROWS = 6  # of a table, that are kept
SHINGLE = 5  # lines
SAME = 0.5  # share of a file's shingles seen before that makes it a near-duplicate


@dataclass(frozen=True)
class SourceFile:
    """A file by its name below the library's folder, with the text that is learned from."""

    name: str
    text: str

    @property
    def held_out(self) -> bool:
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big") % HELD_OUT == 0


@dataclass(frozen=True)
class Corpus:
    """Files of both sides, in order of their names, and how many were left out as near-duplicates."""

    train: tuple[SourceFile, ...]
    held: tuple[SourceFile, ...]
    duplicates: int

    @property
    def digest(self) -> str:
        """sha256 over names and texts: two machines with the same one learn from the same text."""
        whole = hashlib.sha256()
        for file in (*self.train, *self.held):
            whole.update(f"{file.name}\0{len(file.text)}\0{file.text}".encode())
        return whole.hexdigest()


def library_files(root: Path | None = None) -> Iterator[SourceFile]:
    """The files of a folder (the standard library's) that are wanted, by name; one that is not UTF-8 is passed over."""
    root = root or Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        below = path.relative_to(root)
        if SKIPPED_FOLDERS & set(below.parts) or any(OF_THE_MACHINE.match(part) for part in below.parts):
            continue
        raw = path.read_bytes()
        if len(raw) < SMALLEST:
            continue
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            continue
        yield SourceFile(below.as_posix(), shorten_tables(text.replace("\r\n", "\n")))


def shorten_tables(text: str) -> str:
    """Of each run of lines that have one form (names and numbers apart), the first `TABLE_ROWS`.

    >>> shorten_tables("".join(f"    {i}: 'x{i}',\\n" for i in range(99))).count("\\n")
    6
    """
    kept: list[str] = []
    form, length = None, 0
    for line in text.splitlines(keepends=True):
        same = re.sub(r"\w+", "w", line) if line.strip() else None
        length = length + 1 if same is not None and same == form else 1
        form = same
        if length <= TABLE_ROWS:
            kept.append(line)
    return "".join(kept)


def shingles(text: str) -> set[int]:
    """Hashes of each few neighbouring lines, spaces and empty lines apart."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = ("\n".join(lines[i : i + SHINGLE]) for i in range(max(1, len(lines) - SHINGLE + 1)))
    return {int.from_bytes(hashlib.blake2b(s.encode(), digest_size=8).digest(), "big") for s in joined}


def read_corpus(files: Iterable[SourceFile] | None = None) -> Corpus:
    """Both sides of the split; of files that are nearly the same the first one is kept, whichever side it is on.

    Nothing is held out that is mostly learned.
    """
    seen: set[int] = set()
    kept: list[SourceFile] = []
    duplicates = 0
    for file in library_files() if files is None else files:
        own = shingles(file.text)
        if len(own & seen) > SAME * len(own):
            duplicates += 1
            continue
        seen |= own
        kept.append(file)
    train = tuple(file for file in kept if not file.held_out)
    # The other way round as well: a small held-out file can lie whole within a larger one that came later.
    learned = set[int]().union(*(shingles(file.text) for file in train))
    held = tuple(
        file for file in kept if file.held_out and len((own := shingles(file.text)) & learned) <= SAME * len(own)
    )
    return Corpus(train, held, duplicates + len(kept) - len(train) - len(held))
