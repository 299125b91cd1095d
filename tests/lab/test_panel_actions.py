"""The models of the server and patches panels on the real lab: what a browser test cannot wait for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.box import Box
from helpers.errors import RemoteFailed
from helpers.panels.patches_model import PatchesModel
from helpers.panels.server_model import ServerModel
from helpers.panels.worker import Cancelled
from helpers.serving import Profile, find_runs
from helpers.serving.stages import Stage

SOURCE = "home/sglang/python/sglang/srt/models/deepseek_v2.py"


@pytest.fixture
def server(box: Box, profiles: dict[str, Profile]) -> Iterator[ServerModel]:
    broken = profiles["baseline"].model_copy(update={"name": "broken", "extra_args": ("--no-such-flag", "1")})
    yield ServerModel(box, {"broken": broken, **profiles})
    assert [run.id for run in find_runs(box, alive=True)] == []


def test_a_crash_has_its_cause_and_the_log_that_tells_it(server: ServerModel) -> None:
    with pytest.raises(RemoteFailed) as caught:
        server.start(lambda stage, detail, line: None)
    assert caught.value.code == "WB-SERVE-BAD-ARGUMENT"
    assert server.stage is None
    assert any("--no-such-flag" in line for line in server.lines)
    assert "--no-such-flag" in server.command
    server.take(server.look())
    (dead,) = [row for row in server.server_rows() if row["run"] == server.log_of]
    assert dead["state"] == "dead"
    assert dead["ended"] == "WB-SERVE-BAD-ARGUMENT: the server does not take its arguments"
    assert "unrecognized arguments" in server.static().text


def test_a_start_that_is_cancelled_is_stopped(server: ServerModel, box: Box) -> None:
    server.chosen = "baseline"
    seen: list[int] = []

    def watcher(stage: Stage, detail: str, line: str | None) -> None:
        seen.extend(run.pid for run in find_runs(box, alive=True))  # none yet while it is only planned
        if seen:
            raise Cancelled

    with pytest.raises(Cancelled):
        server.start(watcher)
    assert seen
    assert find_runs(box, alive=True) == []


def test_patches_go_in_and_come_out_by_the_model(box: Box, lab_home: Path) -> None:
    stock = (lab_home / SOURCE).read_bytes()
    model, told = PatchesModel(box), []
    model.take(model.look(lambda: None, told.append))
    assert told == list(model.reports) == ["capture-embedding", "dump-hidden-states", "kimi-k25-eagle3"]
    assert {row["that is"] for row in model.rows()} == {"not in, can go in"}
    model.chosen = "capture-embedding"
    model.took(model.plan())
    assert "+        self.capture_embedding_for_eagle3 = False" in model.static().text
    model.took(model.apply())
    assert model.rows()[0]["that is"] == "in"
    assert (lab_home / SOURCE).read_bytes() != stock
    model.took(model.revert())
    assert model.outcome() == "capture-embedding was taken out: the bytes are those from before it."
    assert (lab_home / SOURCE).read_bytes() == stock


def test_a_patch_comes_out_of_a_changed_file_by_force_alone(box: Box, lab_home: Path) -> None:
    file, mine = lab_home / SOURCE, b"\n# a change of somebody's own\n"
    stock = file.read_bytes()
    model = PatchesModel(box)
    model.take(model.look(lambda: None, lambda name: None))
    model.chosen = "capture-embedding"
    model.took(model.apply())
    file.write_bytes(file.read_bytes() + mine)
    try:
        with pytest.raises(RemoteFailed, match="WB-PATCH-DRIFTED"):
            model.revert()
        model.took(model.revert(force=True))
        assert "not the bytes from before it" in model.outcome()
        assert file.read_bytes() == stock + mine
    finally:
        file.write_bytes(stock)


def test_looking_at_patches_ends_where_it_is_cancelled(box: Box) -> None:
    def check() -> None:
        raise Cancelled

    model = PatchesModel(box)
    with pytest.raises(Cancelled):
        model.look(check, lambda name: None)
    assert model.reports == {}
