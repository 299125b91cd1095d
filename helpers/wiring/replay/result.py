"""What a replay gives: counts per request, and the rates made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from helpers.acceptance.counters import RequestCounters, pool
from helpers.acceptance.intervals import few, paired_difference, ratio_interval
from helpers.notebook_text import Worded


@dataclass(frozen=True)
class RequestScore:
    """One request replayed: its rounds, and the sum of step-1 cross-entropy over `rows` rows (None: not judged)."""

    id: str
    histogram: tuple[int, ...]
    left_out: bool
    cross_entropy: float | None
    rows: int

    @property
    def decided(self) -> bool:
        """Whether its text decides a round at all: a short answer may decide none."""
        return sum(self.histogram) > 0

    @property
    def counters(self) -> RequestCounters:
        return RequestCounters(self.histogram, sum(self.histogram) * (len(self.histogram) - 1))


class Request(BaseModel):
    """A request's accept histogram: ``histogram[i]`` verify steps accepted exactly i drafts."""

    model_config = ConfigDict(frozen=True)

    id: str
    histogram: list[int]


class Replay(BaseModel):
    """Acceptance of one wiring, without a server.

    Attributes:
        taps: what each slot was given: a boundary, ``feed[k]`` where it is none of the ladder's, or ``zeros``.
        accept_rate: correct / proposed drafts; ci95 by bootstrap over requests.
        survival: ``survival[i]`` is S(i + 1).
        verify_steps: n of the rates; rounds_left_out: requests whose last round the captured text does not decide.
        new_tokens: scored as if requests had ended after so many; None: every round that the texts decide.
        cross_entropy: nats, of the drafter's first step against the target's own distribution, mean over rows; over the
            drafter's vocabulary, so that what lies outside counts for nobody. None where the target's last state was
            not captured.
    """

    model_config = ConfigDict(frozen=True)

    taps: list[int | str]
    steps: int
    accept_length: float
    accept_rate: float
    ci95: tuple[float, float]
    survival: list[float]
    survival_ci95: list[tuple[float, float]]
    histogram: list[int]
    verify_steps: int
    requests: list[Request]
    cross_entropy: float | None
    cross_entropy_ci95: tuple[float, float] | None
    rows: int
    rounds_left_out: int
    new_tokens: int | None = None
    notes: list[str] = []


class Rated(BaseModel):
    """A wiring's accept rate, with its 95% interval over requests. ``verify_steps``: its n."""

    model_config = ConfigDict(frozen=True)

    taps: list[int | str]
    accept_rate: float
    ci95: tuple[float, float]
    verify_steps: int
    accept_length: float

    def __str__(self) -> str:
        low, high = self.ci95
        taps = ", ".join(map(str, self.taps))
        n = f"n = {self.verify_steps} verify steps"
        return f"{self.accept_rate:.3f} [{low:.3f}, {high:.3f}] with the taps {taps} ({n})"


class Versus(Worded, Rated):
    """Another wiring beside a replay's, over the same requests. Its own fields are those of the other wiring.

    Attributes:
        replayed: the replay's own rate. requests: on how many requests it is paired: those with a round on either side.
        difference: the replay's accept rate minus this one's; difference_ci95 its interval, paired by request.
        new_tokens: as in `Replay`.
    """

    replayed: Rated
    requests: int
    difference: float
    difference_ci95: tuple[float, float]
    new_tokens: int | None = None

    def __str__(self) -> str:
        low, high = self.difference_ci95
        return (
            f"accept rate {self.replayed}, {super().__str__()}; the first minus the second, paired over "
            f"{self.requests} requests: {self.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
        )


def rated(replay: Replay) -> Rated:
    """A replay's rate alone."""
    return Rated(**{name: getattr(replay, name) for name in Rated.model_fields})


def summarise(
    taps: Sequence[int | str], steps: int, scores: Sequence[RequestScore], notes: Sequence[str] = ()
) -> Replay:
    """Pool the requests of one replay."""
    counters = [score.counters for score in scores]
    pooled = pool(counters, num_steps=steps)
    rounds = [float(c.verify_steps) for c in counters]
    reached = [[float(sum(c.histogram[k:])) for c in counters] for k in range(1, steps + 1)]
    entropy, rows = entropies(scores)
    judged = entropy is not None and sum(rows) > 0
    return Replay(
        taps=list(taps),
        steps=steps,
        accept_length=pooled.accept_length,
        accept_rate=pooled.accept_rate,
        ci95=ratio_interval(*rates(scores)),
        survival=list(pooled.survival),
        survival_ci95=[ratio_interval(at_least, rounds) for at_least in reached],
        histogram=list(pooled.histogram),
        verify_steps=pooled.verify_steps,
        requests=[Request(id=score.id, histogram=list(score.histogram)) for score in scores],
        cross_entropy=sum(entropy) / sum(rows) if entropy is not None and judged else None,
        cross_entropy_ci95=ratio_interval(entropy, rows) if entropy is not None and judged else None,
        rows=int(sum(rows)),
        rounds_left_out=sum(score.left_out for score in scores),
        notes=[*notes, *([said] if (said := few(sum(score.decided for score in scores))) is not None else [])],
    )


def rates(scores: Sequence[RequestScore]) -> tuple[list[float], list[float]]:
    """(correct, proposed) drafts per request."""
    counters = [score.counters for score in scores]
    return [float(c.correct) for c in counters], [float(c.proposed) for c in counters]


def entropies(scores: Sequence[RequestScore]) -> tuple[list[float] | None, list[float]]:
    """(sums of cross-entropy or None, rows) per request."""
    sums = [score.cross_entropy for score in scores]
    rows = [float(score.rows) for score in scores]
    return (None if any(s is None for s in sums) else [s for s in sums if s is not None]), rows


def rate_difference(one: Sequence[RequestScore], other: Sequence[RequestScore]) -> tuple[float, tuple[float, float]]:
    """Accept rate of one replay minus another's, paired by request."""
    return paired_difference(rates(one), rates(other))


def entropy_difference(
    one: Sequence[RequestScore], other: Sequence[RequestScore]
) -> tuple[float, tuple[float, float]] | None:
    """Cross-entropy of one replay minus another's, paired by request; None where it was not judged."""
    (first, rows), (second, others) = entropies(one), entropies(other)
    if first is None or second is None:
        return None
    return paired_difference((first, rows), (second, others))
