"""Chunk files as the hook writes them, made by hand: rows that say which token, position and boundary they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

H = 4
MODEL = {
    "architecture": "DeepseekV3ForCausalLM",
    "num_layers": 2,
    "hidden_size": H,
    "tapped": [1],
    "embedding_tapped": False,
}


def state(tokens: list[int], positions: list[int], boundary: int) -> Tensor:
    """A row that says which token, position and boundary it is."""
    rows = [[t, p, boundary, 1.0] for t, p in zip(tokens, positions, strict=True)]
    return torch.tensor(rows, dtype=torch.bfloat16)


class Chunks:
    """Writes chunks as the hook does, one after the other."""

    def __init__(self, folder: Path, *, clock: int = 0) -> None:
        self.folder = folder / "chunks"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.clock = clock

    def write(self, runner: str, mode: str, segments: list[tuple[int, list[int], list[int]]], **extra: Any) -> Path:
        tokens = [t for _, part, _ in segments for t in part]
        positions = [p for _, _, part in segments for p in part]
        tensors = {"token_ids": torch.tensor(tokens), "positions": torch.tensor(positions)}
        if runner == "target":
            tensors |= {f"boundary.{b:03d}": state(tokens, positions, b) for b in range(3)}
        else:  # the ids of a draft pass are the next tokens; the feed holds the states of the rows' own positions
            tensors["feed"] = torch.cat([state([0] * len(tokens), positions, b) for b in (1, 1)], dim=1)
        tensors |= extra.pop("tensors", {})
        about = {"mode": mode, "runner": runner, "model": MODEL, "segments": [[p, len(t)] for p, t, _ in segments]}
        self.clock += 1
        path = self.folder / f"rank{extra.pop('rank', 0)}.{self.clock:020d}.{runner}.safetensors"
        metadata = {"schema": extra.pop("schema", "workbook.taps/1"), "about": json.dumps({**about, **extra})}
        save_file(tensors, path, metadata=metadata)
        return path


def order(*requests: tuple[str, list[int], list[int]], tp: int = 1) -> dict[str, Any]:
    about = {"run": "run-1", "engine": {"name": "sglang", "version": "0.5.9"}, "tp_size": tp, "aux_layer_ids": [0]}
    listed = [{"id": i, "prompt_ids": p, "output_ids": o} for i, p, o in requests]
    return {"capture": about, "requests": listed}


def spec_run(chunks: Chunks, rank: int = 0) -> dict[str, Any]:
    """Two requests in one batch; the first's prefill in two chunks; each has drafts accepted and rejected."""

    def target(mode: str, *segments: tuple[int, list[int], list[int]]) -> None:
        chunks.write("target", mode, list(segments), rank=rank)

    def draft(mode: str, *segments: tuple[int, list[int], list[int]]) -> None:
        chunks.write("draft", mode, list(segments), rank=rank)

    target("EXTEND", (0, [1, 2], [0, 1]))
    draft("EXTEND", (0, [2, 3], [0, 1]))
    target("EXTEND", (0, [3], [2]), (1, [4, 5], [0, 1]))
    draft("EXTEND", (0, [10], [2]), (1, [5, 20], [0, 1]))
    target("TARGET_VERIFY", (0, [10, 11, 99], [3, 4, 5]), (1, [20, 77, 88], [2, 3, 4]))
    draft("DRAFT_EXTEND", (0, [11, 12], [3, 4]), (1, [21], [2]))
    target("TARGET_VERIFY", (0, [12, 13, 14], [5, 6, 7]), (1, [21, 22, 66], [3, 4, 5]))
    draft("DRAFT_EXTEND", (1, [22, 23], [3, 4]))  # the first request has ended
    return order(("a", [1, 2, 3], [10, 11, 12, 13]), ("b", [4, 5], [20, 21, 22, 23]))
