"""All that the checks look at, gathered first: the checks themselves ask nothing and nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.box.facts import gpus
from helpers.box.facts.asking import ask
from helpers.box.facts.gather import read
from helpers.serving.argv import expand, server_argv
from helpers.serving.checkout import checkout_of
from helpers.serving.preflight.arguments import settings_of
from helpers.serving.preflight.checkpoint import Checkpoint, read_here, read_there
from helpers.serving.preflight.chips import parse_chip
from helpers.serving.preflight.taps import Tapped, tapped
from helpers.serving.profile import Profile, is_folder
from helpers.source.as_served import AsServed, as_served, patches_for
from helpers.source.journal import plain
from helpers.source.patch_state import Patch, patch_names
from helpers.source.patch_view import patches_in
from helpers.source.reading import WiringReport, read_wiring
from helpers.source.reading.allreduce import Chip
from helpers.source.reading.drafter import EAGLE3, Drafter, read_drafter
from helpers.source.reading.launched import graphs_on
from helpers.source.tree import SourceTree, fetched

if TYPE_CHECKING:
    from helpers.box import Box

_IDS = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True)
class Facts:
    """One launch: its profile, the source that would serve it, its models and its chip.

    Attributes:
        settings: the command line as SGLang reads it. target, draft: None where they could not be read.
        served: how ``source`` was made what will be served: the patches of the profile put in, others taken out.
        wiring: None where the target's architecture is not known. taps, default_taps: what the ids in force, and no
            ids at all, tap. drafter: the drafter's class in the source.
        unread: what no check could look at -> why.
    """

    profile: Profile
    settings: dict[str, Any]
    source: SourceTree
    target: Checkpoint | None = None
    draft: Checkpoint | None = None
    chip: Chip | None = None
    wiring: WiringReport | None = None
    drafter: Drafter | None = None
    taps: Tapped | None = None
    default_taps: Tapped | None = None
    served: AsServed = field(default_factory=AsServed)
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def speculates(self) -> bool:
        """Whether a drafter is served at all."""
        return self.settings["speculative_algorithm"] is not None

    @property
    def eagle3(self) -> bool:
        """Whether the engine is told to run EAGLE-3."""
        return str(self.settings["speculative_algorithm"]).upper() == "EAGLE3"

    @property
    def graphs(self) -> bool:
        """Whether passes are captured as CUDA graphs."""
        return graphs_on(self.settings)

    @property
    def draft_config(self) -> dict[str, Any]:
        return (self.draft.config if self.draft else None) or {}

    @property
    def eagle_config(self) -> dict[str, Any]:
        """The section of the draft's config that SGLang reads ids from."""
        section = self.draft_config.get("eagle_config")
        return section if isinstance(section, dict) else {}

    @property
    def ids(self) -> tuple[int, ...] | None:
        """The ids in force: the profile's, else the draft's own; None where the engine takes its defaults."""
        return self.profile.aux_layer_ids or self.own_ids

    @property
    def own_ids(self) -> tuple[int, ...] | None:
        """The ids of the draft's config where the engine reads them."""
        return _numbers(self.eagle_config.get(_IDS))

    @property
    def stray_ids(self) -> tuple[int, ...] | None:
        """Ids at the config's top level, where the engine does not look."""
        return _numbers(self.draft_config.get(_IDS))


@contextlib.contextmanager
def gathered_here(
    profile: Profile, source: Path, *, target: Path | None = None, draft: Path | None = None, gpu: str | None = None
) -> Iterator[Facts]:
    """Facts from folders of this machine: the source, and the models where the profile or the arguments name some."""
    unread: dict[str, str] = {}
    home = str(Path.home())
    models = {
        "target": target or _local(profile.model, home, "target", unread),
        "draft": draft or _local(profile.draft, home, "draft", unread),
    }
    checkpoints = {name: read_here(path) if path else None for name, path in models.items()}
    chip = parse_chip(gpu) if gpu else None
    with as_served(SourceTree.open(source), profile.patches) as (tree, how):
        yield _facts(profile, home, tree, how, checkpoints, chip, unread)


@contextlib.contextmanager
def gathered_there(
    profile: Profile, box: Box, *, target: Path | None = None, draft: Path | None = None, gpu: str | None = None
) -> Iterator[Facts]:
    """Facts from a box: its checkout, its models, its GPUs. target, draft: folders of this machine to use instead."""
    unread: dict[str, str] = {}
    checkout = checkout_of(box, profile)
    checkpoints: dict[str, Checkpoint | None] = {}
    for name, given, path in (("target", target, profile.model), ("draft", draft, profile.draft)):
        if given is not None:
            checkpoints[name] = read_here(given)
        elif path is not None and is_folder(path):
            checkpoints[name] = read_there(box, path, python=checkout.python)
        elif path is not None:
            checkpoints[name] = None
            unread[name] = f"{path} is a hub name: name a folder (--{name})"
    chip = parse_chip(gpu) if gpu else _chip_of(box)
    journal = patches_in(box, checkout, python=checkout.python)
    touched = _files(profile, checkout.version, journal)
    with fetched(box, checkout, also=touched) as source, as_served(source, profile.patches, journal) as (tree, how):
        yield _facts(profile, box.home, tree, how, checkpoints, chip, unread)


def _facts(
    profile: Profile,
    home: str,
    source: SourceTree,
    served: AsServed,
    checkpoints: dict[str, Checkpoint | None],
    chip: Chip | None,
    unread: dict[str, str],
) -> Facts:
    settings = settings_of(server_argv(profile, home=home, port=profile.port or 30000)[3:])
    target, draft = checkpoints.get("target"), checkpoints.get("draft")
    for name, checkpoint in (("target", target), ("draft", draft)):
        if checkpoint is not None and checkpoint.config is None:
            problem = checkpoint.missing or "; ".join(checkpoint.problems) or "no config.json"
            unread[name] = f"{checkpoint.folder}: {problem}"
    facts = Facts(profile, settings, source, target, draft, chip, served=served, unread=unread)
    architecture = target.architecture if target else None
    if architecture is None:
        unread.setdefault("target", "its config.json names no architecture")
        return facts
    drafting = draft.architecture if draft else None
    drafter = read_drafter(source, drafting or EAGLE3) if facts.speculates else None
    wiring = read_wiring(source, architecture, settings, chip=chip, draft_architecture=drafting or EAGLE3)
    for statement in wiring.statements:
        # A statement with details was read, and hangs on what is not known of the launch: its check decides.
        asked = statement.topic != "overlap" or settings["enable_two_batch_overlap"]
        if statement.unread and not statement.details and asked and (facts.speculates or statement.topic == "setter"):
            unread[statement.topic] = statement.unread
    layers = target.size("num_hidden_layers") if target else None
    taps = defaults = None
    if facts.eagle3 and layers:
        taps, defaults = tapped(source, architecture, [facts.ids, None], layers)
    if taps is not None and taps.unread:
        unread["ids"] = taps.unread
    return Facts(profile, settings, source, target, draft, chip, wiring, drafter, taps, defaults, served, unread)


def _files(profile: Profile, version: str | None, journal: list[Patch]) -> list[str]:
    """All files that a patch may have changed, or will."""
    wanted, _ = patches_for([*patch_names(version), *profile.patches], version)
    return sorted({plain(file.path) for patch in [*wanted, *journal] for file in patch.files})


def _local(path: str | None, home: str, name: str, unread: dict[str, str]) -> Path | None:
    """The profile's model as a folder of this machine, if it is one."""
    if path is None:
        return None
    folder = Path(expand(path, home))
    if is_folder(path) and folder.is_dir():
        return folder
    unread[name] = f"{path} is no folder here: name one (--{name})"
    return None


def _chip_of(box: Box) -> Chip | None:
    """The first GPU of the box; None where it tells of none."""
    told = read(gpus.parse, ask(box, [gpus.QUESTION], progress=False)[gpus.FACT])
    for gpu in told.gpus if isinstance(told, gpus.Gpus) else ():
        major, dot, minor = (gpu.compute_capability or "").partition(".")
        if dot and major.isdigit() and minor.isdigit():
            return Chip(int(major), int(minor), gpu.name)
    return None


def _numbers(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
        return tuple(value)
    return None
