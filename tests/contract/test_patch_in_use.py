"""A checkout is everybody's: what a living run relies on is not changed under it, over both SSH servers.

.venv/bin/python -m pytest tests/contract/test_patch_in_use.py
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import serving_support
import ssh_servers
from box_support import target_of

from helpers.box import Box, connect
from helpers.errors import RemoteFailed
from helpers.serving import Run, get_run
from helpers.source import draft_ids, patches
from helpers.uploads import call

NAME, OTHER = "capture-embedding", "dump-hidden-states"
FILE = "sglang/srt/models/deepseek_v2.py"
WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))
LOADS, IS_UP = "600", "0"

Start = Callable[..., Run]


@pytest.fixture
def root(there: Path) -> Path:
    """A checkout on the box: the wheel's package, as far as finding and patching it reads it."""
    root = there / "python"
    for name in ("sglang/__init__.py", "sglang/_version.py", FILE):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WHEEL / name, root / name)
    return root


@pytest.fixture
def how(root: Path) -> dict[str, Any]:
    return {"python": sys.executable, "env": {"PYTHONPATH": str(root)}}


@pytest.fixture
def start(box: Box, root: Path, there: Path) -> Iterator[Start]:
    """Starts a process in a server's place, under a name of this test; all are stopped at the end."""
    runs = []

    def start(name: str, loading: str, *held: patches.PatchReport, **more: Any) -> Run:
        run = serving_support.start(
            box, f"{name}-{there.name}", serving_support.SERVER, loading, checkout=str(root), patches=held, **more
        )
        runs.append(run)
        if loading == IS_UP:
            run.wait_ready(30, progress=False)
        return run

    yield start
    for run in runs:
        run.stop(force=True, orphans=True, grace=2)


def refused(work: Callable[[], object], code: str = "WB-PATCH-IN-USE") -> str:
    with pytest.raises(RemoteFailed) as caught:
        work()
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("loading", [LOADS, IS_UP])
def test_no_revert_under_anybodys_living_run_that_was_started_with_it(
    box: Box, root: Path, how: dict[str, Any], start: Start, loading: str
) -> None:
    applied = patches.apply(box, NAME, **how)
    patched = (root / FILE).read_bytes()
    run = start("needs-it", loading, applied, owner="ann@elsewhere")
    said = refused(lambda: patches.revert(box, NAME, **how))
    state = "loading" if loading == LOADS else "up"
    assert f"run {run.id} of ann@elsewhere, {state} since {run.record.started}, was started with it in" in said
    assert f"workbook stop {box.name} {run.id}" in said
    assert "--force" in said
    assert (root / FILE).read_bytes() == patched
    assert [told.run for told in patches.status(box, NAME, **how).relying] == [run.id]
    assert patches.apply(box, NAME, **how).changed is False  # in already: nothing to write, and no refusal
    assert run.id in (patches.take_back(box, NAME, **how) or "")
    run.stop(force=True)
    assert patches.revert(box, NAME, **how).proven is True


def test_force_takes_it_out_all_the_same(box: Box, how: dict[str, Any], start: Start) -> None:
    start("forced", LOADS, patches.apply(box, NAME, **how))
    assert patches.revert(box, NAME, force=True, **how).proven is True


def test_one_that_died_and_a_damaged_record_block_nobody(
    box: Box, ssh_server: ssh_servers.SshServer, how: dict[str, Any], start: Start
) -> None:
    run = start("dies", LOADS, patches.apply(box, NAME, **how))
    assert run.pid > 1
    os.kill(run.pid, signal.SIGKILL)  # this one process: what it had started is stopped with the run, by its mark
    damaged = ssh_server.home / ".workbook/runs/damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text('{"id": "damaged"}')
    try:
        assert patches.revert(box, NAME, **how).proven is True
    finally:
        shutil.rmtree(damaged)


def test_a_run_of_another_machine_with_this_home_counts_until_it_is_stopped_there(
    box: Box, how: dict[str, Any], start: Start
) -> None:
    """Nobody here can see that it died; one that the patch matters not to counts while it may still read its files."""
    needs, reads = start("needs-it", LOADS, patches.apply(box, NAME, **how)), start("reads", LOADS)
    for run in (needs, reads):
        run.stop(grace=1)
        rewrite(box, run, boot_id="another-boot", node={"name": "node1"}, stopped=None)
    said = refused(lambda: patches.revert(box, NAME, **how))
    assert f"run {needs.id} of" in said
    assert "on node1" in said
    assert f"workbook stop node1 {needs.id}" in said
    assert [told.node for told in patches.status(box, NAME, **how).relying] == ["node1", "node1"]
    assert get_run(box, needs.id).shown_state == "elsewhere (node1)"
    refused(lambda: get_run(box, needs.id).stop(), "WB-SERVE-ELSEWHERE")
    rewrite(box, reads, started="2026-01-31T10:00:00Z")
    assert [told.run for told in patches.status(box, NAME, **how).relying] == [needs.id]
    rewrite(box, needs, stopped={"by": "ann@laptop", "at": "2026-01-31T10:00:00Z"})
    assert patches.revert(box, NAME, **how).proven is True
    rewrite(box, reads, stopped={"by": "ann@laptop", "at": "2026-01-31T10:00:00Z"})


def rewrite(box: Box, run: Run, **changes: Any) -> None:
    path = f"{run.folder}/run.json"
    box.write_text(path, json.dumps(json.loads(box.read_text(path)) | changes))


def test_another_patch_is_not_put_in_while_a_server_reads_the_source_nor_on_a_file_that_a_run_was_started_with(
    box: Box, how: dict[str, Any], start: Start
) -> None:
    loading = start("stock", LOADS)
    said = refused(lambda: patches.apply(box, NAME, **how))
    assert f"run {loading.id} of" in said
    assert "is reading the same source\n  expected: no living run that relies on it" in said
    assert f"workbook logs {box.name} {loading.id} --follow" in said
    loading.stop()
    start("up", IS_UP)  # has read all that it reads
    applied = patches.apply(box, NAME, **how)
    assert applied.relying == ()
    patched = start("patched", IS_UP, applied)
    said = refused(lambda: patches.apply(box, OTHER, **how))
    assert f"run {patched.id} of" in said
    assert f"was started with {NAME} on the same file" in said
    assert "--follow" not in said, "to wait until it is up would not help"
    assert patches.apply(box, OTHER, force=True, **how).changed
    patches.revert(box, OTHER, force=True, **how)
    patches.revert(box, NAME, force=True, **how)


def test_another_checkouts_runs_do_not_matter(box: Box, there: Path, how: dict[str, Any]) -> None:
    applied = patches.apply(box, NAME, **how)
    run = serving_support.start(
        box, f"elsewhere-{there.name}", serving_support.SERVER, LOADS, checkout=str(there / "other")
    )
    try:
        assert patches.revert(box, applied.name, **how).proven is True
    finally:
        run.stop(grace=2)


def test_the_ids_of_a_drafter_stay_while_a_server_loads_it(box: Box, there: Path) -> None:
    draft = there / "drafter"
    draft.mkdir()
    (draft / "config.json").write_text(json.dumps({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 4, 8]}}))
    before = (draft / "config.json").read_bytes()
    run = serving_support.start(box, f"loads-it-{there.name}", serving_support.SERVER, LOADS, str(draft))
    try:
        said = refused(lambda: draft_ids.set_ids(box, str(draft), (2, 5, 9), python=sys.executable))
        assert f"run {run.id} of" in said
        assert (draft / "config.json").read_bytes() == before
    finally:
        run.stop(grace=2)
    assert draft_ids.set_ids(box, str(draft), (2, 5, 9), python=sys.executable).changed


def test_a_start_whose_patch_went_meanwhile_is_refused_and_says_by_whom(
    box: Box, how: dict[str, Any], root: Path, start: Start
) -> None:
    applied = patches.apply(box, NAME, **how)
    planned = entries(box, root)
    patches.revert(box, NAME, **how)
    said = refused(lambda: start("late", LOADS, applied, journal=planned), "WB-SERVE-SOURCE-CHANGED")
    assert f"revert of {NAME} by " in said
    said = refused(lambda: start("late", LOADS, applied), "WB-SERVE-SOURCE-CHANGED")  # by the file's hash alone
    assert FILE in said
    assert not list(Path(box.path("~/.workbook/runs")).glob("late-*"))


def test_a_start_and_a_revert_at_once_never_both_happen(
    box: Box, ssh_server: ssh_servers.SshServer, how: dict[str, Any], root: Path, start: Start
) -> None:
    """Six times: the run has its patch, or it was not started; and each outcome says why."""
    with connect(target_of(ssh_server)) as other, ThreadPoolExecutor(2) as pool:
        for number in range(6):
            applied = patches.apply(box, NAME, **how)
            planned = entries(box, root)
            taken = pool.submit(patches.revert, other, NAME, **how)
            time.sleep(0.1 * number)  # a revert looks at much before it writes: either may come first
            begun = pool.submit(start, f"race{number}", LOADS, applied, journal=planned)
            errors = {getattr(work.exception(), "code", None) for work in (begun, taken)}
            if taken.exception() is None:
                assert errors == {None, "WB-SERVE-SOURCE-CHANGED"}
            else:
                assert errors == {None, "WB-PATCH-IN-USE"}
                begun.result().stop(grace=1)
                patches.revert(box, NAME, **how)


def entries(box: Box, root: Path) -> int:
    """How many entries the journal has for the checkout."""
    journal = call(box, "editing", "read", {"paths": []}, python=sys.executable)["journal"]
    return sum(entry["root"] == str(root) for entry in journal)
