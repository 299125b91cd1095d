"""A load ends with what it has, marked partial, with the cause: 500, cut and silent streams, an absent server.

.venv/bin/python -m pytest tests/contract/test_load_faults.py
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from http_faults import Faulty, faulty

from helpers.acceptance import Prompt, run_load
from helpers.acceptance.arms import Seat, UrlArm
from helpers.acceptance.bench_run import Bench, bench
from helpers.acceptance.bench_text import bench_text
from helpers.acceptance.load_client import Request, answers
from helpers.acceptance.load_settings import LoadSettings
from helpers.errors import RemoteFailed, UsageError, WrongResult
from helpers.ledger.results import summarise
from helpers.serving import Profile, Speculation

PROMPTS = [Prompt(f"p{n}", (n, 7, 7)) for n in range(5)]
SPECULATING = Profile(
    name="fast",
    engine="sglang==0.5.9",
    model="~/m",
    draft="~/d",
    speculation=Speculation(num_steps=3, num_draft_tokens=4),
)
SETTINGS = LoadSettings(max_new_tokens=6, warmup=0, stall_s=2)


@pytest.fixture
def server() -> Iterator[Faulty]:
    with faulty() as running:
        yield running


def measure(server: Faulty, out: Path, settings: LoadSettings = SETTINGS, url: str = "") -> Bench:
    return bench([UrlArm(url or server.url, SPECULATING)], PROMPTS, settings, out, progress=False)


def rows(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("incremental", [False, True], ids=["repeating", "incremental"])
def test_a_stream_is_read_whole(server: Faulty, incremental: bool) -> None:
    server.incremental = incremental
    [answer] = answers(server.url, [Request(PROMPTS[2])], SETTINGS)
    assert answer.failure is None
    assert answer.output_ids == (102, 103, 104, 105, 106, 107)
    assert answer.text == " 102 103 104 105 106 107"
    assert [have for _, have in answer.arrivals] == [1, 2, 3, 4, 5, 6]
    assert answer.meta["spec_accept_histogram"] == [5]
    assert (answer.finish, answer.prompt_tokens) == ("length", 3)
    assert 0 < answer.arrivals[0][0] <= answer.arrivals[-1][0] <= answer.seconds


@pytest.mark.parametrize(
    ("fault", "code", "words", "got"),
    [
        ("500", "WB-LOAD-FAILED", "HTTP 500", 0),
        ("error", "WB-LOAD-FAILED", "the request is too long", 2),
        ("garbage", "WB-LOAD-FAILED", "no JSON", 2),
        ("cut", "WB-LOAD-CUT", "after 2 new tokens", 2),
        ("short", "WB-LOAD-CUT", "before the request had", 2),
        ("refuse", "WB-LOAD-CUT", "after 0 new tokens", 0),
        ("silent", "WB-LOAD-STALLED", "nothing came for 2 s", 2),
        ("comments", "WB-LOAD-STALLED", "nothing new came for 2 s", 2),
    ],
)
def test_a_fault_in_the_middle_ends_it_partial_with_the_cause(
    server: Faulty, tmp_path: Path, fault: str, code: str, words: str, got: int
) -> None:
    """Two requests answered, the third meets the fault, the rest is not sent; mended, the same call asks only them."""
    server.faults = {2: fault}
    found = measure(server, tmp_path)
    assert found.partial
    assert (found.answered, found.asked) == (2, 5)
    assert found.failure is not None
    assert found.failure.code == code
    assert words in found.failure.message
    assert "request p2 of 3 tokens" in found.failure.message
    kept = rows(tmp_path)
    assert [row["ok"] for row in kept] == [True, True, False]
    assert len(kept[-1]["output_ids"]) == got  # type: ignore[arg-type]
    assert [body["input_ids"][0] for body in server.asked] == [0, 1, 2]
    assert found.arms[0].verify_steps == 10
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["partial"], summary["cause"]["code"]) == (True, code)
    assert "PARTIAL: 2 of 5 requests have an answer" in bench_text(found)

    server.faults = {}
    server.asked.clear()
    whole = measure(server, tmp_path)
    assert not whole.partial
    assert (whole.resumed, whole.answered, whole.failure) == (2, 5, None)
    assert [body["input_ids"][0] for body in server.asked] == [2, 3, 4]
    assert whole.arms[0].verify_steps == 25


def test_an_absent_server_is_told(server: Faulty, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    found = measure(server, tmp_path, url=url)
    assert (found.answered, found.arms) == (0, ())
    assert found.failure is not None
    assert found.failure.code == "WB-LOAD-NO-SERVER"


def test_failures_up_to_a_number_are_passed_over(server: Faulty, tmp_path: Path) -> None:
    server.faults = {1: "500", 3: "cut"}
    found = measure(server, tmp_path, SETTINGS.model_copy(update={"max_failures": 2}))
    assert (found.answered, found.asked) == (3, 5)
    assert found.failure is not None
    assert "p1" in found.failure.message


def test_what_is_in_flight_comes_to_its_end(server: Faulty, tmp_path: Path) -> None:
    """Three at a time: one fails, the other two are waited for, and no fourth is sent."""
    server.faults = {1: "silent"}
    found = measure(server, tmp_path, SETTINGS.model_copy(update={"concurrency": 3}))
    assert {body["input_ids"][0] for body in server.asked} >= {0, 1, 2}
    assert found.answered == len(server.asked) - 1
    assert found.failure is not None
    assert found.failure.code == "WB-LOAD-STALLED"


def test_a_server_known_to_be_dead_is_not_waited_for(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence, and the box says why: both requests in flight end at once, with that."""
    from helpers.acceptance import load_client

    monkeypatch.setattr(load_client, "WATCH_S", 0.1)
    server.faults = {1: "silent", 2: "silent"}
    requests = [Request(prompt) for prompt in PROMPTS]
    patient = SETTINGS.model_copy(update={"stall_s": 100, "concurrency": 2})
    found = list(answers(server.url, requests, patient, watch=lambda: "its scheduler is dead"))
    failed = [answer for answer in found if answer.failure is not None]
    assert {answer.id for answer in failed} == {"p1", "p2"}
    assert len(found) == 3
    for answer in failed:
        assert answer.failure is not None
        assert answer.failure.code == "WB-LOAD-STALLED"
        assert "its scheduler is dead" in answer.failure.message
        assert answer.tokens == 2


def test_an_interrupt_leaves_rows_and_a_summary(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a request hangs: its connection is given up at once, what was answered is on disk."""
    from helpers.acceptance import bench_run as module

    def interrupted(*_: object) -> dict[str, object]:
        raise KeyboardInterrupt

    server.faults = {1: "silent"}
    monkeypatch.setattr(module, "to_row", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(server, tmp_path, SETTINGS.model_copy(update={"concurrency": 2, "stall_s": 60}))
    assert json.loads((tmp_path / "summary.json").read_text())["answered"] == 0


def test_two_servers_are_asked_in_turn_and_compared(server: Faulty, tmp_path: Path) -> None:
    """A B B A; the second server says something else from the third token of one prompt on."""
    server.faults = {4: "other"}
    base = Profile(name="plain", engine="sglang==0.5.9", model="~/m")
    with faulty() as other:
        arms = [UrlArm(other.url, base), UrlArm(server.url, SPECULATING)]
        found = bench(arms, PROMPTS, SETTINGS, tmp_path, passes=2, progress=False)
    order = list(dict.fromkeys((row["arm"], row["pass"]) for row in rows(tmp_path)))
    assert order == [("plain", 0), ("fast", 0), ("fast", 1), ("plain", 1)]
    [against] = found.versus
    assert (against.greedy_equal, against.compared, against.differing) == (False, 5, 1)
    assert against.first is not None
    assert (against.first.prompt, against.first.token, against.first.got, against.first.wanted) == ("p4", 2, 7, 106)
    assert "p4, new token 2 is 7, the baseline's 106" in bench_text(found)
    assert against.speed is not None
    assert (against.speed.pairs, against.speed.prompts) == (2, 5)
    assert against.speed.ci95[0] <= against.speed.ratio <= against.speed.ci95[1]


@dataclass(frozen=True)
class Started(UrlArm):
    """A server with a run and patches of its own in every pass but where `once` says that it runs on."""

    once: bool = False
    starts: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, *, progress: bool = True) -> Iterator[Seat]:
        self.starts.append(f"{self.name}-{0 if self.once else len(self.starts)}")
        yield Seat(self.url, self.starts[-1], patches=("capture-embedding@0123456789ab",))


@pytest.mark.parametrize(("once", "passes", "starts"), [(False, 1, 1), (True, 2, 1), (False, 2, 2)])
def test_starts_and_patches_are_those_of_the_runs(
    server: Faulty, tmp_path: Path, once: bool, passes: int, starts: int
) -> None:
    """One start, asked once or twice: intervals are over prompts only; it is said. A second call reads the same."""
    plain = Profile(name="plain", engine="sglang==0.5.9", model="~/m")
    for _ in range(2):
        with faulty() as other:
            arms = [Started(other.url, plain, once=once), Started(server.url, SPECULATING, once=once)]
            found = bench(arms, PROMPTS, SETTINGS, tmp_path, passes=passes, progress=False)
        assert [(arm.starts, arm.patches) for arm in found.arms] == [(starts, ["capture-embedding@0123456789ab"])] * 2
        said = "plain, fast: one start: the interval is over prompts only" in bench_text(found)
        assert (said, found.versus[0].starts) == (starts == 1, starts)
        needed = found.versus[0].break_even
        assert needed is not None
        assert (needed.starts, needed.ci95 is None) == (starts, starts == 1)
        assert f"break-even accept length {needed}" in bench_text(found)
        assert json.loads((tmp_path / "summary.json").read_text())["versus"][0]["break_even"]["starts"] == starts
        assert ("times the tokens/s (one start: " in summarise(found.versus[0]).summary) is (starts == 1)
    assert summarise(found).patches == ("capture-embedding@0123456789ab",)
    told = measure(server, tmp_path / "url")
    assert (told.arms[0].starts, told.arms[0].patches) == (None, [])  # nobody started it here: what its profile says


def test_contradicting_counters_are_refused_and_the_answers_kept(server: Faulty, tmp_path: Path) -> None:
    wrong = Speculation(num_steps=1, num_draft_tokens=2)
    narrow = SPECULATING.model_copy(update={"speculation": wrong})
    measured = bench([UrlArm(server.url, narrow)], PROMPTS, SETTINGS, tmp_path, progress=False)
    assert measured.answered == 5  # no step accepted more than one draft: nothing contradicts
    text = (tmp_path / "requests.jsonl").read_text().replace('"spec_verify_ct":5', '"spec_verify_ct":6', 1)
    (tmp_path / "requests.jsonl").write_text(text)
    with pytest.raises(WrongResult, match="verify steps") as caught:
        bench([UrlArm(server.url, narrow)], PROMPTS, SETTINGS, tmp_path, progress=False)
    assert caught.value.code == "WB-COUNTERS-CONTRADICT"
    assert len(rows(tmp_path)) == 5


def test_a_simple_load_raises_at_the_first_failure(server: Faulty) -> None:
    server.faults = {1: "500"}
    with pytest.raises(RemoteFailed, match="request p1 of 3 tokens") as caught:
        run_load(server.url, PROMPTS, max_new_tokens=6, progress=False)
    assert caught.value.code == "WB-LOAD-FAILED"


def test_foreign_token_ids_are_never_sent(server: Faulty) -> None:
    with pytest.raises(UsageError, match="token 1 of p0 is 7") as caught:
        run_load(server.url, PROMPTS, progress=False, vocab_size=6)
    assert caught.value.code == "WB-PROMPTS-VOCABULARY"
    assert server.asked == []
