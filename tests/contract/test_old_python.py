"""A box whose python3 cannot run the workbook's own code: what was started from a profile's interpreter stays in reach.

.venv/bin/python -m pytest tests/contract/test_old_python.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_servers
from box_support import target_of
from serving_support import SERVER, start

from helpers.box import Box, connect
from helpers.box_python import another, chosen
from helpers.errors import RemoteFailed
from helpers.serving import find_runs, get_run
from helpers.uploads import call

# As an older Python meets our code: it starts, and says that it does not know the words.
OLD = "#!/bin/sh\necho 'TypeError: type object is not subscriptable' >&2\nexit 1\n"


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SshServer]:
    """An sshd in whose sessions ``python3`` is an old one."""
    folder = tmp_path_factory.mktemp("old")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "python3").write_text(OLD)
    (programs / "python3").chmod(0o755)
    home = folder / "ssh" / "home"
    with ssh_servers.openssh_server(folder / "ssh", f'SetEnv "PATH={programs}:/usr/bin:/bin" "HOME={home}"') as server:
        yield server


@pytest.fixture
def old(old_server: ssh_servers.SshServer) -> Iterator[Box]:
    with connect(target_of(old_server)) as box:
        yield box


def test_without_a_run_the_way_out_is_named_and_works(old: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not old.run(["test", "-e", old.path("~/.workbook/runs")], check=False).ok
    with pytest.raises(RemoteFailed) as caught:
        find_runs(old)
    assert caught.value.code == "WB-REMOTE-PYTHON"
    assert "not subscriptable" in caught.value.lines[-1]
    assert "WORKBOOK_PYTHON=/path/to/python" in caught.value.next
    monkeypatch.setenv("WORKBOOK_PYTHON", sys.executable)
    assert find_runs(old) == []


def test_what_serve_started_is_found_logged_pulled_and_stopped(old: Box, tmp_path: Path) -> None:
    """Must-show: no command after `serve` knows the profile's interpreter; the record of the run does."""
    run = start(old, "on-an-old-box", SERVER, "0")
    run.wait_ready(30, progress=False)
    old.pythons.clear()
    found = get_run(old, "on-an-old-box")
    assert found.state == "alive"
    assert next(found.logs()) == "Load weight begin"
    assert old.pythons == {"python3": sys.executable}  # asked once
    old.pythons.clear()
    pulled = tmp_path / "run"
    old.pull(found.folder, pulled, progress=False)  # a folder comes in one stream, which our code there sends
    assert json.loads((pulled / "run.json").read_text())["id"] == "on-an-old-box"
    assert get_run(old, "on-an-old-box").stop().clean


def test_a_server_whose_interpreter_is_gone_is_stopped_by_another_one(box: Box, there: Path) -> None:
    venv = there / "gone-python"
    venv.symlink_to(sys.executable)
    run = start(box, f"t{there.name}", SERVER, "0")
    record = run.record
    engine = record.engine.model_copy(update={"python": str(venv)})
    run.record = record.model_copy(update={"engine": engine})
    venv.unlink()
    assert "Load weight begin" in list(run.logs())
    assert run.stop().clean


def test_an_interpreter_that_suits_is_not_replaced(box: Box) -> None:
    """Where our code itself fails, another interpreter would fail as well: the words of the first one are shown."""
    with pytest.raises(RemoteFailed, match=f"{sys.executable} on") as caught:
        call(box, "no_such_module", "x", {}, python=sys.executable)
    assert any("no_such_module" in line for line in caught.value.lines)
    assert another(box, sys.executable) is None
    assert chosen(box, sys.executable) == sys.executable
