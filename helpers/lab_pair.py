"""A pair: a folder that the recipe fills (`make lab-train`), or data/lab. What it holds, and how it is gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import UsageError
from helpers.paths import DATA, ROOT
from helpers.screen import as_typed

if TYPE_CHECKING:
    import pandas as pd

#: The project's own pair: it lies in git, and its prompts with the others.
OWN = DATA / "lab"
HELD_OUT = "lab-heldout.jsonl"
MODEL = ("config.json", "model.safetensors")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Training:
    """How a pair was trained: ``losses.jsonl`` (columns ``stage``, ``step`` and what was measured), and its card."""

    rows: pd.DataFrame
    card: str


def named(path: Path) -> str:
    """A path as it is told: from the checkout where it lies in there, as somebody gave it elsewhere."""
    whole = path.resolve()
    return str(whole.relative_to(ROOT)) if whole.is_relative_to(ROOT) else str(path)


def is_own(pair: Path) -> bool:
    """Whether it is the project's own pair, however its path is written."""
    return pair.resolve() == OWN.resolve()


def files_of(model: str) -> list[str]:
    """The files that a model's folder must hold to be served.

    >>> files_of("mirror/drafter")
    ['mirror/drafter/config.json', 'mirror/drafter/model.safetensors']
    """
    return [f"{model}/{name}" for name in (*MODEL, *(TOKENIZER if model == "target" else ()))]


def prompts_of(pair: Path) -> Path:
    """The pair's held-out prompts, where the recipe puts them; those of the project's own lie in data/prompts."""
    return DATA / "prompts" / HELD_OUT if is_own(pair) else pair / HELD_OUT


def check_pair(pair: Path, files: Iterable[str]) -> None:
    """Refuse a folder that lacks any of these files.

    Raises:
        UsageError: WB-LAB-PAIR, with all that is missing and the command that goes on.
    """
    missing = [name for name in files if not ((pair / name).is_file() and os.access(pair / name, os.R_OK))]
    if missing:
        lacks = f"lacks {', '.join(missing)}" if pair.is_dir() else "is no folder"
        raise _refused(pair, f"{named(pair)} {lacks}")


def goes_on(pair: Path) -> str:
    """The command with which the pair's training goes on in its folder; of the project's own, what brings it back.

    The words are those that the folder was begun with, else the recipe refuses it; make reads a ``$`` of its own.
    """
    if is_own(pair):
        return f"git restore {as_typed(named(pair))}"
    begun = _begun(pair)
    words = [f"SEED={begun['seed']}"] if type(begun.get("seed")) is int else []
    if isinstance(budget := begun.get("budget"), str) and budget != "full":
        words.append(f"BUDGET={as_typed(budget.replace('$', '$$'))}")
    place = named(pair.resolve()).replace("$", "$$")
    return " ".join(["make lab-train", *words, f"OUT={as_typed(place)}"])


def read_training(pair: Path) -> Training:
    """What a pair's folder tells of its training.

    Raises:
        UsageError: WB-LAB-PAIR, where training has not come to its end, or its losses cannot be read.
    """
    import pandas as pd

    check_pair(pair, ["losses.jsonl", "MODEL_CARD.md"])
    try:
        rows = pd.read_json(pair / "losses.jsonl", lines=True)
    except ValueError as error:
        raise _refused(pair, f"{named(pair)}/losses.jsonl cannot be read: {error}") from error
    return Training(rows, (pair / "MODEL_CARD.md").read_text(encoding="utf-8"))


def _begun(pair: Path) -> dict[str, Any]:
    """What the recipe wrote down of the folder's run; empty where that cannot be read."""
    try:
        found = json.loads((pair / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _refused(pair: Path, message: str) -> UsageError:
    return UsageError(
        "WB-LAB-PAIR",
        message,
        expected="data/lab, or a folder in which make lab-train has come to its end",
        next=goes_on(pair),
    )
