"""What outlives a kill: checkpoints that are whole or not there, and losses that never run ahead of them."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch

PATIENCE = 8.0  # seconds without a line


def write_whole(path: Path, state: dict[str, Any]) -> None:
    """Saves under a temporary name and renames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    torch.save(state, part)
    os.replace(part, path)


def write_text(path: Path, text: str) -> None:
    """The same for text."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def read_state(path: Path) -> dict[str, Any] | None:
    """A checkpoint, or None where none was written yet."""
    if not path.exists():
        return None
    return cast(dict[str, Any], torch.load(path, weights_only=True))


@dataclass
class Journal:
    """``losses.jsonl``: one object a line, ``{"stage", "step", ...}``; and a line of progress for people.

    A stage that starts at step n (0, or the step of its checkpoint) drops its own lines from n on, so that a run
    that was killed leaves the lines of one that was not. Speeds are said to people and not written: they differ.
    """

    path: Path
    quiet: bool = False
    started: float = field(default_factory=time.monotonic)
    at: tuple[str, int, float] = ("", 0, 0.0)
    said: float = 0.0

    def resume(self, stage: str, step: int) -> None:
        text = self.path.read_text() if self.path.exists() else ""
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]  # a kill can cut the last
        kept = [line for line in lines if not ((one := json.loads(line))["stage"] == stage and one["step"] > step)]
        if "".join(kept) != text:
            write_text(self.path, "".join(kept))
        self.at = (stage, step, time.monotonic())

    def add(self, stage: str, step: int, of: int, **values: float) -> None:
        line = {"stage": stage, "step": step, **{name: round(value, 4) for name, value in values.items()}}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.tell(stage, step, of, "  ".join(f"{name} {value:.3f}" for name, value in values.items()))

    def tick(self, stage: str, step: int, of: int) -> None:
        """Between two lines of the journal, a line for people where they have waited for one."""
        if time.monotonic() - self.said > PATIENCE:
            self.tell(stage, step, of, "")

    def tell(self, stage: str, step: int, of: int, values: str) -> None:
        _, first, since = self.at
        left = (time.monotonic() - since) / max(1, step - first) * (of - step)
        self.say(f"{stage:<13} {step:>5} of {of}  {values}  ({left / 60:.0f} min left)")

    def say(self, text: str) -> None:
        self.said = time.monotonic()
        if not self.quiet:
            sys.stderr.write(f"{(time.monotonic() - self.started) / 60:5.1f} min  {text}\n")
            sys.stderr.flush()


def read_losses(path: Path) -> list[dict[str, Any]]:
    """The journal's lines, in order."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
