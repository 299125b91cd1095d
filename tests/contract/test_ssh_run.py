"""Commands: what comes back is what was written, at any size, and nothing outlives its deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_servers

from helpers.box import Box, Raw
from helpers.box.execution import Execution
from helpers.errors import RemoteFailed, UsageError

BLOCKS = r"""
import os, sys
block = bytes(range(256)) * 256
for number in range(int(sys.argv[1])):
    os.write(1, block)
    os.write(2, block[::-1])
"""


def peak_kib() -> int:
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line).split()[1])


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def test_output_and_status_come_back(box: Box) -> None:
    result = box.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (result.stdout, result.stderr, result.exit_status) == ("out\n", "err\n", 3)
    assert (result.bytes_stdout, result.bytes_stderr, result.box) == (4, 4, box.name)
    assert result.seconds > 0
    assert result.started.endswith("+00:00")


def test_a_failed_check_shows_the_last_lines(box: Box) -> None:
    with pytest.raises(RemoteFailed, match="WB-RUN-FAILED") as caught:
        box.sh("for i in 1 2 3; do echo line $i >&2; done; exit 7")
    assert caught.value.lines == ["line 1", "line 2", "line 3"]
    assert "exit status 7" in caught.value.message
    assert caught.value.exit_code == 4


def test_a_missing_program_is_a_failed_check(box: Box) -> None:
    with pytest.raises(RemoteFailed, match=r"WB-RUN-FAILED.*127"):
        box.run(["no-such-program-here"])


def test_death_by_signal_is_128_and_the_signal(box: Box) -> None:
    assert box.sh("kill -9 $$", check=False).exit_status == 128 + 9
    assert box.sh("kill -SEGV $$", check=False).exit_status == 128 + 11


def test_both_streams_are_drained_together(box: Box) -> None:
    size = 12  # MiB of each stream, far above any window or pipe
    result = box.run(["python3", "-c", BLOCKS, str(size * 16)], deadline=120)
    block = bytes(range(256)) * 256
    assert result.bytes_stdout == result.bytes_stderr == size << 20
    assert result.stdout.encode("utf-8", "surrogateescape") == block * (size * 16)
    assert result.stderr.encode("utf-8", "surrogateescape") == block[::-1] * (size * 16)


@pytest.mark.full
def test_a_gibibyte_of_each_stream_in_bounded_memory(box: Box) -> None:
    reset_peak()
    before, seen = peak_kib(), 0
    for line in box.stream(["python3", "-c", BLOCKS, str(16 * 1024)], deadline=250):
        seen += len(line)
    # Every block holds one newline; invalid bytes are one surrogate each, and valid sequences are none by chance.
    assert seen >= 2 * (1 << 30) * 0.9
    assert peak_kib() - before < 64 * 1024


def test_streaming_keeps_memory_bounded(box: Box) -> None:
    list(box.stream(["echo", "warm"]))
    reset_peak()
    before, lines = peak_kib(), 0
    for _ in box.stream(["python3", "-c", BLOCKS, str(16 * 40)], deadline=120):
        lines += 1
    assert lines > 600
    assert peak_kib() - before < 64 * 1024


def test_half_characters_and_wild_bytes_arrive_intact(box: Box) -> None:
    script = r"""
import os, time
data = ("ä€𝄞" * 30000).encode() + bytes(range(128, 256)) + "ü".encode()
for start in range(0, len(data), 32749):
    os.write(1, data[start:start + 32749])
"""
    wanted = ("ä€𝄞" * 30000).encode() + bytes(range(128, 256)) + "ü".encode()
    result = box.run(["python3", "-c", script])
    assert result.stdout.encode("utf-8", "surrogateescape") == wanted
    assert result.stdout.startswith("ä€𝄞ä")
    streamed = "".join(box.stream(["python3", "-c", script]))
    assert streamed.encode("utf-8", "surrogateescape") == wanted


def test_a_character_cut_between_two_packets(box: Box) -> None:
    script = "import os,time; os.write(1, b'a\\xe2\\x82'); time.sleep(0.3); os.write(1, b'\\xac\\n')"
    assert list(box.stream(["python3", "-c", script])) == ["a€"]


def test_lines_come_as_they_are_written(box: Box) -> None:
    stamps = []
    for line in box.sh_stream("echo one; sleep 0.6; echo two >&2; printf three"):
        stamps.append((line, time.monotonic()))
    assert [line for line, _ in stamps] == ["one", "two", "three"]
    assert stamps[1][1] - stamps[0][1] > 0.4


def test_a_stream_that_fails_says_so_at_its_end(box: Box) -> None:
    lines = box.sh_stream("echo before; exit 5")
    assert next(lines) == "before"
    with pytest.raises(RemoteFailed, match="exit status 5"):
        next(lines)


def test_stdin_and_end_of_file(box: Box) -> None:
    data = os.urandom(3 << 20)
    result = box.run(["cat"], stdin=data)
    assert result.stdout.encode("utf-8", "surrogateescape") == data
    assert box.run(["cat"]).stdout == ""  # end of file at once, not a wait for ever


def test_a_command_that_does_not_read_its_stdin(box: Box) -> None:
    assert box.run(["echo", "done"], stdin=b"x" * (8 << 20)).stdout == "done\n"


def test_input_that_breaks_off_ends_the_command(box: Box) -> None:
    def broken() -> Iterator[bytes]:
        yield b"first"
        raise PermissionError("no more")

    execution = Execution(box.session, ["cat"], stdin=broken())
    assert list(execution.events()) == [("out", b"first")]
    assert execution.exit_status == 0


def test_environment_and_folder(box: Box, there: Path) -> None:
    value = "a 'quoted' \"value\"\nwith $(id) and ünicode\n"
    env = {"WB_ONE": value, "WB_TWO": "2"}
    result = box.run(["/bin/sh", "-c", 'pwd; printf %s "$WB_ONE$WB_TWO"; cat'], cwd=str(there), env=env, stdin="rest")
    assert result.stdout == f"{there}\n{value}2rest"
    assert box.run(["pwd"], cwd="~/").stdout.strip().rstrip("/") == box.home
    with pytest.raises(RemoteFailed, match="WB-RUN-FAILED"):
        box.run(["pwd"], cwd="~/no-such-folder")


def test_the_environment_is_not_on_the_command_line(box: Box) -> None:
    script = "cat /proc/$$/cmdline /proc/$PPID/cmdline | tr '\\0' ' '"
    seen = box.run(["/bin/sh", "-c", script], env={"HF_TOKEN": "hf_" + "verysecretvalue"}).stdout
    assert "verysecretvalue" not in seen


def test_no_terminal_is_allocated(box: Box) -> None:
    assert box.sh("tty || true").stdout.strip() == "not a tty"


def test_what_login_files_print_is_not_output(box: Box, ssh_server: ssh_servers.SshServer) -> None:
    # bash reads ~/.bashrc for commands that come over the network.
    rc = ssh_server.home / ".bashrc"
    rc.write_text("echo greeting; echo warning >&2\n")
    try:
        result = box.run(["printf", "x"])
        assert (result.stdout, result.stderr) == ("x", "")
    finally:
        rc.unlink()


def processes_with(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if mark.encode() in (entry / "cmdline").read_bytes() and state != "Z":
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if pid != os.getpid()]


def test_a_command_that_ignores_term_is_gone_after_its_deadline(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.box.ending.GRACE", 0.5)
    mark = f"wb-mark-{time.monotonic_ns()}"
    started = time.monotonic()
    with pytest.raises(RemoteFailed, match="WB-RUN-DEADLINE") as caught:
        box.run(["/bin/sh", "-c", f"trap '' TERM; (sleep 300; : {mark}) & sleep 300; : {mark}"], deadline=1)
    assert time.monotonic() - started < 8
    assert processes_with(mark) == []
    assert "could not be confirmed" not in caught.value.message


def test_the_deadline_holds_while_output_flows(box: Box) -> None:
    started = time.monotonic()
    with pytest.raises(RemoteFailed, match="WB-RUN-DEADLINE"):
        list(box.stream(["yes", "x" * 100], deadline=1))
    assert time.monotonic() - started < 8


def test_leaving_a_stream_early_ends_the_command(box: Box) -> None:
    mark = f"wb-mark-{time.monotonic_ns()}"
    for line in box.sh_stream(f"while :; do echo {mark}; sleep 0.05; done"):
        assert line == mark
        break
    assert processes_with(mark) == []


def test_ctrl_c_ends_the_command(ssh_server: ssh_servers.SshServer, tmp_path: Path) -> None:
    mark = f"wb-mark-{time.monotonic_ns()}"
    script = tmp_path / "client.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:0] = {[str(Path(__file__).parent), os.getcwd()]!r}\n"
        "from pathlib import Path\n"
        "from helpers.box import connect\nfrom helpers.box.targets import Target\n"
        f"target = Target(name='box', host={ssh_server.host!r}, port={ssh_server.port}, user={ssh_server.user!r},\n"
        f"    identity_files=(Path({str(ssh_server.client_key)!r}),), identities_only=True, agent=False,\n"
        f"    known_hosts=(Path({str(ssh_server.known_hosts)!r}),))\n"
        "with connect(target) as box:\n"
        f"    for line in box.sh_stream('echo ready; sleep 300; : {mark}'):\n"
        "        print(line, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        assert processes_with(mark)
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors
    assert client.returncode != 0
    assert processes_with(mark) == []


def test_raw_text_is_for_programmers_only(box: Box) -> None:
    assert box.run(["printf", "a\\nb\\n", Raw("| wc -l")]).stdout.strip() == "2"
    for wrong in ("ls -l", [], ["ls", 3], ["-rf"], ["echo", "a\0b"]):
        with pytest.raises(UsageError, match="WB-RUN-ARGUMENT"):
            box.run(wrong)  # type: ignore[arg-type]


def test_many_threads_share_a_bounded_number_of_channels(box: Box) -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(box.run(["echo", str(n)]).stdout.strip()))  # type: ignore[misc]
        for n in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results, key=int) == [str(n) for n in range(24)]
    assert box.session.connections == 1
