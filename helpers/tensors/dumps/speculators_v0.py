"""speculators, data format v0: ``*.pt`` with hidden_state [L, K*H] (the slots) and target [L, H] (the verifier's)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.tensors.dumps.sample import States
from helpers.tensors.dumps.shapes import cut, mask_of, states_of, tokens_of

NAME = "speculators-v0"
NORMED_VERIFIER: bool | None = None


def matches(data: dict[str, Any]) -> bool:
    return "hidden_state" in data and "target" in data


def read(path: Path, data: dict[str, Any]) -> States:
    tokens = tokens_of(path, data)
    last = states_of(path, data, "target", len(tokens))
    slots = states_of(path, data, "hidden_state", len(tokens))
    return States(tokens, cut(path, "hidden_state", slots, last.shape[1]), last, mask_of(path, data, len(tokens)))
