"""Sweeps on the real engine: points that fail are told and skipped; a killed sweep loses no point and runs none twice.

.venv/bin/python -m pytest tests/lab/test_sweep.py
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leftovers import processes_with

from helpers.acceptance import read_prompts
from helpers.acceptance.grid import LAB_GRID, Axes, Grid, Spec, read_grid
from helpers.acceptance.load_settings import LoadSettings
from helpers.acceptance.sweep_results import read_rows, sweep_frame, sweep_text
from helpers.acceptance.sweep_rounds import rounds_text, sweep_rounds
from helpers.acceptance.sweep_run import sweep
from helpers.box import Box
from helpers.paths import ROOT
from helpers.serving import Profile, find_runs
from helpers.source import patches
from remote import processes

WORKBOOK = [sys.executable, "-m", "helpers.cli"]
PATCH = "capture-embedding"
MISWIRED = "miswired-steps1"


def events(out: Path) -> list[dict[str, Any]]:
    """The journal's whole lines, while another process may be writing the next."""
    path = out / "sweep.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def requests(out: Path, point: str) -> list[dict[str, Any]]:
    path = out / "points" / point / "requests.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def living(box: Box) -> list[str]:
    """Runs with any process left, also such whose server is dead."""
    return [run.id for run in find_runs(box) if processes_with(f"{processes.MARKER}={run.id}\0")]


@pytest.mark.full
def test_batch_sizes_share_a_start_and_a_failed_point_is_told(
    box: Box, profiles: dict[str, Profile], tmp_path: Path
) -> None:
    """Three points, two starts, one of which must fail; then the same call again, which does nothing."""
    grid = Grid(
        base="right",
        load=LoadSettings(max_new_tokens=8, warmup=0),
        preflight=False,
        axes=Axes(num_steps=(2,), batch_size=(2, 1)),
        points=(Spec(backend="no-such-backend"),),
    )
    prompts = read_prompts(ROOT / "data/prompts/lab-heldout.jsonl", limit=4)
    out = tmp_path / "sweep"
    found = sweep(box, grid, profiles, prompts, out, progress=False)
    assert [(row.point, row.status) for row in found.rows] == [
        ("right-steps2", "done"),
        ("right-steps2-b2", "done"),
        ("right-no-such-backend", "failed"),
    ]
    one, two, failed = found.rows
    assert failed.cause is not None
    assert failed.cause.code == "WB-SERVE-BAD-ARGUMENT"
    assert any("no-such-backend" in line for line in failed.cause.lines)
    assert one.measurement is not None
    assert two.measurement is not None
    assert one.measurement.run == two.measurement.run
    assert one.measurement.running == pytest.approx(1.0)
    assert two.measurement.running is not None
    assert two.measurement.running > 1.2
    assert one.measurement.decode_steps == one.measurement.verify_steps
    assert living(box) == []
    before = [row["event"] for row in events(out)]
    again = sweep(box, grid, profiles, prompts, out, progress=False)
    assert again.rows == found.rows
    assert [row["event"] for row in events(out)] == before
    frame = sweep_frame(read_rows(out))
    assert list(frame["batch_size"]) == [1, 2, 1]
    assert list(frame["num_draft_tokens"]) == [3, 3, 4]
    assert list(frame["cause"])[2] == "WB-SERVE-BAD-ARGUMENT"
    assert len(frame["survival"][0]) == 2


def test_what_preflight_finds_is_not_started(box: Box, profiles: dict[str, Profile], tmp_path: Path) -> None:
    """-1 needs the patch: without it the engine would die of it, and the source says so before."""
    grid = Grid(base="right", points=(Spec(ids=(-1, 1, 4)),))
    prompts = read_prompts(ROOT / "data/prompts/lab-heldout.jsonl", limit=1)
    before = len(find_runs(box))
    found = sweep(box, grid, profiles, prompts, tmp_path, progress=False)
    [row] = found.rows
    assert (row.point, row.status, found.good) == ("ids-1_1_4", "failed", False)
    assert row.cause is not None
    assert row.cause.code == "WB-SWEEP-PREFLIGHT"
    assert "ids-never-fire" in row.cause.message
    assert len(find_runs(box)) == before
    assert "PREFLIGHT" in sweep_text(found)


@pytest.mark.full
def test_rounds_are_starts_of_their_own_and_go_on(box: Box, profiles: dict[str, Profile], tmp_path: Path) -> None:
    """Two rounds of one point and its baseline: two starts of each, the same counts, a speed and a break-even with an
    interval, which one round has not; asked again, nothing starts.
    """
    load = LoadSettings(max_new_tokens=8)
    grid = Grid(base="right", baseline="baseline", load=load, preflight=False, axes=Axes(num_steps=(2,)))
    prompts = read_prompts(ROOT / "data/prompts/lab-heldout.jsonl", limit=2)
    first = sweep_rounds(box, grid, profiles, prompts, tmp_path, rounds=1, progress=False)
    assert first.frame["step_s_low"].isna().all()
    found = sweep_rounds(box, grid, profiles, prompts, tmp_path, rounds=2, progress=False)
    [point] = found.break_evens
    one, two = (row.measurement for sweep in found.sweeps for row in sweep.rows if row.point == point)
    assert one is not None
    assert two is not None
    assert first.sweeps[0].rows == found.sweeps[0].rows
    assert one.run != two.run
    assert one.histogram == two.histogram
    # Not to its end: on a host whose speed changes one start can put it below 1, which is said as well.
    assert "(one start, so no interval" in str(first.break_evens[point])
    needed = found.break_evens[point]
    assert (needed.starts, len(needed.by_start)) == (2, 2)
    assert needed.bounds[0] < needed.accept_length < needed.bounds[1]
    assert needed.cell in rounds_text(found)
    [told] = [row for row in found.record()["speeds"] if row["point"] == point]
    assert told["step_s_low"] < min(one.step_s or 0, two.step_s or 0)
    assert told["rounds"] == 2
    before = len(find_runs(box))
    assert sweep_rounds(box, grid, profiles, prompts, tmp_path, rounds=2, progress=False).sweeps == found.sweeps
    assert len(find_runs(box)) == before


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    words = [*WORKBOOK, "sweep", "lab", "--grid", str(LAB_GRID), "--out", str(out), "--json", *more]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def kill_when(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    """SIGKILL the sweep as soon as something is seen on the disk."""
    until = time.monotonic() + 600
    while not reached():
        assert process.poll() is None, "it ended before it was to be killed"
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_killed_sweep_loses_no_point_and_runs_none_twice(box: Box, tmp_path: Path) -> None:
    """num_steps 1..4 for three wirings and plain decoding; killed in a load, and while a patched server starts."""
    out = tmp_path / "sweep"
    kill_when(start(out), lambda: len(requests(out, "right-steps2")) >= 3)
    [left] = living(box)
    assert left.startswith("right-steps2-")
    answered = len(requests(out, "right-steps2"))
    assert 3 <= answered < 8

    kill_when(start(out), lambda: (events(out)[-1]["event"], events(out)[-1].get("server")) == ("start", MISWIRED))
    assert patches.status(box, PATCH, servers=False).state == "applied"

    process = start(out)
    told, _ = process.communicate(timeout=900)
    assert process.returncode == 0
    result = json.loads(told)
    assert result["good"]
    points = [row["point"] for row in result["rows"]]
    assert len(points) == 13

    happened = events(out)
    finished = Counter(row["row"]["point"] for row in happened if row["event"] == "point")
    assert finished == dict.fromkeys(points, 1)
    starts = Counter(row["server"] for row in happened if row["event"] == "start")
    # The kill may have come between the note of a start and the start itself; such a run is not on the box.
    on_the_box = {run.id for run in find_runs(box)}
    really = Counter(row["server"] for row in happened if row["event"] == "start" and row["run"] in on_the_box)
    assert set(starts) == set(points)
    assert really == dict.fromkeys(points, 1)
    for point in points:
        asked = Counter(row["prompt"] for row in requests(out, point))
        assert len(asked) == 8
        assert set(asked.values()) == {1}, point
    assert {row["run"] for row in requests(out, "right-steps2")} == {left}
    assert living(box) == []
    assert patches.status(box, PATCH, servers=False).state == "clean"

    frame = sweep_frame(read_rows(out)).set_index("point")
    for steps in range(1, 5):
        right, early, wrong = (
            frame.loc[f"{name}-steps{steps}", "accept_rate"] for name in ("right", "off-by-one", "miswired")
        )
        assert right > early > wrong
    speculating = frame[~frame["baseline"]]
    assert speculating["greedy_equal"].all()
    assert (speculating["step_s"] > 0).all()
    assert frame.loc["baseline", "step_s"] > 0
    lengths = [frame.loc[f"right-steps{steps}", "accept_length"] for steps in range(1, 5)]
    assert lengths == sorted(lengths)
    assert read_grid().baseline == "baseline"
