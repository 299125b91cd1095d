"""Commands that measure again ask as the load did: each option of it that decides, read back by the command itself.

.venv/bin/python -m pytest tests/unit/test_asked_again.py
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from helpers.acceptance import Bench, LoadSettings, measurement
from helpers.acceptance.counters import RequestCounters
from helpers.acceptance.load_records import Answer, Load
from helpers.acceptance.load_settings import load_settings
from helpers.acceptance.measurement import Measurement
from helpers.commands.app import app
from helpers.ledger import open_ledger
from helpers.ledger.chapters import caption
from helpers.ledger.results import summarise
from helpers.serving.profile import Profile, Speculation

PROFILE = Profile(
    name="right",
    engine="sglang==0.5.9",
    model="~/m",
    draft="~/d",
    speculation=Speculation(num_steps=3, num_draft_tokens=4),
)
ASKED = [
    LoadSettings(),
    LoadSettings(max_new_tokens=17, natural_end=True),
    LoadSettings(temperature=0.7, top_p=0.9, seeds=(1, 2, 3), concurrency=4, warmup=0),
    LoadSettings(temperature=1.0, seeds=(5,), endpoint="completions", stall_s=5, max_failures=3),
]


def load(settings: LoadSettings, prompts: int = 8) -> Load:
    """As many answers as prompts and seeds make, some of them shorter than they might be."""
    answers = [
        Answer(f"p{n}", (1,) * (1 + n % 3), RequestCounters((1, 1), 6), 1.0, seed=seed)
        for seed in settings.seeds
        for n in range(prompts)
    ]
    return Load(tuple(answers), settings.max_new_tokens, settings.concurrency, len(answers), settings=settings)


def read(command: str) -> dict[str, Any]:
    """The options of a command line, as `workbook bench` itself takes them."""
    words = shlex.split(command)
    assert words[:3] == ["workbook", "bench", "BOX"]
    group = typer.main.get_command(app)
    bench = group.commands["bench"]
    return dict(bench.make_context("bench", words[2:], resilient_parsing=True).params)


def settings_of(given: dict[str, Any]) -> LoadSettings:
    """As `workbook bench` makes them of its options."""
    return load_settings(
        endpoint=given["endpoint"] or "generate",
        max_new_tokens=given["new_tokens"],
        natural_end=given["natural_end"],
        temperature=given["temperature"],
        top_p=given["top_p"],
        seeds=tuple(given["seed"]) if given["seed"] else None,
        concurrency=given["concurrency"],
        warmup=given["warmup"],
    )


@pytest.mark.parametrize("settings", ASKED)
def test_a_measurement_is_asked_again_as_it_was(settings: LoadSettings) -> None:
    row = measurement(PROFILE, [load(settings), load(settings)])
    given = read(summarise(row).command or "")
    assert settings_of(given).deciding() == settings.deciding()
    assert (given["limit"], given["pairs"], list(given["runs"])) == (8, 2, ["right"])
    assert summarise(Measurement.model_validate_json(row.model_dump_json())).command == summarise(row).command


@pytest.mark.parametrize("settings", ASKED)
def test_a_bench_is_asked_again_as_it_was_though_a_server_never_answered(settings: LoadSettings) -> None:
    one = load(settings)
    none = Load((), settings.max_new_tokens, asked=len(one.answers), settings=settings)
    loads = {"right": (one, none), "gone": (none, none)}
    arms = (measurement(PROFILE, one),)
    asked, answered = 4 * len(one.answers), len(one.answers)
    found = Bench(Path("b"), settings, arms, (), None, asked, answered, 0, (), loads)
    given = read(found.command)
    assert settings_of(given).deciding() == settings.deciding()
    assert (given["limit"], given["pairs"], list(given["runs"])) == (8, 2, ["right", "gone"])


def test_a_row_that_knows_no_settings_says_what_it_knows() -> None:
    row = measurement(PROFILE, load(ASKED[2])).model_copy(update={"settings": None})
    given = read(summarise(row).command or "")
    assert (given["limit"], given["concurrency"]) == (8, 4)


def test_the_seed_of_an_interval_is_not_read_as_that_of_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    ledger = open_ledger("seeds")
    sampled = measurement(PROFILE, load(ASKED[2]))
    kept = ledger.evidence(sampled, title="sampled")
    assert "bootstrap seed 0" in caption(kept)
    again = ledger.evidence({"rate": 0.5}, of=kept, title="made of it")
    assert "bootstrap seed 0" in caption(again)
    own = ledger.evidence(sampled, title="with a seed of its own", seed=7)
    assert ", seed 7" in caption(own)
    assert "bootstrap" not in caption(own)
