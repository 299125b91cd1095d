"""The report of notebook 00: the demo's measurements and its diagnosis, put into sections and report.json."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.acceptance.tables import rate_rows, survival_rows
from helpers.figures.acceptance import accept_rates, survival
from helpers.figures.wiring import feature_norms, ladder, slot_matrix
from helpers.ledger import story
from helpers.ledger.glossary import glossary
from helpers.ledger.report import ReportPaths, Section, write_report
from helpers.revision import revision
from helpers.wiring.tables import ladder_rows, norm_rows, slot_matrix_rows

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.tensors.capture import Capture
    from helpers.wiring.comparison import SlotComparison
    from helpers.wiring.diagnosis import Diagnosis

TITLE = "Why the drafter is accepted so rarely: one investigation on the lab"
LIMITS = (
    "The lab is a small model on a CPU, in float32, one request at a time. It shows what a wiring does to acceptance; "
    "it says nothing about speed on GPUs, CUDA graphs, fused kernels or tensor parallelism across devices.",
    "Some of this model's greedy texts fall into a loop (data/lab/MODEL_CARD.md says how many), which flatters "
    "acceptance for every profile alike.",
)


def write_demo_report(
    folder: Path,
    *,
    box: Box,
    results: Mapping[str, Measurement],
    comparisons: Sequence[PairedDifference],
    capture: Capture,
    compared: SlotComparison,
    diagnosis: Diagnosis,
    off_by_one: Diagnosis,
    max_new_tokens: int,
) -> ReportPaths:
    """Writes report.html and report.json into `folder`.

    Args:
        results: by profile name; ``baseline``, ``right``, ``miswired``, ``off-by-one`` and ``mended`` are there.
        comparisons: right against off-by-one, then mended against right.
        capture, compared, diagnosis: of the miswired server, with the training dump.
        off_by_one: diagnosis of the off-by-one server.
    """
    made = datetime.now(UTC).isoformat(timespec="seconds")
    rows = list(results.values())
    found = diagnosis.to_json()
    off = off_by_one.to_json()
    lines = story.summary(results, found, comparisons[0], comparisons[1], off)
    tokens = (
        f"run {capture.info.run}, {compared.tokens} tokens, capture rank0 sha256 {capture.info.files[0].sha256[:12]}"
    )
    load = f"{rows[0].units} held-out prompts, {max_new_tokens} new tokens each, greedy; runs " + ", ".join(
        f"{r.name} {(r.run or '').rsplit('-', 1)[-1]}" for r in rows if r.accept_rate is not None
    )
    sections = [
        Section(
            "Acceptance per configuration",
            [
                "Accept rate is correct drafts / proposed drafts, pooled over all requests; intervals are bootstrapped "
                "over requests. Every configuration answered the same prompts.",
            ],
            story.profile_rows(rows),
            accept_rates(rate_rows(rows), caption=load),
        ),
        Section(
            "How far a draft survives",
            ["S(k) is the share of verify steps in which at least k drafts were accepted."],
            figure=survival(survival_rows(rows), caption=load),
        ),
        Section(
            "What training captured, what serving feeds",
            [
                "The miswired server was started again with SGLang's own forward hooks and sent the training dump's "
                "token ids. The dump's features and the drafter's feed are compared token by token.",
            ],
            story.slot_rows(found),
            slot_matrix(slot_matrix_rows(compared), caption=tokens),
        ),
        Section(
            "Which boundary each slot is",
            [
                "Centred features (the mean over tokens removed, token 0 dropped) are compared with a ladder of all "
                "boundaries on the same tokens. A slot is the boundary at its peak.",
            ],
            figure=ladder(ladder_rows(compared), caption=tokens),
        ),
        Section(
            "Feature norms",
            ["A slot that is fed another tap usually has another scale, too: the first thing to look at."],
            figure=feature_norms(norm_rows(compared), caption=tokens),
        ),
        Section("Findings", [_verdict(found)], story.finding_rows(found)),
        Section("Findings of the off-by-one server", [_verdict(off)], story.finding_rows(off)),
        Section("Limits", [*LIMITS, story.NOT_MEASURED]),
        Section("Commands to reproduce", ["In a checkout of the workbook:"], commands=["make demo"]),
        Section("To check it again", [f"Made {made[:19].replace('T', ' ')} (UTC) with the workbook {revision()}."]),
        glossary(),
    ]
    data: dict[str, Any] = {
        "made": made,
        "workbook": revision(),
        "profiles": [row.model_dump(mode="json") for row in rows],
        "diagnosis": found,
        "diagnoses": {"off-by-one": off},
        "comparisons": [pair.model_dump(mode="json") for pair in comparisons],
        "summary": lines,
        "capture": capture.info.model_dump(mode="json"),
        "conditions": {"max_new_tokens": max_new_tokens, "sampling": "greedy", "machine": platform.machine()},
    }
    return write_report(folder, title=TITLE, summary=lines, sections=sections, data=data, homes=(box.home,))


def _verdict(found: Mapping[str, Any]) -> str:
    fix = found["fix"]
    return f"Verdict: {found['verdict']}." + (f" Fix: {fix['note']}." if fix else "")
