"""Feeds that are right, and drafters whose fc wants their blocks as they are fed or in another order.

`lab`: the lab's drafter on its own training dump, whose states make the feed; no ladder. `synthetic`: a drafter of
random weights on synthetic streams, and a target that by and large says what this drafter says; with a ladder or none.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from pathlib import Path

import drafters
import streams
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from helpers.paths import DATA
from helpers.tensors.dumps import read_dump
from helpers.wiring.drafter import chain, load_drafter, load_target

LAB, H = DATA / "lab", streams.HIDDEN
TEXTS = 8
# Which of the other orders: all but the one that is fed.
OTHERS = [order for order in permutations(range(3)) if order != (0, 1, 2)]


@dataclass
class World:
    """A clean capture in which the feed is right, and the drafter and target that belong to it."""

    folder: Path
    choose: random.Random
    served: streams.Served
    dump: Path
    drafter: Path
    target: Path
    order: tuple[int, ...] = (0, 1, 2)  # what fc wants, once it was permuted
    written: int = field(default=0)

    def permute_fc(self) -> None:
        """Block i of fc becomes the one that was trained on slot ``order[i]``."""
        self.order = self.choose.choice(OTHERS)
        self.change_drafter(lambda fc: torch.cat([fc.chunk(3, dim=1)[slot] for slot in self.order], dim=1))

    def permute_feed(self) -> None:
        order = self.choose.choice(OTHERS)
        for rank in self.served.ranks:
            blocks = rank["feed"].chunk(3, dim=1)
            rank["feed"] = torch.cat([blocks[slot] for slot in order], dim=1)

    def untrain(self) -> None:
        """A drafter whose fc was never trained."""
        generator = torch.Generator().manual_seed(self.choose.randrange(1 << 30))
        self.change_drafter(lambda fc: torch.randn(fc.shape, generator=generator) / fc.shape[1] ** 0.5)

    def drop_a_row(self) -> None:
        rank, row = self.served.ranks[0], self.choose.randrange(12, 16)
        keep = torch.arange(len(rank["feed"])) != row
        rows = rank.get("feed_rows", torch.arange(len(rank["feed"])))
        rank["feed"], rank["feed_rows"] = rank["feed"][keep], rows[keep]

    def keep_requests(self, count: int) -> None:
        """As if only so many had been sent."""
        del self.served.info["requests"][count:]
        for rank in self.served.ranks:
            rows = int((rank["request"] < count).sum())
            fed = rank["feed_rows"] < rows
            rank |= {n: x[fed] if n.startswith("feed") else x[:rows] for n, x in rank.items()}

    def change_drafter(self, edit: Callable[[Tensor], Tensor]) -> None:
        folder = self.folder / "drafter"
        shutil.copytree(self.drafter, folder)
        tensors = load_file(folder / "model.safetensors")
        tensors["fc.weight"] = edit(tensors["fc.weight"]).contiguous()
        save_file(tensors, folder / "model.safetensors")
        self.drafter = folder


@cache
def lab_samples() -> list[tuple[Tensor, Tensor, Tensor]]:
    """(token ids, slots, last state) of the lab's dump."""
    found = []
    for sample in read_dump(LAB / "dump"):
        assert sample.verifier is not None
        found.append((sample.token_ids, sample.slots, sample.verifier))
    return found


def lab(seed: int, folder: Path) -> World:
    choose = random.Random(seed)
    samples = [lab_samples()[i] for i in choose.sample(range(12), TEXTS)]
    texts = [tokens[: choose.randrange(24, 44)] for tokens, _, _ in samples]
    slots = [x[: len(text)].float() for text, (_, x, _) in zip(texts, samples, strict=True)]
    last = [x[: len(text)].float() for text, (_, _, x) in zip(texts, samples, strict=True)]
    return world(folder, choose, texts, slots, {"boundary.010": torch.cat(last)}, LAB / "drafter", LAB / "target")


def synthetic(seed: int, folder: Path) -> World:
    choose = random.Random(seed)
    texts = streams.texts(TEXTS, length=18, seed=seed + 7)
    ladders = [streams.stream(text, seed) for text in texts]
    slots = [torch.stack([ladder[b] for b in streams.TAPS], dim=1) for ladder in ladders]
    tensors, target = drafters.weights(H, 3, H, seed=seed), folder / "target"
    for block in tensors["fc.weight"].chunk(3, dim=1):
        block[:, [3, 17]] = 0  # what training makes of channels that say nothing
    draft = drafters.write_drafter(folder / "clean-drafter", tensors, drafters.config(H))
    drafters.write_target(target, H, seed=seed)
    drafter = load_drafter(draft, load_target(target))
    whole = load_file(target / "model.safetensors")
    whole["lm_head.weight"][drafter.to_target] = drafter.head
    save_file(whole, target / "model.safetensors")
    generator = torch.Generator().manual_seed(seed)
    normed = []
    for text, x in zip(texts, slots, strict=True):
        step = next(chain(drafter, text[None, 1:], drafter.fuse(x[None, :-1].flatten(2)), 1))
        said = drafter.rms(step.state[0], drafter.norm)  # row j is about the token after j + 1
        said = torch.cat([torch.randn(1, H, generator=generator), said])
        normed.append(said + 0.5 * said.std() * torch.randn(said.shape, generator=generator))
    more = {"normed": torch.cat(normed)}
    if seed % 2:  # every other capture has its ladder
        more |= {f"boundary.{b:03d}": torch.cat([ladder[b] for ladder in ladders]) for b in range(streams.LAYERS + 1)}
    return world(folder, choose, texts, slots, more, draft, target)


SOURCES: dict[str, Callable[[int, Path], World]] = {"synthetic": synthetic, "lab": lab}


def world(
    folder: Path,
    choose: random.Random,
    texts: list[Tensor],
    slots: list[Tensor],
    more: dict[str, Tensor],
    drafter: Path,
    target: Path,
) -> World:
    ladders = [[x[:, 0]] * (streams.LAYERS + 1) for x in slots]
    served = streams.served_ladders(texts, ladders)
    rank = {k: v for k, v in served.ranks[0].items() if not k.startswith("boundary")} | more
    rank["feed"] = torch.cat(slots).flatten(1)[rank["feed_rows"]]
    served.ranks = [rank]
    dump = folder / "dump"
    dump.mkdir()
    for i, (text, x) in enumerate(zip(texts, slots, strict=True)):
        states = torch.cat([x, x[:, :1]], dim=1).bfloat16()  # no verifier's state is asked of it
        save_file({"hidden_states": states, "token_ids": text}, dump / f"hs_{i}.safetensors")
    return World(folder, choose, served, dump, drafter, target)


CASES: dict[str, tuple[Callable[[World], None], frozenset[str]]] = {
    "right": (lambda world: None, frozenset({"features-match"})),
    "fc permuted": (World.permute_fc, frozenset({"fc-order"})),
    "feed permuted": (World.permute_feed, frozenset({"slot-permuted"})),
    "untrained": (World.untrain, frozenset({"features-match"})),
    "fc permuted, a row missing": (
        lambda w: (w.permute_fc(), w.drop_a_row())[1],
        frozenset({"fc-order", "rows-missing"}),
    ),
}
