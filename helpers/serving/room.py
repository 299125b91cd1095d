"""Where a capture goes, and whether it fits: on the box as it is written and put together, and here as it is pulled."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from helpers.box.meter import human
from helpers.errors import RemoteFailed, UsageError
from helpers.screen import as_typed
from helpers.serving.asking import Prompt
from helpers.serving.model import ModelFacts, model_facts
from helpers.serving.preflight.arguments import settings_of
from helpers.serving.profile import Profile, is_folder
from helpers.serving.records import RUNS
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box

Boundaries = Literal["all", "none"] | Sequence[int]
#: Blocks of the feed where neither the profile nor anybody else says: EAGLE-3's own.
SLOTS = 3


@dataclass(frozen=True)
class Need:
    """What a capture takes at most, in bytes.

    Attributes:
        written: rows that pass the hook, for each prompt; drafts that are rejected are among them.
        kept: those of them that are tokens of a text, for each prompt.
        row: bytes of one row over all ranks. ranks: how many there are. taps: tensors of the hidden size in a row.
    """

    written: tuple[int, ...]
    kept: tuple[int, ...]
    row: int
    ranks: int
    taps: int

    @property
    def there(self) -> int:
        """On the box: chunks of passes, and beside them the ranks that are put together of them."""
        return self.row * (sum(self.written) + sum(self.kept))

    @property
    def here(self) -> int:
        """The ranks, as they are pulled."""
        return self.row * sum(self.kept)

    def fitting(self, there: int | None, here: int) -> int:
        """How many of the prompts, from the first, fit into so many bytes on both sides."""
        upto = zip(accumulate(self.written), accumulate(self.kept), strict=True)
        return sum(
            (there is None or self.row * (written + kept) <= there) and self.row * kept <= here
            for written, kept in upto
        )

    def __str__(self) -> str:
        return (
            f"{len(self.kept)} prompts, {sum(self.kept)} tokens, {self.taps} taps on {self.ranks} ranks: "
            f"{human(self.row)} a token"
        )


@dataclass(frozen=True)
class Bounds:
    """How much of each prompt is captured: as `helpers.serving.capture.capture` takes them."""

    max_new_tokens: int
    boundaries: Boundaries = "all"
    terms: bool = False


def need_of(profile: Profile, model: ModelFacts, prompts: Sequence[Prompt], bounds: Bounds) -> Need | None:
    """What a capture takes at most; None where the model's config does not say how wide a tap is.

    Every new token may cost a whole verify step, whose other rows are written and left out later.
    """
    if model.hidden_size is None:
        return None
    settings = settings_of(["--tp", str(profile.tp), "--dtype", profile.dtype, *profile.extra_args])
    hooked = model.num_layers + 1 if isinstance(profile.capture, bool) else len(profile.capture)
    wanted, speculation = bounds.boundaries, profile.speculation
    number = hooked if wanted == "all" else 0 if wanted == "none" else len(set(wanted))
    taps = number * (3 if bounds.terms else 1) + 1  # the last one is `normed`
    if speculation is not None:
        taps += len(profile.aux_layer_ids or range(SLOTS))
    size = 4 if settings["dtype"] in ("float", "float32") else 2  # `auto` serves float32 weights in 16 bits, too
    ranks = int(settings["tp_size"])
    step = speculation.num_draft_tokens if speculation is not None else 1
    answered = bounds.max_new_tokens - 1  # the last token that is made passes no hook
    return Need(
        written=tuple(len(prompt.input_ids) + answered * step for prompt in prompts),
        kept=tuple(len(prompt.input_ids) + answered for prompt in prompts),
        row=taps * model.hidden_size * size * ranks,
        ranks=ranks,
        taps=taps,
    )


def check_room(
    box: Box,
    profile: Profile,
    prompts: Sequence[Prompt],
    out: Path,
    bounds: Bounds,
    *,
    folder: str = RUNS,
    python: str | None = None,
) -> str:
    """Refuse, before a server works for it, a capture that does not fit; returns what it takes, in words.

    Args:
        out: where it is pulled to. folder: where it lies on the box.

    Raises:
        RemoteFailed: WB-DISK-FULL of the box. UsageError: WB-DISK-FULL of this machine.
    """
    try:
        model = model_facts(box, profile) if is_folder(profile.model) else None
    except (RemoteFailed, ValueError, KeyError):  # there is no such model, which the start says better
        model = None
    need = None if model is None else need_of(profile, model, prompts, bounds)
    if need is None:
        return "not known: the model's config.json does not say how wide a tap is"
    place = box.path(folder)
    there = call(box, "room", "free", {"folder": place}, python=python or profile.python)["free"]
    near = next(path for path in (out, *out.absolute().parents) if path.exists())
    here = shutil.disk_usage(near).free
    fits = need.fitting(there, here)
    less = (
        f"--limit {fits} fits (SAMPLES or REQUESTS in a notebook, --samples of investigate)"
        if fits
        else "not even the first prompt fits: take shorter texts"
    )
    less += ", or fewer boundaries: --boundaries LIST" if bounds.boundaries != "none" else ""
    if there is not None and need.there > there:
        raise RemoteFailed(
            "WB-DISK-FULL",
            f"the capture takes up to {human(need.there)} on {box.name}, as it is written and as it is put together "
            f"({need}), and the disk of {place} has {human(there)} left",
            expected=f"{human(need.there)} of free space there",
            next=f"{less}; or make room: workbook run {box.name} -- df -h {as_typed(place)}",
        )
    if need.here > here:
        raise UsageError(
            "WB-DISK-FULL",
            f"the capture is up to {human(need.here)} ({need}), and the disk of {near} has {human(here)} left",
            expected=f"{human(need.here)} of free space here",
            next=f"{less}; or another disk: --out DIR, WORKBOOK_INVESTIGATIONS; what there is: df -h {as_typed(near)}",
        )
    left = "" if there is None else f" ({human(there)} free)"
    return f"up to {human(need.there)} on {box.name}{left}, {human(need.here)} here ({human(here)} free); {need}"


def check_out(out: Path) -> None:
    """Refuse a place that could not be written at the end, before the server works for it."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                "WB-CAPTURE-OUT",
                f"{out} exists and is not an empty folder",
                expected="a new folder; a capture never writes over another one",
                next="choose another name",
            )
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent):
            pass
    except OSError as error:
        raise no_place(out, error) from error


def no_place(out: Path, error: OSError) -> UsageError:
    return UsageError(
        "WB-CAPTURE-OUT",
        f"{out} cannot be made: {error.strerror or error}",
        expected="a new folder, in one that can be written",
        next="--out with another folder",
    )
