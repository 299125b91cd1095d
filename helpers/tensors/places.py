"""What lies at a path that does not hold what was asked for: options were swapped, or the path is the box's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from helpers.errors import WorkbookError
from helpers.screen import as_typed

Kind = Literal["nothing", "capture", "dump", "drafter", "target", "prompts", "file", "folder"]
#: In words, and the option that such a place is for.
WORDS: dict[Kind, tuple[str, str]] = {
    "capture": ("a capture", "--served or --capture"),
    "dump": ("a training dump", "--train (of capture: --replay)"),
    "drafter": ("a drafter's folder", "--draft"),
    "target": ("a target's folder", "--target"),
    "prompts": ("a file of prompts", "--prompts"),
    "file": ("a file", ""),
}
SAMPLES = (".pt", ".ckpt", ".pt.gz", ".ckpt.gz")
#: A folder with more than so many files is not searched to its end for an error's sake.
LOOKED_AT = 200


def kind_of(path: Path) -> Kind:
    """What a path on this machine is, by names and headers alone; ``folder`` for one that tells nothing."""
    if not path.exists():
        return "nothing"
    if path.is_file():
        return "dump" if path.name.endswith(SAMPLES) else "prompts" if path.suffix == ".jsonl" else "file"
    if (path / "capture.json").is_file():
        return "capture"
    files = list(itertools.islice(path.rglob("*"), LOOKED_AT))
    names = _tensors(files)
    if any(name.removeprefix("model.") == "fc.weight" for name in names):
        return "drafter"
    if any(name.endswith(("embed_tokens.weight", "wte.weight", "tok_embeddings.weight")) for name in names):
        return "target"
    samples = any(file.name.endswith(SAMPLES) for file in files)
    return "dump" if samples or "hidden_states" in names else "folder"


def _tensors(files: Iterable[Path]) -> list[str]:
    """The names of the tensors in those of these files that are safetensors files."""
    from helpers.tensors.header import read_header

    names: list[str] = []
    for file in files:
        if file.suffix == ".safetensors":
            try:
                names += read_header(file)
            except (WorkbookError, OSError):  # told elsewhere: here it only is of no help
                continue
    return names


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names in words, the first of them where there are many.

    >>> listed(["fc.weight", "d2t"]), listed("abc", most=2)
    ('d2t, fc.weight', 'a, b and 1 more')
    """
    every = sorted(map(str, names))
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def met(path: Path, wanted: Kind, lacks: str) -> str:
    """The message about a path that is no ``wanted``: ``lacks`` says by what that shows, such as "no capture.json"."""
    found = kind_of(path)
    if found == "nothing":
        return f"{path} does not exist on this machine"
    if found in WORDS and found != wanted:
        return f"{path} is {WORDS[found][0]}: it holds {lacks}"
    return f"{path} holds {lacks}"


def way_out(path: Path, wanted: Kind, otherwise: str) -> str:
    """What to do about it: ``otherwise``, where the path itself tells nothing better."""
    found = kind_of(path)
    if found == "nothing":
        there = f"if it lies on the box: workbook pull BOX {as_typed(path)} LOCAL"
        above = next(parent for parent in path.absolute().parents if parent.exists())
        return f"ls {as_typed(path.parent if path.parent.exists() else above)}; {there}"
    if found == wanted or not WORDS.get(found, ("", ""))[1]:
        return otherwise
    what, option = WORDS[found]
    return f"{what} belongs to {option}: are two options swapped? else: {otherwise}"
