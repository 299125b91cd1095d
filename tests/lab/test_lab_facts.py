"""`workbook facts` on a box where a real server is loading: whose run it is, and the checkout that it imports."""

from __future__ import annotations

from pathlib import Path

from helpers.box import Box
from helpers.serving import Profile, launch
from helpers.serving.overview import overview
from helpers.serving.overview_text import describe
from helpers.source.served import Engine


def test_a_server_that_loads_is_found_with_its_run(box: Box, lab_home: Path, profiles: dict[str, Profile]) -> None:
    run = launch(box, profiles["right"], progress=False)
    try:
        found = overview(box, progress=False)
    finally:
        run.stop()
    seen = next(seen for seen in found.servers if seen.server.process.pid == run.pid)
    assert seen.run is not None
    assert (seen.run.id, seen.run.profile, seen.run.owner) == (run.id, "right", run.record.owner)
    assert seen.server.run == run.id
    assert isinstance(seen.engine, Engine)
    assert seen.engine.package == f"{box.home}/sglang/python/sglang"
    assert seen.engine.version == "0.5.9"
    assert (seen.server.launched.port, seen.server.launched.tp) == (run.port, 1)
    assert str(lab_home) in str(seen.server.launched.model)
    assert f"run {run.id} (profile right)" in describe(found)
