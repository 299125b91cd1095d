"""Checks that all formats share: tokens, masks and states that fit each other, or an error that names the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from helpers.errors import UsageError


def refuse(path: Path, found: str, expected: str) -> UsageError:
    """The error of a file whose format is known and whose shapes do not fit."""
    return UsageError(
        "WB-DUMP-SHAPE",
        f"{path} has {found}",
        expected=expected,
        next="write the sample again; one with no tokens is to be left out",
    )


def tokens_of(path: Path, data: dict[str, Any], key: str = "input_ids") -> Tensor:
    """Token ids [T], at least one; a leading dimension of one is taken off."""
    ids = data.get(key)
    if isinstance(ids, Tensor) and ids.dim() == 2 and len(ids) == 1:
        ids = ids[0]
    if not isinstance(ids, Tensor) or ids.dim() != 1 or len(ids) < 1 or ids.is_floating_point():
        raise refuse(path, f"{key} {describe(ids)}", f"{key} [tokens], integers, at least one")
    return ids


def mask_of(path: Path, data: dict[str, Any], length: int) -> Tensor | None:
    """The loss mask [T], or None where there is none."""
    mask = data.get("loss_mask")
    if isinstance(mask, Tensor) and mask.dim() == 2 and len(mask) == 1:
        mask = mask[0]
    if mask is not None and (not isinstance(mask, Tensor) or tuple(mask.shape) != (length,)):
        raise refuse(path, f"{length} token ids and a loss_mask {describe(mask)}", f"a loss_mask [{length}]")
    return mask


def states_of(path: Path, data: dict[str, Any], key: str, length: int) -> Tensor:
    """States [T, W] in a floating dtype; a leading dimension of one is taken off."""
    states = data.get(key)
    if isinstance(states, Tensor) and states.dim() == 3 and len(states) == 1:
        states = states[0]
    good = isinstance(states, Tensor) and states.is_floating_point() and states.dim() == 2 and states.shape[1] > 0
    if not isinstance(states, Tensor) or not good or len(states) != length:
        raise refuse(
            path, f"{length} token ids and {key} {describe(states)}", f"{key} [{length}, width], floating point"
        )
    return states


def cut(path: Path, key: str, states: Tensor, hidden: int) -> Tensor:
    """[T, K * H] as [T, K, H], without a copy."""
    if states.shape[1] % hidden:
        found = f"{key} {describe(states)} beside states of width {hidden}"
        raise refuse(path, found, f"a width that is a multiple of {hidden}")
    return states.view(len(states), -1, hidden)


def describe(value: Any) -> str:
    """A tensor's dtype and shape, or what else it is."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return "that is missing" if value is None else f"that is a {type(value).__name__}"
