"""Texts that a small drafter wrote for itself, and what a server that verifies them would count, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import drafters
import streams
import torch
from torch import Tensor

from helpers.tensors.capture import read_capture
from helpers.wiring.drafter import Drafter, Target, load_drafter, load_target
from helpers.wiring.replay.taps import Source

H, PROMPT, NEW = streams.HIDDEN, 6, 22


@dataclass
class World:
    folder: Path
    texts: list[Tensor]
    target: Target
    drafter: Drafter
    naive: drafters.Naive

    def source(self, change: Callable[[streams.Served], None] = lambda _: None) -> Source:
        made = streams.served(self.texts)
        for request in made.info["requests"]:
            request["prompt_tokens"] = PROMPT
        change(made)
        return Source(read_capture(made.write(self.folder / "capture")))

    def taps(self, text: Tensor, wiring: tuple[int, ...]) -> list[list[Tensor]]:
        ladder = streams.stream(text)
        return [[ladder[b][row] for b in wiring] for row in range(len(text))]

    def rounds(self, text: Tensor, wiring: tuple[int, ...], new_tokens: int) -> list[int]:
        """The server's histogram of a request that ended after so many new tokens."""
        taps, histogram, verified = self.taps(text, wiring), [0] * 4, PROMPT
        while verified < PROMPT + new_tokens - 1:
            drafts = [guess for guess, _ in self.naive.drafts(text.tolist(), taps, verified, 3)]
            accepted = 0
            while accepted < 3 and drafts[accepted] == int(text[verified + 1 + accepted]):
                accepted += 1
            histogram[accepted] += 1
            verified += accepted + 1
        return histogram


def write_text(naive: drafters.Naive, seed: int) -> Tensor:
    """A text that the drafter often guesses right when it is fed the boundaries 2, 5 and 9."""
    g = torch.Generator().manual_seed(seed)
    text = torch.randint(0, drafters.VOCABULARY, (PROMPT + 1,), generator=g)
    while len(text) < PROMPT + NEW:
        ladder = streams.stream(text)
        taps = [[ladder[b][row] for b in streams.TAPS] for row in range(len(text))]
        follows = torch.tensor([guess for guess, _ in naive.drafts(text.tolist(), taps, len(text) - 1, 3)])
        follows = follows[: int(torch.randint(0, 4, (1,), generator=g))]
        wrong = torch.randint(0, drafters.VOCABULARY, (1,), generator=g)
        text = torch.cat([text, follows, wrong])
    return text[: PROMPT + NEW]


def write_world(folder: Path) -> World:
    target = load_target(drafters.write_target(folder / "target", H))
    tensors, config = drafters.weights(H, 3, H), drafters.config(H)
    drafter = load_drafter(drafters.write_drafter(folder / "draft", tensors, config), target)
    naive = drafters.Naive(tensors, config, target.embedding())
    return World(folder, [write_text(naive, seed) for seed in (1, 2, 3)], target, drafter, naive)
