"""The target: DeepSeek-V3 in compact torch. Its logits are those of transformers' DeepseekV3ForCausalLM (a test).

All experts of a layer are one pair of products: gates and ups of the eight routed experts and the shared one stand side
by side, and an expert that was not chosen has weight 0. At this size that beats picking rows for each expert.

Weights are float32; `work` is the dtype of products (bfloat16 in training: processors that have instructions for it are
faster by far). The residual stream stays float32. A norm's weight is multiplied into the product that follows it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remote.lab.recipe.geometry import TargetShape
from remote.lab.recipe.norm import unit
from remote.lab.recipe.rope import turn, yarn_table


def blank(*size: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*size))


class Cache:
    """Keys and values of each layer, [B, heads, positions, D], filled up to `length`."""

    def __init__(self, shape: TargetShape, batch: int, positions: int, work: torch.dtype) -> None:
        widths = (shape.nope + shape.rope, shape.value)
        self.layers = [
            tuple(torch.zeros(batch, shape.heads, positions, width, dtype=work) for width in widths)
            for _ in range(shape.layers)
        ]
        self.length = 0


class Folded(NamedTuple):
    """A layer's weights with the norm before each product multiplied in, rows in the order that products give them.

    ``down`` is q_a over kv_a; ``gate_up`` gates over ups, [2 * n * inner, hidden]; ``back`` [hidden, n * inner].
    """

    down: Tensor
    q: Tensor
    kv: Tensor
    o: Tensor
    gate_up: Tensor
    router: Tensor | None
    back: Tensor


class Layer(nn.Module):
    """One decoder layer. Linear weights are [out, in]; experts [n, out, in], the shared one last."""

    def __init__(self, shape: TargetShape, dense: bool) -> None:
        super().__init__()
        s = self.shape = shape
        self.input_norm, self.post_norm = blank(s.hidden), blank(s.hidden)
        self.q_norm, self.kv_norm = blank(s.q_rank), blank(s.kv_rank)
        self.q_a, self.kv_a = blank(s.q_rank, s.hidden), blank(s.kv_rank + s.rope, s.hidden)
        self.q_b = blank(s.heads * (s.nope + s.rope), s.q_rank)
        self.kv_b = blank(s.heads * (s.nope + s.value), s.kv_rank)
        self.o = blank(s.hidden, s.heads * s.value)
        count, inner = (1, s.dense) if dense else (s.experts + 1, s.expert)
        self.gate, self.up = blank(count, inner, s.hidden), blank(count, inner, s.hidden)
        self.down = blank(count, s.hidden, inner)
        self.router = None if dense else blank(s.experts, s.hidden)
        self.bias: Tensor | None
        self.register_buffer("bias", None if dense else torch.zeros(s.experts))

    def fold(self, work: torch.dtype) -> Folded:
        """The weights as products take them, in the working dtype."""
        s = self.shape
        count, inner, hidden = self.gate.shape
        router = None if self.router is None else (self.router * self.post_norm).to(work)
        return Folded(
            down=(torch.cat([self.q_a, self.kv_a])[s.latent_rows] * self.input_norm).to(work),
            q=(self.q_b[s.query_rows] * self.q_norm).to(work),
            kv=(self.kv_b * self.kv_norm).to(work),
            o=self.o.to(work),
            gate_up=(torch.cat([self.gate, self.up]) * self.post_norm).to(work).view(-1, hidden),
            router=router,
            back=self.down.to(work).transpose(0, 1).reshape(hidden, count * inner),
        )

    def attend(
        self, y: Tensor, w: Folded, cos: Tensor, sin: Tensor, kept: tuple[Tensor, ...] | None, past: int
    ) -> Tensor:
        """y [B, T, hidden] in the working dtype; keys and values go into `kept` from row `past` on."""
        s, work = self.shape, y.dtype
        size = (*y.shape[:2], s.heads)
        q_latent, kv_latent, key_rope = torch.split(F.linear(y, w.down), [s.q_rank, s.kv_rank, s.rope], dim=-1)
        q = F.linear(unit(q_latent, s.eps), w.q)
        q = q.view(*size, s.nope + s.rope)
        kv = F.linear(unit(kv_latent, s.eps), w.kv).view(*size, s.nope + s.value)
        key_rope = turn(key_rope.unsqueeze(2), cos, sin).expand(*size, s.rope)
        q = torch.cat([q[..., : s.nope], turn(q[..., s.nope :], cos, sin)], dim=-1) * s.softmax_scale
        k = torch.cat([kv[..., : s.nope], key_rope], dim=-1).transpose(1, 2)
        v = kv[..., s.nope :].transpose(1, 2)
        if kept is not None:
            end = past + y.shape[1]
            kept[0][:, :, past:end], kept[1][:, :, past:end] = k, v
            k, v = kept[0][:, :, :end], kept[1][:, :, :end]
        # By hand: torch's fast attention for processors takes three times as long at this size.
        scores = q.transpose(1, 2) @ k.transpose(-1, -2)
        if y.shape[1] > 1:
            scores = scores + torch.full(scores.shape[-2:], float("-inf"), dtype=work).triu(1)
        out = torch.softmax(scores, dim=-1) @ v
        return F.linear(out.transpose(1, 2).flatten(2), w.o)

    def mix(self, y: Tensor, w: Folded, loads: list[Tensor] | None = None) -> Tensor:
        """The dense layer or the experts, of the normed stream [B, T, hidden] in the working dtype."""
        gate, up = F.linear(y, w.gate_up).chunk(2, dim=-1)
        h = F.silu(gate) * up
        if w.router is not None:
            experts = self.route(y, w.router, loads).to(y.dtype)
            h = (h.view(*h.shape[:-1], experts.shape[-1], -1) * experts.unsqueeze(-1)).flatten(-2)
        return F.linear(h, w.back)

    def route(self, y: Tensor, router: Tensor, loads: list[Tensor] | None) -> Tensor:
        """Weights of the routed experts and, last, of the shared one: [B, T, experts + 1] float32."""
        assert self.bias is not None
        scores = torch.sigmoid(F.linear(y, router).float())
        # The bias chooses and does not weigh. All groups are open, so that grouping changes nothing.
        best = (scores.detach() + self.bias).topk(self.shape.chosen, dim=-1).indices
        chosen = torch.zeros_like(scores).scatter_(-1, best, 1.0)
        if loads is not None:
            loads.append(chosen.sum((0, 1)))
        weights = scores * chosen
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.shape.scale
        return torch.cat([weights, torch.ones_like(weights[..., :1])], dim=-1)


class Target(nn.Module):
    """The whole model; `forward` gives logits and, when asked, every boundary."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: TargetShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.empty(shape.vocab, shape.hidden))
        self.layers = nn.ModuleList(Layer(shape, dense=i == 0) for i in range(shape.layers))
        self.norm = nn.Parameter(torch.empty(shape.hidden))
        self.head = nn.Parameter(torch.empty(shape.vocab, shape.hidden))
        cos, sin = yarn_table(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def fold(self, work: torch.dtype) -> list[Folded]:
        """The weights of all layers as products take them."""
        return [layer.fold(work) for layer in self.layers if isinstance(layer, Layer)]

    def forward(
        self,
        ids: Tensor,
        *,
        work: torch.dtype = torch.float32,
        cache: Cache | None = None,
        boundaries: list[Tensor] | None = None,
        loads: list[Tensor] | None = None,
        last: bool = False,
        folded: list[Folded] | None = None,
    ) -> Tensor:
        """Logits [B, T, vocab] of ids [B, T] int64, in `work`.

        Args:
            cache: holds what came before these tokens, and takes them; only a first pass may have several tokens.
            boundaries: gets the stream before each layer and after the last one, layers + 1 times [B, T, hidden].
            loads: gets how often each routed expert was chosen, [experts] of each layer that has them.
            last: logits of the last position alone, [B, 1, vocab].
            folded: what `fold` gave for `work`, where many passes share it.
        """
        past = 0 if cache is None else cache.length
        assert not past or ids.shape[1] == 1
        rows = slice(past, past + ids.shape[1])
        x = F.embedding(ids, self.embedding)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            if boundaries is not None:
                boundaries.append(x)
            kept = None if cache is None else cache.layers[number]
            w = layer.fold(work) if folded is None else folded[number]
            x = x + layer.attend(unit(x, self.shape.eps, work), w, self.cos[rows], self.sin[rows], kept, past)
            x = x + layer.mix(unit(x, self.shape.eps, work), w, loads)
        if boundaries is not None:
            boundaries.append(x)
        if cache is not None:
            cache.length = rows.stop
        x = x[:, -1:] if last else x
        return F.linear(unit(x, self.shape.eps, work), (self.head * self.norm).to(work))


def new_target(shape: TargetShape, generator: torch.Generator) -> Target:
    """A target with fresh weights: each product keeps its input's scale, and layers add little to the stream."""
    model = Target(shape)
    back = 0.5 / (2 * shape.layers) ** 0.5
    special = {"embedding": 0.1, "head": 0.02}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            short = name.rsplit(".", 1)[-1]
            if short.endswith("norm"):
                weight.fill_(1.0)
                continue
            gain = back if short in ("o", "down") else 0.5 if short == "router" else 0.7
            std = special.get(short, gain * weight.shape[-1] ** -0.5)
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)
    return model
