"""SGLang's own two dumps: folders of passes and ranks, told by the names of their files.

- the dumper: ``forward_pass_id=3___rank=0___dump_index=7___name=hidden_states___layer_id=2.pt`` (0.5.9) or
  ``step=...___rank=...___dump_index=...___name=....pt`` (0.5.23), each the tensor or ``{"value", "meta"}``;
- the tensor dump: ``TP0_PP0_Rank0_pid77/Pass00000.pt``, each a dict of module -> tensor of that rank.

A sample is what one pass computed of one request from its first token. Slots are the taps that were dumped, each once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.dumps.loading import load_tensors
from helpers.tensors.dumps.sample import States
from helpers.tensors.dumps.shapes import describe, refuse

DUMPER, TENSOR_DUMP = "sglang-dumper", "sglang-tensor-dump"
PASS = re.compile(r"Pass(\d+)\.pt")
RANK = re.compile(r"TP(\d+)_PP(\d+)_Rank(\d+)_pid\d+")
NO_TOKENS = "no token ids were dumped, so its rows cannot be aligned with any text"


@dataclass(frozen=True)
class Pass:
    """One forward pass: the files of each rank, in the order in which they were written."""

    number: int
    ranks: dict[int, tuple[Path, ...]]


def tags(path: Path) -> dict[str, str]:
    """The tags in a dumper's file name; empty where it is none."""
    parts = [part.partition("=") for part in path.name.removesuffix(".pt").split("___")]
    found = {key: value for key, equals, value in parts if equals}
    has_pass = "forward_pass_id" in found or "step" in found
    return found if has_pass and {"rank", "name"} <= found.keys() else {}


def passes(files: Sequence[Path]) -> tuple[str, list[Pass]] | None:
    """The format and the passes of a folder's files; None where they are SGLang's neither way."""
    grouped: dict[int, dict[int, list[Path]]] = {}
    named = [(file, tags(file)) for file in files]
    if any(found for _, found in named):
        for file, found in sorted(named, key=lambda pair: int(pair[1].get("dump_index", 0))):
            if found:
                number = int(found.get("forward_pass_id") or found["step"])
                grouped.setdefault(number, {}).setdefault(int(found["rank"]), []).append(file)
        kind = DUMPER
    else:
        for file in files:
            name, rank = PASS.fullmatch(file.name), RANK.fullmatch(file.parent.name)
            if name and rank:
                grouped.setdefault(int(name[1]), {}).setdefault(int(rank[3]), []).append(file)
        kind = TENSOR_DUMP
    if not grouped:
        return None
    found_passes = [Pass(n, {r: tuple(v) for r, v in sorted(ranks.items())}) for n, ranks in sorted(grouped.items())]
    every = {rank for one in found_passes for rank in one.ranks}
    for one in found_passes:
        lacking = sorted(set(range(max(every) + 1)) - one.ranks.keys())
        if lacking:
            where = next(iter(one.ranks.values()))[0].parent
            raise UsageError(
                "WB-DUMP-RANK-MISSING",
                f"{where}: pass {one.number} has no file of rank {lacking[0]}; there are ranks {sorted(one.ranks)}",
                expected=f"the files of ranks 0 to {max(every)} for each pass",
                next="copy the folder again from the box, with all its ranks",
            )
    return kind, found_passes


def read(kind: str, one: Pass, rank: int = 0) -> list[States]:
    """The requests of a pass that start with it, as one rank holds them; none in a pass that only decodes."""
    files = one.ranks[rank]
    named = read_dumper(files) if kind == DUMPER else read_modules(files[0])
    return split(files[0], named)


@dataclass(frozen=True)
class Named:
    """What a pass holds: tokens, positions, and the taps with their boundaries where the names tell them."""

    tokens: Tensor | None
    positions: Tensor | None
    taps: dict[str, Tensor]
    boundaries: tuple[int, ...] | None
    verifier: Tensor | None = None


def read_dumper(files: Sequence[Path]) -> Named:
    tensors: dict[str, Tensor] = {}
    layers: dict[str, int] = {}
    for file in files:
        value = load_tensors(file)
        if isinstance(value, dict) and "value" in value:
            value = value["value"]
        if isinstance(value, Tensor):
            found = tags(file)
            key = "___".join(v for k, v in found.items() if k not in ("rank", "dump_index", "forward_pass_id", "step"))
            tensors[key] = value
            if found.get("layer_id", "").isdigit():
                layers[key] = int(found["layer_id"])
    ids = next((t for k, t in tensors.items() if k.split("___")[0].split(".")[-1] in ("input_ids", "token_ids")), None)
    positions = next((t for k, t in tensors.items() if k.split("___")[0].split(".")[-1] == "positions"), None)
    taps = features(tensors)
    ordered = {name: taps[name] for name in sorted(taps, key=lambda name: layers.get(name, -1))}
    known = tuple(layers[name] for name in ordered if name in layers)
    return Named(ids, positions, ordered, known if len(known) == len(ordered) > 0 else None)


def features(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors [tokens, hidden] of the commonest shape; a fused one [tokens, K * hidden] goes before its parts."""
    wide = {k: t for k, t in tensors.items() if t.dim() == 2 and t.is_floating_point()}
    if not wide:
        return {}
    fused = {k: t for k, t in wide.items() if "aux_hidden_state" in k}
    plain = {k: t for k, t in wide.items() if k not in fused}
    shapes = [tuple(t.shape) for t in plain.values()]
    common = max(shapes, key=lambda shape: (shapes.count(shape), shape)) if shapes else None
    if len(fused) == 1:
        ((name, whole),) = fused.items()
        hidden = common[1] if common and whole.shape[1] % common[1] == 0 else whole.shape[1]
        return {f"{name}[{i}]": part for i, part in enumerate(torch.split(whole, hidden, dim=1))}
    return {k: t for k, t in wide.items() if tuple(t.shape) == common}


def read_modules(file: Path) -> Named:
    """A tensor dump: the residual that enters layer i comes out beside its input_layernorm's result."""
    data = load_tensors(file)
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise refuse(file, f"a {type(data).__name__}", "a dict of module -> tensor (SGLang's tensor dump)")
    taps: dict[int, Tensor] = {}
    verifier: Tensor | None = None
    last = max((int(m[1]) for n in data if (m := re.search(r"\blayers\.(\d+)\.", n))), default=-1)
    for name, value in data.items():
        layer = re.search(r"\blayers\.(\d+)\.input_layernorm$", name)
        pair = isinstance(value, list) and len(value) == 2
        if name.endswith("embed_tokens") and isinstance(value, Tensor):
            taps[0] = value
        elif layer and pair:
            taps[int(layer[1])] = value[1]
        elif re.search(r"(^|\.)norm$", name):
            verifier = value[0] if pair else value if isinstance(value, Tensor) else None
            if pair:
                taps[last + 1] = value[1]
    ids, positions = (
        next((t for n, t in data.items() if n.endswith(f"forward_batch_info.{k}")), None)
        for k in ("input_ids", "positions")
    )
    if not taps:
        named = features({n: t for n, t in data.items() if isinstance(t, Tensor)})
        return Named(ids, positions, named, None)
    ordered = {f"boundary {b}": taps[b] for b in sorted(taps)}
    return Named(ids, positions, ordered, tuple(sorted(taps)), verifier)


def split(file: Path, named: Named) -> list[States]:
    """A pass cut into its requests; without positions it is one."""
    taps = list(named.taps.values())
    if not taps:
        raise refuse(file, "no tensor [tokens, hidden]", "at least one hidden state in each pass")
    if len({(*tap.shape, tap.dtype) for tap in taps}) > 1:
        raise refuse(file, f"taps {[describe(tap) for tap in taps][:6]}", "taps of one shape and dtype")
    if taps[0].dim() != 2 or not taps[0].is_floating_point() or taps[0].shape[1] == 0:
        raise refuse(file, f"taps {describe(taps[0])}", "taps [tokens, hidden] in a floating dtype")
    length = len(taps[0])
    tokens = named.tokens if named.tokens is not None else torch.full((length,), -1)
    positions = named.positions if named.positions is not None else torch.arange(length)
    if length == 0 or tokens.shape != (length,) or positions.shape != (length,):
        found = f"taps of {length} rows, token ids {describe(named.tokens)}, positions {describe(named.positions)}"
        raise refuse(file, found, "a row for each token, at least one")
    starts = [0, *(i for i in range(1, length) if int(positions[i]) != int(positions[i - 1]) + 1), length]
    verifier = named.verifier if isinstance(named.verifier, Tensor) and len(named.verifier) == length else None
    return [
        States(
            tokens[a:b],
            [tap[a:b] for tap in taps],
            None if verifier is None else verifier[a:b],
            None,
            named.boundaries,
        )
        for a, b in pairwise(starts)
        if int(positions[a]) == 0
    ]


def all_ranks(kind: str, one: Pass) -> list[Any]:
    """The stacked taps [T, K, H] of a pass's first request, for each rank."""
    return [found[0].rows(slice(None)) if (found := read(kind, one, rank)) else None for rank in one.ranks]
