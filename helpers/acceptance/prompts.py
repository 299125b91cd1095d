"""Prompts: one JSON object a line, token ids rather than text, so that every configuration gets the same tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import UsageError


@dataclass(frozen=True)
class Prompt:
    """One request's input: an id of the file's own, and token ids as the server is sent them."""

    id: str
    input_ids: tuple[int, ...]


def read_prompts(path: Path, *, limit: int | None = None) -> list[Prompt]:
    """Reads ``{"id": ..., "input_ids": [...]}`` lines, in order.

    Raises:
        UsageError: ``WB-PROMPTS-MISSING`` or ``WB-PROMPTS-LINE``, with the line's number and what stood there.
    """
    if not path.is_file():
        raise UsageError(
            "WB-PROMPTS-MISSING",
            f"no prompt file at {path}",
            expected="JSON lines of {id, input_ids}",
            next="data/prompts/lab-heldout.jsonl is one for the lab",
        )
    prompts: list[Prompt] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            prompts.append(_parse(line, number, path))
    if len({p.id for p in prompts}) != len(prompts) or not prompts:
        raise UsageError(
            "WB-PROMPTS-LINE",
            f"{path} has {len(prompts)} prompts with {len({p.id for p in prompts})} different ids",
            expected="at least one prompt, and an id of its own for each",
            next="give every line another id",
        )
    return prompts[:limit]


def _parse(line: str, number: int, path: Path) -> Prompt:
    try:
        record = json.loads(line)
        ids = tuple(record["input_ids"])
        if not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
            raise ValueError("input_ids holds no token ids")
        return Prompt(str(record["id"]), ids)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "WB-PROMPTS-LINE",
            f"{path} line {number} is no prompt ({error}): {line[:80]!r}",
            expected='{"id": "p0", "input_ids": [1, 2, 3]}',
            next=f"mend line {number}",
        ) from error
