"""SpecForge's offline features: ``rows_{g}-{g+2000}/data_{i}.ckpt[.gz]``, one sample a file.

``aux_hidden_state`` [1, L, K*H] are the slots, ``hidden_state`` [1, L, H] the target's state *after* its final norm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.tensors.dumps.sample import States
from helpers.tensors.dumps.shapes import cut, mask_of, states_of, tokens_of

NAME = "specforge"
NORMED_VERIFIER: bool | None = True


def matches(data: dict[str, Any]) -> bool:
    return "aux_hidden_state" in data


def read(path: Path, data: dict[str, Any]) -> States:
    tokens = tokens_of(path, data)
    last = states_of(path, data, "hidden_state", len(tokens))
    slots = states_of(path, data, "aux_hidden_state", len(tokens))
    return States(tokens, cut(path, "aux_hidden_state", slots, last.shape[1]), last, mask_of(path, data, len(tokens)))
