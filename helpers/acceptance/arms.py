"""The sides of a comparison: a server that runs already, or a profile that is started for every pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from helpers.acceptance.load_client import served_model
from helpers.acceptance.load_failures import dead_workers, explained
from helpers.acceptance.load_records import Failure
from helpers.acceptance.load_settings import LoadSettings
from helpers.serving.argv import expand, masked_profile
from helpers.serving.model import PARTS, text_config
from helpers.serving.profile import Profile, is_folder
from helpers.serving.run import Run
from helpers.serving.session import serving
from helpers.source.convention import KNOWN

if TYPE_CHECKING:
    from helpers.box import Box

#: What two starts of one configuration may differ in.
PLACE = {"name", "note", "port", "host"}


@dataclass(frozen=True)
class Seat:
    """A server that answers, for one pass.

    Attributes:
        url: its address here. run: its run's id. explain: what the box says of a failure seen here.
        patches: those that were in when it was started, ``name@hash``; None where nobody looked.
        watch: why nothing more will come, where the box knows.
    """

    url: str
    run: str | None
    explain: Callable[[Failure], Failure] = lambda failure: failure
    watch: Callable[[], str | None] | None = None
    patches: tuple[str, ...] | None = None


def seat_of(run: Run, url: str) -> Seat:
    """A run's server, reached at ``url``."""
    patches = tuple(map(str, run.record.patches))
    return Seat(url, run.id, lambda failure: explained(failure, run), lambda: dead_workers(run), patches)


class Arm(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> str: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def about(self) -> ModelAbout: ...
    def open(self, *, progress: bool = True) -> AbstractContextManager[Seat]:
        """The server for one pass. Raises what a start raises."""
        ...


@dataclass(frozen=True)
class ModelAbout:
    """What the box says of a profile's model.

    Attributes:
        vocab_size: token ids are below it; None where it is not known (a hub name).
        boundaries: what the profile's ids tap on its engine; None where the rule is not known by name.
        eos: ids of its end-of-text, as far as its config.json says them.
    """

    vocab_size: int | None = None
    boundaries: tuple[int, ...] | None = None
    eos: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunArm:
    """A server that runs already, and runs on afterwards."""

    run: Run
    about: ModelAbout

    @property
    def name(self) -> str:
        return self.run.profile.name

    @property
    def profile(self) -> Profile:
        return self.run.profile

    @contextmanager
    def open(self, *, progress: bool = True) -> Iterator[Seat]:
        with self.run.tunnel() as tunnel:
            yield seat_of(self.run, tunnel.url)


@dataclass(frozen=True)
class ProfileArm:
    """A profile that is started for every pass, and stopped after it."""

    box: Box
    profile: Profile
    about: ModelAbout
    timeout: float | None = None

    @property
    def name(self) -> str:
        return self.profile.name

    @contextmanager
    def open(self, *, progress: bool = True) -> Iterator[Seat]:
        with serving(self.box, self.profile, timeout=self.timeout, progress=progress) as served:
            yield seat_of(served.run, served.url)


@dataclass(frozen=True)
class UrlArm:
    """A server that the workbook did not start, by its address here. ``profile``: what it is said to be."""

    url: str
    profile: Profile
    about: ModelAbout = ModelAbout()

    @property
    def name(self) -> str:
        return self.profile.name

    @contextmanager
    def open(self, *, progress: bool = True) -> Iterator[Seat]:
        yield Seat(self.url, None)


def about(box: Box, profile: Profile) -> ModelAbout:
    """Read the model's config on the box. A hub name has none that could be read, and tells nothing."""
    if not is_folder(profile.model):
        return ModelAbout()
    config = json.loads(box.read_text(f"{expand(profile.model, box.home)}/config.json"))
    inner = text_config(config)
    vocab = inner.get("vocab_size")
    architecture = (inner.get("architectures") or [""])[0]
    rule = KNOWN.get(("sglang", profile.engine_release, architecture))
    ids, layers = profile.aux_layer_ids, inner.get("num_hidden_layers")
    taps = None
    if rule is not None and ids is not None and layers is not None:
        taps = tuple(rule.boundaries(ids, int(layers)))
    return ModelAbout(None if vocab is None else int(vocab), taps, eos_of(config))


def eos_of(config: Mapping[str, Any]) -> tuple[int, ...]:
    """The ids of a config.json's end-of-text, its own and those of its text part: SGLang takes both.

    >>> eos_of({"eos_token_id": 1}), eos_of({"eos_token_id": None, "text_config": {"eos_token_id": [7, 5]}}), eos_of({})
    ((1,), (5, 7), ())
    """
    told = [part.get("eos_token_id") for part in (config, *(config.get(name) or {} for name in PARTS))]
    every = [id for one in told for id in (one if isinstance(one, list) else [one])]
    return tuple(sorted({int(id) for id in every if id is not None}))


def deciding(profile: Profile) -> dict[str, Any]:
    """What of a profile decides its results, secrets masked."""
    return masked_profile(profile).model_dump(mode="json", exclude={*PLACE, *profile.undeciding})


def model_name(seat: Seat, settings: LoadSettings) -> str:
    """The served name, where the endpoint wants one."""
    return "" if settings.endpoint == "generate" else served_model(seat.url)
