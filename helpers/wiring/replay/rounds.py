"""The server's rounds, followed over a text: draft, verify, go on where verification stopped.

Averaging over all positions instead would be wrong: rounds start where drafts failed or ran out, and text is harder
there than elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from helpers.errors import UsageError


@dataclass(frozen=True)
class Rounds:
    """One request's verify steps: ``histogram[i]`` accepted exactly i drafts.

    ``left_out``: text remained from which a round starts, but not all the tokens that would decide it.
    """

    histogram: tuple[int, ...]
    left_out: bool


def follow(
    agrees: Sequence[Sequence[bool]], *, prompt_tokens: int, last: int, new_tokens: int | None = None, request: str = ""
) -> Rounds:
    """Count a request's rounds.

    Args:
        agrees: ``agrees[n][j]``: draft n of the chain that starts in row j (token j + 1 is its last known token) is
            token j + 2 + n of the text. What lies beyond the text is not looked at.
        last: number of the last token that is known.
        new_tokens: count the rounds of a request that ended after so many new tokens. Its last round is counted as the
            server does: in full, also the drafts beyond the end. None: count each round whose tokens are all known,
            whatever came of it, so that what is counted does not depend on what was accepted.

    Raises:
        UsageError: ``WB-REPLAY-SHORT`` where the text ends before a round of the asked-for tokens is decided.

    >>> follow([[True] * 9, [False] * 9], prompt_tokens=2, last=9)
    Rounds(histogram=(0, 3, 0), left_out=True)
    """
    steps = len(agrees)
    histogram = [0] * (steps + 1)
    # The prefill gives the first new token; a round starts at the last verified token.
    verified = prompt_tokens
    end = last if new_tokens is None else prompt_tokens + new_tokens - 1
    while verified < end:
        if new_tokens is None and verified + steps > last:
            return Rounds(tuple(histogram), left_out=True)
        accepted = 0
        while accepted < steps:
            if verified + 1 + accepted > last:
                raise short(request, new_tokens or 0, last + 1 - prompt_tokens, steps)
            if not agrees[accepted][verified - 1]:
                break
            accepted += 1
        histogram[accepted] += 1
        verified += accepted + 1
    return Rounds(tuple(histogram), left_out=False)


def short(request: str, wanted: int, have: int, steps: int) -> UsageError:
    return UsageError(
        "WB-REPLAY-SHORT",
        f"request {request} has {have} new tokens with states; {wanted} are to be scored",
        expected=f"some {steps + 1} more than are scored: the last round is decided by the tokens beyond the end",
        next=f"workbook capture BOX RUN --prompts FILE --max-new-tokens {wanted + steps + 2}",
    )
