"""The few rows of a target's checkpoint that a diagnosis needs: embeddings of some tokens, the final norm's weight."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from safetensors import safe_open
from torch import Tensor

from helpers.errors import UsageError
from helpers.screen import as_typed
from helpers.tensors.header import Entry, read_header
from helpers.tensors.places import met, way_out

EMBEDDING = ("embed_tokens.weight", "tok_embeddings.weight", "wte.weight")
NORM = ("model.norm.weight", "norm.weight", "ln_f.weight")


@dataclass(frozen=True)
class Target:
    """A target's folder; no more than the rows that are asked for is read from it."""

    path: Path

    @cached_property
    def tensors(self) -> dict[str, tuple[Path, Entry]]:
        """Where each tensor lies, from the headers."""
        return {name: (file, e) for file in sorted(self.path.glob("*.safetensors")) for name, e in file_entries(file)}

    def find(self, endings: tuple[str, ...], dims: int, what: str) -> str:
        """The name of the tensor that ends so, the shortest of several (a drafter's or a vision part's are longer)."""
        found = [
            name
            for ending in endings
            for name, (_, entry) in self.tensors.items()
            if (name == ending or name.endswith("." + ending)) and len(entry.shape) == dims and "layers." not in name
        ]
        if not found:
            raise UsageError(
                "WB-TARGET-TENSOR",
                met(self.path, "target", f"no {what} in its {len(self.tensors)} tensors"),
                expected=f"*.safetensors with {' or '.join(endings)}",
                next=way_out(self.path, "target", f"ls {as_typed(self.path)}"),
            )
        return min(found, key=len)

    def embedding(self, tokens: Int64[Tensor, " N"]) -> Float[Tensor, "N H"]:
        """Boundary 0 of these tokens, in the dtype of the checkpoint."""
        name = self.find(EMBEDDING, 2, "embedding")
        file, entry = self.tensors[name]
        ids, place = torch.unique(tokens, return_inverse=True)
        if len(ids) and int(ids.max()) >= entry.shape[0]:
            raise UsageError(
                "WB-TARGET-TENSOR",
                f"token {int(ids.max())} was served, and {name} of {self.path} has {entry.shape[0]} rows",
                expected="the folder of the target that was captured",
                next="give the right folder with --target",
            )
        with safe_open(file, framework="pt") as opened:
            part = opened.get_slice(name)
            rows: Tensor = torch.cat([part[i : i + 1] for i in ids.tolist()]) if len(ids) else part[0:0]
        return rows[place]

    @cached_property
    def norm(self) -> Float[Tensor, " H"]:
        """The weight of the final norm."""
        name = self.find(NORM, 1, "final norm")
        with safe_open(self.tensors[name][0], framework="pt") as opened:
            weight: Tensor = opened.get_tensor(name)
        return weight

    @cached_property
    def eps(self) -> float:
        """Epsilon of the final norm, from the target's config."""
        try:
            config = json.loads((self.path / "config.json").read_text())
        except (OSError, ValueError):
            return 1e-6
        return float(config.get("rms_norm_eps") or (config.get("text_config") or {}).get("rms_norm_eps") or 1e-6)


def file_entries(file: Path) -> list[tuple[str, Entry]]:
    return list(read_header(file).items())
