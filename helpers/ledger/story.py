"""The demo investigation in words and tables, every word derived from what was measured.

No sentence here blames one slot for what several lost, and none claims a speed-up: the lab's CPU cannot show one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helpers.acceptance.measurement import Measurement, PairedDifference

NOT_MEASURED = (
    "Not measured here: the share of the loss that each slot causes by itself, sampling at a temperature, batches, and "
    "texts other than Python source."
)


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def rate(row: Measurement) -> str:
    """``59.9% [54.0%, 66.2%]``."""
    if row.accept_rate is None or row.ci95 is None:
        return "-"
    return f"{percent(row.accept_rate)} [{percent(row.ci95[0])}, {percent(row.ci95[1])}]"


def ids(values: Sequence[int] | None) -> str:
    return "-" if values is None else "[" + ", ".join(map(str, values)) + "]"


def measured(row: Measurement, against: Measurement | None = None) -> str:
    """A measurement as a sentence of Markdown, against another one where given."""
    if row.accept_rate is None:
        return f"**{row.tokens_per_s:.1f} tokens/s** without speculation, one request at a time."
    text = f"Accept rate with the ids {ids(row.aux_layer_ids)}: **{rate(row)}**, n = {row.verify_steps} verify steps"
    if against is not None:
        text += f"; `{against.name}` had {rate(against)}"
    return f"{text}. Greedy text equal to the baseline's: **{'yes' if row.greedy_equal else 'NO'}**."


def findings(diagnosis: Mapping[str, Any]) -> str:
    """A diagnosis as Markdown: verdict, findings, cause."""
    lines = [f"* `{f['code']}` ({f['severity']}): {f['summary']}" for f in diagnosis["findings"]]
    return "\n".join([f"**Verdict: {diagnosis['verdict']}**", "", *lines, "", cause(diagnosis)])


def profile_rows(rows: Sequence[Measurement]) -> list[dict[str, str]]:
    """The table of configurations."""
    return [
        {
            "profile": row.name,
            "ids": ids(row.aux_layer_ids),
            "boundaries": ids(row.boundaries),
            "accept rate [95%]": rate(row),
            "accept length": "-" if row.accept_length is None else f"{row.accept_length:.2f}",
            "verify steps": "-" if row.verify_steps is None else str(row.verify_steps),
            "tokens/s": f"{row.tokens_per_s:.1f}",
            "greedy text": "equal to baseline" if row.greedy_equal else f"differs: {row.first_difference}",
        }
        for row in rows
    ]


def finding_rows(diagnosis: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "finding": str(f["code"]),
            "severity": str(f["severity"]),
            "slot": "-" if f["slot"] is None else str(f["slot"]),
            "what": str(f["summary"]),
        }
        for f in diagnosis["findings"]
    ]


def slot_rows(diagnosis: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "slot": str(s["slot"]),
            "trained on boundary": _tap(s["trained"]),
            "served boundary": _tap(s["served"]),
        }
        for s in diagnosis["slots"]
    ]


def _tap(side: Mapping[str, Any]) -> str:
    return "unknown" if side["boundary"] is None else f"{side['boundary']} (cosine {side['score']:.4f})"


def _boundary(number: int) -> str:
    return "the embedding output (boundary 0)" if number == 0 else f"boundary {number}"


def cause(diagnosis: Mapping[str, Any]) -> str:
    """What differs, slot by slot, and what is missing altogether; attributes no share of the loss to any slot."""
    known = [s for s in diagnosis["slots"] if None not in (s["trained"]["boundary"], s["served"]["boundary"])]
    wrong = [s for s in known if s["trained"]["boundary"] != s["served"]["boundary"]]
    if not wrong:
        return "The captured features are those of training: the cause lies elsewhere."
    parts = [
        f"slot {s['slot']} is fed {_boundary(s['served']['boundary'])} "
        f"where training had {_boundary(s['trained']['boundary'])}"
        for s in wrong
    ]
    text = f"{len(wrong)} of {len(diagnosis['slots'])} slots are fed another tap than trained: {'; '.join(parts)}."
    served = {s["served"]["boundary"] for s in known}
    lost = sorted({s["trained"]["boundary"] for s in known} - served)
    if lost:
        text += f" {' and '.join(_boundary(b)[0].upper() + _boundary(b)[1:] for b in lost)} reaches no slot any more."
    if len(wrong) > 1:
        text += " How much of the loss each slot causes was not measured in this run."
    return text


def summary(
    rows: Mapping[str, Measurement],
    diagnosis: Mapping[str, Any],
    right_over_off_by_one: PairedDifference,
    mended_over_right: PairedDifference,
) -> list[str]:
    """The answer first: what was wrong, how it is known, what the fix gave, what this lab cannot show."""
    right, wrong, off, mended, base = (rows[n] for n in ("right", "miswired", "off-by-one", "mended", "baseline"))
    fix = diagnosis.get("fix") or {}
    speculative = [right, wrong, off, mended]
    different = [r.name for r in speculative if not r.greedy_equal]
    return [
        f"Miswired (ids {ids(wrong.aux_layer_ids)}), the server accepts {rate(wrong)} of the drafts; with the ids of "
        f"training ({ids(right.aux_layer_ids)}) {rate(right)}. n = {wrong.verify_steps} and {right.verify_steps} "
        f"verify steps over the same {right.requests} prompts.",
        f"Cause, from captured tensors ({diagnosis['aligned_tokens']} aligned tokens): {cause(diagnosis)}",
        f"The diagnosis named the ids {ids(fix.get('aux_layer_ids'))}. Served with them, acceptance is {rate(mended)}; "
        f"against `right`, prompt by prompt, {_difference(mended_over_right)}.",
        f"Every tap one boundary early (ids {ids(off.aux_layer_ids)}) still gives {rate(off)}: `right` is ahead by "
        f"{_difference(right_over_off_by_one)} in a paired comparison. The taps show that fault at once; an acceptance "
        f"figure alone would not.",
        "Greedy text equals the baseline's on every prompt, whatever the wiring: miswiring costs speed, not truth."
        if not different
        else f"Greedy text DIFFERS from the baseline in {', '.join(different)}: verification is broken there.",
        _speed(base, right, mended, wrong),
    ]


def _difference(pair: PairedDifference) -> str:
    low, high = (100 * v for v in pair.ci95)
    return f"{100 * pair.difference:+.1f} points [{low:+.1f}, {high:+.1f}]"


def _speed(base: Measurement, right: Measurement, mended: Measurement, wrong: Measurement) -> str:
    figures = (
        f"{right.tokens_per_s:.0f} tokens/s with `right` and {mended.tokens_per_s:.0f} with the same wiring as "
        f"`mended`, which shows the noise; {wrong.tokens_per_s:.0f} miswired, "
        f"{base.tokens_per_s:.0f} without speculation; one pass each, one after the other"
    )
    if right.tokens_per_s <= base.tokens_per_s:
        return f"Speed on this CPU: {figures}. Speculation does not pay here; the lab shows what miswiring costs."
    return (
        f"Speed on this CPU: {figures}. One request at a time on a CPU engine: "
        "no forecast of what speculation gives on GPUs."
    )
