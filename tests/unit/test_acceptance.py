"""Counters, pooling and intervals, on numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from helpers.acceptance.counters import RequestCounters, from_meta_info, pool
from helpers.acceptance.intervals import few, paired_difference, ratio_interval
from helpers.acceptance.load import Answer, Load, first_difference
from helpers.errors import UsageError, WrongResult

GOOD = {
    "spec_verify_ct": 4,
    "spec_accept_token_num": 8,
    "spec_draft_token_num": 12,
    "spec_accept_histogram": [1, 0, 1, 2],
}


def test_counters_come_from_the_servers_own_fields() -> None:
    counters = from_meta_info(GOOD)
    assert counters == RequestCounters((1, 0, 1, 2), 12)
    assert (counters.verify_steps, counters.correct) == (4, 8)


def test_no_speculation_means_no_counters() -> None:
    assert from_meta_info({"id": "x", "completion_tokens": 64}) is None


@pytest.mark.parametrize(
    ("change", "identity"),
    [
        ({"spec_verify_ct": 5}, "verify steps"),
        ({"spec_accept_token_num": 9}, "correct drafts"),
        ({"spec_draft_token_num": 13}, "whole number"),
        ({"spec_draft_token_num": 8}, "more drafts than proposed"),
    ],
)
def test_contradicting_figures_are_refused(change: dict[str, int], identity: str) -> None:
    with pytest.raises(WrongResult, match=identity) as caught:
        from_meta_info(GOOD | change)
    assert caught.value.code == "WB-COUNTERS-CONTRADICT"


def test_speculation_without_a_histogram_is_unreadable() -> None:
    with pytest.raises(UsageError, match="spec_verify_ct=3"):
        from_meta_info({"spec_verify_ct": 3, "spec_accept_rate": 0.5})


def test_pooling_adds_counts_and_never_averages_rates() -> None:
    pooled = pool([RequestCounters((1, 0, 0, 1), 6), RequestCounters((8,), 24)], num_steps=3)
    assert pooled.verify_steps == 10
    assert pooled.accept_rate == pytest.approx(3 / 30)  # the mean of the two rates would be .25
    assert pooled.accept_length == pytest.approx(1.3)
    assert pooled.survival == pytest.approx((0.1, 0.1, 0.1))


def test_a_step_beyond_num_steps_is_refused() -> None:
    with pytest.raises(WrongResult, match="num_steps=2"):
        pool([RequestCounters((0, 0, 0, 1), 3)], num_steps=2)


def test_interval_holds_the_rate_and_narrows_with_more_requests() -> None:
    correct, proposed = [3, 9, 6, 5, 7, 4], [12.0] * 6
    low, high = ratio_interval(correct, proposed)
    assert low < sum(correct) / sum(proposed) < high
    narrow = ratio_interval(correct * 20, proposed * 20)
    assert narrow[1] - narrow[0] < (high - low) / 3


def test_pairing_cancels_what_a_prompt_does_to_both() -> None:
    hard_and_easy = [1.0, 9.0, 2.0, 8.0, 1.0, 9.0]
    better = [c + 1 for c in hard_and_easy]
    ten = [10.0] * 6
    difference, (low, high) = paired_difference((better, ten), (hard_and_easy, ten))
    assert difference == pytest.approx(0.1)
    assert low == pytest.approx(0.1)
    assert high == pytest.approx(0.1)
    one, two = ratio_interval(better, ten), ratio_interval(hard_and_easy, ten)
    assert one[0] < two[1]  # unpaired, the two intervals overlap


def test_pairing_needs_the_same_requests() -> None:
    with pytest.raises(ValueError, match="1 and 2"):
        paired_difference(([1.0], [2.0]), ([1.0, 1.0], [2.0, 2.0]))


def test_requests_without_a_step_change_no_interval() -> None:
    """Answers of a single token have no verify step: draws of none but such have no rate."""
    correct, proposed, others = [5.0, 6.0, 4.0], [10.0, 10.0, 9.0], [2.0, 3.0, 1.0]
    none = [0.0] * 12
    assert ratio_interval([*correct, *none], [*proposed, *none]) == ratio_interval(correct, proposed)
    with_none = paired_difference(([*correct, *none], [*proposed, *none]), ([*others, *none], [*proposed, *none]))
    assert with_none == paired_difference((correct, proposed), (others, proposed))
    assert ratio_interval([3.0, 0.0], [10.0, 0.0]) == (0.0, 1.0), "one request is one, whoever stands beside it"


def test_one_request_says_nothing_of_others() -> None:
    """Drawn from itself alone it would always be the same: an interval of no width."""
    assert ratio_interval([3.0], [10.0]) == (0.0, 1.0)
    assert paired_difference(([3.0], [10.0]), ([1.0], [10.0])) == (pytest.approx(0.2), (-1.0, 1.0))
    # Tokens a second are no share; what `few` says has to stand beside it.
    assert ratio_interval([32.0], [0.5]) == (64.0, 64.0)
    assert [few(n) is None for n in (1, 2, 7, 8, 100)] == [False, False, False, True, True]


def test_the_first_different_token_is_named() -> None:
    base = Load((Answer("a", (1, 2, 3), None, 1.0), Answer("b", (4, 5, 6), None, 1.0)), 3)
    assert first_difference(base, base) is None
    other = Load((Answer("b", (4, 5, 7), None, 1.0), Answer("a", (1, 2, 3), None, 1.0)), 3)
    assert first_difference(other, base) == ("b", 2)
    shorter = Load((Answer("a", (1, 2), None, 1.0),), 3)
    assert first_difference(shorter, base) == ("a", 2)
