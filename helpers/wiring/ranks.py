"""Whether the ranks of a capture hold the same: bit-equal replicas are what tensor parallelism promises at a tap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from helpers.notebook_text import Worded
from helpers.tensors.apart import PARTIAL
from helpers.tensors.view import View
from helpers.wiring.comparison import SlotComparison
from helpers.wiring.findings import Code, Finding, error

PARTIAL_SUM: Code = "rank-partial-sum"


class RankView(Worded, BaseModel):
    """What the ranks' copies have in common. ``differing``: the largest relative difference of a row to rank 0's, by
    tensor; ``rows_apart``: how many rows are more than a percent apart, and of how many, where there are any.

    ``view`` is what they are as a whole; ``kinds`` names the tensors that are no replicas; ``reconstructed`` says
    whether the whole could be put together from the ranks (null: nothing to put together). ``split_requests``: those
    whose tokens lie on several ranks; where ranks only have requests of their own (data-parallel attention), none.
    """

    model_config = ConfigDict(frozen=True)

    ranks: int
    equal: bool
    same_tokens: bool = True
    view: str = "replicated"
    kinds: dict[str, str] = Field(default_factory=dict)
    differing: dict[str, float] = Field(default_factory=dict)
    rows_apart: dict[str, tuple[int, int]] = Field(default_factory=dict)
    terms_differ: dict[str, bool] | None = None
    reconstructed: bool | None = None
    split_requests: int = 0

    def __str__(self) -> str:
        if self.ranks == 1:
            return "one rank: nothing is spread over ranks"
        if self.equal:
            return f"{self.ranks} ranks, {self.view}: the same tokens, and every tensor equal bit for bit"
        said = "the same tokens" if self.same_tokens else "other tokens on each rank"
        odd = [f"{name} {kind}" for name, kind in sorted(self.kinds.items())]
        more = f" and {len(odd) - 4} more" if len(odd) > 4 else ""
        worst = max(self.differing.values(), default=None)
        parts = [f"{self.ranks} ranks, {self.view}: {said}", ", ".join(odd[:4]) + more if odd else ""]
        parts.append("" if worst is None else f"values up to {worst:.1%} apart")
        return "; ".join(part for part in parts if part)


def compare_ranks(view: View) -> RankView:
    """The ranks' relation as a record."""
    taps = {name: kind for name, kind in view.kinds.items() if is_tap(name)}
    kinds = {str(kind) for kind in taps.values()}
    overall: str = view.rows_kind
    if kinds:
        every = {name for name in view.capture.ranks[0].entries if is_tap(name)}
        overall = next(iter(taps.values())) if len(kinds) == 1 and uniform(every, taps) else "mixed"
    terms = None
    if any(name.startswith("residual.") for name in view.capture.ranks[0].entries):
        terms = {kind: any(n.startswith(f"{kind}.") for n in view.kinds) for kind in ("out", "residual")}
    partial = [name for name, kind in taps.items() if kind == "partial-sum" and name != "feed"]
    rebuilt: bool | None = None
    if view.rows_kind != "replicated":
        rebuilt = view.rows_kind == "token-shard"
    elif taps:
        rebuilt = all(view.reducible(int(name.split(".")[1])) for name in partial) and (
            bool(partial) or "partial-sum" not in kinds
        )
    return RankView(
        ranks=len(view.capture.ranks),
        equal=view.rows_kind == "replicated" and not view.apart,
        same_tokens=view.rows_kind == "replicated",
        view=overall,
        kinds=dict(view.kinds),
        differing={name: one.largest for name, one in view.apart.items()},
        rows_apart={name: (one.rows, one.of) for name, one in view.apart.items() if one.rows},
        terms_differ=terms,
        reconstructed=rebuilt,
        split_requests=split_requests(view) if view.rows_kind == "token-shard" else 0,
    )


def split_requests(view: View) -> int:
    """How many requests have tokens on more than one rank."""
    pairs = set(zip(view.request.tolist(), view.owner.tolist(), strict=True))
    return sum(count > 1 for count in Counter(request for request, _ in pairs).values())


def is_tap(name: str) -> bool:
    return name.split(".")[0] in ("boundary", "feed")


def uniform(every: set[str], taps: Collection[str]) -> bool:
    """Whether the taps that are no replicas are all of them, but for the embedding, which is always reduced."""
    return every - {"boundary.000"} <= set(taps)


def with_true_taps(findings: list[Finding], compared: SlotComparison | None) -> list[Finding]:
    """The proof of a reconstruction: trained slots beside the tap that is put together, and beside rank 0's term."""
    if compared is None:
        return findings
    known = {match.boundary for match in compared.trained if match is not None}
    proven = [boundary for boundary in compared.reduced if boundary in known]
    if not proven:
        return findings
    scores = {f"boundary.{boundary:03d}": compared.trained_against(boundary) for boundary in proven}
    return [
        f.model_copy(update={"evidence": {**f.evidence, "trained_scores": scores}}) if f.code == PARTIAL_SUM else f
        for f in findings
    ]


def rank_findings(view: RankView) -> list[Finding]:
    """Findings where the ranks hold different things."""
    if view.view == "token-shard" and not view.split_requests:
        return []  # each rank has requests of its own, whole: nothing is missing from what its drafter is fed
    if view.view in ("token-shard", "other-tokens"):
        how = "the ranks hold other tokens each" if view.reconstructed else "the ranks hold rows of different tokens"
        counted = {
            "ranks": view.ranks,
            "reconstructed": bool(view.reconstructed),
            "split_requests": view.split_requests,
        }
        return [error("rank-token-shard", None, f"{how}: the hidden states are not gathered at the tap", **counted)]
    findings = []
    sliced = sorted(name for name, kind in view.kinds.items() if kind == "feature-shard" and is_tap(name))
    if sliced:
        summary = f"each of {view.ranks} ranks holds a slice of the width of {', '.join(sliced[:4])}"
        findings.append(error("rank-feature-shard", None, summary, tensors=sliced, ranks=view.ranks))
    far = {n: view.differing[n] for n, kind in view.kinds.items() if kind == "partial-sum" and is_tap(n)}
    if far:
        worst = max(far, key=lambda name: far[name])
        rows, of = view.rows_apart[worst]
        summary = (
            f"the same tokens have other values on each rank ({worst}: up to {far[worst]:.1%} apart, {rows} of {of} "
            f"rows by more than {PARTIAL:.0%}): not yet reduced"
        )
        if view.terms_differ == {"out": True, "residual": False}:
            summary += "; the residuals are equal and the outs differ, so residual + sum of outs is the true tap"
        of_rows = {name: list(view.rows_apart[name]) for name in far}
        evidence: dict[str, Any] = {"relative_difference": far, "rows": of_rows, "terms_differ": view.terms_differ}
        findings.append(error(PARTIAL_SUM, None, summary, **evidence, reconstructed=bool(view.reconstructed)))
    return findings or few_rows_apart(view)


def few_rows_apart(view: RankView) -> list[Finding]:
    """A warning where some rows differ by more than rounding, too few to say why."""
    few = {name: pair for name, pair in view.rows_apart.items() if is_tap(name)}
    if not few:
        return []
    worst = max(few, key=lambda name: (few[name][0], view.differing[name]))
    rows, of = few[worst]
    summary = (
        f"{rows} of {of} rows have other values on each rank ({worst}: up to {view.differing[worst]:.1%} apart): "
        "passes of few tokens that were not reduced, or tokens for which a last bit made one rank choose another "
        "expert; a capture of more answers tells, for it has more rows of decode and verify passes"
    )
    evidence = {
        "relative_difference": {name: view.differing[name] for name in few},
        "rows": {name: list(pair) for name, pair in few.items()},
    }
    return [Finding(code=PARTIAL_SUM, severity="warning", summary=summary, evidence=evidence)]
