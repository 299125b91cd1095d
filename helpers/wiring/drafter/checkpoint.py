"""A drafter's checkpoint: whichever names its writer gave, every tensor is put in its place or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from helpers.errors import UsageError
from helpers.screen import as_typed
from helpers.tensors.header import Entry, read_header
from helpers.tensors.places import met, way_out
from helpers.wiring.drafter.config import DrafterConfig, read_config
from helpers.wiring.drafter.model import Drafter, LayerWeights
from helpers.wiring.drafter.target import Target

# SpecForge and SGLang call the layer midlayer, speculators layers.0; three slot norms have old names of their own.
RENAMED = (
    (r"^model\.", ""),
    (r"^midlayer\.|^layers\.0\.", "layer."),
    (r"^aux_norm_low\.", "fc_norm.0."),
    (r"^aux_norm_mid\.", "fc_norm.1."),
    (r"^aux_norm_high\.", "fc_norm.2."),
)
# Of no use here: the inverse of d2t, tables that are worked out anew, and speculators' copies of the target's tensors.
UNUSED = re.compile(r"^(t2d|embed_tokens\.weight|verifier_.*|.*rotary_emb\.inv_freq)$")
LAYER = {
    "input_norm": "input_layernorm.weight",
    "hidden_norm": "hidden_norm.weight",
    "post_norm": "post_attention_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}
BIASES = {name: LAYER[name].replace("weight", "bias") for name in "qkvo"}


def plain_name(name: str) -> str:
    """A tensor's name without its writer's habits.

    >>> plain_name("model.midlayer.mlp.up_proj.weight"), plain_name("layers.0.mlp.up_proj.weight")
    ('layer.mlp.up_proj.weight', 'layer.mlp.up_proj.weight')
    """
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def load_drafter(folder: Path, target: Target, *, dtype: torch.dtype = torch.float32) -> Drafter:
    """The drafter of a folder, its weights in `dtype`.

    Args:
        target: lends its embedding, and its head where the drafter has none.

    Raises:
        UsageError: ``WB-DRAFT-WEIGHTS`` for a tensor that is missing, unknown or of another shape than config.json
            says; ``WB-DRAFT-FC``, ``WB-DRAFT-UNSUPPORTED``, ``WB-MODEL-CONFIG``; ``WB-TENSORS-...`` for broken files.
    """
    config = read_config(folder)
    entries = find_tensors(folder)
    shapes = {plain_name(name): entry.shape for name, (_, entry) in entries.items()}
    slots = check(folder, config, shapes, target)
    weights = {
        plain_name(name): read(path, name)
        for name, (path, _) in entries.items()
        if not UNUSED.match(plain_name(name)) or (plain_name(name) == "embed_tokens.weight")
    }
    own = weights.pop("embed_tokens.weight", None)
    embedding = target.embedding().to(dtype)
    notes = []
    if own is not None and not torch.equal(own.to(dtype), embedding):
        notes.append("the drafter's own embed_tokens differs from the target's, which is used: servers share it")

    def get(name: str) -> Tensor:
        return weights[name].to(dtype)

    head = get("lm_head.weight") if "lm_head.weight" in weights else target.head().to(dtype)
    offsets = weights.get("d2t")
    to_target = torch.arange(len(head))
    return Drafter(
        config=config,
        fc=get("fc.weight"),
        fc_bias=get("fc.bias") if "fc.bias" in weights else None,
        layer=LayerWeights(
            **{field: get(f"layer.{name}") for field, name in LAYER.items()},
            biases={field: get(f"layer.{name}") for field, name in BIASES.items() if f"layer.{name}" in weights},
        ),
        norm=get("norm.weight"),
        head=head,
        embedding=embedding,
        to_target=to_target if offsets is None else to_target + offsets.long(),
        input_norm=get("input_norm.weight") if config.norm_before_fc else None,
        slot_norms=tuple(get(f"fc_norm.{i}.weight") for i in range(slots)) if config.fc_norm else None,
        notes=tuple(notes),
    )


def find_tensors(folder: Path) -> dict[str, tuple[Path, Entry]]:
    """Every tensor of a folder's safetensors files, by its name there."""
    return {
        name: (path, entry)
        for path in sorted(folder.glob("*.safetensors"))
        for name, entry in read_header(path).items()
    }


def read(path: Path, name: str) -> Tensor:
    with safe_open(path, framework="pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def check(folder: Path, config: DrafterConfig, shapes: dict[str, tuple[int, ...]], target: Target) -> int:
    """Hold names and shapes against the configuration; gives the number of slots."""
    hidden, tap = config.hidden_size, config.target_hidden_size
    fc = shapes.get("fc.weight", ())
    if len(fc) != 2 or fc[0] != hidden or fc[1] % tap or fc[1] == 0:
        raise UsageError(
            "WB-DRAFT-FC",
            met(folder, "drafter", f"an fc.weight of {list(fc)}" if fc else "no fc.weight"),
            expected=f"fc.weight [{hidden}, K * {tap}], as EAGLE-3 drafters have",
            next=way_out(folder, "drafter", f"ls {as_typed(folder)}"),
        )
    slots = fc[1] // tap
    needed = expected_shapes(config, slots, shapes, target)
    optional = {"fc.bias": (hidden,), **{f"layer.{name}": None for name in BIASES.values()}, "d2t": shapes.get("d2t")}
    problems = []
    if target.hidden_size != hidden:
        problems.append(
            f"hidden_size is {hidden}, and the target's embedding, which it shares, {target.hidden_size} wide"
        )
    problems += [
        f"{name} is {'missing' if name not in shapes else list(shapes[name])}, not {list(shape)}"
        for name, shape in needed.items()
        if shapes.get(name) != shape
    ]
    known: Callable[[str], bool] = lambda name: name in needed or name in optional or bool(UNUSED.match(name))  # noqa: E731
    problems += [
        f"{name} {list(shape)} has no place in this drafter" for name, shape in shapes.items() if not known(name)
    ]
    if problems:
        raise UsageError(
            "WB-DRAFT-WEIGHTS",
            f"{folder}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""),
            expected="the tensors of one EAGLE-3 llama layer, as config.json describes it",
            next="a drafter of another architecture can only be measured on a server: workbook serve BOX PROFILE",
        )
    return slots


def expected_shapes(
    config: DrafterConfig, slots: int, shapes: dict[str, tuple[int, ...]], target: Target
) -> dict[str, tuple[int, ...]]:
    hidden, tap = config.hidden_size, config.target_hidden_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    inner = (shapes.get("layer.mlp.up_proj.weight") or (0,))[0]
    vocabulary = (shapes.get("lm_head.weight") or (target.vocab_size,))[0]
    linear: dict[str, tuple[int, ...]] = {
        "q": (q, 2 * hidden),
        "k": (kv, 2 * hidden),
        "v": (kv, 2 * hidden),
        "o": (hidden, q),
    }
    linear |= {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    needed = {f"layer.{name}": linear.get(field, (hidden,)) for field, name in LAYER.items()}
    needed |= {"fc.weight": (hidden, slots * tap), "norm.weight": (hidden,)}
    # A head of its own may be missing: then the target's serves, over the target's whole vocabulary.
    if "lm_head.weight" in shapes:
        needed["lm_head.weight"] = (vocabulary, hidden)
    if "d2t" in shapes or vocabulary != target.vocab_size:
        needed["d2t"] = (vocabulary,)
    if config.norm_before_fc:
        needed["input_norm.weight"] = (slots * tap,)
    if config.fc_norm:
        needed |= {f"fc_norm.{i}.weight": (tap,) for i in range(slots)}
    return needed
