"""What would mend a fault: ids in the captured engine's convention, arguments of its launch, or why neither can."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import BaseModel, ConfigDict

from helpers.notebook_text import Worded
from helpers.tensors.capture import Capture
from helpers.wiring.boundaries import Rule
from helpers.wiring.explaining import Label
from helpers.wiring.fc_order import mended
from helpers.wiring.findings import Finding

NO_FUSION = "--enforce-disable-flashinfer-allreduce-fusion"
FUSION = "--enable-flashinfer-allreduce-fusion"
NO_GRAPHS = "--disable-cuda-graph"


class Fix(Worded, BaseModel):
    """What would feed the drafter what training captured. ``aux_layer_ids`` is null where ids cannot.

    ``launch`` are arguments for the captured engine's command line; empty where none is known to help.
    """

    model_config = ConfigDict(frozen=True)

    aux_layer_ids: list[int] | None
    launch: list[str]
    note: str

    def __str__(self) -> str:
        return self.note + (f" (launch: {' '.join(self.launch)})" if self.launch else "")


def name_fix(
    capture: Capture,
    findings: Sequence[Finding],
    labels: tuple[list[Label], list[Label]] | None,
    convention: Rule | None,
    flags: Collection[str] | None,
) -> Fix | None:
    """The fix of a diagnosis; None where nothing is to be mended.

    Args:
        labels: what the slots are, served and trained; None where they could not be read.
        flags: the arguments that the captured engine has; None where its source is not at hand.
    """
    codes = {finding.code for finding in findings}
    errors = {finding.code for finding in findings if finding.severity == "error"}
    wrong = bool(errors)
    ids: list[int] | None = None
    launch: list[str] = []
    notes: list[str] = []
    if "rank-partial-sum" in errors:
        arguments, note = without_fusion(capture, flags)
        launch += arguments
        notes.append(note)
    if "fc-order" in codes:
        notes.append(reordered(next(f for f in findings if f.code == "fc-order")))
    if wrong and labels is not None:
        ids, note = name_ids(capture, *labels, convention)
        if ids is not None or not notes:  # that ids cannot mend it need not be said beside what can
            notes.append(note)
    if "captured-without-graphs" in codes:
        arguments, note = without_graphs(capture, flags)
        launch += arguments
        notes.append(note)
    return Fix(aux_layer_ids=ids, launch=launch, note="; ".join(notes)) if notes else None


def name_ids(
    capture: Capture, served: list[Label], trained: list[Label], convention: Rule | None
) -> tuple[list[int] | None, str]:
    """The ids that would feed what training captured, or None, and a note on it."""
    known = [label for label in trained if isinstance(label, int)]
    if len(known) < len(trained):
        return None, "the trained slots could not all be identified, so no ids are named"
    if served == trained:
        return None, f"the boundaries {known} are fed, as they were trained: ids cannot mend what was found"
    if convention is None:
        return None, f"training captured the boundaries {known}; how this engine reads ids is not known"
    ids = convention.ids(known, capture.info.model.num_layers)
    if ids is None:
        return None, f"no ids of {convention.name} tap the boundaries {known} in this order"
    if capture.info.aux_layer_ids is not None and sorted(capture.info.aux_layer_ids) == sorted(ids):
        fed = [label if isinstance(label, int) else None for label in served]
        return None, f"the ids are {ids} already, yet the boundaries {fed} are fed: ids cannot mend it"
    note = f"on {convention.name} the ids {ids} tap the boundaries {known}, which training captured"
    if 0 in known and convention.embedding_patch:
        note += f"; id {convention.embedding_id} needs the patch {convention.embedding_patch}"
    return ids, note


def without_fusion(capture: Capture, flags: Collection[str] | None) -> tuple[list[str], str]:
    """Partial sums of a server whose all-reduce is fused into the next norm, where it says that it is."""
    engine = f"{capture.info.engine.name} {capture.info.engine.version}"
    if capture.info.launch.get("enable_flashinfer_allreduce_fusion") is not True:
        return [], "the server did not say that its all-reduce is fused, so no argument is known to mend partial sums"
    if flags is None:
        return [], f"all-reduce fusion is on; whether {engine} has an argument against it is not known here"
    if NO_FUSION in flags:
        return [NO_FUSION], f"all-reduce fusion is on: {NO_FUSION} switches it off on {engine}"
    return [], (
        f"all-reduce fusion is on, and {engine} has no argument that switches it off: leave out {FUSION} where it was "
        f"given; where the engine set it by itself, its source must be changed, or a version used that has {NO_FUSION}"
    )


def without_graphs(capture: Capture, flags: Collection[str] | None) -> tuple[list[str], str]:
    """A check, and no repair: whether what graphs tap is what was captured without them."""
    check = "compare acceptance with and without CUDA graphs"
    if flags is not None and NO_GRAPHS not in flags:
        return [], f"{check} ({capture.info.engine.name} {capture.info.engine.version} has no {NO_GRAPHS})"
    return [NO_GRAPHS], f"{NO_GRAPHS} is a check and costs speed: {check}"


def reordered(finding: Finding) -> str:
    """How to mend the checkpoint: ids cannot, since servers append taps in ascending order."""
    blocks = mended(finding.evidence["order"])
    return f"put the drafter's fc.weight column blocks in the order {blocks}: ids cannot mend fc"
