"""A model's folder as the checks see it: config, names and shapes of its tensors, tables between vocabularies."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.paths import REMOTE
from helpers.serving.model import text_config
from helpers.uploads import BARE, call

if TYPE_CHECKING:
    from helpers.box import Box


@dataclass(frozen=True)
class Checkpoint:
    """A model's folder.

    Attributes:
        config: config.json, None where it is missing or unreadable.
        shapes: name -> shape of each tensor. weights: ``safetensors``, ``other`` (only a pickle opens them), ``none``.
        tables: what d2t and t2d say (remote/checkpoint.py). problems: files that cannot be read, each with its reason.
        missing: why there is no such folder, else None.
    """

    folder: str
    config: dict[str, Any] | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    weights: str = "none"
    tables: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    missing: str | None = None

    @property
    def text_config(self) -> dict[str, Any]:
        """The language model's part of the config: ``text_config`` where images are another part."""
        return text_config(self.config or {})

    @property
    def architecture(self) -> str | None:
        """The class that SGLang serves it by."""
        names = (self.config or {}).get("architectures")
        return str(names[0]) if isinstance(names, list) and names else None

    def size(self, key: str) -> int | None:
        """A number of the text config, None where it is missing or none."""
        value = self.text_config.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_here(folder: Path) -> Checkpoint:
    """A folder on this machine."""
    done = subprocess.run(
        [sys.executable, *BARE, "-m", "remote.checkpoint", "read"],
        input=json.dumps({"folder": str(folder)}),
        capture_output=True,
        text=True,
        check=True,
        cwd=REMOTE.parent,
    )
    return _checkpoint(json.loads(done.stdout))


def read_there(box: Box, folder: str, *, python: str = "python3") -> Checkpoint:
    """A folder on the box; only headers and the two small tables are read, nothing large travels."""
    return _checkpoint(call(box, "checkpoint", "read", {"folder": box.path(folder)}, python=python))


def _checkpoint(answer: dict[str, Any]) -> Checkpoint:
    if "missing" in answer:
        return Checkpoint(answer["folder"], missing=answer["missing"])
    return Checkpoint(
        folder=answer["folder"],
        config=answer["config"],
        shapes={name: tuple(entry["shape"]) for name, entry in answer["tensors"].items()},
        weights=answer["weights"],
        tables=answer["tables"],
        problems=tuple(answer["problems"]),
    )
