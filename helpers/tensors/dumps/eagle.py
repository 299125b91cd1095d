"""EAGLE's ge_data: ``{index}/data_{i}.ckpt`` with one state a token, hidden_state [L, H]: one slot, no verifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.tensors.dumps.sample import States
from helpers.tensors.dumps.shapes import mask_of, states_of, tokens_of

NAME = "eagle"
NORMED_VERIFIER: bool | None = None


def matches(data: dict[str, Any]) -> bool:
    return "hidden_state" in data and "input_ids" in data and not {"target", "aux_hidden_state"} & data.keys()


def read(path: Path, data: dict[str, Any]) -> States:
    tokens = tokens_of(path, data)
    state = states_of(path, data, "hidden_state", len(tokens))
    return States(tokens, state.unsqueeze(1), None, mask_of(path, data, len(tokens)))
