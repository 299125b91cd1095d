"""The faults of design.md's table, each put into clean data: what `test_selftest_matrix.py` runs the diagnosis on."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streams
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

FIXTURE = Path(__file__).parent / "fixtures" / "lab_ladder.safetensors"
TEXTS = 2
TAPS = (2, 5, 9)


@dataclass
class World:
    """Clean data of one source and seed: texts and their ladders, and how a fault may change what is served."""

    texts: list[Tensor]
    ladders: list[list[Tensor]]  # per text, per boundary [T, H]
    choose: random.Random
    feed: list[Tensor] = field(default_factory=list)  # per slot [rows, H]
    served: streams.Served = field(default_factory=lambda: streams.Served([]))
    ranks: int = 1
    keep: Tensor = field(default_factory=lambda: torch.empty(0))  # feed rows that are written

    @property
    def hidden(self) -> int:
        return self.ladders[0][0].shape[1]

    def tap(self, boundary: int) -> Tensor:
        return torch.cat([ladder[boundary] for ladder in self.ladders])

    def fresh(self) -> World:
        """The clean capture, to be spoilt."""
        self.served = streams.served_ladders(self.texts, self.ladders)
        self.keep = self.served.ranks[0]["feed_rows"]
        self.feed = [self.tap(b) for b in TAPS]
        self.ranks = 1
        return self

    def write(self, path: Path) -> Path:
        if self.ranks > 1 and len(self.served.ranks) == 1:
            first = self.served.ranks[0]
            self.served.ranks = [{k: v.clone() for k, v in first.items()} for _ in range(self.ranks)]
        self.served.info["tp_size"] = len(self.served.ranks)
        for rank in self.served.ranks:
            if rank.pop("own", None) is None:
                rank["feed"] = torch.cat(self.feed, dim=1)[self.keep]
                rank["feed_rows"] = self.keep
        return self.served.write(path)

    def dump(self, path: Path) -> Path:
        """As speculators writes it: bf16."""
        path.mkdir(parents=True, exist_ok=True)
        for i, (text, ladder) in enumerate(zip(self.texts, self.ladders, strict=True)):
            states = torch.stack([ladder[b] for b in (*TAPS, len(ladder) - 1)], dim=1).bfloat16()
            save_file({"hidden_states": states, "token_ids": text}, path / f"hs_{i}.safetensors")
        return path

    def noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=torch.Generator().manual_seed(self.choose.randrange(1 << 30)))


def synthetic(seed: int) -> World:
    texts = streams.texts(TEXTS, length=36, seed=seed + 7)
    return World(texts, [streams.stream(text, seed) for text in texts], random.Random(seed))


def lab(seed: int) -> World:
    """Other texts and lengths of the lab's ladder for each seed."""
    data, choose = load_file(FIXTURE), random.Random(seed)
    texts, ladders = [], []
    for number in choose.sample(range(4), TEXTS):
        rows = slice(44 * number, 44 * number + choose.randrange(30, 45))
        texts.append(data["token_ids"][rows])
        ladders.append([data[f"boundary.{b:03d}"][rows] for b in range(11)])
    return World(texts, ladders, choose)


SOURCES: dict[str, Callable[[int], World]] = {"synthetic": synthetic, "lab": lab}


def wired(*boundaries: int) -> Callable[[World], None]:
    def apply(world: World) -> None:
        world.feed = [world.tap(b) for b in boundaries]

    return apply


def offset(world: World) -> None:
    step = world.choose.choice([-1, 1])
    world.feed = [world.tap(b + step) for b in TAPS]


def permuted(world: World) -> None:
    order = world.choose.choice([(1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0)])
    world.feed = [world.feed[i] for i in order]


def duplicate(world: World) -> None:
    a, b = world.choose.sample(range(3), 2)
    world.feed[a] = world.feed[b]


def one_slot(edit: Callable[[World, int, Tensor], Tensor]) -> Callable[[World], None]:
    def apply(world: World) -> None:
        slot = world.choose.randrange(3)
        world.feed[slot] = edit(world, slot, world.feed[slot])

    return apply


def unmatched(world: World, slot: int, x: Tensor) -> Tensor:
    if world.choose.random() < 0.5:
        return world.noise(x) * x.std(dim=0) + x.mean(dim=0)
    return x + 0.7 * x.std(dim=0) * world.noise(x)


def shift(world: World) -> None:
    step = world.choose.choice([-2, -1, 1, 2])
    ends = torch.tensor([len(text) for text in world.texts])
    parts = [part.split(ends.tolist()) for part in world.feed]
    world.feed = [torch.cat([one.roll(-step, dims=0) for one in part]) for part in parts]


def missing(world: World) -> None:
    start = world.choose.randrange(3, 12)
    inside = torch.ones(len(world.keep), dtype=torch.bool)
    inside[start : start + world.choose.randrange(1, 8)] = False
    world.keep = world.keep[inside]


def tokens_differ(world: World) -> None:
    for rank in world.served.ranks:
        rank["token_ids"] = (rank["token_ids"] + 1 + world.choose.randrange(7)) % 1024


def partial_sum(world: World) -> None:
    """Both terms of each tap from a layer are there; the layer's own output is split over two ranks."""
    world.ranks = 2
    terms = world.choose.random() < 0.5
    clean = world.served.ranks[0]
    ranks: list[dict[str, Tensor]] = []
    share = {b: world.noise(world.tap(b)) for b in range(1, 11)}
    for rank in range(2):
        tensors = {k: v.clone() for k, v in clean.items()}
        for b in range(1, 11):
            out = world.tap(b) - world.tap(b - 1)
            spread = 0.5 * out.std() * share[b] * (1 if rank == 0 else -1)
            mine = out * (0.6 if rank == 0 else 0.4) + spread
            tensors[f"boundary.{b:03d}"] = world.tap(b - 1) + mine
            if terms:
                tensors[f"out.{b}"], tensors[f"residual.{b}"] = mine, world.tap(b - 1)
        tensors["feed"] = torch.cat([tensors[f"boundary.{b:03d}"] for b in TAPS], dim=1)[world.keep]
        tensors["own"] = torch.ones(1)
        ranks.append(tensors)
    world.served.ranks = ranks


def token_shard(world: World) -> None:
    """Rows are dealt to two ranks in turn, or cut within the first request (between two it would be no fault)."""
    clean = world.served.ranks[0]
    rows, cut = len(clean["token_ids"]), len(world.texts[0]) // 2
    deal = torch.arange(rows) % 2 if world.choose.random() < 0.5 else (torch.arange(rows) >= cut).long()
    fed = torch.zeros(rows, dtype=torch.bool)
    fed[world.keep] = True
    ranks = []
    for rank in range(2):
        mine = deal == rank
        tensors = {k: v[mine] for k, v in clean.items() if not k.startswith("feed")}
        tensors["feed"] = torch.cat(world.feed, dim=1)[mine & fed]
        tensors["feed_rows"] = (fed[mine]).nonzero().flatten()
        tensors["own"] = torch.ones(int(mine.sum()))
        ranks.append(tensors)
    world.served.ranks = ranks


def feature_shard(world: World) -> None:
    clean = world.served.ranks[0]
    size = world.choose.choice([2, 4])
    width = world.hidden // size
    ranks = []
    for rank in range(size):
        part = slice(rank * width, (rank + 1) * width)
        tensors = {k: v[:, part].contiguous() if k.startswith("boundary") else v for k, v in clean.items()}
        tensors["feed"] = torch.cat([x[:, part] for x in world.feed], dim=1)[world.keep]
        tensors["own"] = torch.ones(1)
        ranks.append(tensors)
    world.served.ranks = ranks


def own_output(world: World, slot: int, x: Tensor) -> Tensor:
    b = TAPS[slot]
    out = world.tap(b) - world.tap(b - 1)
    if world.choose.random() < 0.5:
        world.served.ranks[0][f"out.{b}"] = out * 0.8 + 0.2 * world.noise(out) * out.std()
        return world.served.ranks[0][f"out.{b}"]
    return out


def final_norm(world: World, slot: int, x: Tensor) -> Tensor:
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    if world.choose.random() < 0.5:
        return normed
    return normed * (1 + 0.5 * world.noise(x[:1]))


def scaled(world: World, slot: int, x: Tensor) -> Tensor:
    return x * world.choose.choice([0.5, 0.9, 0.99, 1.01, 1.02, 1.1, 2.5])


def rotated(world: World, slot: int, x: Tensor) -> Tensor:
    q, _ = torch.linalg.qr(world.noise(torch.empty(world.hidden, world.hidden)))
    return x @ q


def stale(world: World, slot: int, x: Tensor) -> Tensor:
    x, start = x.clone(), world.choose.randrange(4, 20)
    count = world.choose.randrange(2, 6)
    x[start : start + count] = 0 if world.choose.random() < 0.5 else x[start - 1].clone()
    return x


def non_finite(world: World, slot: int, x: Tensor) -> Tensor:
    x = x.clone()
    x[world.choose.randrange(20, 28), world.choose.randrange(8)] = world.choose.choice([float("nan"), float("inf")])
    return x


def one_channel(world: World, slot: int, x: Tensor) -> Tensor:
    """A constant on one channel, which no cosine shows; of an outlier channel it is a few percent."""
    x = x.clone()
    x[:, world.choose.randrange(world.hidden)] += world.choose.choice([-1.0, 1.0])
    return x


def graphs(world: World) -> None:
    """Of the captured server itself, or of the run that its profile is for."""
    where = world.choose.choice(["launch", "without_capture"])
    world.served.info[where] = {"cuda_graph": True}


def both(*faults: Callable[[World], None]) -> Callable[[World], None]:
    def apply(world: World) -> None:
        for fault in faults:
            fault(world)

    return apply


@dataclass(frozen=True)
class Case:
    """A fault, and the codes that hold of it: these and no others."""

    fault: Callable[[World], Any]
    codes: frozenset[str]


def case(fault: Callable[[World], Any], *codes: str) -> Case:
    return Case(fault, frozenset(codes))


CASES: dict[str, Case] = {
    "clean": case(lambda world: None, "features-match"),
    "embedding": case(wired(0, 5, 9), "slot-embedding"),
    "the case": case(wired(0, 2, 5), "slot-embedding", "slot-wrong"),
    "offset": case(offset, "slot-offset"),
    "permuted": case(permuted, "slot-permuted"),
    "duplicate": case(duplicate, "slot-duplicate"),
    "count": case(wired(2, 5), "slot-count"),
    "wrong": case(wired(2, 4, 9), "slot-wrong"),
    "unmatched": case(one_slot(unmatched), "slot-unmatched"),
    "one channel": case(one_slot(one_channel), "slot-unmatched"),
    "shift": case(shift, "token-shift"),
    "missing": case(missing, "rows-missing"),
    "other tokens": case(tokens_differ, "tokens-differ"),
    "partial sum": case(partial_sum, "rank-partial-sum"),
    "token shard": case(token_shard, "rank-token-shard"),
    "feature shard": case(feature_shard, "rank-feature-shard"),
    "own output": case(one_slot(own_output), "residual-omitted"),
    "normed": case(one_slot(final_norm), "final-norm-applied"),
    "scaled": case(one_slot(scaled), "scaled"),
    "rotated": case(one_slot(rotated), "rotated"),
    "stale": case(one_slot(stale), "stale-rows"),
    "non-finite": case(one_slot(non_finite), "non-finite"),
    "graphs": case(graphs, "captured-without-graphs", "features-match"),
    "offset and shift": case(both(offset, shift), "slot-offset", "token-shift"),
    "several": case(both(permuted, missing, one_slot(non_finite)), "slot-permuted", "rows-missing", "non-finite"),
}
CODES = sorted({code for one in CASES.values() for code in one.codes})
