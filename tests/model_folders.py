"""Small model folders for preflight: real config keys, safetensors with true headers and no stored zeros (sparse)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from helpers.serving import Profile, Speculation

BF16, I64, BOOL = ("BF16", 2), ("I64", 8), ("BOOL", 1)

LLAMA3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
}
QWEN3_MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
}
_DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "first_k_dense_replace": 1,
    "num_attention_heads": 64,
    "vocab_size": 163840,
    "max_position_embeddings": 262144,
    "rope_theta": 50000.0,
}
#: The case's own target, and the same language model without its wrapper (as a box may serve it).
KIMI_K25 = {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "text_config": _DEEPSEEK}
KIMI_TEXT = _DEEPSEEK


def text_of(target: dict[str, Any]) -> dict[str, Any]:
    return {**target, **target.get("text_config", {})}


def drafter_of(target: dict[str, Any], ids: list[int] | None = None, **changes: Any) -> dict[str, Any]:
    """The config of a sound EAGLE-3 drafter for a target."""
    text = text_of(target)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": text["hidden_size"],
        "intermediate_size": 2 * text["hidden_size"],
        "num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": text["vocab_size"],
        "draft_vocab_size": 32000,
        "max_position_embeddings": text["max_position_embeddings"],
        "rope_theta": text["rope_theta"],
        "tie_word_embeddings": False,
    }
    if ids is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True}
    return {**config, **changes}


def shapes_of(config: dict[str, Any], *, slots: int = 3, block: str = "midlayer") -> dict[str, Any]:
    """name -> (type, shape) of such a drafter."""
    h, inner, rows = config["hidden_size"], config["intermediate_size"], config["draft_vocab_size"]
    shapes = {
        "fc.weight": (BF16, [h, slots * h]),
        "norm.weight": (BF16, [h]),
        "lm_head.weight": (BF16, [rows, h]),
        "d2t": (I64, [rows]),
        "t2d": (BOOL, [config["vocab_size"]]),
    }
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        shapes[f"{block}.{name}.weight"] = (BF16, [h])
    for name, shape in {
        "q_proj": [h, 2 * h],
        "k_proj": [h // 4, 2 * h],
        "v_proj": [h // 4, 2 * h],
        "o_proj": [h, h],
    }.items():
        shapes[f"{block}.self_attn.{name}.weight"] = (BF16, shape)
    for name, shape in {"gate_proj": [inner, h], "up_proj": [inner, h], "down_proj": [h, inner]}.items():
        shapes[f"{block}.mlp.{name}.weight"] = (BF16, shape)
    return shapes


def write_model(
    folder: Path,
    config: dict[str, Any],
    shapes: dict[str, Any] | None = None,
    *,
    d2t: list[int] | None = None,
    marked: list[int] | None = None,
) -> Path:
    """A model's folder. d2t: its differences (zeros by default); marked: target tokens that t2d marks (the first)."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shapes is None:
        return folder
    header: dict[str, Any] = {}
    offset = 0
    for name, ((kind, size), shape) in shapes.items():
        count = size
        for n in shape:
            count *= n
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        start = file.tell()
        file.truncate(start + offset)  # zeros that take no room
        if "d2t" in header and d2t is not None:
            file.seek(start + header["d2t"]["data_offsets"][0])
            file.write(struct.pack(f"<{len(d2t)}q", *d2t))
        if "t2d" in header:
            count = config["vocab_size"]
            rows = set(marked) if marked is not None else set(range(config["draft_vocab_size"]))
            file.seek(start + header["t2d"]["data_offsets"][0])
            file.write(bytes(int(i in rows) for i in range(count)))
    return folder


def profile_of(target: Path, draft: Path | None, **changes: Any) -> Profile:
    """An EAGLE-3 profile of SGLang 0.5.9."""
    speculation = Speculation(num_steps=3, topk=1, num_draft_tokens=4) if draft else None
    fields = {"name": "made", "engine": "sglang==0.5.9", "model": str(target), "draft": str(draft) if draft else None}
    return Profile(**{**fields, "speculation": speculation, **changes})
