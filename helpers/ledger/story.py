"""The demo investigation in words and tables, every word derived from what was measured.

No sentence here blames one slot for what several lost, and none claims a speed-up: the lab's CPU cannot show one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.errors import WrongResult

if TYPE_CHECKING:
    from helpers.wiring.diagnosis import Diagnosis

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


def findings(diagnosis: Mapping[str, Any], *, attributed: bool = False) -> str:
    """A diagnosis as Markdown: verdict, findings, what was not decided and why, cause; ``attributed`` as in `cause`."""
    lines = [f"* `{f['code']}` ({f['severity']}): {f['summary']}" for f in diagnosis["findings"]]
    lines += [f"* `{one['code']}` (not decided): {one['why']}" for one in diagnosis.get("undecided", ())]
    return "\n".join([f"**Verdict: {diagnosis['verdict']}**", "", *lines, "", cause(diagnosis, attributed=attributed)])


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


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"


def _boundary(number: int) -> str:
    return "the embedding output (boundary 0)" if number == 0 else f"boundary {number}"


def both(prompts: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    """Of a diagnosis of prompts that matches, and of one of the server's answers."""
    rows = (answers.get("aligned") or {}).get("answer_rows", 0)
    if answers["verdict"] == "mismatch":
        return f"Prompts are fed as training had them, answers are not. {cause(answers)}"
    if answers["verdict"] == "match" and rows:
        return f"{cause(answers)} That is known of prompts, and of {rows} rows of answers."
    alone = "That is known of prompts alone: answers were captured, and what they are fed could not be judged."
    return f"{cause({**prompts, 'undecided': ()})} {alone}"


def cause(diagnosis: Mapping[str, Any], *, attributed: bool = False) -> str:
    """What differs, slot by slot, and what is missing altogether; attributes no share of the loss to any slot.

    Args:
        attributed: what each slot costs was measured beside it; else the text says that it was not.
    """
    slots = diagnosis["slots"]
    known = [s for s in slots if None not in (s["trained"]["boundary"], s["served"]["boundary"])]
    wrong = [s for s in known if s["trained"]["boundary"] != s["served"]["boundary"]]
    matches = any(f["code"] == "features-match" for f in diagnosis["findings"])
    warned = [f for f in diagnosis["findings"] if f.get("severity") == "warning"]
    apart = [f["summary"] for f in warned if f["code"].startswith("rank-")]
    if matches and not wrong and apart:
        return f"The captured features are those of training, but for ranks that do not agree: {'; '.join(apart)}."
    if matches and not wrong:
        text = "The captured features are those of training: the cause lies elsewhere."
        alone = any(one["code"] == "features-match" for one in diagnosis.get("undecided", ()))
        return f"{text} That is known of prompts alone: no row of an answer was compared." if alone else text
    if not wrong:
        found = ", ".join(f"`{f['code']}`" for f in diagnosis["findings"]) or "nothing"
        return f"No slot could be shown to be fed another tap than trained; the findings are: {found}."
    parts = [
        f"slot {s['slot']} is fed {_boundary(s['served']['boundary'])} "
        f"where training had {_boundary(s['trained']['boundary'])}"
        for s in wrong
    ]
    text = f"{len(wrong)} of {len(slots)} slots are fed another tap than trained: {'; '.join(parts)}."
    if len(known) < len(slots):
        text += f" {len(slots) - len(known)} could not be identified."
    else:
        lost = sorted({s["trained"]["boundary"] for s in known} - {s["served"]["boundary"] for s in known})
        if lost:
            named = f"Boundaries {_listed(lost)} reach" if len(lost) > 1 else f"Boundary {lost[0]} reaches"
            text += f" {named} no slot any more."
    if len(wrong) > 1 and not attributed:
        text += " How much of the loss each slot causes was not measured in this run."
    return text


def ids_to_mend(diagnosis: Diagnosis) -> tuple[int, ...]:
    """The ids that a diagnosis names.

    Raises:
        WrongResult: ``WB-DIAGNOSIS-NO-IDS``, with what the diagnosis says instead.
    """
    fix = diagnosis.fix
    if fix is not None and fix.aux_layer_ids is not None:
        return tuple(fix.aux_layer_ids)
    raise WrongResult(
        "WB-DIAGNOSIS-NO-IDS",
        f"the diagnosis ({diagnosis.verdict}) names no ids to mend the wiring with"
        + (f": {fix.note}" if fix is not None else ""),
        expected="a mismatch of taps that other ids undo",
        next="read its findings: " + (", ".join(diagnosis.codes()) or "none"),
    )


def summary(
    rows: Mapping[str, Measurement],
    diagnosis: Mapping[str, Any],
    right_over_off_by_one: PairedDifference,
    mended_over_right: PairedDifference,
    off_by_one: Mapping[str, Any],
) -> list[str]:
    """The answer first: what was wrong, how it is known, what the fix gave, what this lab cannot show.

    Args:
        rows: by name; ``baseline``, ``right``, ``miswired``, ``off-by-one`` and ``mended`` are there.
        diagnosis, off_by_one: of the miswired and of the off-by-one server.
    """
    right, wrong, off, mended, base = (rows[n] for n in ("right", "miswired", "off-by-one", "mended", "baseline"))
    return [
        f"Miswired (ids {ids(wrong.aux_layer_ids)}), the server accepts {rate(wrong)} of the drafts; with the ids of "
        f"training ({ids(right.aux_layer_ids)}) {rate(right)}. n = {wrong.verify_steps} and {right.verify_steps} "
        f"verify steps over the same {right.units} prompts.",
        f"Cause, from captured tensors ({diagnosis['aligned_tokens']} aligned tokens): {cause(diagnosis)}",
        f"The diagnosis named the ids {ids(mended.aux_layer_ids)}. Served with them, acceptance is {rate(mended)}; "
        f"prompt by prompt, {_ahead(mended_over_right)}.",
        f"Every tap one boundary off (ids {ids(off.aux_layer_ids)}) gives {rate(off)}; prompt by prompt, "
        f"{_ahead(right_over_off_by_one)}. Its captured taps say {_codes(off_by_one)}.",
        _greedy([right, wrong, off, mended], slower=wrong.tokens_per_s < right.tokens_per_s),
        _speed(base, right, mended, wrong),
    ]


def _ahead(pair: PairedDifference) -> str:
    """Who is ahead, as far as the interval shows it."""
    low, high = pair.ci95
    figures = f"{abs(100 * pair.difference):.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
    if low > 0:
        return f"`{pair.first}` is ahead of `{pair.second}` by {figures}"
    if high < 0:
        return f"`{pair.first}` is behind `{pair.second}` by {figures}"
    return f"`{pair.first}` and `{pair.second}` cannot be told apart: {100 * pair.difference:+.1f} points " + (
        f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    )


def _codes(diagnosis: Mapping[str, Any]) -> str:
    return ", ".join(dict.fromkeys(f"`{f['code']}`" for f in diagnosis["findings"])) or "nothing"


def _greedy(rows: Sequence[Measurement], *, slower: bool) -> str:
    different = [row.name for row in rows if not row.greedy_equal]
    if not different:
        text = "Greedy text equals the baseline's on every prompt, whatever the wiring"
        return text + (": miswiring costs speed, not truth." if slower else ".")
    dtypes = ", ".join(sorted({row.dtype for row in rows}))
    return (
        f"Greedy text DIFFERS from the baseline's in {', '.join(different)} (dtype {dtypes}). In float32 that points "
        "at verification; in 16 bits rounding alone can do it."
    )


def _speed(base: Measurement, right: Measurement, mended: Measurement, wrong: Measurement) -> str:
    same = mended.aux_layer_ids == right.aux_layer_ids
    figures = (
        f"{right.tokens_per_s:.0f} tokens/s with `right`, {mended.tokens_per_s:.0f} with `mended`"
        + (" (the same wiring: their difference is the noise)" if same else "")
        + f", {wrong.tokens_per_s:.0f} miswired, {base.tokens_per_s:.0f} without speculation; one pass each, one after "
        "the other"
    )
    if right.tokens_per_s <= base.tokens_per_s:
        own, its = right.tokens_per_s_ci95, base.tokens_per_s_ci95
        apart = own is not None and its is not None and own[1] < its[0]
        apart = apart and 1 not in (right.starts, base.starts)  # over prompts alone, which know nothing of a restart
        paying = "Speculation does not pay here" if apart else "That speculation pays is not shown here"
        return f"Speed on this CPU: {figures}. {paying}; the lab shows what miswiring costs."
    return (
        f"Speed on this CPU: {figures}. One request at a time on a CPU engine: "
        "no forecast of what speculation gives on GPUs."
    )
