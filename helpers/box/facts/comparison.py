"""Laptop and box side by side, with what matters when tensors of the one are compared on the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Literal

from helpers.box.facts import python
from helpers.box.facts.fact import Model
from helpers.box.facts.python import DTYPES, Python

Verdict = Literal["same", "differs", "matters", "missing"]


class Row(Model):
    """One line of the table. ``matters``: it can change what a comparison of tensors says, and ``why`` tells how."""

    what: str
    laptop: str | None
    box: str | None
    verdict: Verdict
    why: str = ""


class Comparison(Model):
    rows: tuple[Row, ...]

    @property
    def matters(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.verdict == "matters")


def laptop() -> Python:
    """This interpreter, asked as the box's is."""
    result = subprocess.run(python.command(sys.executable), capture_output=True, text=True, check=True, timeout=120)
    return python.parse(result.stdout)


def _release(version: str) -> list[int]:
    """``2.13.0+cpu`` -> [2, 13, 0]; what is no number counts as 0."""
    parts = version.partition("+")[0].split(".")
    return [int("".join(sign for sign in part if sign.isdigit()) or 0) for part in parts]


def _other_minor(here: str, there: str) -> bool:
    return _release(here)[:2] != _release(there)[:2]


def _other(here: str, there: str) -> bool:
    return here != there


def _before_float8(here: str, there: str) -> bool:
    return min(_release(here), _release(there)) < [0, 4]


# What, when a difference matters, and why. torch's rounding differs between releases, so equality is no criterion then.
_RULES: tuple[tuple[str, Callable[[str, str], bool], str], ...] = (
    ("torch", _other_minor, "rounding differs between releases: judge by cosine, not by equality"),
    ("transformers", _other_minor, "chat templates and tokenizers change between releases: tokens may differ"),
    ("tokenizers", _other_minor, "the same text may become other tokens"),
    ("safetensors", _before_float8, "a reader before 0.4 knows no float8: such captures cannot be opened"),
    ("sglang", _other, "layer ids mean other boundaries in another release: say --engine for the box's"),
)


def compare(here: Python, there: Python, engine_version: str | None = None) -> Comparison:
    """The table.

    Args:
        here, there: the interpreters of laptop and box.
        engine_version: of the SGLang that the box's server imports, where one runs; it counts before the package's.
    """
    rows = [_row("python", here.version, there.version)]
    for name, matters, why in _RULES:
        on_box = there.packages.get(name)
        rows.append(
            _row(
                name, here.packages.get(name), (engine_version or on_box) if name == "sglang" else on_box, matters, why
            )
        )
    rows.append(_row("torch's CUDA", here.cuda, there.cuda))
    rows += [_dtype(name, here, there) for name in DTYPES]
    return Comparison(rows=tuple(rows))


def _row(
    what: str,
    here: str | None,
    there: str | None,
    matters: Callable[[str, str], bool] = lambda here, there: False,
    why: str = "",
) -> Row:
    if here == there:
        return Row(what=what, laptop=here, box=there, verdict="same")
    if here is None or there is None:
        return Row(what=what, laptop=here, box=there, verdict="missing")
    if matters(here, there):
        return Row(what=what, laptop=here, box=there, verdict="matters", why=why)
    return Row(what=what, laptop=here, box=there, verdict="differs")


def _dtype(name: str, here: Python, there: Python) -> Row:
    mine, theirs = (None if side.dtypes is None else name in side.dtypes for side in (here, there))
    words = {None: None, True: "yes", False: "no"}
    if mine == theirs:
        verdict: Verdict = "same"
        why = ""
    elif theirs and mine is False:
        verdict, why = "matters", "captures of this dtype cannot be read here: update torch on the laptop"
    else:
        verdict, why = ("missing" if mine is None or theirs is None else "differs"), ""
    return Row(what=f"torch.{name}", laptop=words[mine], box=words[theirs], verdict=verdict, why=why)
