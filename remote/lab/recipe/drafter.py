"""The EAGLE-3 drafter as it is trained: all draft steps from every row of a text at once.

Row j holds token j + 1 and the fused taps of token j; its first step guesses token j + 2. A later step takes the
drafter's own state instead of taps and, in training, the token that really came. It attends to the rows up to its own,
which hold true taps, and to its own chain. Positions stand as SGLang sets them: the first step on an own state is one
further than the row that it continues. helpers.wiring.drafter, which replays what was served, computes the same
(a test).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remote.lab.recipe.geometry import STEPS, DrafterShape
from remote.lab.recipe.norm import unit
from remote.lab.recipe.rope import plain_table, turn
from remote.lab.recipe.target import blank

# Names in a checkpoint, as SpecForge writes and SGLang reads them.
NAMES = {
    "fc": "fc.weight",
    "norm": "norm.weight",
    "head": "lm_head.weight",
    "hidden_norm": "midlayer.hidden_norm.weight",
    "input_norm": "midlayer.input_layernorm.weight",
    "post_norm": "midlayer.post_attention_layernorm.weight",
    "q": "midlayer.self_attn.q_proj.weight",
    "k": "midlayer.self_attn.k_proj.weight",
    "v": "midlayer.self_attn.v_proj.weight",
    "o": "midlayer.self_attn.o_proj.weight",
    "gate": "midlayer.mlp.gate_proj.weight",
    "up": "midlayer.mlp.up_proj.weight",
    "down": "midlayer.mlp.down_proj.weight",
}
GAIN = {"head": 0.3, "o": 0.3, "down": 0.3}  # of fresh weights; others 0.7


class Drafter(nn.Module):
    """One llama layer between ``fc`` and a head over the drafter's own tokens. Linear weights are [out, in]."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: DrafterShape) -> None:
        super().__init__()
        s = self.shape = shape
        self.fc = blank(s.hidden, s.slots * s.hidden)
        self.input_norm, self.hidden_norm = blank(s.hidden), blank(s.hidden)
        self.post_norm, self.norm = blank(s.hidden), blank(s.hidden)
        self.q = blank(s.heads * s.head, 2 * s.hidden)
        self.k, self.v = blank(s.kv_heads * s.head, 2 * s.hidden), blank(s.kv_heads * s.head, 2 * s.hidden)
        self.o = blank(s.hidden, s.heads * s.head)
        self.gate, self.up, self.down = blank(s.inner, s.hidden), blank(s.inner, s.hidden), blank(s.hidden, s.inner)
        self.head = blank(s.draft_vocab, s.hidden)
        cos, sin = plain_table(s.head, s.theta, s.positions)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids: Tensor, taps: Tensor, embedding: Tensor, work: torch.dtype = torch.float32) -> list[Tensor]:
        """Logits of each step, `STEPS` times [B, T - STEPS, draft_vocab]; step n of row j is about token j + 2 + n.

        Args:
            ids: [B, T] int64. taps: [B, T, slots * hidden]. embedding: [vocab, hidden], the target's.
        """
        rows = ids.shape[1] - STEPS
        state = F.linear(taps[:, :rows].to(work), self.fc.to(work)).float()
        kept: list[tuple[Tensor, Tensor]] = []
        out = []
        for step in range(STEPS):
            tokens = F.embedding(ids[:, step + 1 : step + 1 + rows], embedding)
            first = step + 1 if step else 0
            state = self.layer(tokens, state, slice(first, first + rows), kept, work)
            out.append(F.linear(unit(state, self.shape.eps, work), (self.head * self.norm).to(work)))
        return out

    def layer(
        self, tokens: Tensor, state: Tensor, positions: slice, kept: list[tuple[Tensor, Tensor]], work: torch.dtype
    ) -> Tensor:
        """The next state [B, R, hidden]; keys and values of this step are added to `kept`."""
        s = self.shape
        norms = torch.cat([self.input_norm, self.hidden_norm])
        x = torch.cat([unit(tokens, s.eps, work), unit(state, s.eps, work)], dim=-1)
        mixed = F.linear(x, (torch.cat([self.q, self.k, self.v]) * norms).to(work))
        mixed = mixed.view(*x.shape[:2], s.heads + 2 * s.kv_heads, s.head)
        q, k, v = torch.split(mixed, [s.heads, s.kv_heads, s.kv_heads], dim=2)
        cos, sin = self.cos[positions], self.sin[positions]
        share = s.heads // s.kv_heads
        q = turn(q, cos, sin).transpose(1, 2) * s.head**-0.5
        k = turn(k, cos, sin).repeat_interleave(share, dim=2).transpose(1, 2)
        kept.append((k, v.repeat_interleave(share, dim=2).transpose(1, 2)))
        state = state + F.linear(attend(q, kept).transpose(1, 2).flatten(2), self.o.to(work))
        y = unit(state, s.eps, work)
        inner = F.silu(F.linear(y, (self.gate * self.post_norm).to(work)))
        inner = inner * F.linear(y, (self.up * self.post_norm).to(work))
        return state + F.linear(inner, self.down.to(work))


def attend(q: Tensor, kept: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Attention of the newest step, [B, heads, R, D]: rows up to one's own of the first step, then one's own chain."""
    (first_k, first_v), *own = kept
    rows = q.shape[2]
    scores = q @ first_k.transpose(-1, -2)
    scores = scores + torch.full((rows, rows), float("-inf"), dtype=q.dtype).triu(1)
    chain = [(q * k).sum(dim=-1, keepdim=True) for k, _ in own]
    weights = torch.softmax(torch.cat([scores, *chain], dim=-1), dim=-1)
    out = weights[..., :rows] @ first_v
    for place, (_, v) in enumerate(own):
        out = out + weights[..., rows + place, None] * v
    return out


def new_drafter(shape: DrafterShape, generator: torch.Generator) -> Drafter:
    """A drafter with fresh weights."""
    model = Drafter(shape)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm"):
                weight.fill_(1.0)
            else:
                std = GAIN.get(name, 0.7) * weight.shape[-1] ** -0.5
                weight.copy_(torch.randn(weight.shape, generator=generator) * std)
    return model
