"""The magics in a real IPython kernel, against the lab's SSH server: streaming, an interrupt, the ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ssh_servers
from jupyter_client.manager import KernelManager
from leftovers import gone

from helpers.ledger import Ledger, read_ledger
from helpers.paths import ROOT


class Kernel:
    """A kernel, and what a cell said: its streams, its displayed text, the name of its error."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def start(self, source: str) -> str:
        return str(self.client.execute(source))

    def message(self, id: str) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") == id:
                return message

    def finish(self, id: str) -> tuple[str, str, str]:
        """(streams, displayed text, name of the error and what is shown of it)"""
        streams, shown, error = "", "", ""
        while True:
            message = self.message(id)
            content = message["content"]
            if message["msg_type"] == "stream":
                streams += content["text"]
            elif message["msg_type"] in ("execute_result", "display_data"):
                shown += content["data"].get("text/plain", "")
            elif message["msg_type"] == "error":
                error = f"{content['ename']}: " + "\n".join(content["traceback"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return streams, shown, error

    def run(self, source: str) -> tuple[str, str, str]:
        return self.finish(self.start(source))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("investigations")


@pytest.fixture(scope="module")
def kernel(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel whose `lab` is a lab of this test's own."""
    with ssh_servers.lab_server(tmp_path_factory.mktemp("lab")) as server:
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(tmp_path_factory.mktemp("k") / "k"))
        environment = {
            **os.environ,
            "WORKBOOK_LAB_HOME": str(server.home.parent),
            "WORKBOOK_INVESTIGATIONS": str(folder),
            "PYTHONPATH": str(ROOT),
        }
        manager.start_kernel(env=environment)
        made = Kernel(manager)
        try:
            assert made.run("%load_ext helpers.magics") == ("", "", "")
            yield made
        finally:
            made.client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()
    assert gone(str(server.home.parent)) == []


def ledger_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(folder))
    return read_ledger("case")


def test_a_cell_runs_on_the_box_and_becomes_evidence(
    kernel: Kernel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kernel.run("%%box lab\necho one; echo $((1 + 1)) >&2\npwd")[2] == ""
    assert "WB-MAGIC-LEDGER" in kernel.run('%%box lab --as "x"\ntrue')[2]
    kernel.run("%ledger case --title 'Why?'")
    shown = kernel.run("%hypothesis the ids feed other layers --predicts 'a slot is another' --threshold 'any'")[1]
    assert shown == "H1: the ids feed other layers"
    streams, shown, error = kernel.run('%%box lab --as "the log" --on H1 --supports\necho "HF_TOKEN=hf_AbCdEfGhIjKl"')
    assert (streams, shown, error) == ("HF_TOKEN=hf_AbCdEfGhIjKl\n", "E1: the log (supports H1)", "")
    assert "exit status 3" in kernel.run("%%box lab\nexit 3")[0]
    assert kernel.run("print(_box.exit_status, _box.box)")[0] == "3 lab\n"
    kernel.run("rate = {'accept rate': 0.19, 'n': 640}")
    assert kernel.run("%evidence rate --on H1 --supports --as 'acceptance'")[1] == "E2: acceptance (supports H1)"
    assert "V1: H1 confirmed" in kernel.run("%verdict H1 confirmed --because E1,E2 --reason 'slot 0 is 0'")[1]
    ledger = ledger_at(folder, monkeypatch)
    assert [e.title for e in ledger.evidence_on("H1")] == ["the log", "acceptance"]
    kept = ledger.path(ledger.evidence_on("H1")[0].files[0]).read_text()
    assert kept == "HF_TOKEN=***\n"
    assert "WB-LEDGER-NO-EVIDENCE" in kernel.run("%verdict H1 refuted --reason 'no'")[2]
    assert "WB-MAGIC-USAGE" in kernel.run("%verdict H1 perhaps --reason 'no'")[2]
    assert "WB-MAGIC-USAGE" in kernel.run("%box_show 'x")[2]


def test_output_comes_while_it_is_made_and_an_interrupt_ends_the_group(kernel: Kernel) -> None:
    id = kernel.start("%%box lab\nexport MARK=4711_magics\necho begun\nsh -c 'sleep 600; true' &\nsleep 600")
    while (message := kernel.message(id))["msg_type"] != "stream":
        pass
    assert message["content"]["text"] == "begun\n"  # and the cell runs on
    kernel.manager.interrupt_kernel()
    assert kernel.finish(id)[2].startswith("KeyboardInterrupt")
    assert gone("4711_magics") == []
    assert kernel.run("%box lab echo again")[0] == "again\n"


def test_lines_of_the_source_are_shown_with_their_numbers(kernel: Kernel) -> None:
    _, shown, error = kernel.run("%box_show sglang/srt/server_args.py 1:2")
    assert error == ""
    assert "@sha256:" in shown
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["1", "2"]
