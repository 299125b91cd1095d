"""speculators, data format v1: ``*.pt`` with hidden_states, a list of K+1 tensors [L, H].

Training takes all but the last as the slots, and the last as the verifier's state, whatever was captured: a list of
three captures makes two slots and a wrong target, without a word. So three states are read so, and said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from helpers.tensors.dumps.sample import States
from helpers.tensors.dumps.shapes import describe, mask_of, refuse, tokens_of

NAME = "speculators-v1"
NORMED_VERIFIER: bool | None = False
THREE = (
    "each sample holds three states: speculators v1 takes the last as the verifier's own, which leaves two slots; "
    "were they three captures, no verifier's state was stored, and training had two slots and a wrong target"
)


def matches(data: dict[str, Any]) -> bool:
    return isinstance(data.get("hidden_states"), list) and "input_ids" in data


def read(path: Path, data: dict[str, Any]) -> States:
    tokens = tokens_of(path, data)
    states: list[Any] = data["hidden_states"]
    good = [s for s in states if isinstance(s, Tensor) and s.is_floating_point() and s.dim() == 2]
    fits = len(good) == len(states) >= 2 and len({(*s.shape, s.dtype) for s in good}) == 1
    if not fits or len(good[0]) != len(tokens) or good[0].shape[1] == 0:
        found = f"{len(tokens)} input_ids and hidden_states {[describe(s) for s in states]}"
        raise refuse(path, found, "two or more states [tokens, hidden] of one width and one floating dtype")
    return States(tokens, good[:-1], good[-1], mask_of(path, data, len(tokens)))


def warnings(states: States) -> tuple[str, ...]:
    return (THREE,) if states.shape[1] == 2 else ()
