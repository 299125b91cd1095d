"""Facts asked of real servers: one trip, nothing that hangs hides the rest, and a server's own checkout is found."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import ssh_servers
from test_ssh_run import processes_with

from helpers.box import Box
from helpers.box.facts import Absent, Answer, Question, gather
from helpers.box.facts.asking import ask
from helpers.box.facts.cpu import Cpu
from helpers.box.facts.disk import Disks
from helpers.box.facts.memory import Memory
from helpers.box.facts.python import Python
from helpers.box.facts.servers import Servers
from helpers.box.facts.sockets import Sockets
from helpers.paths import ROOT
from helpers.serving.overview import Seen, overview
from helpers.source.served import Engine


def test_facts_are_those_of_the_machine(box: Box, ssh_server: ssh_servers.SshServer, there: Path) -> None:
    before = sorted(path for path in ssh_server.home.rglob("*"))
    facts = box.facts(folders=[str(there), "~/none"], progress=False)
    assert facts.problems == ()
    assert (facts.box, facts.user, facts.host) == (box.name, box.user, box.host)
    assert isinstance(facts.cpu, Cpu)
    assert facts.cpu.cpus == os.cpu_count()
    assert isinstance(facts.memory, Memory)
    total = int(Path("/proc/meminfo").read_text().split()[1])
    assert facts.memory.total == total // 1024
    assert isinstance(facts.disk, Disks)
    assert [disk.path for disk in facts.disk.disks][:2] == [box.home, str(there)]
    assert facts.disk.missing == (f"{box.home}/none",)
    assert facts.disk.disks[0].size == shutil.disk_usage(there).total >> 20
    assert isinstance(facts.sockets, Sockets)
    assert facts.sockets.on(ssh_server.port)
    assert isinstance(facts.python, Python)
    assert facts.python.version.startswith("3.")
    assert isinstance(facts.servers, Servers)
    if shutil.which("nvidia-smi") is None:
        assert facts.gpus == Absent(absent="no nvidia-smi on the box")
        assert facts.gpu_processes == facts.gpus
    assert facts.commands["disk"].command.startswith("df -PkT -- /")
    assert sorted(path for path in ssh_server.home.rglob("*")) == before, "asking writes nothing"


def test_all_facts_take_one_trip(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    trips: list[object] = []
    execute = Box.execute

    def counted(self: Box, argv: object, **more: object) -> object:
        trips.append(argv)
        return execute(self, argv, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Box, "execute", counted)
    facts, _ = gather(box, progress=False)
    # A second trip looks at what the first has found: models of servers that run here, who holds GPU memory.
    assert isinstance(facts.servers, Servers)
    assert len(trips) == (2 if facts.servers.servers else 1)


def test_a_box_without_python_answers_too(box: Box) -> None:
    questions = [
        Question("echo", (("no-such-program",), ("echo", "a b", "$(id)"))),
        Question("fails", (("ls", "/no/such/folder"),)),
        Question("missing", (("no-such-program", "x"),)),
        Question("language", (("sh", "-c", 'echo "$LC_ALL $WB_FACT"; pwd'),), env={"WB_FACT": "1"}, cwd="/"),
    ]

    def comparable(answers: dict[str, Answer]) -> dict[str, tuple[object, ...]]:
        # The shell that answers alone has its own words for a missing program.
        return {
            name: (answer.argv, answer.lines, answer.exit_status, answer.timed_out) for name, answer in answers.items()
        }

    together = comparable(ask(box, questions, progress=False))
    assert together["echo"] == (("echo", "a b", "$(id)"), ("a b $(id)",), 0, False)
    assert together["fails"][2] == 2
    assert together["missing"][2] == 127
    assert together["language"][1] == ("C 1", "/")
    alone = comparable(ask(box, questions, pythons=["/no/such/python3"], progress=False))
    assert alone == together
    facts, _ = gather(box, interpreter="/no/such/python3", progress=False)
    assert facts.python == Absent(absent="no /no/such/python3 on the box")
    assert isinstance(facts.memory, Memory)


def test_what_hangs_does_not_hide_the_rest(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    mark = f"600.{time.monotonic_ns()}"
    questions = [
        Question("quick", (("echo", "here"),)),
        Question("stuck", (("sleep", mark), ("echo", "never asked")), timeout=3.0),
    ]
    began = time.monotonic()
    answers = ask(box, questions)
    assert time.monotonic() - began < 10
    assert answers["quick"].lines == ("here",)
    assert answers["stuck"].timed_out
    assert answers["stuck"].argv == ("sleep", mark)
    assert processes_with(mark) == []
    said = capsys.readouterr().err
    assert "waiting for stuck" in said
    assert "quick" not in said


def test_output_that_is_no_text(box: Box) -> None:
    script = r"printf 'a\377b\r\n\n\342\200\250c\n'; printf 'half'; printf 'words\n' >&2; exit 3"
    answer = ask(box, [Question("wild", (("sh", "-c", script),))], progress=False)["wild"]
    assert answer.lines == ("a\ufffdb", "", "\u2028c", "half")
    assert (answer.errors, answer.exit_status) == (("words",), 3)


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def frozen() -> Iterator[Start]:
    """Starts the real SGLang and stops the process at once: its command line stands, and it never gets to load."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, cwd: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        process.send_signal(signal.SIGSTOP)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def checkout(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a folder with the first files of SGLang's package, edited to a version of its own."""
    spec = find_spec("sglang")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent

    def make(version: str) -> Path:
        package = tmp_path / version / "sglang"
        package.mkdir(parents=True)
        for name in ("__init__.py", "launch_server.py", "version.py", "_version.py"):
            shutil.copy(installed / name, package / name)
        (package / "_version.py").write_text(f"__version__ = version = {version!r}\n")
        return package.parent

    return make


def seen_of(box: Box, process: subprocess.Popen[bytes]) -> Seen:
    found = overview(box, progress=False)
    assert [seen for seen in found.servers if seen.server.process.pid == process.pid] != []
    return next(seen for seen in found.servers if seen.server.process.pid == process.pid)


def test_the_checkout_is_the_running_servers_own(
    box: Box, frozen: Start, checkout: Callable[[str], Path], tmp_path: Path
) -> None:
    on_path, working = checkout("0.5.9+path"), checkout("0.5.9+folder")
    launch = ("-m", "sglang.launch_server", "--model-path", str(tmp_path), "--tp=2", "--port", "31999")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    by_path = frozen(sys.executable, *launch, cwd=tmp_path, env={**plain, "PYTHONPATH": str(on_path)})
    # `-m` looks into the working folder before anything on PYTHONPATH.
    by_folder = frozen(sys.executable, *launch, cwd=working, env={**plain, "PYTHONPATH": str(on_path)})
    ignored = frozen(sys.executable, "-I", *launch, cwd=working, env={**plain, "PYTHONPATH": str(on_path)})

    seen = seen_of(box, by_path)
    assert isinstance(seen.engine, Engine)
    assert (seen.engine.package, seen.engine.version) == (f"{on_path}/sglang", "0.5.9+path")
    assert seen.engine.python == sys.executable
    assert isinstance(seen.python, Python)
    assert seen.python.packages["torch"] is not None
    assert (seen.server.launched.tp, seen.server.launched.port) == (2, 31999)
    assert (seen.listening, seen.run, seen.server.run) == (False, None, None)

    folder = seen_of(box, by_folder)
    assert isinstance(folder.engine, Engine)
    assert folder.engine.package == f"{working}/sglang"
    isolated = seen_of(box, ignored)
    assert isinstance(isolated.engine, Engine)
    assert "site-packages" in isolated.engine.package

    found = overview(box, progress=False)
    assert isinstance(found.facts.disk, Disks)
    assert str(tmp_path) in [disk.path for disk in found.facts.disk.disks], "the models' disk is looked at"
    chosen = overview(box, interpreter="python3", progress=False)
    assert chosen.interpreter == "python3"


def test_a_strangers_server_is_not_described_as_the_boxs_own(
    box: Box, frozen: Start, checkout: Callable[[str], Path], tmp_path: Path
) -> None:
    """Three servers of this login: another home's (a second lab), and two of this box from different checkouts."""
    launch = (sys.executable, "-m", "sglang.launch_server", "--model-path", str(tmp_path), "--port", "31999")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    strange, first, second = (checkout(f"0.5.9+{name}") for name in ("strange", "first", "second"))
    stranger = frozen(*launch, cwd=tmp_path, env={**plain, "HOME": "/elsewhere", "PYTHONPATH": str(strange)})
    found = overview(box, progress=False)
    assert found.interpreter == "python3"
    assert found.reason == "the box's own: no server of this box runs"
    page = str(found)
    assert f"pid {stranger.pid} of" in page
    assert "another box's on this machine, its home is /elsewhere" in page
    assert str(strange) not in str(found.engine)

    here = {**plain, "HOME": box.home}
    older = frozen(*launch, cwd=tmp_path, env={**here, "PYTHONPATH": str(first)})
    time.sleep(0.05)  # a start is known to the hundredth of a second
    newer = frozen(*launch, cwd=tmp_path, env={**here, "PYTHONPATH": str(second)})
    found = overview(box, progress=False)
    assert isinstance(found.engine, Engine)
    assert (found.interpreter, found.engine.package) == (f"server {newer.pid}", f"{second}/sglang")
    assert found.reason == "of this login, and not started by a workbook"
    [(other, servers)] = found.others
    assert (other.package, [seen.server.process.pid for seen in servers]) == (f"{first}/sglang", [older.pid])
    assert f"also served here: sglang 0.5.9+first in {first}/sglang, by {sys.executable}" in str(found)


def test_a_run_that_the_registry_does_not_know_is_not_claimed(
    box: Box, frozen: Start, tmp_path: Path, ssh_server: ssh_servers.SshServer
) -> None:
    launch = ("-m", "sglang.launch_server", "--model-path", "org/none")
    process = frozen(sys.executable, *launch, cwd=tmp_path, env={**os.environ, "WORKBOOK_RUN": "right-20260131-1"})
    with a_login_without_runs(ssh_server.home) as state:
        seen = seen_of(box, process)
        assert seen.server.run == "right-20260131-1"
        assert seen.run is None
        assert not state.exists(), "a login without runs is not given the registry's reader"


@contextmanager
def a_login_without_runs(home: Path) -> Iterator[Path]:
    """The server is shared by the session: what other tests left in its ~/.workbook is put aside meanwhile."""
    state, aside = home / ".workbook", home / ".workbook.aside"
    if state.exists():
        state.rename(aside)
    try:
        yield state
    finally:
        if aside.exists():
            aside.rename(state)


def workbook(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "helpers.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, "WORKBOOK_LAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command(lab_server: ssh_servers.SshServer) -> None:
    home = lab_server.home.parent
    done = workbook("facts", "lab", "--json", home=home)
    said = json.loads(done.stdout)
    assert said["schema"] == "workbook.facts/1"
    assert done.returncode == (0 if said["comparison"]["good"] else 1), done.stderr
    names = [row["name"] for row in said["comparison"]["rows"]]
    assert {"python", "torch", "safetensors", "transformers", "sglang", "numpy", "dtypes"} <= set(names)
    assert said["python"]["packages"]["torch"]
    assert isinstance(said["servers"], list)

    text = workbook("facts", "lab", "--python", "/no/such/python3", home=home)
    assert text.returncode == 1
    assert "no /no/such/python3 on the box" in text.stdout
    assert "CRITICAL" in text.stdout
    assert workbook("facts", "lab", home=home / "elsewhere").returncode == 3
