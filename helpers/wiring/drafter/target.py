"""What a drafter and its judge need of the target: embedding, final norm and head, read one by one when asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.header import Entry, read_header
from helpers.tensors.places import met, way_out
from helpers.wiring.drafter.config import read_json

# Rows of a head that are turned to float32 at a time.
VOCABULARY_PIECE = 16384
# The names end alike in all models; what stands before them is a wrapper's (language_model., model.).
NAMES = {
    "embedding": re.compile(r"(^|\.)(embed_tokens|wte|tok_embeddings)\.weight$"),
    "norm": re.compile(r"^((.*\.)?(model|transformer)\.)?norm\.weight$"),
    "head": re.compile(r"(^|\.)lm_head\.weight$"),
}


@dataclass(frozen=True)
class Target:
    """A target's folder. Tensors stay on disk until a method asks for one, and come in the checkpoint's dtype.

    ``places`` are (file, name) of ``embedding`` [V, H], ``norm`` [H] and ``head`` [V, H].
    """

    folder: Path
    rms_eps: float
    places: dict[str, tuple[Path, str]]
    vocab_size: int
    hidden_size: int

    @cached_property
    def _head(self) -> Tensor:
        return self._read("head")

    def embedding(self) -> Float[Tensor, "V H"]:
        return self._read("embedding")

    def head(self) -> Float[Tensor, "V H"]:
        return self._head

    def norm(self) -> Float[Tensor, " H"]:
        """The weight of the final norm."""
        return self._read("norm")

    def final_norm(self, x: Float[Tensor, "*T H"]) -> Float[Tensor, "*T H"]:
        """Boundary n after the final norm, in float32."""
        wide, weight = x.float(), self._read("norm").float()
        return wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + self.rms_eps) * weight

    def logits(self, normed: Float[Tensor, "*T H"]) -> Float[Tensor, "*T V"]:
        """What the target says comes next, from its state after the final norm, in float32."""
        x = normed.float()
        # Piece by piece: a whole head in float32 can be as large as this machine's memory.
        return torch.cat([F.linear(x, piece.float()) for piece in torch.split(self.head(), VOCABULARY_PIECE)], dim=-1)

    def _read(self, what: str) -> Tensor:
        path, name = self.places[what]
        with safe_open(path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor


def load_target(folder: Path) -> Target:
    """Find the three tensors in a target's folder; nothing but headers is read.

    Raises:
        UsageError: ``WB-TARGET-WEIGHTS`` where one is missing or its name fits several; ``WB-MODEL-CONFIG``.
    """
    raw = read_json(folder)
    text = {**raw, **(raw.get("text_config") or {})}
    entries: dict[str, tuple[Path, Entry]] = {
        name: (path, entry)
        for path in sorted(folder.glob("*.safetensors"))
        for name, entry in read_header(path).items()
    }
    places: dict[str, tuple[Path, str]] = {}
    for what, pattern in NAMES.items():
        found = [name for name in entries if pattern.search(name)]
        if not found and what == "head" and text.get("tie_word_embeddings"):
            places[what] = places["embedding"]
            continue
        if len(found) != 1:
            raise UsageError(
                "WB-TARGET-WEIGHTS",
                met(folder, "target", _many(what, found)),
                expected="*.safetensors with one embed_tokens.weight, one final norm.weight and one lm_head.weight",
                next=way_out(folder, "target", "give the target's folder with these three; the layers are not needed"),
            )
        places[what] = (entries[found[0]][0], found[0])
    vocabulary, hidden = entries[places["embedding"][1]][1].shape
    return Target(folder, float(text.get("rms_norm_eps", 1e-6)), places, vocabulary, hidden)


def _many(what: str, found: list[str]) -> str:
    if not found:
        return f"no tensor that could be its {what}"
    return f"{len(found)} tensors that could be its {what}, such as {', '.join(found[:3])}"
