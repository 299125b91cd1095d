"""Tiny drafters and targets on disk, and a drafter worked out the slow way: one token at a time, one head at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

VOCABULARY, DRAFT_VOCABULARY, INNER, HEADS, KV_HEADS, HEAD = 1024, 24, 12, 4, 2, 6


def write_target(path: Path, hidden: int, *, seed: int = 3, prefix: str = "") -> Path:
    """Embedding, final norm and head of a target; no layers."""
    g = torch.Generator().manual_seed(seed)
    path.mkdir(parents=True)
    tensors = {
        f"{prefix}model.embed_tokens.weight": torch.randn(VOCABULARY, hidden, generator=g),
        f"{prefix}model.norm.weight": torch.rand(hidden, generator=g) + 0.5,
        f"{prefix}lm_head.weight": torch.randn(VOCABULARY, hidden, generator=g) / hidden**0.5,
        f"{prefix}model.layers.0.input_layernorm.weight": torch.ones(hidden),
    }
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({"rms_norm_eps": 1e-6, "hidden_size": hidden}))
    return path


def weights(hidden: int, slots: int, tap: int, *, seed: int = 5) -> dict[str, Tensor]:
    """A drafter's tensors by SpecForge's names; norms are never all ones, so that a wrong one shows."""
    g = torch.Generator().manual_seed(seed)

    def linear(out: int, into: int) -> Tensor:
        return torch.randn(out, into, generator=g) / into**0.5

    def norm(width: int) -> Tensor:
        return torch.rand(width, generator=g) + 0.5

    d2t = torch.randperm(VOCABULARY, generator=g)[:DRAFT_VOCABULARY].sort().values - torch.arange(DRAFT_VOCABULARY)
    return {
        "fc.weight": linear(hidden, slots * tap),
        "norm.weight": norm(hidden),
        "lm_head.weight": linear(DRAFT_VOCABULARY, hidden) * 3,
        "d2t": d2t,
        "t2d": torch.zeros(VOCABULARY, dtype=torch.bool),
        "midlayer.hidden_norm.weight": norm(hidden),
        "midlayer.input_layernorm.weight": norm(hidden),
        "midlayer.post_attention_layernorm.weight": norm(hidden),
        "midlayer.self_attn.q_proj.weight": linear(HEADS * HEAD, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": linear(KV_HEADS * HEAD, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": linear(KV_HEADS * HEAD, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": linear(hidden, HEADS * HEAD),
        "midlayer.mlp.gate_proj.weight": linear(INNER, hidden),
        "midlayer.mlp.up_proj.weight": linear(INNER, hidden),
        "midlayer.mlp.down_proj.weight": linear(hidden, INNER),
    }


def config(hidden: int, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": hidden,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "vocab_size": VOCABULARY,
        "draft_vocab_size": DRAFT_VOCABULARY,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        **more,
    }


def write_drafter(path: Path, tensors: dict[str, Tensor], settings: dict[str, Any]) -> Path:
    path.mkdir(parents=True)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(settings))
    return path


class Naive:
    """The same drafter as a server runs it: a list of keys and values, one row at a time, each head on its own."""

    def __init__(self, tensors: dict[str, Tensor], settings: dict[str, Any], embedding: Tensor) -> None:
        self.w, self.settings, self.embedding = tensors, settings, embedding
        self.keys: list[tuple[Tensor, Tensor]] = []

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean() + self.settings["rms_norm_eps"]).sqrt() * self.w[name]

    def fuse(self, taps: list[Tensor]) -> Tensor:
        if self.settings.get("fc_norm"):
            taps = [self.norm(tap, f"fc_norm.{i}.weight") for i, tap in enumerate(taps)]
        x = torch.cat(taps)
        return self.w["fc.weight"] @ (self.norm(x, "input_norm.weight") if self.settings.get("norm_before_fc") else x)

    def turn(self, x: Tensor, position: int) -> Tensor:
        out, half = x.clone(), HEAD // 2
        for i in range(half):
            angle = torch.tensor(position * self.settings["rope_theta"] ** (-2 * i / HEAD))
            out[i] = x[i] * angle.cos() - x[i + half] * angle.sin()
            out[i + half] = x[i + half] * angle.cos() + x[i] * angle.sin()
        return out

    def row(self, token: int, state: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Adds a row to the cache; gives (state for the next step, logits)."""
        p = "midlayer."
        normed = self.norm(state, p + "hidden_norm.weight")
        x = torch.cat([self.norm(self.embedding[token], p + "input_layernorm.weight"), normed])
        q, k, v = (self.w[f"{p}self_attn.{name}_proj.weight"] @ x for name in "qkv")
        k = torch.cat([self.turn(part, position) for part in k.split(HEAD)])
        self.keys.append((k, v))
        heads = []
        for head in range(HEADS):
            query = self.turn(q[head * HEAD : (head + 1) * HEAD], position)
            at = slice(head // (HEADS // KV_HEADS) * HEAD, (head // (HEADS // KV_HEADS) + 1) * HEAD)
            weight = torch.stack([query @ key[at] / HEAD**0.5 for key, _ in self.keys]).softmax(0)
            heads.append(sum(w * value[at] for w, (_, value) in zip(weight, self.keys, strict=True)))
        residual = normed if self.settings.get("norm_before_residual") else state
        x = residual + self.w[p + "self_attn.o_proj.weight"] @ torch.cat(heads)
        y = self.norm(x, p + "post_attention_layernorm.weight")
        gate = self.w[p + "mlp.gate_proj.weight"] @ y
        x = x + self.w[p + "mlp.down_proj.weight"] @ (gate * gate.sigmoid() * (self.w[p + "mlp.up_proj.weight"] @ y))
        out = self.norm(x, "norm.weight")
        return (out if self.settings.get("norm_output") else x), self.w["lm_head.weight"] @ out

    def guess(self, logits: Tensor) -> int:
        best = int(logits.argmax())
        return best + int(self.w["d2t"][best])

    def drafts(self, tokens: list[int], taps: list[list[Tensor]], rows: int, steps: int) -> list[tuple[int, Tensor]]:
        """What a server drafts when `rows` tokens have states: (guess, logits) of each step."""
        self.keys = []
        for row in range(rows):
            state, logits = self.row(tokens[row + 1], self.fuse(taps[row]), row)
        found = [(self.guess(logits), logits)]
        for step in range(1, steps):
            state, logits = self.row(found[-1][0], state, rows - 1 + step + 1)
            found.append((self.guess(logits), logits))
        return found
