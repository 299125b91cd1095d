"""Where in a text drafts are accepted: verify steps of streamed answers, by the position at which each began."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.acceptance.intervals import ratio_interval
from helpers.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TextStep:
    """One verify step.

    Attributes:
        position: new tokens of the answer before it (the first, from the prefill, included).
        tokens: that it gave out: accepted drafts and the bonus token, without what an answer's end cut off.
    """

    request: str
    position: int
    tokens: int


def steps_of_stream(request: str, completion_tokens: Sequence[int], *, verify_steps: int | None) -> list[TextStep]:
    """The verify steps of one streamed answer.

    Args:
        completion_tokens: ``meta_info.completion_tokens`` of each chunk, in order; the first chunk is the prefill's.
        verify_steps: ``spec_verify_ct`` of the last chunk. A chunk that joins several steps shows here.

    Raises:
        UsageError: ``WB-STREAM-JOINED`` when chunks do not stand for one verify step each.

    >>> steps_of_stream("p0", [1, 5, 7], verify_steps=2)
    [TextStep(request='p0', position=1, tokens=4), TextStep(request='p0', position=5, tokens=2)]
    """
    ends = list(dict.fromkeys(completion_tokens))
    pairs = list(itertools.pairwise(ends))
    if not pairs or any(b <= a for a, b in pairs) or (verify_steps is not None and verify_steps != len(pairs)):
        raise UsageError(
            "WB-STREAM-JOINED",
            f"request {request}: {len(completion_tokens)} chunks with {completion_tokens[:6]}... tokens stand for "
            f"{len(pairs)} steps, the server counts {verify_steps}",
            expected="one chunk a verify step, after the prefill's",
            next="stream one request at a time, with the server's --stream-interval 1",
        )
    return [TextStep(request, a, b - a) for a, b in pairs]


def position_rows(steps: Mapping[str, Iterable[TextStep]], *, width: int = 32) -> pd.DataFrame:
    """Tokens per verify step against position in the text, pooled in bins.

    Args:
        steps: the verify steps of each profile.
        width: tokens of text a bin.

    Returns:
        Columns ``profile``, ``position`` (a bin's middle), ``accept_length``, ``low``, ``high`` (95%, bootstrap over
        requests), ``steps`` (n). For `helpers.figures.acceptance_curves.over_position`.
    """
    import pandas as pd

    rows = []
    for profile, some in steps.items():
        bins: dict[int, dict[str, list[int]]] = {}
        for step in some:
            bins.setdefault(step.position // width, {}).setdefault(step.request, []).append(step.tokens)
        for number, by_request in sorted(bins.items()):
            tokens = [float(sum(t)) for t in by_request.values()]
            counts = [float(len(t)) for t in by_request.values()]
            low, high = ratio_interval(tokens, counts)
            rows.append((profile, (number + 0.5) * width, sum(tokens) / sum(counts), low, high, int(sum(counts))))
    return pd.DataFrame(rows, columns=["profile", "position", "accept_length", "low", "high", "steps"])
