"""Results that notebooks show: in words, with what a reader needs to judge them."""

from __future__ import annotations

import pytest

from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.measurement import paired
from helpers.ledger.results import summarise
from helpers.notebook_text import Worded
from helpers.source.checkout import Checkout
from helpers.source.reading.statement import Statement, unread
from helpers.wiring.fixing import Fix
from helpers.wiring.ranks import RankView
from helpers.wiring.replay.result import Rated, Versus
from helpers.wiring.tables import agreement_rows

SHARED = {"ranks": 2, "equal": False, "same_tokens": True, "view": "partial-sum"}


def test_a_difference_names_both_rates_with_their_n_and_intervals() -> None:
    one = [RequestCounters((5, 5), 10), RequestCounters((2, 8), 10)]
    other = [RequestCounters((8, 2), 10), RequestCounters((9, 1), 10)]
    said = str(paired("right", one, "miswired", other))
    assert said.startswith(
        "accept rate of right 0.650 [0.500, 0.800] (n = 20 verify steps) minus that of miswired 0.150 ["
    )
    assert ": +50.0 points [+30.0, +70.0], paired over 2 prompts" in said


def test_a_replayed_difference_names_both_rates_with_their_n_and_intervals() -> None:
    fixed = Rated(taps=[2, 5, 9], accept_rate=0.9, ci95=(0.8, 0.95), verify_steps=141, accept_length=3.7)
    served = {"taps": [0, 2, 5], "accept_rate": 0.3, "ci95": (0.2, 0.4), "verify_steps": 204, "accept_length": 1.9}
    pair = Versus(**served, replayed=fixed, requests=24, difference=0.6, difference_ci95=(0.5, 0.7))
    said = summarise(pair)
    assert said.summary == (
        "accept rate 0.900 [0.800, 0.950] with the taps 2, 5, 9 (n = 141 verify steps), "
        "0.300 [0.200, 0.400] with the taps 0, 2, 5 (n = 204 verify steps); "
        "the first minus the second, paired over 24 requests: +0.600 [+0.500, +0.700]"
    )
    assert (said.n, said.unit) == (24, "requests")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (RankView(ranks=2, equal=True), "2 ranks, replicated: the same tokens, and every tensor equal bit for bit"),
        (RankView(ranks=1, equal=True), "one rank: nothing is spread over ranks"),
        (
            RankView(**SHARED, kinds={"boundary.003": "partial-sum"}, differing={"boundary.003": 0.29}),
            "2 ranks, partial-sum: the same tokens; boundary.003 partial-sum; values up to 29.0% apart",
        ),
        (Fix(aux_layer_ids=None, launch=["--a", "1"], note="switch it on"), "switch it on (launch: --a 1)"),
        (
            Checkout("/x/python/sglang", "0.5.9", "/usr/bin/python3", "3.11.7"),
            "sglang 0.5.9 in /x/python, as /usr/bin/python3 (Python 3.11.7) imports it",
        ),
    ],
)
def test_what_a_notebook_shows_is_words(result: Worded, words: str) -> None:
    assert str(result) == words
    assert result._repr_html_() == f"<div>{words}</div>"


def test_markup_in_words_is_text() -> None:
    assert "<b>" not in Fix(aux_layer_ids=None, launch=[], note="<b>\nx")._repr_html_()


def test_a_statement_says_whether_it_holds() -> None:
    assert str(Statement("a2a", True, "a branch")).startswith("a2a (holds: yes): a branch")
    assert str(Statement("fusion", False, "off")).startswith("fusion (holds: no): off")
    assert str(unread("order", "no such file")).startswith("order (holds: not known): not read: no such file")


def test_a_replay_is_held_against_the_server_request_by_request() -> None:
    from helpers.wiring.replay.result import RequestScore
    from helpers.wiring.replay.result import summarise as pooled

    replayed = pooled([0, 2, 5], 3, [RequestScore(id, (4, 2, 1, 0), False, None, 0) for id in ("a", "b", "c")])
    rows = agreement_rows(replayed, {"a": (4, 2, 1), "b": (5, 2, 0, 0)})
    assert list(rows["request"]) == ["a", "b"], "a request that the server told nothing of is left out"
    assert list(rows["equal"]) == [True, False]
    assert rows["server"][0] == [4, 2, 1, 0]
