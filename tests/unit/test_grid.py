"""Grids: which points they mean, in which order, and what they refuse.

.venv/bin/python -m pytest tests/unit/test_grid.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.acceptance.grid import LAB_GRID, Axes, Grid, Spec, Wiring, read_grid
from helpers.acceptance.points import Point, named, option, points, with_option
from helpers.acceptance.sweep_results import read_rows, sweep_frame, sweep_text, write_results
from helpers.acceptance.sweep_state import Row, State
from helpers.errors import UsageError
from helpers.serving import load_profiles

PROFILES = load_profiles()


def of(**given: object) -> list[Point]:
    return points(Grid.model_validate(given), PROFILES)


def test_the_labs_own_grid() -> None:
    grid = read_grid()
    every = points(grid, load_profiles(grid.profiles))
    assert len(every) == 13
    assert every[0].baseline
    assert len({point.server for point in every}) == 13
    steps = {(p.axes["wiring"], p.axes["num_steps"]) for p in every[1:]}
    assert steps == {(w, n) for w in ("right", "off-by-one", "miswired") for n in range(1, 5)}
    for point in every[1:]:
        speculation = point.profile.speculation
        assert speculation is not None
        assert speculation.num_draft_tokens == speculation.num_steps + 1
    patched = [bool(point.profile.patches) for point in every]
    assert patched == sorted(patched), "a patch goes in once, and out once"
    assert grid.prompts is not None
    assert grid.prompts.is_file()
    assert LAB_GRID.parent.name == "grids"


def test_batch_sizes_share_a_server_and_follow_each_other() -> None:
    every = of(base="right", axes={"batch_size": [8, 1], "num_steps": [3, 2]})
    assert [(p.server, p.batch_size) for p in every] == [
        ("right-steps3", 1),
        ("right-steps3", 8),
        ("right-steps2", 1),
        ("right-steps2", 8),
    ]
    assert [p.id for p in every][:2] == ["right-steps3", "right-steps3-b8"]


def test_axes_that_a_profile_has_no_use_for_do_not_multiply_it() -> None:
    every = of(axes={"profile": ["baseline", "right"], "num_steps": [1, 2]})
    assert [p.id for p in every] == ["baseline", "right-steps1", "right-steps2"]
    assert every[0].axes["num_steps"] is None


def test_a_baseline_for_every_batch_size_and_backend() -> None:
    every = of(base="right", baseline="baseline", axes={"batch_size": [1, 4], "backend": ["a", "b"]})
    found = [(p.axes["backend"], p.batch_size) for p in every if p.baseline]
    assert found == [("a", 1), ("a", 4), ("b", 1), ("b", 4)]
    assert all(option(p.profile.extra_args, "--attention-backend") == p.axes["backend"] for p in every)
    assert all(p.profile.extra_args.count("--attention-backend") == 1 for p in every)


def test_trees_drafts_and_single_points() -> None:
    every = of(
        base="right",
        points=[
            {"num_steps": 3, "topk": 4, "num_draft_tokens": 8, "draft": "~/models/other"},
            {"ids": {"name": "late", "ids": [5, 6, 7], "patches": ["p"]}, "batch_size": 2},
            {"ids": [0, 3, 7]},
        ],
    )
    assert [p.id for p in every] == ["right-steps3-topk4-tokens8-other", "ids0_3_7", "late-b2"]
    assert every[0].axes["draft"] == "~/models/other"
    assert every[2].profile.patches == ("p",)
    assert every[1].axes["ids"] == [0, 3, 7]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"base": "right"}, "nothing to measure"),
        ({"axes": {"num_steps": [1]}}, "names no profile"),
        ({"base": "nobody", "axes": {}}, "no profile 'nobody'"),
        ({"base": "right", "axes": {"num_step": [1]}}, "num_step"),
        ({"base": "right", "axes": {"num_steps": [0]}}, "num_steps"),
        ({"base": "right", "axes": {"topk": [2]}}, "needs num_draft_tokens"),
        ({"base": "right", "axes": {"num_steps": [2], "num_draft_tokens": [9]}}, "with topk = 1"),
        ({"base": "right", "baseline": "off-by-one", "axes": {}}, "speculates itself"),
        ({"base": "right", "axes": {}, "load": {"concurrency": 4}}, "batch_size"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, given: dict[str, object], words: str) -> None:
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(given))
    with pytest.raises(UsageError, match=words) as caught:
        points(read_grid(path), PROFILES)
    assert caught.value.code == "WB-GRID-INVALID"


def test_a_grid_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    for content in (None, "= 1", "\0"):
        if content is not None:
            path.write_text(content)
        with pytest.raises(UsageError, match=r"grid\.toml") as caught:
            read_grid(path)
        assert caught.value.code == "WB-GRID-FILE"


def test_files_are_looked_for_beside_the_grid(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    path = tmp_path / "g" / "grid.toml"
    path.write_text('base = "right"\nprompts = "../p.jsonl"\n[axes]\n')
    assert read_grid(path).prompts == tmp_path / "p.jsonl"


def test_names_and_options() -> None:
    long = named(["right", "x" * 80])
    assert len(long) == 60
    assert long != named(["right", "x" * 81])
    assert named(["-1", "a b/c"]) == "1-a_b_c"
    assert with_option(("--b=1", "--b", "2", "--c"), "--b", "3") == ("--c", "--b", "3")
    assert option(("--b",), "--b") is None
    same = (Wiring(name="w", ids=(1, 2, 3)), Wiring(name="w", ids=(2, 3, 4)))
    with pytest.raises(UsageError, match="both named 'w'"):
        points(Grid(base="right", axes=Axes(ids=same)), PROFILES)


def test_the_state_tells_what_a_kill_left(tmp_path: Path) -> None:
    [point] = points(Grid(base="right", points=(Spec(num_steps=2),)), PROFILES)
    row = Row(point=point.id, status="failed", axes=point.axes)
    with State(tmp_path) as state:
        state.write("patch", name="p", server="a")
        state.write("start", server="a", run="a-1")
        state.write("stopped", run="a-1")
        state.write("start", server="b", run="b-1")
        state.write("point", row=row.model_dump(mode="json"))
    with State(tmp_path) as state:
        assert state.standing == {"b-1": "b"}
        assert state.patches == [("p", "a")]
        assert state.rows == {point.id: row}
        state.write("unpatch", name="p")
        state.write("stopped", run="b-1")
        assert (state.standing, state.patches) == ({}, [])
        found = write_results([point], state.rows, tmp_path)
    assert read_rows(tmp_path) == [row]
    assert "FAILED: no answer" in sweep_text(found)
    frame = sweep_frame(found.rows)
    assert list(frame["num_draft_tokens"]) == [3]
    assert list(frame["status"]) == ["failed"]
    (tmp_path / "results.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="no results of a sweep"):
        read_rows(tmp_path)
