"""A load that ignores end-of-text says how much of what it counted lies beyond it.

.venv/bin/python -m pytest tests/unit/test_past_end.py
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.acceptance import Bench, LoadSettings, Prompt
from helpers.acceptance.arms import ModelAbout, UrlArm, about
from helpers.acceptance.bench_result import summed, tasks_of
from helpers.acceptance.bench_text import bench_text
from helpers.acceptance.load_records import Answer, Load, to_row
from helpers.acceptance.past_end import PastEnd, past_end
from helpers.acceptance.sweep_results import Sweep, sweep_text
from helpers.acceptance.sweep_state import Row
from helpers.ledger.results import summarise
from helpers.serving import Profile

PLAIN = Profile(name="plain", engine="sglang==0.5.9", model="~/m")
PROMPTS = [Prompt(f"p{n}", (n, 7)) for n in range(4)]
#: Before its end, twice, at its very end, not at all.
IDS = [(5, 1, 6, 6), (1, 5, 1, 5), (5, 5, 5, 1), (5, 5, 5, 5)]
AFTER = "2 of 4 answers go on after the model's end-of-text (token 1), and 5 of 16 new tokens lie after it"


def load(ids: list[tuple[int, ...]]) -> Load:
    return Load(tuple(Answer(f"p{n}", one, None, 1.0) for n, one in enumerate(ids)), 4)


@pytest.mark.parametrize(
    ("ids", "eos", "found"),
    [
        (IDS, (1,), (2, 5, 4, 16)),
        (IDS, (1, 6), (2, 5, 4, 16)),
        (IDS, (5,), (4, 11, 4, 16)),
        (IDS, (9,), (0, 0, 4, 16)),
        (IDS, (), None),  # not known
        ([(), ()], (1,), None),  # text only
    ],
)
def test_tokens_after_the_first_end_are_counted(
    ids: list[tuple[int, ...]], eos: tuple[int, ...], found: tuple[int, ...] | None
) -> None:
    told = past_end([load(ids)], eos)
    counts = None if told is None else (told.answers, told.tokens, told.of_answers, told.of_tokens)
    assert counts == found


def bench(tmp_path: Path, eos: tuple[int, ...], **settings: Any) -> Bench:
    arm, load = UrlArm("", PLAIN, ModelAbout(8, None, eos)), LoadSettings(max_new_tokens=4, **settings)
    todo = list(tasks_of([arm], PROMPTS, load, 1))
    answers = [
        Answer(f"p{n}", one, None, 1.0, started=float(n), arrivals=((0.5, 1), (1.0, 4))) for n, one in enumerate(IDS)
    ]
    rows = [{"arm": "plain", "pass": 0, "run": "r1", **to_row(answer)} for answer in answers]
    return summed([arm], todo, rows, load, tmp_path)


def test_a_bench_says_so_and_names_the_option(tmp_path: Path) -> None:
    found = bench(tmp_path, (1,))
    said = f"note: plain: {AFTER}: the figures are over these as well (--natural-end ends answers there)"
    assert said in bench_text(found).splitlines()
    counts = {"answers": 2, "tokens": 5, "of_answers": 4, "of_tokens": 16, "eos_token_ids": [1]}
    assert json.loads(json.dumps(found.record()))["arms"][0]["past_end"] == counts
    assert summarise(found.arms[0]).summary.endswith(f"; {AFTER}")


@pytest.mark.parametrize("eos", [(), (9,)])
def test_and_nothing_where_there_is_nothing_to_say(tmp_path: Path, eos: tuple[int, ...]) -> None:
    found = bench(tmp_path, eos)
    assert "end-of-text" not in bench_text(found)
    assert "end-of-text" not in summarise(found.arms[0]).summary


def test_a_sweep_says_so_point_by_point(tmp_path: Path) -> None:
    axes = dict.fromkeys(("ids", "num_steps", "batch_size"))
    measured = bench(tmp_path, (1,)).arms[0]
    text = sweep_text(Sweep(tmp_path, (Row(point="a", status="done", axes=axes, measurement=measured),), ()))
    assert f"note: a: {AFTER}: the figures are over these as well (natural_end = true under [load] of the grid" in text


def test_several_ends_are_named() -> None:
    assert "(tokens 1, 2)" in str(PastEnd(eos_token_ids=[1, 2], answers=1, tokens=1, of_answers=1, of_tokens=2))


@pytest.mark.parametrize(
    ("config", "eos"),
    [
        ({"eos_token_id": 1}, (1,)),
        ({"eos_token_id": [3, 2]}, (2, 3)),
        ({"eos_token_id": 3, "text_config": {"eos_token_id": 4}}, (3, 4)),
        ({"text_config": {"eos_token_id": None}}, ()),
        ({}, ()),
    ],
)
def test_the_end_is_read_with_the_vocabulary(config: dict[str, Any], eos: tuple[int, ...]) -> None:
    read: list[str] = []

    def read_text(path: str) -> str:
        read.append(path)
        return json.dumps(config)

    box: Any = SimpleNamespace(home="/home/nobody", read_text=read_text)
    assert about(box, PLAIN).eos == eos
    assert len(read) == 1, "one file, as before"


def test_the_command_asks_as_it_was_asked(tmp_path: Path) -> None:
    plain = bench(tmp_path, (1,)).command
    assert not {"--natural-end", "--top-p", "--warmup", "--temperature"} & set(plain.split())
    asked = bench(tmp_path, (1,), natural_end=True, temperature=0.5, top_p=0.9, warmup=3).command
    for words in ("--natural-end", "--temperature 0.5", "--top-p 0.9", "--warmup 3"):
        assert words in asked
