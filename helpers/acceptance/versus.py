"""One configuration against its baseline: ratio of speeds, greedy texts, accept rates; all paired by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.breaking_even import BreakEven
from helpers.acceptance.differences import PairedDifference, paired, rates_apart
from helpers.acceptance.intervals import DRAWS
from helpers.acceptance.load_records import Answer, Load, divergence
from helpers.acceptance.per_prompt import per_prompt

SHOWN = 24  # characters of text around a difference


class SpeedRatio(BaseModel):
    """Tokens per request second of a candidate over those of its baseline, for the same prompts.

    Attributes:
        ci95: prompts are drawn, the same for both sides; with several pairs (passes, restarts) pairs are drawn too.
        pairs: how often both were measured. prompts: on how many prompts both have answers.
    """

    model_config = ConfigDict(frozen=True)

    ratio: float
    ci95: tuple[float, float]
    pairs: int
    prompts: int


class Difference(BaseModel):
    """Where two texts of one request part.

    Attributes:
        token: the first new token that differs, counted from 0; None where the endpoint tells no tokens.
        got, wanted: that token on both sides; None where one side had ended.
        character: the first character of the new text that differs.
        got_text, wanted_text: the text there.
    """

    model_config = ConfigDict(frozen=True)

    prompt: str
    seed: int
    token: int | None
    got: int | None
    wanted: int | None
    character: int | None
    got_text: str
    wanted_text: str


class Versus(BaseModel):
    """What a candidate gave against the baseline.

    Attributes:
        speed: None where they have no prompt in common.
        greedy_equal: all common greedy texts are equal; None where nothing was greedy.
        compared, differing: texts that were compared, and how many of them differ. first: the first of these.
        accept_rate: candidate minus baseline, where both speculate and draft alike.
        rates_apart: why two accept rates have no difference; None where they have one, or one of them is not there.
        starts: of each server, the fewer of the two; None where that is not known. With one, no interval knows of
            what a restart changes.
        break_even: accept length from which the candidate is faster, with an interval over starts where there were
            several; None where the candidate does not speculate, the baseline does, or step times are not known.
    """

    model_config = ConfigDict(frozen=True)

    candidate: str
    baseline: str
    speed: SpeedRatio | None
    greedy_equal: bool | None
    compared: int
    differing: int
    first: Difference | None
    accept_rate: PairedDifference | None
    rates_apart: str | None = None
    starts: int | None = None
    break_even: BreakEven | None = None


def versus(
    candidate: str,
    loads: Sequence[Load],
    baseline: str,
    others: Sequence[Load],
    *,
    greedy: bool = True,
    topk: tuple[int, int] = (1, 1),
) -> Versus:
    """Compare two configurations that answered the same prompts.

    Args:
        loads: the candidate's passes, in order; others: the baseline's.
        greedy: whether texts can be expected to be equal at all.
        topk: branches a draft step of the candidate and of the baseline: a tree can be as large as a chain is long.
    """
    told, differing = text_differences(loads, others) if greedy else (0, [])
    return Versus(
        candidate=candidate,
        baseline=baseline,
        speed=speed_ratio(loads, others),
        greedy_equal=not differing if greedy and told else None,
        compared=told,
        differing=len(differing),
        first=differing[0] if differing else None,
        **_accept_rates(candidate, loads, baseline, others, topk),
    )


def speed_ratio(
    loads: Sequence[Load], others: Sequence[Load], *, seed: int = 0, draws: int = DRAWS
) -> SpeedRatio | None:
    """The candidate's speed over the baseline's; None where they have no answered prompt in common.

    Pass i of one side is paired with pass i of the other; pairs that lack prompts of the fullest one are left out. With
    few pairs the interval knows little of what a restart changes: it cannot be wider than the pairs that it has seen.
    """
    import numpy as np

    sides = [(per_prompt([mine]), per_prompt([its])) for mine, its in zip(loads, others, strict=False)]
    shared = [[id for id in mine if id in its] for mine, its in sides]
    common = max(shared, key=len, default=[])
    sides = [both for both, ids in zip(sides, shared, strict=True) if set(common) <= set(ids)]
    if not common:
        return None
    # [pairs, prompts, (tokens, seconds of the candidate, tokens, seconds of the baseline)]
    table = np.array(
        [[(m[i].tokens, m[i].seconds, b[i].tokens, b[i].seconds) for i in common] for m, b in sides], dtype=float
    )
    generator = np.random.default_rng(seed)
    prompts = generator.integers(0, len(common), size=(draws, len(common)))
    starts = generator.integers(0, len(sides), size=(draws, len(sides)))
    sums = np.stack([table[starts[d]][:, prompts[d]].sum((0, 1)) for d in range(draws)])
    low, high = np.percentile(sums[:, 0] / sums[:, 1] * sums[:, 3] / sums[:, 2], [2.5, 97.5])
    tokens, seconds, its_tokens, its_seconds = table.sum((0, 1))
    ratio = tokens / seconds * its_seconds / its_tokens
    return SpeedRatio(ratio=float(ratio), ci95=(float(low), float(high)), pairs=len(sides), prompts=len(common))


def text_differences(loads: Sequence[Load], others: Sequence[Load]) -> tuple[int, list[Difference]]:
    """How many requests have an answer on both sides, and where those that differ part. The first answer counts."""
    theirs = _first_answers(others)
    mine = _first_answers(loads)
    common = [key for key in mine if key in theirs]
    met = (difference_of(mine[key], theirs[key]) for key in common)
    return len(common), [difference for difference in met if difference is not None]


def difference_of(answer: Answer, wanted: Answer) -> Difference | None:
    """Where two answers to one request part; None when they are the same."""
    told = bool(answer.output_ids) and bool(wanted.output_ids)
    token = divergence(answer.output_ids, wanted.output_ids) if told else None
    character = divergence(answer.text, wanted.text)
    if token is None and (told or character is None):
        return None
    at = max(0, (character or 0) - SHOWN // 2)
    return Difference(
        prompt=answer.id,
        seed=answer.seed,
        token=token,
        got=_at(answer.output_ids, token),
        wanted=_at(wanted.output_ids, token),
        character=character,
        got_text=answer.text[at : at + SHOWN],
        wanted_text=wanted.text[at : at + SHOWN],
    )


def _at(ids: Sequence[int], place: int | None) -> int | None:
    return ids[place] if place is not None and place < len(ids) else None


def _first_answers(loads: Sequence[Load]) -> Mapping[tuple[str, int], Answer]:
    found: dict[tuple[str, int], Answer] = {}
    for load in loads:
        for answer in load.answers:
            found.setdefault((answer.id, answer.seed), answer)
    return found


def _accept_rates(
    candidate: str, loads: Sequence[Load], baseline: str, others: Sequence[Load], topk: tuple[int, int]
) -> dict[str, Any]:
    mine, theirs = per_prompt(loads), per_prompt(others)
    common = [id for id in mine if id in theirs and mine[id].proposed and theirs[id].proposed]
    if not common:
        return {"accept_rate": None}
    one, other = [mine[id] for id in common], [theirs[id] for id in common]
    met = rates_apart(one, other)
    if met is None and topk[0] != topk[1]:
        met = f"topk {topk[0]} and {topk[1]}: not as many of the proposed drafts can be accepted"
    if met is not None:
        return {"accept_rate": None, "rates_apart": f"{met}; compare accept lengths"}
    return {"accept_rate": paired(candidate, one, baseline, other)}
