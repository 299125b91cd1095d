"""Tokens beyond a model's end-of-text: a load that ignores it, as ours do by default, counts them like any others.

All answers are equally long then, which makes configurations comparable, but what a model writes after its own end is
often a loop or an invented turn: drafts of it are accepted more often, or less, than in what a user ever reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.load_records import Load


class PastEnd(BaseModel):
    """What of a load's answers lies after an end-of-text in them.

    Attributes:
        eos_token_ids: what counts as end-of-text: the ids of the model's config.json, which a server may have more of.
        answers: that go on after one. tokens: new tokens after the first one of each. of_tokens: new tokens in all.
    """

    model_config = ConfigDict(frozen=True)

    eos_token_ids: list[int]
    answers: int
    tokens: int
    of_answers: int
    of_tokens: int

    def __str__(self) -> str:
        ids = f"token{'s' if len(self.eos_token_ids) > 1 else ''} {', '.join(map(str, self.eos_token_ids))}"
        return (
            f"{self.answers} of {self.of_answers} answers go on after the model's end-of-text ({ids}), and "
            f"{self.tokens} of {self.of_tokens} new tokens lie after it"
        )


def past_end(loads: Iterable[Load], eos: Sequence[int]) -> PastEnd | None:
    """Count them; None where the model's end-of-text is not known, or the endpoint tells no token ids.

    Args:
        eos: ids of end-of-text tokens.
    """
    told = [answer.output_ids for load in loads for answer in load.answers if answer.output_ids]
    if not eos or not told:
        return None
    after = [len(ids) - 1 - min(ids.index(one) for one in eos if one in ids) for ids in told if set(eos) & set(ids)]
    return PastEnd(
        eos_token_ids=sorted(set(eos)),
        answers=sum(count > 0 for count in after),
        tokens=sum(after),
        of_answers=len(told),
        of_tokens=sum(map(len, told)),
    )


def past_end_said(name: str, found: PastEnd | None, option: str) -> str | None:
    """What has to be said beside a measurement; None where nothing has. ``option``: what ends answers there."""
    if found is None or not found.answers:
        return None
    return f"{name}: {found}: the figures are over these as well ({option} ends answers there)"
