"""The drafter itself: fuse the taps, one llama layer whose attention sees token and state side by side, a small head.

The layer follows SGLang's srt/models/llama_eagle3.py (0.5.9) and what 0.5.23 adds there, operation by operation, so
that its numbers come out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.wiring.drafter.config import DrafterConfig


@dataclass(frozen=True)
class LayerWeights:
    """The one layer. Linear weights are [out, in]; ``q``, ``k`` and ``v`` take 2 H: token beside state.

    ``q`` [heads * head_dim, 2 H]; ``k``, ``v`` [kv_heads * head_dim, 2 H]; ``o`` [H, heads * head_dim];
    ``gate``, ``up`` [I, H]; ``down`` [H, I]; the norms [H]. ``biases`` are of ``q``, ``k``, ``v``, ``o``, by name.
    """

    input_norm: Tensor
    hidden_norm: Tensor
    post_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    biases: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Drafter:
    """An EAGLE-3 drafter.

    Attributes:
        fc: [H, K * H_target], turns the K taps of a token into one state.
        embedding: [V, H], the target's: servers share it, whatever the drafter's checkpoint holds.
        norm: [H]. head: [D, H], over the drafter's own vocabulary of D tokens.
        to_target: [D], the target's token id of each of the drafter's.
        input_norm: [K * H_target], with ``norm_before_fc``. slot_norms: K times [H_target], with ``fc_norm``.
        notes: what a reader of results should know, such as an embedding of its own that is not used.
    """

    config: DrafterConfig
    fc: Float[Tensor, "H KH"]
    layer: LayerWeights
    norm: Float[Tensor, " H"]
    head: Float[Tensor, "D H"]
    embedding: Float[Tensor, "V H"]
    to_target: Int64[Tensor, " D"]
    fc_bias: Float[Tensor, " H"] | None = None
    input_norm: Float[Tensor, " KH"] | None = None
    slot_norms: tuple[Tensor, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def slots(self) -> int:
        """K, how many taps ``fc`` takes."""
        return self.fc.shape[1] // self.config.target_hidden_size

    @property
    def dtype(self) -> torch.dtype:
        return self.fc.dtype

    def block(self, slot: int) -> Float[Tensor, "H H_target"]:
        """The columns of ``fc`` that a slot meets."""
        width = self.config.target_hidden_size
        return self.fc[:, slot * width : (slot + 1) * width]

    def normed_taps(self, taps: Float[Tensor, "*T KH"]) -> Float[Tensor, "*T KH"]:
        """What ``fc`` really multiplies: the taps after the norms that stand before it, if there are any."""
        x = taps.to(self.dtype)
        if self.input_norm is not None:
            x = self.rms(x, self.input_norm)
        if self.slot_norms is not None:
            parts = zip(x.chunk(self.slots, dim=-1), self.slot_norms, strict=True)
            x = torch.cat([self.rms(part, weight) for part, weight in parts], dim=-1)
        return x

    def fuse(self, taps: Float[Tensor, "*T KH"]) -> Float[Tensor, "*T H"]:
        """The state that a token's taps make.

        Footgun: an input that is as wide as the embedding already (one slot) passes as it is. SGLang does so.
        """
        if taps.shape[-1] == self.embedding.shape[1]:
            return taps.to(self.dtype)
        return F.linear(self.normed_taps(taps), self.fc, self.fc_bias)

    def rms(self, x: Float[Tensor, "*T W"], weight: Float[Tensor, " W"]) -> Float[Tensor, "*T W"]:
        """Each row divided by its root mean square, in float32, times a weight per channel."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + self.config.rms_eps)
        return scaled.to(x.dtype) * weight

    def qkv(
        self, tokens: Int64[Tensor, "B T"], state: Float[Tensor, "B T H"], positions: Int64[Tensor, " T"]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries [B, T, heads, D], keys and values [B, T, kv_heads, D], and the residual [B, T, H]."""
        config, layer = self.config, self.layer
        normed = self.rms(state, layer.hidden_norm)
        residual = normed if config.norm_before_residual else state
        x = torch.cat([self.rms(F.embedding(tokens, self.embedding), layer.input_norm), normed], dim=-1)
        q, k, v = (
            F.linear(x, weight, layer.biases.get(name)).view(*tokens.shape, -1, config.head_dim)
            for name, weight in (("q", layer.q), ("k", layer.k), ("v", layer.v))
        )
        return config.rope.turn(q, positions), config.rope.turn(k, positions), v, residual

    def finish(
        self, attended: Float[Tensor, "B T heads head_dim"], residual: Float[Tensor, "B T H"]
    ) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B T D"]]:
        """From attention's output to (the state that the next draft step starts from, logits)."""
        layer = self.layer
        x = residual + F.linear(attended.flatten(-2), layer.o, layer.biases.get("o"))
        y = self.rms(x, layer.post_norm)
        x = x + F.linear(F.silu(F.linear(y, layer.gate)) * F.linear(y, layer.up), layer.down)
        out = self.rms(x, self.norm)
        return (out if self.config.norm_output else x), F.linear(out, self.head)
