"""What a slot is given in a replay: a boundary of the captured ladder, what the server really fed, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from helpers.errors import UsageError
from helpers.tensors.align import feed_index
from helpers.tensors.capture import Capture, Rank
from helpers.wiring.drafter import Drafter


@dataclass(frozen=True)
class Tap:
    """One slot's source. ``index`` is the boundary, or the slot of the feed; of no meaning for zeros."""

    kind: Literal["boundary", "feed", "zeros"]
    index: int = 0

    def __str__(self) -> str:
        return {"boundary": str(self.index), "feed": f"feed[{self.index}]", "zeros": "zeros"}[self.kind]


Wiring = Sequence[Tap]
ZEROS = Tap("zeros")


def boundaries(numbers: Iterable[int]) -> tuple[Tap, ...]:
    """The wiring that taps these boundaries, in slot order.

    >>> [str(tap) for tap in boundaries([2, 5, 9])]
    ['2', '5', '9']
    """
    return tuple(Tap("boundary", number) for number in numbers)


@dataclass(frozen=True)
class Text:
    """A request of a capture: its tokens [T] in order, their rows from ``start`` on, and the prompt's length."""

    id: str
    tokens: Int64[Tensor, " T"]
    start: int
    prompt_tokens: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def rows(self) -> Int64[Tensor, " T"]:
        return torch.arange(self.start, self.start + len(self))


@dataclass(frozen=True)
class Source:
    """A capture as replay sees it (rank 0; ranks that differ are a finding of diagnose, not of replay)."""

    capture: Capture

    @property
    def rank(self) -> Rank:
        return self.capture.ranks[0]

    @property
    def hidden_size(self) -> int:
        return self.capture.info.model.hidden_size

    @cached_property
    def feed_rows(self) -> Int64[Tensor, " T"]:
        """The feed row of each row of the capture; -1 where it has none."""
        return feed_index(self.capture)

    @cached_property
    def texts(self) -> list[Text]:
        """The requests, those without a single generated token left out.

        Raises:
            UsageError: ``WB-REPLAY-ROWS`` where a request's rows do not start at its first token, or skip some.
        """
        texts = []
        for request in self.capture.info.requests:
            rows = slice(request.start, request.start + request.length)
            positions = self.rank.positions[rows]
            if not torch.equal(positions, torch.arange(request.length)):
                wrong = int((positions != torch.arange(request.length)).nonzero()[0])
                raise rows_missing(request.id, f"row {wrong} holds position {int(positions[wrong])}")
            if request.length > request.prompt_tokens > 0:
                texts.append(Text(request.id, self.rank.token_ids[rows], request.start, request.prompt_tokens))
        if not texts:
            raise UsageError(
                "WB-REPLAY-SHORT",
                f"{self.capture.path} holds no generated tokens",
                expected="requests that were continued: a round of drafts starts at each verified token",
                next="workbook capture BOX RUN --prompts FILE --max-new-tokens 72",
            )
        return texts

    def served(self) -> tuple[Tap, ...]:
        """What the server fed: the feed's slots, each named by its boundary where it is bit for bit that boundary.

        Raises:
            UsageError: ``WB-REPLAY-TAPS`` where the capture holds no feed of whole slots.
        """
        slots = self.capture.slots
        if not slots:
            raise UsageError(
                "WB-REPLAY-TAPS",
                f"{self.capture.path} holds {'no feed' if self.rank.feed_width is None else 'a feed of odd width'}",
                expected="a feed of K * hidden size, or the taps to try",
                next="add --taps with boundaries of the ladder, such as --taps 3,31,59",
            )
        return tuple(self._name(slot) for slot in range(slots))

    def _name(self, slot: int) -> Tap:
        rows = (self.feed_rows >= 0).nonzero().flatten()
        block = self.slot(Tap("feed", slot), rows)
        for boundary in self.rank.boundaries:
            if torch.equal(block, self.slot(Tap("boundary", boundary), rows)):
                return Tap("boundary", boundary)
        return Tap("feed", slot)

    def check(self, wiring: Wiring, drafter: Drafter) -> None:
        """Raise where a wiring does not fit the drafter or the capture.

        Raises:
            UsageError: ``WB-REPLAY-TAPS``; ``WB-REPLAY-MODELS`` where drafter or target are of another model.
        """
        slots, width, largest = drafter.slots, drafter.config.target_hidden_size, int(self.rank.token_ids.max())
        if width != self.hidden_size or largest >= len(drafter.embedding):
            raise UsageError(
                "WB-REPLAY-MODELS",
                f"{self.capture.path} has states {self.hidden_size} wide and tokens up to {largest}; the drafter takes "
                f"taps {width} wide, and the target has {len(drafter.embedding)} tokens",
                expected="a capture of this target, and a drafter that was trained for it",
                next=f"workbook inspect {self.capture.path}",
            )
        missing = [tap.index for tap in wiring if tap.kind == "boundary" and tap.index not in self.rank.boundaries]
        if missing or len(wiring) != slots:
            what = f"boundaries {missing} were not captured" if missing else f"{len(wiring)} taps for {slots} slots"
            raise UsageError(
                "WB-REPLAY-TAPS",
                f"the taps {','.join(map(str, wiring))} cannot be replayed: {what}",
                expected=f"{slots} of the captured boundaries {self.rank.boundaries}, in slot order",
                next=self._instead(missing, slots),
            )

    def _instead(self, missing: Sequence[int], slots: int) -> str:
        """What to do about taps that cannot be replayed: another capture helps only where it would hold more."""
        layers, held = self.capture.info.model.num_layers, self.rank.boundaries
        outside = [boundary for boundary in missing if not 0 <= boundary <= layers]
        if outside:
            return f"the model has {layers} layers, and so the boundaries 0 to {layers}: give others than {outside}"
        if missing:
            return "capture the whole ladder: workbook capture BOX RUN --prompts FILE --boundaries all"
        some = ",".join(map(str, held[1 : slots + 1]))
        return f"give {slots} taps, such as --taps {some}" if len(held) > slots else f"give {slots} taps"

    def usable(self, text: Text, wiring: Wiring) -> int:
        """How many of a text's rows have all their taps: a feed may end before the text does.

        Raises:
            UsageError: ``WB-REPLAY-ROWS`` where the feed has a hole.
        """
        if all(tap.kind != "feed" for tap in wiring):
            return len(text)
        fed = self.feed_rows[text.rows] >= 0
        count = int(fed.sum())
        if not bool(fed[:count].all()):
            raise rows_missing(text.id, f"row {int((~fed).nonzero()[0])} has no feed")
        return count

    def taps(self, text: Text, wiring: Wiring) -> Float[Tensor, "T KH"]:
        """The drafter's input for the usable rows of a text, in the capture's dtype."""
        rows = text.rows[: self.usable(text, wiring)]
        return torch.cat([self.slot(tap, rows) for tap in wiring], dim=1)

    def slot(self, tap: Tap, rows: Int64[Tensor, " N"]) -> Float[Tensor, "N H"]:
        """One slot's input for some rows of the capture."""
        width = self.hidden_size
        if tap.kind == "boundary":
            return self.rank.rows(f"boundary.{tap.index:03d}", rows)
        if tap.kind == "feed":
            return self.rank.rows("feed", self.feed_rows[rows])[:, tap.index * width : (tap.index + 1) * width]
        return torch.zeros(len(rows), width, dtype=self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The engine's dtype."""
        kept = ("boundary", "feed", "normed")
        return next(entry.dtype for name, entry in self.rank.entries.items() if name.split(".")[0] in kept)


def rows_missing(request: str, what: str) -> UsageError:
    return UsageError(
        "WB-REPLAY-ROWS",
        f"request {request} cannot be replayed: {what}",
        expected="a row for each token from the first on: a drafter attends to all that came before",
        next="capture with the prefix cache off (or flushed), and give --taps if only the feed has holes",
    )
