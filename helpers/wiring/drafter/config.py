"""config.json of a drafter, as SpecForge and SGLang write it or as speculators does, read into one form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.errors import UsageError
from helpers.library_errors import why
from helpers.screen import as_typed
from helpers.tensors.places import met, way_out
from helpers.wiring.drafter.rope import KINDS, Rope


@dataclass(frozen=True)
class DrafterConfig:
    """What a drafter's shape and its norms are.

    Attributes:
        hidden_size: H, the drafter's own width.
        target_hidden_size: the width of one tap; the same as H in most drafters.
        norm_before_fc: one RMS norm over the whole concatenated input (weights ``input_norm``).
        fc_norm: one RMS norm for each slot (weights ``fc_norm.<slot>``).
        norm_output: the state after the final norm is handed to the next draft step, not the one before it.
        norm_before_residual: the residual starts after ``hidden_norm``, not before it.
        aux_layer_ids: as stored, in the unit of whoever wrote them; None where none are.
    """

    hidden_size: int
    target_hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_eps: float
    rope: Rope
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_residual: bool = False
    aux_layer_ids: tuple[int, ...] | None = None


def read_json(folder: Path) -> dict[str, Any]:
    """A model folder's config.json.

    Raises:
        UsageError: ``WB-MODEL-CONFIG``.
    """
    file = folder / "config.json"
    if not file.is_file():
        raise no_model(folder)
    try:
        raw = json.loads(file.read_text())
        if not isinstance(raw, dict):
            raise ValueError(f"it holds a {type(raw).__name__}")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise unreadable(file, why(error)) from error
    return raw


def read_config(folder: Path) -> DrafterConfig:
    """The configuration of the drafter in a folder.

    Raises:
        UsageError: ``WB-MODEL-CONFIG`` where it cannot be read, ``WB-DRAFT-UNSUPPORTED`` where it asks for something
            that this drafter does not compute.
    """
    raw = read_json(folder)
    # speculators nests the decoder's part; eagle_config is where SGLang and NVIDIA's checkpoints keep theirs.
    layer: dict[str, Any] = {**raw, **(raw.get("transformer_layer_config") or {})}
    eagle: dict[str, Any] = {**raw, **(raw.get("eagle_config") or {})}
    try:
        hidden, heads = int(layer["hidden_size"]), int(layer["num_attention_heads"])
        head_dim = int(layer.get("head_dim") or hidden // heads)
        ids = eagle.get("eagle_aux_hidden_state_layer_ids")
        config = DrafterConfig(
            hidden_size=hidden,
            target_hidden_size=int(raw.get("target_hidden_size") or hidden),
            num_heads=heads,
            num_kv_heads=int(layer.get("num_key_value_heads") or heads),
            head_dim=head_dim,
            rms_eps=float(layer["rms_norm_eps"]),
            rope=read_rope(layer, head_dim),
            norm_before_fc=bool(eagle.get("norm_before_fc", False)),
            fc_norm=bool(raw.get("fc_norm") or raw.get("use_aux_norm")),
            norm_output=bool(eagle.get("norm_output", False)),
            norm_before_residual=bool(eagle.get("norm_before_residual", False)),
            aux_layer_ids=None if ids is None else tuple(int(i) for i in ids),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(folder / "config.json", f"{type(error).__name__}: {error}") from error
    refuse(folder, layer, config)
    return config


def read_rope(layer: dict[str, Any], head_dim: int) -> Rope:
    scaling = dict(layer.get("rope_parameters") or layer.get("rope_scaling") or {})
    return Rope(
        theta=float(scaling.pop("rope_theta", None) or layer.get("rope_theta") or 10000.0),
        dim=int(head_dim * float(layer.get("partial_rotary_factor") or 1)),
        kind=str(scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"),
        parameters=tuple(sorted((k, float(v)) for k, v in scaling.items() if isinstance(v, int | float))),
        neox=bool(layer.get("rope_is_neox_style", True)),
        original_positions=int(
            scaling.get("original_max_position_embeddings")
            or layer.get("original_max_position_embeddings")
            or layer.get("max_position_embeddings")
            or 8192
        ),
    )


def refuse(folder: Path, layer: dict[str, Any], config: DrafterConfig) -> None:
    """Say what this drafter would compute wrongly, instead of computing it."""
    wrong = [
        f"{key} = {met!r}"
        for key, met, right in (
            ("hidden_act", layer.get("hidden_act", "silu"), ("silu",)),
            ("num_hidden_layers", layer.get("num_hidden_layers", 1), (1,)),
            ("rope_type", config.rope.kind, KINDS),
        )
        if met not in right
    ]
    if wrong:
        raise UsageError(
            "WB-DRAFT-UNSUPPORTED",
            f"the drafter in {folder} has {', '.join(wrong)}",
            expected=f"an EAGLE-3 drafter of one llama layer: silu, rope of kind {', '.join(KINDS)}",
            next="replay cannot follow this drafter; measure it on a server: workbook serve BOX PROFILE",
        )


def no_model(folder: Path) -> UsageError:
    # No one kind is wanted here: drafter and target both have a config.json.
    return UsageError(
        "WB-MODEL-CONFIG",
        met(folder, "folder", "no config.json"),
        expected="a model's folder with config.json and *.safetensors",
        next=way_out(folder, "folder", f"ls {as_typed(folder)}"),
    )


def unreadable(file: Path, why: str) -> UsageError:
    return UsageError(
        "WB-MODEL-CONFIG",
        f"{file} does not describe a model: {why}",
        expected="hidden_size, num_attention_heads, rms_norm_eps (speculators: in transformer_layer_config)",
        next=f"ls {as_typed(file.parent)}",
    )
