"""A diagnosis: what the drafter is fed against what it was trained on, as coded findings (``workbook.diagnosis/1``)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Dump
from helpers.tensors.view import View
from helpers.wiring.boundaries import Rule
from helpers.wiring.channels import with_channels
from helpers.wiring.comparison import Match, SlotComparison
from helpers.wiring.coverage import Coverage, cover, prompts_alone, tokens_differ, too_few, with_coverage
from helpers.wiring.drafts import fc_width
from helpers.wiring.explaining import Label, Reading
from helpers.wiring.fc_order import FcOrder, fc_order, look_at_order, with_order
from helpers.wiring.fc_order import undecided as undecided_order
from helpers.wiring.features import FEW, align_features, check_width, compare_aligned, look_at_the_rest
from helpers.wiring.findings import (
    Finding,
    Undecided,
    non_finite,
    slot_count,
    stale_rows,
    uses_graphs,
    without_graphs,
)
from helpers.wiring.fixing import Fix, name_fix
from helpers.wiring.missing import rows_missing
from helpers.wiring.ranks import RankView, compare_ranks, rank_findings, with_true_taps
from helpers.wiring.sides import DraftConfig, both_ways, hold_against_config
from helpers.wiring.slots import decided, read_slots, slot_findings

SCHEMA = "workbook.diagnosis/1"
NOT_COMPARED = "the feed could not be held against training's slots, so the order that fc wants cannot be told from it"
FEED_WRONG = "the feed is wrong, so the order that fc wants cannot be told from it: look again when it is mended"
FEED_UNKNOWN = "whether the feed is right is not known, so the order that fc wants cannot be told from it"


class Side(BaseModel):
    """What one side of a slot is: its boundary (null where none is beyond doubt) and the score of the nearest one."""

    model_config = ConfigDict(frozen=True)

    boundary: int | None
    score: float | None


class Slot(BaseModel):
    """One slot of the drafter's fused input.

    ``compared``: both sides are known in the same terms, so that they can be told to be equal or to differ: both as a
    boundary, or the served one as one of the trained slots (whose boundaries may be unknown).
    """

    model_config = ConfigDict(frozen=True)

    slot: int
    trained: Side
    served: Side
    compared: bool


class Diagnosis(BaseModel):
    """``workbook.diagnosis/1``. Exit code 0 for the verdict match, else 1."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["workbook.diagnosis/1"] = Field(default="workbook.diagnosis/1", alias="schema")
    verdict: Literal["match", "mismatch", "inconclusive"]
    findings: list[Finding]
    slots: list[Slot]
    aligned_tokens: int
    aligned: Coverage | None = None
    captured_with: dict[str, Any]
    fix: Fix | None
    convention: str | None = None
    ranks: RankView
    undecided: list[Undecided] = Field(default_factory=list)
    draft_config: DraftConfig | None = None

    @property
    def exit_code(self) -> int:
        return 0 if self.verdict == "match" else 1

    def codes(self) -> list[str]:
        """The codes of the findings, in their order."""
        return [finding.code for finding in self.findings]

    def to_json(self) -> dict[str, Any]:
        """The object that is printed and stored."""
        return self.model_dump(mode="json", by_alias=True)


def diagnose(
    capture: Capture,
    dump: Dump,
    *,
    convention: Rule | None = None,
    draft: Path | None = None,
    target: Path | None = None,
    run_graphs: bool | None = None,
    flags: Collection[str] | None = None,
) -> Diagnosis:
    """Say what the drafter was trained on, what it is fed, how the two differ, and which ids would mend it.

    Args:
        capture: of a server; a feed is needed to say what is fed, a ladder to name boundaries.
        dump: of the drafter's training.
        convention: how the captured engine reads ids; without it no ids are named.
        draft: the drafter's folder; its fc tells how many slots it takes, its config which side is as it asks.
        target: the target's folder; its embedding is boundary 0 where the capture lacks it. With ``draft``, the order
            that fc wants its blocks in is judged.
        run_graphs: whether the run in question uses CUDA graphs; None takes what the capture says of its profile.
        flags: the arguments that the captured engine has (`helpers.source.flags`); without them none is named that
            not every version has.

    Raises:
        UsageError: ``WB-DUMP-HIDDEN`` where the two are of other hidden sizes, and what the readers raise.
    """
    check_width(capture, dump)
    aligned = align_features(capture, dump, target=target)
    view = aligned.view
    ranks = compare_ranks(view)
    compared = compare_aligned(aligned, dump)
    look_at_the_rest(aligned)
    health, coverage = aligned.health, cover(aligned, dump)
    findings = (
        with_true_taps(rank_findings(ranks), compared)
        + non_finite(health)
        + stale_rows(health, view.slots or 0, dump.slots)
    )
    findings += rows_missing(view) + without_graphs(capture.info, run_graphs)
    counts = slot_count(view.feed_width, view.hidden, dump, fc_width(draft) if draft else None)
    findings += counts
    undecided: list[Undecided] = []
    if uses_graphs(capture.info, run_graphs) is None:
        why = "nobody said whether the run in question uses CUDA graphs: --run-graphs or --no-run-graphs"
        undecided.append(Undecided(code="captured-without-graphs", why=why))
    readings: tuple[list[Reading], list[Reading]] | None = None
    order: FcOrder | str = FEED_WRONG if counts else NOT_COMPARED
    findings += tokens_differ(aligned, coverage)
    undecided += too_few(aligned, coverage)
    if compared is not None and min(compared.tokens, coverage.distinct) >= FEW:
        readings = read_slots(compared, aligned, dump)
        if not counts and compared.served_slots:
            about = with_channels(slot_findings(compared, *readings), aligned, dump, *readings)
            findings += about
            if dump.slots > 1:
                order = judge_order(capture, view, findings, about, draft, target)
            findings = [
                with_coverage(with_order(f, order), coverage) if f.code == "features-match" else f for f in findings
            ]
            findings += fc_order(order)
    why_not = undecided_order(order)
    if dump.slots > 1 and why_not is not None:  # a single slot has no order
        undecided.append(Undecided(code="fc-order", why=why_not))
    wrong = any(finding.severity == "error" for finding in findings)
    if wrong:  # the slots may be right, yet there is no need to look elsewhere
        findings = [finding for finding in findings if finding.code != "features-match"]
    matches = any(finding.code == "features-match" for finding in findings)
    undecided += prompts_alone(findings, coverage)
    labels = ([one.label for one in readings[0]], [one.label for one in readings[1]]) if readings else None
    config = held_against(capture, draft, labels, convention)
    return Diagnosis(
        verdict="mismatch" if wrong else "match" if matches else "inconclusive",
        findings=findings,
        slots=describe_slots(compared, *readings) if compared and readings else [],
        aligned_tokens=compared.tokens if compared else 0,
        aligned=coverage,
        captured_with=capture.info.launch,
        fix=both_ways(name_fix(capture, findings, labels, convention, flags), config),
        convention=convention.name if convention else None,
        ranks=ranks,
        undecided=undecided,
        draft_config=config,
    )


def held_against(
    capture: Capture, draft: Path | None, labels: tuple[list[Label], list[Label]] | None, convention: Rule | None
) -> DraftConfig | None:
    """Both sides against the drafter's config; None without a drafter."""
    layers = capture.info.model.num_layers
    return None if draft is None else hold_against_config(draft, labels, convention, layers)


def judge_order(
    capture: Capture,
    view: View,
    findings: list[Finding],
    about: list[Finding],
    draft: Path | None,
    target: Path | None,
) -> FcOrder | str:
    """What a feed that is right says of fc's order; why it says nothing, where it does not.

    Args:
        about: those of the findings that say what the slots are.
    """
    told = {finding.code for finding in about}
    if told != {"features-match"}:
        return FEED_WRONG if told else FEED_UNKNOWN
    errors = [f.code for f in findings if f.severity == "error"]
    broken = [code for code in errors if code in ("non-finite", "stale-rows") or code.startswith("rank-")]
    if draft is None or target is None:
        return "it takes the drafter and the target: --draft and --target"
    if view.rows_kind != "replicated" or broken:
        return f"the feed is not what one rank holds whole and sound ({', '.join(broken)})"
    return look_at_order(capture, draft, target)


def describe_slots(compared: SlotComparison, served: list[Reading], trained: list[Reading]) -> list[Slot]:
    """Both sides of each slot; a side without a ladder or without that slot is null."""

    def side(readings: list[Reading], matches: list[Match | None], slot: int) -> Side:
        if slot >= len(readings):
            return Side(boundary=None, score=None)
        label, match = readings[slot].label, matches[slot]
        return Side(boundary=label if isinstance(label, int) else None, score=round(match.score, 6) if match else None)

    def told(slot: int) -> bool:
        pair = [readings[slot].label if slot < len(readings) else None for readings in (served, trained)]
        return None not in pair and decided(*pair)

    return [
        Slot(
            slot=slot,
            trained=side(trained, compared.trained, slot),
            served=side(served, compared.served, slot),
            compared=told(slot),
        )
        for slot in range(max(len(served), len(trained)))
    ]
