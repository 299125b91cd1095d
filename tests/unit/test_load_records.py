"""A load's figures on numbers that can be checked by hand: seconds, gaps, texts, ratios, settings.

.venv/bin/python -m pytest tests/unit/test_load_records.py
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.acceptance import Prompt, measurement
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Failure, Load, counted, first_difference, from_row, to_row
from helpers.acceptance.load_settings import LoadSettings, body_of, check_kinds, load_settings
from helpers.acceptance.per_prompt import per_prompt
from helpers.acceptance.prompts import KINDS, read_prompts
from helpers.acceptance.versus import speed_ratio, versus
from helpers.errors import UsageError
from helpers.serving import Profile, Speculation

PLAIN = Profile(name="plain", engine="sglang==0.5.9", model="~/m")
FAST = PLAIN.model_copy(
    update={"name": "fast", "draft": "~/d", "speculation": Speculation(num_steps=3, num_draft_tokens=4)}
)


def answer(id: str = "p0", seconds: float = 1.0, tokens: int = 5, started: float = 0.0, **more: object) -> Answer:
    """One that streams a token first, and the rest at its end."""
    arrivals = ((seconds / 5, 1), (seconds, tokens))
    ids = tuple(range(tokens))
    return replace(Answer(id, ids, None, seconds, started=started, arrivals=arrivals), **more)  # type: ignore[arg-type]


def test_a_chunks_gap_is_spread_over_its_tokens() -> None:
    one = answer(seconds=1.0, tokens=5)
    assert one.first_token_s == pytest.approx(0.2)
    assert one.inter_token_s == pytest.approx((0.2, 0.2, 0.2, 0.2))
    assert one.decode_s == pytest.approx(0.8)


def test_speed_counts_the_time_in_which_something_was_in_flight() -> None:
    """Two that overlap by half, a pause, and a third: 3 s busy of 4 s request time."""
    load = Load((answer("a", 2, 6, 100), answer("b", 1, 6, 101), answer("c", 1, 6, 200)), 6, concurrency=2)
    assert load.request_s == 4
    assert load.busy_s == 3
    assert load.tokens_per_s == 6
    assert load.running == pytest.approx(4 / 3)


def test_a_step_is_a_verify_step_or_a_token() -> None:
    counters = RequestCounters((0, 0, 0, 1), 3)
    fast = measurement(FAST, Load((answer(counters=counters),), 5))
    assert (fast.step_s, fast.decode_steps) == (pytest.approx(0.8), 1)
    plain = measurement(PLAIN, Load((answer(),), 5))
    assert (plain.step_s, plain.decode_steps) == (pytest.approx(0.2), 4)
    untold = measurement(FAST, Load((answer(),), 5))
    assert (untold.step_s, untold.accept_rate) == (None, None)


def test_asking_again_makes_no_interval_narrower() -> None:
    """The same eight prompts answered ten times over tell no more of other prompts than once."""
    rows = [
        answer(f"p{n}", counters=RequestCounters((4 - n % 4, 0, 0, n % 4), 12), seconds=1 + n / 10) for n in range(8)
    ]
    once = measurement(FAST, Load(tuple(rows), 5))
    often = measurement(FAST, [Load(tuple(rows), 5)] * 10)
    assert once.verify_steps == 32
    assert often.verify_steps == 320
    assert often.ci95 == pytest.approx(once.ci95)
    assert often.step_s_ci95 == pytest.approx(once.step_s_ci95)
    assert (once.passes, often.passes, often.requests) == (1, 10, 80)


def test_a_row_is_the_answer() -> None:
    meta = {"spec_verify_ct": 1, "spec_accept_histogram": [0, 1], "spec_draft_token_num": 3, "other": [1]}
    one = answer(text="ü", completion_tokens=5, prompt_tokens=3, finish="length", meta=meta)
    row = json.loads(json.dumps(to_row(one)))
    assert row["meta_info"] == meta
    assert from_row(row) == one
    assert counted(from_row(row)).counters == RequestCounters((0, 1), 3)
    failed = replace(one, failure=Failure(code="WB-LOAD-CUT", message="m"), meta={})
    assert from_row(json.loads(json.dumps(to_row(failed)))).failure == failed.failure


def test_partial_is_what_lacks_answers() -> None:
    assert not Load((answer(),), 5, asked=1).partial
    assert Load((answer(),), 5, asked=2).partial


def test_ratio_is_paired_by_prompt() -> None:
    """Prompts differ tenfold in speed, the candidate is twice as fast on each: no doubt about 2."""
    base = Load(tuple(answer(f"p{n}", 1.0 + 3 * n, 10) for n in range(6)), 10)
    fast = Load(tuple(answer(f"p{n}", (1.0 + 3 * n) / 2, 10) for n in range(6)), 10)
    found = speed_ratio([fast], [base])
    assert found is not None
    assert found.ratio == pytest.approx(2)
    assert found.ci95 == pytest.approx((2, 2))
    assert (found.pairs, found.prompts) == (1, 6)
    slower_start = Load(tuple(answer(f"p{n}", (1.0 + 3 * n) / 1.5, 10) for n in range(6)), 10)
    two = speed_ratio([fast, slower_start], [base, base])
    assert two is not None
    assert two.ci95 == pytest.approx((1.5, 2))
    assert two.pairs == 2


def test_a_pair_that_is_cut_does_not_take_the_others_prompts_away() -> None:
    base = Load(tuple(answer(f"p{n}", 2.0, 10) for n in range(6)), 10)
    fast = Load(tuple(answer(f"p{n}", 1.0, 10) for n in range(6)), 10)
    cut = Load(fast.answers[:1], 10)
    found = speed_ratio([cut, fast], [base, base])
    assert found is not None
    assert (found.pairs, found.prompts) == (1, 6)
    assert speed_ratio([Load((), 10)], [base]) is None


def test_the_first_difference_is_told_with_its_tokens_and_its_text() -> None:
    wanted = answer(text=" one two three", tokens=3)
    got = replace(wanted, output_ids=(0, 9, 2), text=" one 2 three")
    found = versus("fast", [Load((got,), 3)], "plain", [Load((wanted,), 3)])
    assert (found.greedy_equal, found.compared, found.differing) == (False, 1, 1)
    assert found.first is not None
    assert (found.first.prompt, found.first.token, found.first.got, found.first.wanted) == ("p0", 1, 9, 1)
    assert (found.first.character, found.first.got_text) == (5, " one 2 three")
    assert first_difference(Load((got,), 3), Load((wanted,), 3)) == ("p0", 1)
    sampled = versus("fast", [Load((got,), 3)], "plain", [Load((wanted,), 3)], greedy=False)
    assert (sampled.greedy_equal, sampled.first) == (None, None)


def test_without_tokens_texts_are_compared() -> None:
    wanted = replace(answer(text="abcd"), output_ids=(), completion_tokens=3)
    got = replace(wanted, text="abXd")
    found = versus("fast", [Load((got,), 3)], "plain", [Load((wanted,), 3)])
    assert found.first is not None
    assert (found.first.token, found.first.character) == (None, 2)
    assert first_difference(Load((got,), 3), Load((wanted,), 3)) == ("p0", 2)


def test_sums_of_a_prompt() -> None:
    two = [answer(counters=RequestCounters((1, 0, 2), 9)), answer(counters=RequestCounters((0, 1), 3), seed=1)]
    sums = per_prompt([Load(tuple(two), 5)])["p0"]
    assert (sums.verify_steps, sums.correct, sums.proposed, sums.tokens) == (4, 5, 12, 10)
    assert [sums.at_least(k) for k in range(5)] == [4, 3, 2, 0, 0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seeds": (1, 2)}, "temperature 0"),
        ({"seeds": (1, 1), "temperature": 1.0}, "one twice"),
        ({"concurrency": 100}, "concurrency"),
        ({"endpoint": "embeddings"}, "endpoint"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_settings(**given)
    assert caught.value.code == "WB-LOAD-SETTINGS"


def test_bodies_of_requests() -> None:
    ids, text = Prompt("a", (1, 2)), Prompt("b", text="x")
    sampling = body_of(ids, 3, LoadSettings(temperature=0.5, seeds=(3,), natural_end=True))["sampling_params"]
    assert (sampling["sampling_seed"], sampling["ignore_eos"]) == (3, False)
    greedy = body_of(text, 0, LoadSettings())
    assert (greedy["text"], greedy["stream"], greedy["sampling_params"]["ignore_eos"]) == ("x", True, True)
    assert "sampling_seed" not in greedy["sampling_params"]
    completion = body_of(ids, 0, LoadSettings(endpoint="completions"), model="m", tokens=4)
    assert (completion["prompt"], completion["model"], completion["max_tokens"]) == ([1, 2], "m", 4)


def test_prompts_of_three_kinds(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    message = {"role": "user", "content": "hi"}
    records = [{"id": "a", "input_ids": [1]}, {"id": "b", "text": "x\u2028y"}, {"id": "c", "messages": [message]}]
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    read = read_prompts(path, kinds=KINDS)
    assert [prompt.kind for prompt in read] == ["input_ids", "text", "messages"]
    with pytest.raises(UsageError, match="line 2 is no prompt"):
        read_prompts(path)
    with pytest.raises(UsageError, match="prompt c holds messages") as caught:
        check_kinds(read, LoadSettings())
    assert caught.value.next == "--endpoint chat"
    path.write_text(json.dumps({"id": "a", "input_ids": [1], "text": "x"}))
    with pytest.raises(UsageError, match="both input_ids and text"):
        read_prompts(path, kinds=KINDS)
