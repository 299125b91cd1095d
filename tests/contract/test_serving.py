"""Runs over both SSH servers: found by the next process, watched across broken links, stopped without a trace.

.venv/bin/python -m pytest tests/contract/test_serving.py
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ssh_servers
from box_support import CuttingProxy, target_of
from serving_support import NOTEBOOK, SERVER, TALKER, start, to_json

from helpers.box import Box, connect
from helpers.cli import main
from helpers.commands.serving import runs_table
from helpers.errors import RemoteFailed, UsageError, WrongResult
from helpers.investigate import investigate
from helpers.owner import whoami
from helpers.paths import DATA, ROOT
from helpers.serving import Plan, Profile, Run, find_runs, get_run
from helpers.serving import start as start_plan
from helpers.serving.capture import check_run
from helpers.source import Checkout
from remote import processes

IMPORTS_NOTHING = "import no_such_module"
RUNAWAY = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""


def of_run(run: str) -> list[processes.Process]:
    return processes.marked(run, processes.running())


@pytest.fixture
def name() -> Iterator[str]:
    """A run id of this test; nothing of it may be left at the end."""
    run = f"t{uuid.uuid4().hex[:8]}"
    yield run
    left = of_run(run)
    for process in left:
        os.kill(process.pid, signal.SIGKILL)
    assert not left


def test_started_ready_found_reached_stopped(box: Box, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    run = start(box, name, SERVER, "1")
    assert run.wait_ready(30) is run
    told = capfd.readouterr().err
    assert re.search(rf"{name} on \S+: weights \(\d s\)", told)
    assert re.search(rf"ready, port {run.port} \(\d s\)", told)
    found = get_run(box, name)
    assert (found.pid, found.start_time, found.state, found.answers) == (run.pid, run.start_time, "alive", True)
    assert get_run(box, name[:5]).id == name
    with run.tunnel() as tunnel, socket.create_connection(("127.0.0.1", tunnel.local_port), 5) as sock:
        sock.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 200 " in sock.recv(100)
    report = run.stop()
    assert report.clean
    assert len(report.signalled) == 2
    assert of_run(name) == []
    over = get_run(box, name)
    assert (run.state, over.state) == ("stopped", "stopped")
    assert report.stopped is not None
    assert over.record.stopped == report.stopped
    assert str(over.ending) == str(run.ending) == f"stopped by {whoami()}, {report.stopped['at']}"
    with pytest.raises(RemoteFailed, match="WB-CAPTURE-NOT-RUNNING") as caught:
        check_run(over)
    assert caught.value.message.endswith(f"is stopped: {over.ending}")
    assert over.stop().was == "dead"
    assert get_run(box, name).record.stopped == report.stopped  # who came too late has not stopped it
    assert name not in [r.id for r in find_runs(box, alive=True)]


def test_the_runs_may_lie_on_another_disk(
    box: Box, ssh_server: ssh_servers.SshServer, name: str, tmp_path: Path
) -> None:
    """As docs/profiles.md says, where the home is small: the folder is a link."""
    runs, elsewhere = ssh_server.home / ".workbook" / "runs", tmp_path / "runs"
    runs.parent.mkdir(exist_ok=True)
    if runs.exists():
        shutil.move(runs, elsewhere)
    elsewhere.mkdir(exist_ok=True)
    runs.symlink_to(elsewhere)
    try:
        start(box, name, SERVER, "0").wait_ready(30, progress=False)
        assert (elsewhere / name / "run.json").is_file()
        assert get_run(box, name).stop().clean
        assert name in [run.id for run in find_runs(box)]
    finally:
        runs.unlink()
        shutil.move(elsewhere, runs)


@pytest.mark.parametrize("wrong", ["hook", "draft"])
def test_an_investigation_that_cannot_go_on_leaves_no_ledger(
    box: Box, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    lab = DATA / "lab"
    if wrong == "hook":
        run = start(box, name, SERVER, "1")
        with pytest.raises(UsageError, match="WB-CAPTURE-NO-HOOK"):
            investigate(box, name, train=lab / "dump", progress=False)
        run.stop()
    else:
        with pytest.raises(UsageError, match="WB-MODEL-CONFIG"):
            investigate(box, "right", train=lab / "dump", draft=tmp_path / "no", target=lab / "target", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_kernel_leaves_the_server_to_the_next_one(ssh_server: ssh_servers.SshServer, name: str) -> None:
    """Must-show: kill -9 while the server loads; it goes on, the next process finds it, a stop leaves nothing."""
    target = target_of(ssh_server)
    with subprocess.Popen(
        [*NOTEBOOK, to_json(target), name, "2", "stop"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "started\n"
        kernel.kill()
    with connect(target) as box:
        run = get_run(box, name)
        assert run.state == "alive"
        assert not run.answers
        run.wait_ready(30, progress=False)
        assert run.stop().clean
    assert of_run(name) == []
    until = time.monotonic() + 15  # the killed kernel's watch finds out at its next beat
    while watches := [p for p in processes.running() if f'"run": "{name}"' in p.command]:
        assert time.monotonic() < until, watches
        time.sleep(0.2)


@pytest.mark.parametrize("on_interrupt", ["stop", "leave"])
def test_an_interrupted_wait_stops_its_server_unless_told_to_leave_it(
    ssh_server: ssh_servers.SshServer, name: str, on_interrupt: str
) -> None:
    target = target_of(ssh_server)
    with subprocess.Popen(
        [*NOTEBOOK, to_json(target), name, "60", on_interrupt],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "started\n"
        time.sleep(1)
        kernel.send_signal(signal.SIGINT)
        _, errors = kernel.communicate(timeout=30)
        assert "KeyboardInterrupt" in errors
    assert bool(of_run(name)) == (on_interrupt == "leave")
    with connect(target) as box:
        run = get_run(box, name)
        assert run.state == ("alive" if on_interrupt == "leave" else "stopped")
        run.stop()


def test_a_log_is_followed_across_cut_connections(ssh_server: ssh_servers.SshServer, name: str) -> None:
    with CuttingProxy(ssh_server.port) as proxy, connect(target_of(ssh_server, port=proxy.port)) as box:
        run = start(box, name, TALKER, "1200")
        lines = []
        for line in run.logs(follow=True):
            lines.append(line)
            if len(lines) in (50, 300, 600):
                proxy.cut()
        assert proxy.cuts >= 3
    assert lines == [f"line {number}" for number in range(1200)]


def test_the_last_lines_and_the_whole_log(box: Box, name: str) -> None:
    run = start(box, name, TALKER, "30")
    list(run.logs(follow=True))
    assert list(run.logs(tail=3)) == ["line 27", "line 28", "line 29"]
    assert len(list(run.logs())) == 30


def test_a_death_while_loading_is_told_at_once_with_its_cause(box: Box, name: str) -> None:
    run = start(box, name, IMPORTS_NOTHING)
    began = time.monotonic()
    with pytest.raises(RemoteFailed, match="an import failed") as caught:
        run.wait_ready(60, progress=False)
    assert time.monotonic() - began < 5
    assert caught.value.code == "WB-SERVE-IMPORT"
    assert "ModuleNotFoundError: No module named 'no_such_module'" in caught.value.lines
    assert run.state == "dead"
    [over] = [found for found in find_runs(box, endings=True) if found.id == name]
    assert (over.state, str(over.ending), over.record.stopped) == ("dead", "WB-SERVE-IMPORT: an import failed", None)
    table = runs_table([over]).splitlines()
    assert table[0].split()[1:] == ["state", "port", "pid", "started", "owner", "ended"]
    assert table[1].endswith("WB-SERVE-IMPORT: an import failed")


def test_a_server_that_is_late_loads_on(box: Box, name: str) -> None:
    run = start(box, name, SERVER, "600")
    with pytest.raises(RemoteFailed, match="not ready after 2 s") as caught:
        run.wait_ready(2, progress=False)
    assert caught.value.code == "WB-SERVE-TIMEOUT"
    assert caught.value.message.endswith("; it loads on")
    assert caught.value.next.startswith(f"workbook wait {box.name} {name}; ")
    assert get_run(box, name).state == "alive"
    with pytest.raises(RemoteFailed, match=r"not ready after 1 s .*; it was stopped") as caught:
        run.wait_ready(1, progress=False, on_timeout="stop")
    assert "start_timeout = 2 in its profile" in caught.value.next
    assert get_run(box, name).state == "stopped"


def test_a_server_that_was_late_is_waited_for_again(
    box: Box, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Must-show: `wait` finds the same server, instead of a second one on the same GPUs."""
    monkeypatch.setattr("helpers.box.connect", lambda _: contextlib.nullcontext(box))

    def wait(*more: str) -> tuple[object, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main(["wait", box.name, name, "--json", *more])
        return ended.value.code, json.loads(capsys.readouterr().out)

    run = start(box, name, SERVER, "4")
    status, late = wait("--timeout", "1")
    assert (status, late["error"]["code"]) == (4, "WB-SERVE-TIMEOUT")
    status, told = wait()
    assert (status, told["id"], told["pid"], told["ready"], told["answers"]) == (0, name, run.pid, True, True)
    run.stop()
    status, over = wait()
    assert (status, over["error"]["code"]) == (4, "WB-SERVE-DIED")
    assert "stopped by" in over["error"]["message"]


@pytest.mark.parametrize("told", [None, 1.0])
def test_a_server_that_is_late_is_told_as_what_became_of_it(
    box: Box, name: str, monkeypatch: pytest.MonkeyPatch, told: float | None
) -> None:
    """A block that ends stops its server: the message may not say that it loads on."""
    session = importlib.import_module("helpers.serving.session")
    monkeypatch.setattr(session, "launch", lambda *_, **__: start(box, name, SERVER, "600", start_timeout=2))
    profile = Profile(name="plain", engine="sglang==0.5.9", model="/m", python=sys.executable)
    within = "1 s" if told else "2 s"
    with (
        pytest.raises(RemoteFailed, match=rf"not ready after {within} .*; it was stopped"),
        session.serving(box, profile, timeout=told, progress=False),
    ):
        pass
    assert of_run(name) == []


def test_a_port_taken_meanwhile_is_seen_before_the_weights_are_loaded(box: Box, name: str) -> None:
    run = start(box, name, SERVER, "600")
    with socket.create_server(("127.0.0.1", run.port)):
        began = time.monotonic()
        with pytest.raises(RemoteFailed, match=f"took port {run.port}.*pid {os.getpid()}") as caught:
            run.wait_ready(60, progress=False)
    assert caught.value.code == "WB-SERVE-PORT-TAKEN"
    assert time.monotonic() - began < 10
    assert of_run(name) == []


def test_orphans_are_reported_then_ended_on_request(box: Box, name: str) -> None:
    run = start(box, name, RUNAWAY + SERVER, "0")
    run.wait_ready(30, progress=False)
    with pytest.raises(WrongResult) as caught:
        run.stop()
    assert caught.value.code == "WB-SERVE-LEFTOVERS"
    orphan = of_run(name)
    assert len(orphan) == 1
    assert f"orphan: pid {orphan[0].pid} " in caught.value.lines[0]
    assert run.stop(orphans=True).clean


def test_another_owners_run_is_left_alone(box: Box, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start(box, name, SERVER, "0", owner="her@laptop")
    monkeypatch.setenv("WORKBOOK_OWNER", "me@laptop")
    run = get_run(box, name)
    run.wait_ready(30, progress=False)
    with pytest.raises(RemoteFailed, match="her@laptop") as caught:
        run.stop()
    assert caught.value.code == "WB-SERVE-OTHER-OWNER"
    assert get_run(box, name).state == "alive"
    assert run.stop(force=True).clean


def test_two_starts_at_once_get_two_ports(box: Box, name: str) -> None:
    runs: list[Run] = []
    threads = [threading.Thread(target=lambda n=n: runs.append(start(box, f"{name}{n}", SERVER, "600"))) for n in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({run.port for run in runs}) == 2
    for run in runs:
        run.stop()


def test_an_unknown_run_is_a_usage_error(box: Box) -> None:
    with pytest.raises(UsageError, match="no run 'nosuch'") as caught:
        get_run(box, "nosuch")
    assert caught.value.code == "WB-SERVE-NO-RUN"


def test_no_name_and_a_shared_beginning_are_nobodys_run(box: Box, name: str) -> None:
    """A stop of the wrong server is worse than none: an empty name begins every id."""
    runs = [start(box, f"{name}{last}", TALKER, "1") for last in "ab"]
    with pytest.raises(UsageError) as caught:
        get_run(box, "")
    assert caught.value.code == "WB-SERVE-NO-RUN"
    with pytest.raises(UsageError, match=f"2 runs on .* begin with '{name}'") as caught:
        get_run(box, name)
    assert caught.value.code == "WB-SERVE-AMBIGUOUS"
    assert [line.split()[0] for line in caught.value.lines] == [run.id for run in runs]
    assert get_run(box, f"{name}b").id == runs[1].id


def planned(name: str, **changes: object) -> Plan:
    """A start whose server is a plain Python process."""
    profile = Profile(name="plain", engine="sglang==0.5.9", model="org/model", python=sys.executable)
    checkout = Checkout("/nowhere/sglang", "0.5.9", sys.executable, "3.11")
    code = "import sys, time; time.sleep(600)"
    argv = (sys.executable, "-c", code, "--api-key", "s3cret")
    return Plan(name, profile.model_copy(update=changes), argv, 39999, checkout, (), "/nowhere")


def test_secrets_reach_the_server_and_are_not_kept(box: Box, name: str) -> None:
    run = start_plan(box, planned(name, env={"HF_TOKEN": "s3cret", "PLAIN": "~/x"}))
    assert Path(f"/proc/{run.pid}/cmdline").read_bytes().endswith(b"\0--api-key\0s3cret\0")
    environment = Path(f"/proc/{run.pid}/environ").read_bytes().split(b"\0")
    assert b"HF_TOKEN=s3cret" in environment
    assert f"PLAIN={box.home}/x".encode() in environment
    kept = box.read_text(f"{run.folder}/run.json")
    assert "s3cret" not in kept
    assert run.argv[-2:] == ("--api-key", "***")
    assert (box.run(["stat", "-c", "%a", run.folder]).stdout) == "700\n"
    assert "s3cret" not in run.stop().model_dump_json()


def test_an_interrupted_start_leaves_nothing(box: Box, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the server came up and before its start was answered."""
    launch = importlib.import_module("helpers.serving.launch")
    real = launch.ask

    def interrupted(box: Box, operation: str, request: dict[str, object], **more: str) -> dict[str, object]:
        answer = real(box, operation, request, **more)
        if operation == "start":
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(launch, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_plan(box, planned(name))
    assert of_run(name) == []
    assert get_run(box, name).state == "stopped"


def test_a_stranger_that_was_given_the_pid_is_not_signalled(box: Box, name: str) -> None:
    """The server has ended; its record is forged to name a living process that started at another time."""
    run = start(box, name, TALKER, "1")
    list(run.logs(follow=True))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as stranger:
        try:
            record = json.loads(box.read_text(f"{run.folder}/run.json"))
            box.write_text(f"{run.folder}/run.json", json.dumps(record | {"pid": stranger.pid, "pgid": stranger.pid}))
            found = get_run(box, name)
            assert found.state == "stranger"
            with pytest.raises(RemoteFailed, match=r"time\.sleep") as caught:
                found.stop(force=True, orphans=True)
            assert caught.value.code == "WB-SERVE-STRANGER"
            assert stranger.poll() is None
        finally:
            stranger.kill()
