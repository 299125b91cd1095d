"""What a drafter's config.json says about layer ids, and which of it SGLang reads: only the nested `eagle_config`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.errors import UsageError
from helpers.library_errors import why
from helpers.source.setter import SourceTree, Trap
from helpers.source.setter.values import Place
from helpers.tensors.places import met, way_out

KEY = "eagle_aux_hidden_state_layer_ids"
# Files in which SGLang reads the drafter's ids: 0.5.9 and 0.5.10, then 0.5.23.
READERS = (
    "sglang/srt/model_executor/model_runner.py",
    "sglang/srt/model_executor/model_runner_components/spec_aux_hidden_state.py",
)


@dataclass(frozen=True)
class DraftIds:
    """A drafter's layer ids.

    Attributes:
        served: what SGLang hands to the setter: the nested ids, or None for its own choice.
        ignored: ids at the top level, which only other stacks read; None where there are none.
        traps: ``ids-ignored``, ``aux-off``.
    """

    served: tuple[int, ...] | None
    ignored: tuple[int, ...] | None
    traps: tuple[Trap, ...]


def read_draft_ids(draft: Path, tree: SourceTree | None = None) -> DraftIds:
    """Reads config.json of a drafter's folder.

    Args:
        draft: the folder, or its config.json.
        tree: the engine's source, for the line that proves which ids are read.

    Raises:
        UsageError: ``WB-DRAFT-CONFIG``.
    """
    if not draft.exists():
        raise UsageError(
            "WB-DRAFT-CONFIG",
            met(draft, "drafter", "no config.json"),
            expected="a drafter's folder, or its config.json",
            next=way_out(draft, "drafter", ""),
        )
    file = draft / "config.json" if draft.is_dir() else draft
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise bad(file, f"cannot be read: {why(error)}") from error
    if not isinstance(config, dict):
        raise bad(file, "is no JSON object")
    nested = config.get("eagle_config")
    inner = nested if isinstance(nested, dict) else {}
    served, outer = numbers(file, inner.get(KEY)), numbers(file, config.get(KEY))
    traps: list[Trap] = []
    place = reading_line(tree)
    if outer is not None and outer != served:
        instead = (
            f"it reads eagle_config, {list(served)}" if served is not None else "it takes its own choice of layers"
        )
        text = f"the top-level {KEY} {list(outer)} is ignored by SGLang: {instead}"
        traps.append(Trap("ids-ignored", text, outer, place=place))
    if inner.get("use_aux_hidden_state") is False:
        traps.append(Trap("aux-off", "use_aux_hidden_state is false: no taps are fed", served or (), place=place))
    return DraftIds(served, outer, tuple(traps))


def numbers(file: Path, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in value):
        raise bad(file, f"has {KEY} {value!r}")
    return tuple(value)


def reading_line(tree: SourceTree | None) -> Place | None:
    """The line in which the engine takes the ids from `eagle_config`."""
    for file in READERS if tree is not None else ():
        if tree is not None and tree.exists(file):
            for i, line in enumerate(tree.read(file).split("\n"), 1):
                if '"eagle_config"' in line:
                    return Place(file, i, line.strip())
    return None


def bad(file: Path, what: str) -> UsageError:
    return UsageError(
        "WB-DRAFT-CONFIG",
        f"{file} {what}",
        expected=f"a drafter's config.json; {KEY} a list of integers",
        next=f"python3 -m json.tool {file}",
    )
