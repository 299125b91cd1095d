"""Checkpoints by the names and in the dtypes that SGLang and transformers read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from remote.lab.recipe.geometry import TargetShape
from remote.lab.recipe.target import Layer, Target

ATTENTION = {
    "q_a": "q_a_proj",
    "q_norm": "q_a_layernorm",
    "q_b": "q_b_proj",
    "kv_a": "kv_a_proj_with_mqa",
    "kv_norm": "kv_a_layernorm",
    "kv_b": "kv_b_proj",
    "o": "o_proj",
}
EXPERT = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
BIAS = "e_score_correction_bias"


def layer_places(layer: Layer, number: int) -> dict[str, Tensor]:
    """The tensors of a layer by their names in a checkpoint; each is a view of the module's own."""
    at = f"model.layers.{number}"
    named: dict[str, Tensor] = {
        f"{at}.input_layernorm.weight": layer.input_norm,
        f"{at}.post_attention_layernorm.weight": layer.post_norm,
    }
    named |= {f"{at}.self_attn.{theirs}.weight": getattr(layer, ours) for ours, theirs in ATTENTION.items()}
    if layer.router is None:
        return named | {f"{at}.mlp.{theirs}.weight": getattr(layer, ours)[0] for ours, theirs in EXPERT.items()}
    assert layer.bias is not None
    named |= {f"{at}.mlp.gate.weight": layer.router, f"{at}.mlp.gate.{BIAS}": layer.bias}
    for ours, theirs in EXPERT.items():
        *routed, shared = getattr(layer, ours)
        named |= {f"{at}.mlp.experts.{i}.{theirs}.weight": weight for i, weight in enumerate(routed)}
        named[f"{at}.mlp.shared_experts.{theirs}.weight"] = shared
    return named


def places(model: Target) -> dict[str, Tensor]:
    """Every tensor of the target by its name in a checkpoint."""
    named: dict[str, Tensor] = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.norm,
        "lm_head.weight": model.head,
    }
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        named |= layer_places(layer, number)
    return named


def write_model(tensors: dict[str, Tensor], config: dict[str, object], out: Path, beside: Iterable[Path] = ()) -> None:
    """config.json, model.safetensors and copies of the files `beside`; the folder appears whole or not at all."""
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    (part / "config.json").write_text(json.dumps(config, indent=1))
    whole = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(whole, part / "model.safetensors", metadata={"format": "pt"})
    for file in beside:
        shutil.copy(file, part / file.name)
    shutil.rmtree(out, ignore_errors=True)
    os.replace(part, out)


def save_target(model: Target, tokenizer: Path, out: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """The target's folder, with its tokenizer's files; the routing bias stays float32, as DeepSeek keeps it."""
    tensors = {name: t if name.endswith(BIAS) else t.to(dtype) for name, t in places(model).items()}
    config = model.shape.config(str(dtype).removeprefix("torch."))
    write_model(tensors, config, out, sorted(tokenizer.iterdir()))


def load_target(folder: Path, shape: TargetShape) -> Target:
    """A target as its folder holds it, in float32: what a server computes with, rounded weights and all."""
    model = Target(shape).eval()
    stored = load_file(folder / "model.safetensors")
    with torch.no_grad():
        for name, tensor in places(model).items():
            tensor.copy_(stored.pop(name).float())
    if stored:
        raise ValueError(f"{folder} holds tensors that have no place: {sorted(stored)[:3]}")
    return model.requires_grad_(False)
