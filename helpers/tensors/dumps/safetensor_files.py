"""Safetensors: ``hs_{i}.safetensors`` of speculators [L, K+1, H], ``{request}.safetensors`` of vLLM [L, K, H].

Both hold hidden_states and token_ids and nothing that tells them apart. The name does where it is ``hs_*``; else the
number of slots that the other side has does; else only a person can (``--format``).
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open

from helpers.errors import UsageError
from helpers.screen import as_typed
from helpers.tensors.dumps.sample import States
from helpers.tensors.dumps.shapes import refuse
from helpers.tensors.header import read_header
from helpers.tensors.places import listed, way_out

SPECULATORS, VLLM = "speculators", "vllm"


def which(path: Path, slots: int | None) -> str:
    """The format of a file with these keys.

    Args:
        path: of the file.
        slots: K of the served feed or of the drafter, where it is known.
    """
    header = read_header(path)
    if not {"hidden_states", "token_ids"} <= header.keys():
        raise UsageError(
            "WB-DUMP-FOREIGN",
            f"{path} holds {listed(header)}",
            expected="hidden_states and token_ids (speculators, vLLM)",
            next=way_out(path.parent, "dump", f"ls {as_typed(path.parent)}"),
        )
    if path.name.startswith("hs_"):
        return SPECULATORS
    shape = header["hidden_states"].shape
    states = shape[1] if len(shape) == 3 else -1
    if slots is not None and states in (slots, slots + 1):
        return VLLM if states == slots else SPECULATORS
    raise UsageError(
        "WB-DUMP-AMBIGUOUS",
        f"{path} holds hidden_states {list(shape)}: {states} slots (vLLM), or {states - 1} and the verifier's state "
        "(speculators)",
        expected="a name hs_*.safetensors, or a known number of slots",
        next=f"--format {VLLM} or --format {SPECULATORS}",
    )


def read(path: Path, *, verifier: bool) -> States:
    """One sample; with ``verifier`` the last of its states is the verifier's."""
    header = read_header(path)
    entry, ids, mask = (header.get(key) for key in ("hidden_states", "token_ids", "loss_mask"))
    least = 2 if verifier else 1
    if (
        entry is None
        or len(entry.shape) != 3
        or min(entry.shape[1] - least, entry.shape[2] - 1) < 0
        or not entry.dtype.is_floating_point
    ):
        found = "no hidden_states" if entry is None else f"hidden_states {entry.dtype} {list(entry.shape)}"
        raise refuse(path, found, f"hidden_states [tokens, {least} or more, hidden], floating point")
    fits = ids is not None and ids.shape == entry.shape[:1] and ids.shape[0] > 0 and not ids.dtype.is_floating_point
    if not fits or (mask is not None and mask.shape != entry.shape[:1]):
        found = f"hidden_states {list(entry.shape)}, token_ids {ids and list(ids.shape)}"
        raise refuse(path, f"{found}, loss_mask {mask and list(mask.shape)}", "a row for each token, at least one")
    with safe_open(path, framework="pt") as file:
        states: torch.Tensor = file.get_tensor("hidden_states")
        tokens: torch.Tensor = file.get_tensor("token_ids")
        loss: torch.Tensor | None = file.get_tensor("loss_mask") if mask is not None else None
    if verifier:
        return States(tokens, states[:, :-1], states[:, -1], loss)
    return States(tokens, states, None, loss)
