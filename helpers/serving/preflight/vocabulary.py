"""The tables between the drafter's vocabulary and the target's: d2t (target = i + d2t[i]) and t2d."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on d2t, t2d and the drafter's head."""
    draft = facts.draft
    if not facts.eagle3 or draft is None or draft.config is None or draft.weights != "safetensors" or draft.problems:
        return
    vocab = draft.size("vocab_size") or (facts.target.size("vocab_size") if facts.target else None)
    small = draft.size("draft_vocab_size")
    head = next((s[0] for n, s in draft.shapes.items() if n.removeprefix("model.") == "lm_head.weight"), None)
    rows = small if small is not None else head if head is not None else vocab
    if head is not None and small is not None and head != small:
        yield found(
            "draft-head", "error", f"lm_head has {head} rows, and draft_vocab_size is {small}", head=head, config=small
        )
    d2t, t2d = draft.tables.get("d2t"), draft.tables.get("t2d")
    if d2t is None and rows is not None and vocab is not None and rows != vocab:
        yield found(
            "d2t-missing",
            "error",
            f"the drafter has {rows} tokens of its own for {vocab} of the target, and no d2t to tell which: its token "
            "i is taken for the target's i",
            draft_vocab=rows,
            vocab=vocab,
        )
    if d2t is not None and (problem := _d2t_problem(d2t, rows, vocab)):
        yield found("d2t-broken", "error", f"d2t is broken: {problem}", **d2t)
    if t2d is not None and (problem := _t2d_problem(t2d, d2t, rows, vocab)):
        yield found("t2d-broken", "error" if d2t is None else "warning", f"t2d is broken: {problem}", **t2d)


def _d2t_problem(d2t: dict[str, Any], rows: int | None, vocab: int | None) -> str:
    if not d2t["readable"]:
        return f"it is {d2t['dtype']}, not whole numbers"
    hint = " (it seems to hold the target's ids themselves, not differences)" if d2t["absolute"] else ""
    if rows is not None and d2t["length"] != rows:
        return f"it has {d2t['length']} entries for {rows} tokens"
    if d2t["lowest"] < 0 or (vocab is not None and d2t["highest"] >= vocab):
        return f"it leads to the tokens {d2t['lowest']} to {d2t['highest']} of {vocab}{hint}"
    if d2t["doubled"]:
        return f"{d2t['doubled']} tokens lead to a target token that another leads to{hint}"
    return ""


def _t2d_problem(t2d: dict[str, Any], d2t: dict[str, Any] | None, rows: int | None, vocab: int | None) -> str:
    if not t2d["readable"]:
        return f"it is {t2d['dtype']}, not true or false a token"
    if vocab is not None and t2d["length"] != vocab:
        return f"it has {t2d['length']} entries for {vocab} tokens of the target"
    if rows is not None and t2d["marked"] != rows:
        return f"it marks {t2d['marked']} tokens, and the drafter has {rows}"
    if d2t is not None and t2d.get("disagree"):
        return f"{t2d['disagree']} tokens are in one of d2t and t2d only"
    return ""
