"""What every reader gives: `States` (one sample's tensors), `Sample` (opened when asked) and `Dump` (all of them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from helpers.errors import UsageError

Slots = Float[Tensor, "T K H"]


@dataclass(frozen=True)
class States:
    """One sample's tensors, mapped from the file where the format allows, in the dtype of the file.

    ``slots`` are [T, K, H] in one tensor, or K tensors [T, H] where the file has them apart.
    ``stored_ids`` are layer ids that the file itself names.
    """

    token_ids: Tensor
    slots: Tensor | Sequence[Tensor]
    verifier: Tensor | None = None
    loss_mask: Tensor | None = None
    stored_ids: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """T, K, H."""
        if isinstance(self.slots, Tensor):
            tokens, slots, hidden = self.slots.shape
            return tokens, slots, hidden
        return len(self.slots[0]), len(self.slots), self.slots[0].shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.slots.dtype if isinstance(self.slots, Tensor) else self.slots[0].dtype

    def rows(self, index: Tensor | slice) -> Slots:
        """Some tokens' slots."""
        if isinstance(self.slots, Tensor):
            return self.slots[index]
        return torch.stack([part[index] for part in self.slots], dim=1)


@dataclass(frozen=True)
class Sample:
    """One sample of a dump. Its tokens are in memory; its states stay in the file, which is opened anew at each look.

    ``verifier`` is the state that training takes for the target's output, None where the format has none.
    ``stored_ids`` are layer ids that the file itself names, None where it names none.
    """

    token_ids: Int64[Tensor, " T"]
    loss_mask: Bool[Tensor, " T"] | None
    stored_ids: tuple[int, ...] | None
    source: Path
    shape: tuple[int, int, int]
    dtype: torch.dtype
    open: Callable[[], States] = field(repr=False)

    @property
    def slots(self) -> Slots:
        """All slots [T, K, H], in the dtype of the file."""
        return self.open().rows(slice(None))

    @property
    def verifier(self) -> Float[Tensor, "T H"] | None:
        """The target's last state [T, H]: before or after its final norm, as the format has it."""
        return self.open().verifier

    def rows(self, index: Int64[Tensor, " N"] | slice) -> Float[Tensor, "N K H"]:
        """The slots of some tokens; no more of a mapped file is read."""
        return self.open().rows(index)


def sample_of(states: States, source: Path, open_again: Callable[[], States]) -> Sample:
    """A sample from its states, which are let go."""
    mask = states.loss_mask
    return Sample(
        token_ids=states.token_ids.long().clone(),
        loss_mask=None if mask is None else mask.bool(),
        stored_ids=states.stored_ids,
        source=source,
        shape=states.shape,
        dtype=states.dtype,
        open=open_again,
    )


@dataclass(frozen=True)
class Dump:
    """A dump on disk. Iterating reads one sample after the other; the whole is never in memory.

    ``slots`` is K. ``normed_verifier`` says whether the verifier's state was taken after the final norm; None where
    the format has no such state or does not say. ``warnings`` are what a reader of the dump ought to know.
    """

    path: Path
    format: str
    files: tuple[Path, ...]
    slots: int
    hidden_size: int
    dtype: torch.dtype
    opener: Callable[[int], Sample] = field(repr=False)
    count: int
    normed_verifier: bool | None = None
    warnings: tuple[str, ...] = ()
    ranks: int = 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Sample]:
        for index in range(self.count):
            yield self[index]

    def __getitem__(self, index: int) -> Sample:
        if not -self.count <= index < self.count:
            raise IndexError(index)
        sample = self.opener(index % self.count)
        if sample.shape[1:] != (self.slots, self.hidden_size):
            raise UsageError(
                "WB-DUMP-SHAPE",
                f"{sample.source} has {sample.shape[1]} slots of {sample.shape[2]}",
                expected=f"{self.slots} slots of {self.hidden_size}, as in {self.files[0].name}",
                next="leave files of other runs out of the folder",
            )
        return sample
