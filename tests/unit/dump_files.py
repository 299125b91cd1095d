"""Samples as each trainer and engine writes them, for the tests of the readers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor


def states(tokens: int, slots: int, hidden: int = 8, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Tensor:
    """K slots and the verifier's state, [tokens, K + 1, hidden]."""
    return torch.randn(tokens, slots + 1, hidden, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ids(tokens: int) -> Tensor:
    return torch.arange(tokens) + 5


def specforge(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    data = specforge_data(x) | change
    return saved(folder / "rows_0-2000" / f"data_{i}.ckpt", data)


def specforge_gz(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    path = folder / "rows_0-2000" / f"data_{i}.ckpt.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        torch.save(specforge_data(x) | change, file)
    return path


def specforge_data(x: Tensor) -> dict[str, Any]:
    aux = x[:, :-1].flatten(1).unsqueeze(0).clone()
    last = x[:, -1].unsqueeze(0).clone()
    return masked(x) | {"aux_hidden_state": aux, "hidden_state": last}


def masked(x: Tensor) -> dict[str, Any]:
    return {"input_ids": ids(len(x)), "loss_mask": torch.ones(len(x), dtype=torch.long)}


def speculators(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    return saved(folder / f"hs_{i}.safetensors", {"hidden_states": x.clone(), "token_ids": ids(len(x))} | change)


def speculators_v1(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    data = masked(x) | {"hidden_states": [part.clone() for part in x.unbind(1)]}
    return saved(folder / f"data_{i}.pt", data | change)


def speculators_v0(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    data = masked(x) | {"hidden_state": x[:, :-1].flatten(1).clone(), "target": x[:, -1].clone()}
    return saved(folder / f"data_{i}.pt", data | change)


def vllm(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    data = {"hidden_states": x[:, :-1].contiguous(), "token_ids": ids(len(x))} | change
    return saved(folder / f"cmpl-{i}a7f.safetensors", data)


def eagle(folder: Path, i: int, x: Tensor, **change: Any) -> Path:
    return saved(folder / str(i) / f"data_{i}.ckpt", masked(x) | {"hidden_state": x[:, 0].clone()} | change)


def dumper(folder: Path, i: int, x: Tensor, *, ranks: int = 1, old: bool = True, tokens: bool = True) -> Path:
    """Pass i: its token ids, positions and one file per slot and rank."""
    path = folder
    for rank in range(ranks):
        entries = {"input_ids": ids(len(x)), "positions": torch.arange(len(x))} if tokens else {}
        entries |= {f"layer_start__hidden_states___layer_id={k + 2}": part for k, part in enumerate(x.unbind(1))}
        for number, (name, tensor) in enumerate(entries.items()):
            head = "forward_pass_id" if old else "step"
            path = folder / f"{head}={i + 1}___rank={rank}___dump_index={number}___name={name}.pt"
            saved(path, tensor.clone() if old else {"value": tensor.clone(), "meta": {"rank": rank}})
    return path


def tensor_dump(folder: Path, i: int, x: Tensor, *, ranks: int = 1) -> Path:
    """Pass i: the embedding, the residual beside each layer's first norm, the final norm's two results."""
    path = folder
    for rank in range(ranks):
        parts = [part.clone() for part in x.unbind(1)]
        data: dict[str, Any] = {"model.embed_tokens": parts[0], "model.layers.0.input_layernorm": parts[0] * 0.1}
        data |= {f"model.layers.{k}.input_layernorm": [part * 0.1, part] for k, part in enumerate(parts[1:-1], start=1)}
        data |= {"model.norm": [parts[-1] * 0.1, parts[-1]]}
        data["model.forward_batch_info.input_ids"] = ids(len(x))
        data["model.forward_batch_info.positions"] = torch.arange(len(x))
        path = saved(folder / f"TP{rank}_PP0_Rank{rank}_pid77" / f"Pass{i:05d}.pt", data)
    return path


def saved(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        save_file(data, path)
    else:
        torch.save(data, path)
    return path


WRITERS: dict[str, Callable[..., Path]] = {
    "specforge": specforge,
    "specforge-gz": specforge_gz,
    "speculators": speculators,
    "speculators-v1": speculators_v1,
    "speculators-v0": speculators_v0,
    "vllm": vllm,
    "eagle": eagle,
}
