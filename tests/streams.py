"""Synthetic residual streams, captures and dumps for the tests: small, seeded, with the traits that mislead cosines.

The stream has outlier channels (large, nearly constant), a sink token (token 0, far longer than all others) and layers
that add little, so that neighbouring boundaries are near-parallel: raw cosines above .99, centred ones .9 to .99.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

LAYERS, HIDDEN, TAPS = 10, 64, (2, 5, 9)


def stream(tokens: Tensor, seed: int = 0) -> list[Tensor]:
    """The boundaries 0..LAYERS of a text [T]: each [T, HIDDEN], float32; causal, a function of the text alone."""
    weights = torch.Generator().manual_seed(seed)
    table = torch.randn(1024, HIDDEN, generator=weights)
    common = torch.zeros(HIDDEN)
    common[[3, 17]] = torch.tensor([60.0, -40.0])
    x = table[tokens]
    found = [x + 0.02 * common]
    for layer in range(LAYERS):
        mix = torch.randn(HIDDEN, HIDDEN, generator=weights) / HIDDEN**0.5
        past = x.cumsum(0) / torch.arange(1, len(x) + 1).unsqueeze(1)
        x = x + 0.35 * torch.tanh((x + past) @ mix) * x.norm(dim=-1, keepdim=True) / HIDDEN**0.5
        y = x + common * (0.3 + 0.1 * layer)
        y[0] += 400 * common.sign() * (layer > 0)
        found.append(y)
    return found


@dataclass
class Served:
    """A capture to be written: texts, and per rank the tensors; change what you like before `write`."""

    texts: list[Tensor]
    info: dict[str, Any] = field(default_factory=dict)
    ranks: list[dict[str, Tensor]] = field(default_factory=list)

    def write(self, path: Path) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        files = []
        for rank, tensors in enumerate(self.ranks):
            file = path / f"rank{rank}.safetensors"
            save_file({name: t.contiguous() for name, t in tensors.items()}, file)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            files.append({"name": file.name, "rank": rank, "bytes": file.stat().st_size, "sha256": digest})
        (path / "capture.json").write_text(json.dumps(self.info | {"files": files}))
        return path


def served(texts: list[Tensor], feed: tuple[int, ...] = TAPS, *, ranks: int = 1, seed: int = 0) -> Served:
    """A capture of these texts, its feed made of the boundaries `feed`; the last row of each request has no feed."""
    return served_ladders(texts, [stream(text, seed) for text in texts], feed, ranks=ranks)


def served_ladders(
    texts: list[Tensor], ladders: list[list[Tensor]], feed: tuple[int, ...] = TAPS, *, ranks: int = 1
) -> Served:
    """As `served`, of given boundaries: per text, per boundary [T, H]."""
    ladder = [torch.cat([one[b] for one in ladders]) for b in range(len(ladders[0]))]
    lengths = [len(text) for text in texts]
    ends = torch.tensor(lengths).cumsum(0)
    rows = torch.tensor([i for i in range(sum(lengths)) if i + 1 not in ends.tolist()], dtype=torch.long)
    tensors = {f"boundary.{b:03d}": tap for b, tap in enumerate(ladder)} | {
        "token_ids": torch.cat(texts),
        "positions": torch.cat([torch.arange(n) for n in lengths]),
        "request": torch.cat([torch.full((n,), i, dtype=torch.int32) for i, n in enumerate(lengths)]),
        "feed": torch.cat([ladder[b] for b in feed], dim=1)[rows],
        "feed_rows": rows,
    }
    starts = [0, *ends.tolist()]
    info = {
        "schema": "workbook.capture/1",
        "run": "synthetic",
        "engine": {"name": "sglang", "version": "0.5.9"},
        "model": {
            "architecture": "DeepseekV3ForCausalLM",
            "num_layers": len(ladder) - 1,
            "hidden_size": ladder[0].shape[1],
        },
        "tp_size": ranks,
        "aux_layer_ids": None,
        "launch": {"cuda_graph": False},
        "requests": [
            {"id": f"r{i}", "start": starts[i], "length": n, "prompt_tokens": n // 2} for i, n in enumerate(lengths)
        ],
    }
    return Served(texts, info, [{k: v.clone() for k, v in tensors.items()} for _ in range(ranks)])


def write_dump(
    path: Path, texts: list[Tensor], taps: tuple[int, ...] = TAPS, *, seed: int = 0, dtype: torch.dtype = torch.bfloat16
) -> Path:
    """A dump in the layout of speculators v1: the taps, then the state before the final norm."""
    path.mkdir(parents=True, exist_ok=True)
    for i, text in enumerate(texts):
        ladder = stream(text, seed)
        states = [ladder[b].to(dtype) for b in (*taps, LAYERS)]
        mask = torch.ones(len(text), dtype=torch.long)
        torch.save({"input_ids": text, "loss_mask": mask, "hidden_states": states}, path / f"data_{i}.pt")
    return path


def texts(count: int = 4, length: int = 48, seed: int = 7) -> list[Tensor]:
    """Random texts of token ids."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 1024, (length + 3 * i,), generator=generator) for i in range(count)]
