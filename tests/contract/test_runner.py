"""The box's side of serving with real processes: starts that survive, watches that see a death, clean stops.

.venv/bin/python -m pytest tests/contract/test_runner.py
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT
from remote import processes, starting

# A server that answers /health (a file) and has a child in its group and one that left group and session.
FAMILY = """
import os, subprocess, sys, time
port, stubborn = sys.argv[1], sys.argv[2] == "stubborn"
if stubborn:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("health", "w").close()
print("weights", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
if "runaway" in sys.argv:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
ThreadingHTTPServer(("127.0.0.1", int(port)), SimpleHTTPRequestHandler).serve_forever()
"""


class Runner:
    """Calls ``remote.runner`` as the laptop does, in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "HOME": str(home)}
        self.started: list[str] = []

    def command(self, operation: str) -> list[str]:
        return [sys.executable, "-E", "-s", "-S", "-m", "remote.runner", operation]

    def ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run(
            self.command(operation), input=json.dumps(request), capture_output=True, text=True, cwd=ROOT, env=self.env
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (4 if "error" in answer else 0), done.stderr
        return answer

    def watch(self, **request: Any) -> Iterator[dict[str, Any]]:
        full = {"offset": 0, "tail": None, "follow": True, "health": False, **request}
        with subprocess.Popen(
            self.command("watch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=self.env
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(json.dumps(full))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)

    def start(self, run: str, argv: list[str], **more: Any) -> dict[str, Any]:
        port = self.ask("probe", {"host": "127.0.0.1", "port": more.pop("port", None), "folders": []})
        if "error" in port:
            return port
        record = {
            "id": run,
            "argv": argv,
            "host": "127.0.0.1",
            "port": port["port"],
            "owner": more.pop("owner", "me@laptop"),
        }
        words = [word.replace("PORT", str(port["port"])) for word in argv]
        request = {"record": record, "argv": words, "env": {}, "prepend": {}, "draft": None, "folders": [], **more}
        self.started.append(run)
        return self.ask("start", request)

    def stop(self, run: str, **more: Any) -> dict[str, Any]:
        request = {"run": run, "owner": "me@laptop", "force": False, "orphans": False, "grace": 10, **more}
        return self.ask("stop", request)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path)
    yield runner
    for run in runner.started:
        runner.stop(run, force=True, orphans=True, grace=0)


def family(*more: str) -> list[str]:
    return [sys.executable, "-c", FAMILY, "PORT", *more]


def alive_with_mark(run: str) -> list[processes.Process]:
    return processes.marked(run, processes.running())


def test_a_started_server_is_ready_listed_and_stopped_without_a_trace(runner: Runner) -> None:
    record = runner.start("one", family("plain"))
    assert record["pid"] == record["pgid"]
    assert (runner.home / ".workbook/runs/one/pid").read_text() == f"{record['pid']}\n"
    events = list(runner.watch(run="one", health=True))
    assert events[-1] == {"event": "ready"}
    assert next(e["text"] for e in events if e["event"] == "line") == "weights"
    listed = runner.ask("list", {})["runs"]
    assert [(r["record"]["id"], r["state"], r["answers"]) for r in listed] == [("one", "alive", True)]
    assert len(alive_with_mark("one")) == 2
    report = runner.stop("one")
    assert report["was"] == "alive"
    assert report["port_closed"]
    assert (report["left"], report["orphans"], report["killed"]) == ([], [], [])
    assert alive_with_mark("one") == []
    assert runner.ask("list", {})["runs"][0]["state"] == "stopped"
    assert runner.stop("one")["was"] == "dead"


def test_it_runs_in_its_own_session_and_holds_nothing_of_the_asking_side(runner: Runner) -> None:
    began = time.monotonic()
    record = runner.start("own", family("plain"))
    assert time.monotonic() - began < 5, "the asking side's pipes stayed open"
    process = processes.find(record["pid"])
    assert process is not None
    assert process.session == process.pid
    targets = {os.readlink(f"/proc/{record['pid']}/fd/{fd}") for fd in (0, 1, 2)}
    assert targets == {"/dev/null", str(runner.home / ".workbook/runs/own/server.log")}
    status = Path(f"/proc/{record['pid']}/status").read_text()
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
    assert not ignored & (1 << (signal.SIGHUP - 1) | 1 << (signal.SIGINT - 1))


def test_what_ignores_sigterm_is_killed(runner: Runner) -> None:
    runner.start("stubborn", family("stubborn"))
    list(runner.watch(run="stubborn", health=True))
    report = runner.stop("stubborn", grace=0.5)
    assert [p["pid"] for p in report["killed"]]
    assert (report["left"], report["port_closed"]) == ([], True)


def test_what_left_the_group_is_reported_and_ended_only_on_request(runner: Runner) -> None:
    runner.start("runaway", family("plain", "runaway"))
    list(runner.watch(run="runaway", health=True))
    report = runner.stop("runaway")
    assert len(report["orphans"]) == 1
    assert report["left"] == []
    assert [p.pid for p in alive_with_mark("runaway")] == [report["orphans"][0]["pid"]]
    assert runner.ask("list", {})["runs"][0]["orphans"] == report["orphans"]
    assert runner.stop("runaway", orphans=True)["orphans"] == []
    assert alive_with_mark("runaway") == []


def test_a_group_whose_leader_was_killed_is_still_stopped(runner: Runner) -> None:
    record = runner.start("headless", family("plain"))
    list(runner.watch(run="headless", health=True))
    os.kill(record["pid"], signal.SIGKILL)
    events = list(runner.watch(run="headless"))
    assert events[-1]["event"] == "dead"
    assert len(events[-1]["orphans"]) == 1
    report = runner.stop("headless")
    assert (report["was"], len(report["signalled"]), report["left"]) == ("dead", 1, [])
    assert alive_with_mark("headless") == []


@pytest.mark.parametrize("forged", ["start_time", "boot_id"])
def test_a_stranger_with_the_runs_pid_is_not_signalled(runner: Runner, forged: str) -> None:
    runner.start("gone", [sys.executable, "-c", "pass"])
    list(runner.watch(run="gone"))
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        path = runner.home / ".workbook/runs/gone/run.json"
        now = processes.find(stranger.pid)
        assert now is not None
        record = json.loads(path.read_text()) | {"pid": now.pid, "pgid": now.group, "start_time": now.start}
        record[forged] = now.start - 1 if forged == "start_time" else "another-boot"
        path.write_text(json.dumps(record))
        answer = runner.stop("gone", force=True, orphans=True)
        assert answer["error"]["code"] == "WB-SERVE-STRANGER"
        assert stranger.poll() is None
        assert runner.ask("list", {})["runs"][0]["state"] == "stranger"
    finally:
        stranger.kill()
        stranger.wait()


def of_another_machine(runner: Runner, run: str, **node: str | None) -> None:
    """Forge the record as another machine would have written it, which has booted at another time."""
    path = runner.home / ".workbook/runs" / run / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"boot_id": "another-boot", "node": {**record["node"], **node}}))


def test_a_run_of_another_machine_with_this_home_is_neither_dead_nor_stopped_from_here(runner: Runner) -> None:
    record = runner.start("there", [sys.executable, "-c", "print('loads', flush=True)"])
    assert record["node"]["name"] == socket.gethostname()
    list(runner.watch(run="there"))
    assert runner.ask("list", {})["runs"][0]["state"] == "dead"
    of_another_machine(runner, "there", name="node1")  # a cloned image: the same machine-id on all
    found = runner.ask("list", {"endings": True})["runs"][0]
    assert (found["state"], found["rebooted"], "last" in found) == ("elsewhere", False, False)
    answer = runner.stop("there", force=True, orphans=True)
    assert (answer["error"]["code"], answer["error"]["node"]) == ("WB-SERVE-ELSEWHERE", "node1")
    assert "stopped" not in json.loads((runner.home / ".workbook/runs/there/run.json").read_text())
    assert [event.get("text") for event in runner.watch(run="there", follow=False)] == ["loads", None]
    assert [event["error"]["code"] for event in runner.watch(run="there", health=True)] == ["WB-SERVE-ELSEWHERE"]
    runner.started.remove("there")


def test_this_machine_after_a_boot_and_records_without_a_machine_are_of_here(runner: Runner) -> None:
    runner.start("here", [sys.executable, "-c", "pass"])
    list(runner.watch(run="here"))
    of_another_machine(runner, "here")
    found = runner.ask("list", {})["runs"][0]
    assert (found["state"], found["rebooted"]) == ("dead", True)
    path = runner.home / ".workbook/runs/here/run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"node": {"name": record["node"]["name"], "machine_id": "0" * 32}}))
    expected = "elsewhere" if record["node"]["machine_id"] else "dead"  # every node may call itself localhost
    assert runner.ask("list", {})["runs"][0]["state"] == expected
    path.write_text(json.dumps(record | {"node": {"name": "node1"}, "stopped": {"by": "me", "at": "then"}}))
    assert runner.ask("list", {})["runs"][0]["state"] == "stopped"
    path.write_text(json.dumps({key: value for key, value in record.items() if key != "node"}))
    found = runner.ask("list", {})["runs"][0]
    assert (found["state"], found["rebooted"]) == ("dead", True)


def test_another_owners_server_is_stopped_only_by_force(runner: Runner) -> None:
    record = runner.start("hers", family("plain"), owner="her@laptop")
    answer = runner.stop("hers")
    assert answer["error"]["code"] == "WB-SERVE-OTHER-OWNER"
    assert "her@laptop" in answer["error"]["message"]
    assert processes.same(record["pid"], record["start_time"], record["boot_id"])
    assert runner.stop("hers", force=True)["was"] == "alive"


def test_a_taken_port_is_named_with_its_holder_and_nothing_is_started(runner: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = runner.start("late", family("plain"), port=taken.getsockname()[1])
    assert answer["error"]["code"] == "WB-SERVE-PORT-TAKEN"
    assert f"pid {os.getpid()}" in answer["error"]["message"]
    assert runner.ask("list", {}) == {"runs": [], "damaged": []}


def test_a_port_promised_to_a_loading_server_is_not_given_again(runner: Runner) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    first = runner.start("first", sleeper)
    second = runner.start("second", sleeper)
    assert first["port"] != second["port"]
    answer = runner.start("third", sleeper, port=first["port"])
    assert answer["error"]["run"] == "first"


def test_a_death_while_loading_is_seen_at_once_with_the_last_words(runner: Runner) -> None:
    dies = "import sys, time; print('loading', flush=True); time.sleep(1); sys.stderr.write('last words'); sys.exit(3)"
    runner.start("dies", [sys.executable, "-c", dies])
    began = time.monotonic()
    events = list(runner.watch(run="dies", health=True))
    assert time.monotonic() - began < 4
    assert [e["text"] for e in events if e["event"] == "line"] == ["loading", "last words"]
    assert events[-1] == {"event": "dead", "orphans": []}


def test_a_program_that_is_not_there_leaves_no_run(runner: Runner) -> None:
    answer = runner.start("none", ["/no/such/python", "-m", "sglang.launch_server"])
    assert answer["error"]["code"] == "WB-SERVE-NO-PROGRAM"
    assert "No such file" in answer["error"]["message"]
    assert not (runner.home / ".workbook/runs/none").exists()


def test_a_missing_or_broken_model_folder_is_refused_before_anything_starts(runner: Runner, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    answer = runner.start("m", family("plain"), folders=[str(tmp_path / "nowhere"), str(broken)])
    assert answer["error"]["code"] == "WB-SERVE-NO-MODEL"
    assert "No such file" in answer["error"]["missing"][0]
    assert "not JSON" in answer["error"]["missing"][1]
    assert not (runner.home / ".workbook/runs/m").exists()


def in_environment(monkeypatch: pytest.MonkeyPatch, path: str | None, **request: Any) -> tuple[list[str], list[str]]:
    """The words and the folders of PATH that a server would get in a session with this PATH."""
    if path is None:
        monkeypatch.delenv("PATH")
    else:
        monkeypatch.setenv("PATH", path)
    full = {"env": {}, "prepend": {}, "record": {"id": "r"}, **request}
    argv, env = starting.command_and_environment(full)
    return argv, env["PATH"].split(":")


def test_what_lies_beside_the_interpreter_is_found_as_in_an_activated_environment(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Must-show: ninja beside the profile's interpreter, a session that knows only /usr/bin."""
    venv = tmp_path / "venv/bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(sys.executable)
    (venv / "ninja").write_text("#!/bin/sh\necho built\n")
    (venv / "ninja").chmod(0o755)
    code = "import subprocess, time; subprocess.run(['ninja'], check=True); time.sleep(600)"
    runner.env["PATH"] = "/usr/bin:/bin"
    record = runner.start("venv", [str(venv / "python"), "-c", code])
    until = time.monotonic() + 20
    log = runner.home / ".workbook/runs/venv/server.log"
    while log.read_text() != "built\n":
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    assert processes.find(record["pid"]) is not None


@pytest.mark.parametrize(
    ("path", "program", "prepend", "expected"),
    [
        ("/usr/bin:/bin", "/venv/bin/python", {}, ["/venv/bin", "/usr/bin", "/bin"]),
        ("/cuda/bin:/usr/bin", "/usr/bin/python3", {}, ["/cuda/bin", "/usr/bin"]),  # nothing is moved to the front
        ("/usr/bin", "/venv/bin/python", {"PATH": "/cuda/bin"}, ["/cuda/bin", "/venv/bin", "/usr/bin"]),
        (None, "/venv/bin/python", {}, ["/venv/bin", *os.defpath.split(":")]),
        (None, "/venv/bin/python", {"PATH": "/cuda/bin"}, ["/cuda/bin", "/venv/bin", *os.defpath.split(":")]),
    ],
)
def test_path_of_a_server(
    monkeypatch: pytest.MonkeyPatch, path: str | None, program: str, prepend: dict[str, str], expected: list[str]
) -> None:
    assert in_environment(monkeypatch, path, argv=[program], prepend=prepend) == ([program], expected)


def test_folders_in_front_of_path_do_not_change_which_interpreter_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkout was looked up by the session's python3; another one in a folder of env_prepend is for children."""
    for name in ("session", "cuda"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python3").symlink_to(sys.executable)
    session, cuda = str(tmp_path / "session"), str(tmp_path / "cuda")
    argv, path = in_environment(monkeypatch, session, argv=["python3", "-m", "x"], prepend={"PATH": cuda})
    assert argv == [f"{session}/python3", "-m", "x"]
    assert path == [cuda, session]


def test_environment_is_set_prepended_and_marked(runner: Runner) -> None:
    runner.env["PYTHONPATH"] = "/of/the/box"
    runner.start("env", family("plain"), env={"SGLANG_X": "a b"}, prepend={"PYTHONPATH": "/mine", "NEW": "/n"})
    list(runner.watch(run="env", health=True))
    pid = json.loads((runner.home / ".workbook/runs/env/run.json").read_text())["pid"]
    env = dict(pair.split(b"=", 1) for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if pair)
    assert env[b"SGLANG_X"] == b"a b"
    assert env[b"PYTHONPATH"] == b"/mine:/of/the/box"
    assert env[b"NEW"] == b"/n"
    assert env[b"WORKBOOK_RUN"] == b"env"


def test_the_drafts_copy_links_its_files_and_carries_the_asked_ids(runner: Runner, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    draft.mkdir()
    (draft / "model.safetensors").write_bytes(b"weights")
    config = {"hidden_size": 8, "eagle_config": {"use_aux_hidden_state": True}}
    (draft / "config.json").write_text(json.dumps(config))
    runner.start("wired", family("plain"), draft={"folder": str(draft), "aux_layer_ids": [-1, 1, 4]})
    copy = runner.home / ".workbook/runs/wired/draft"
    assert (copy / "model.safetensors").resolve() == draft / "model.safetensors"
    assert json.loads((copy / "config.json").read_text()) == {
        "hidden_size": 8,
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [-1, 1, 4]},
    }
    assert json.loads((draft / "config.json").read_text()) == config


def test_a_log_is_read_on_from_an_offset_and_from_its_last_lines(runner: Runner) -> None:
    text = "import sys; sys.stdout.write('one\\ntwo 50%\\rtwo 100%\\r\\nthr\\u00e9e\\nlast'); sys.stdout.flush()"
    runner.start("log", [sys.executable, "-X", "utf8", "-c", text])
    events = [e for e in runner.watch(run="log") if e["event"] == "line"]
    assert [e["text"] for e in events] == ["one", "two 50%", "two 100%", "thr\u00e9e", "last"]
    again = [e["text"] for e in runner.watch(run="log", offset=events[1]["offset"]) if e["event"] == "line"]
    assert again == ["two 100%", "thr\u00e9e", "last"]
    assert [e["text"] for e in runner.watch(run="log", tail=2) if e["event"] == "line"] == ["thr\u00e9e", "last"]
    assert [e for e in runner.watch(run="log", tail=0) if e["event"] == "line"] == []


def test_a_long_log_is_read_in_blocks_and_long_lines_are_cut(runner: Runner) -> None:
    text = "print('a' * 3_000_000); print('b' * 9_999); [print('c' * 99) for _ in range(30_000)]"
    runner.start("long", [sys.executable, "-c", text])
    lines = [e["text"] for e in runner.watch(run="long") if e["event"] == "line"]
    assert all(line.startswith("a" * 1000) for line in lines[:3])
    assert max(map(len, lines)) < 10_100
    assert lines[-30_001:] == ["b" * 9_999, *["c" * 99] * 30_000]


def test_an_unknown_run_names_the_known_ones(runner: Runner) -> None:
    runner.start("known", [sys.executable, "-c", "pass"])
    error = runner.stop("unknown")["error"]
    assert (error["code"], error["known"]) == ("WB-SERVE-NO-RUN", ["known"])
    assert runner.stop("../known")["error"]["code"] == "WB-SERVE-NO-RUN"


def test_a_damaged_record_is_named_and_does_not_hide_the_others(runner: Runner) -> None:
    runner.start("good", [sys.executable, "-c", "pass"])
    bad = runner.home / ".workbook/runs/bad"
    bad.mkdir()
    (bad / "run.json").write_text('{"id": "ba')
    listed = runner.ask("list", {})
    assert ([r["record"]["id"] for r in listed["runs"]], listed["damaged"]) == (["good"], ["bad"])


def test_a_run_that_cannot_be_written_leaves_nothing(runner: Runner) -> None:
    """A file where the folder of runs should be: as good as a full disk."""
    (runner.home / ".workbook").mkdir()
    (runner.home / ".workbook/runs").write_text("")
    answer = runner.ask("start", {"record": {"id": "x"}, "folders": []})
    assert answer["error"]["code"] == "WB-SERVE-FILES"
    (runner.home / ".workbook/runs").unlink()


def test_gpu_memory_is_waited_for_and_told(runner: Runner, tmp_path: Path) -> None:
    """A forged nvidia-smi (there is no GPU here): it names the server's pid as holder as long as that lives."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(
        "#!/bin/sh\n"
        "pid=$(cat $HOME/.workbook/runs/gpu/pid)\n"
        "lives=$(ls -d /proc/$pid 2>/dev/null)\n"
        "case $1 in\n"
        '--query-gpu*) echo "0, ${lives:+7}5"; echo "1, [N/A]";;\n'
        '*) [ -z "$lives" ] || echo "$pid, 70";;\n'
        "esac\n"
    )
    (tools / "nvidia-smi").chmod(0o755)
    runner.env["PATH"] = f"{tools}:{runner.env['PATH']}"
    runner.start("gpu", family("plain"))
    list(runner.watch(run="gpu", health=True))
    assert runner.stop("gpu")["gpu"] == {"before_mib": [75, None], "after_mib": [5, None], "holders_left": []}
