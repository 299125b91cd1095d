"""What `workbook facts` prints of a box of eight GPUs: who holds them, what is at fault, and where to read on.

.venv/bin/python -m pytest tests/unit/test_facts_text.py
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.box.facts import Absent, Answer, Facts, Problem, gpus, mig, servers
from helpers.box.facts.comparison import compare
from helpers.box.facts.gather import read
from helpers.box.facts.gpu_processes import GpuProcesses, Holder
from helpers.box.facts.python import Python
from helpers.box.facts.servers import Server, Servers
from helpers.box.facts.sockets import Listener, Sockets
from helpers.panels.server_model import ServerModel
from helpers.paths import DOCS
from helpers.serving import load_profiles
from helpers.serving.overview import KnownRun, Overview, Seen, about
from helpers.serving.overview_text import describe
from helpers.serving.whose import Whose, whose
from helpers.source.served import Engine

CASES = Path(__file__).resolve().parents[1] / "cases" / "facts"
LAPTOP = Python.model_validate(json.loads((CASES / "python" / "laptop.json").read_text())["expected"])


def answer(path: str) -> Answer:
    case = json.loads((CASES / path).read_text())
    return Answer(("nvidia-smi",), tuple(case["output"]), tuple(case.get("errors", ())), case["exit_status"])


def facts(**changes: object) -> Facts:
    none = Absent(absent="not asked")
    fields: dict[str, object] = dict.fromkeys(
        ("gpus", "gpu_processes", "cpu", "memory", "disk", "python", "sockets", "servers"), none
    )
    base: dict[str, object] = {"box": "box", "user": "me", "host": "10.0.0.9", "taken": "2026-01-31", "seconds": 0.9}
    return Facts.model_validate(base | fields | changes)


def page(found: Facts, **more: object) -> Overview:
    rows = compare(LAPTOP, LAPTOP, gpus=found.gpus if isinstance(found.gpus, gpus.Gpus) else None, engine="0.5.9")
    fields: dict[str, object] = {
        "facts": found,
        "servers": (),
        "interpreter": "python3",
        "engine": Absent(absent="python3 finds no package sglang"),
        "python": LAPTOP,
        "laptop": LAPTOP,
        "rows": rows,
    }
    return Overview.model_validate(fields | more)


def test_eight_gpus_and_who_holds_them() -> None:
    held = GpuProcesses(
        processes=(
            Holder(pid=41000, gpu=0, user="ann", memory=72784, command="sglang::scheduler_TP0"),
            Holder(pid=658),
        )
    )
    found = facts(gpus=gpus.parse(answer("gpus/h100-eight.json")), gpu_processes=held)
    overview = page(found)
    text = describe(overview)
    assert "GPUs: 8, driver 590.48.01" in text
    assert text.count("NVIDIA H100 80GB HBM3") >= 8
    assert "ann" in text
    assert "sglang::scheduler_TP0" in text
    assert "not told (another container's?)" in text
    assert overview.good, "a difference that is not critical is no fault"
    assert "tensor cores round and add otherwise" in text


def test_memory_that_nobody_is_shown_to_hold() -> None:
    found = facts(gpus=gpus.parse(answer("gpus/h100-eight.json")), gpu_processes=GpuProcesses())
    assert "held by no process that this login is shown, though some is in use" in describe(page(found))


def test_a_fault_of_a_gpu_is_named_and_fails() -> None:
    for name, words in (
        ("err-in-a-row", "FAULT of GPU 14: utilization.gpu: ERR!"),
        ("uncorrected-errors", "FAULT of GPU 0: 2 uncorrected memory errors"),
        ("lost-among-others", "FAULT: Unable to determine the device handle for GPU 0000:0B:00.0"),
    ):
        overview = page(facts(gpus=gpus.parse(answer(f"gpus/{name}.json"))))
        assert words in describe(overview)
        assert not overview.good


def test_an_unreadable_fact_is_shown_with_its_line_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DOCS.parent)
    broken = read(gpus.parse, answer("gpus/row-cut.json"))
    assert isinstance(broken, Problem)
    overview = page(facts(gpus=broken, sockets=Sockets(listeners=(Listener(address="*", port=22),))))
    text = describe(overview)
    assert "GPUs: could not be read, see below (WB-FACT-UNREADABLE)" in text
    assert "line 3 of 'nvidia-smi' cannot be read" in text
    assert "  page: docs/errors/WB-FACT-UNREADABLE.md" in text
    monkeypatch.chdir(tmp_path)  # as a notebook's kernel is elsewhere
    assert f"  page: {DOCS / 'errors' / 'WB-FACT-UNREADABLE.md'}" in describe(overview)
    assert "ports: 22" in text
    assert not overview.good
    assert overview.to_json()["gpus"]["error"]["code"] == "WB-FACT-UNREADABLE"


def test_instances_of_a_cut_gpu() -> None:
    found = facts(gpus=gpus.parse(answer("gpus/h100-mig.json")), mig=mig.parse(answer("mig/a100-two-instances.json")))
    assert "MIG 3g.40gb: GPU 0, device 1" in describe(page(found))


def test_servers_ours_and_others() -> None:
    ours = servers.parse(answer("servers/one-of-ours.json"))
    other = servers.parse(answer("servers/another-login-tp8.json"))
    assert isinstance(ours, Servers)
    assert isinstance(other, Servers)
    engine = Engine(package="/home/me/sglang/python/sglang", version="0.5.9", python="python3", python_version="3.11.7")
    run = KnownRun(id="off-by-one-20260131-213358-5515", profile="off-by-one", owner="me@laptop", answers=True)
    unasked = Absent(absent="it is ann's: connect as ann")
    seen = (
        Seen(server=ours.servers[0], listening=True, engine=engine, python=LAPTOP, run=run),
        Seen(server=other.servers[0], listening=False, engine=unasked, python=unasked),
    )
    both = Servers(boot_id=ours.boot_id, hidden=False, servers=(ours.servers[0], other.servers[0]))
    overview = page(facts(servers=both), servers=seen)
    text = describe(overview)
    assert "pid 8335 of me, port 30622 (listening), tp 1, up 10 min" in text
    assert "run off-by-one-20260131-213358-5515 (profile off-by-one) of me@laptop, answers" in text
    assert "sglang 0.5.9 in /home/me/sglang/python/sglang" in text
    assert "pid 4711 of ann, port 30000 (not listening yet), tp 8" in text
    assert "not started by the workbook" in text
    assert "sglang: it is ann's: connect as ann" in text
    assert "s3cret" not in text
    said = overview.to_json()
    assert "s3cret" not in json.dumps(said)
    assert [each["server"]["process"]["pid"] for each in said["servers"]] == [8335, 4711]
    assert "--speculative-num-draft-tokens 4" in text, "a count of tokens is no secret"


def test_facts_and_the_panel_say_the_same_of_a_run_that_is_not_on_this_logins_list() -> None:
    ours = servers.parse(answer("servers/one-of-ours.json"))
    other = servers.parse(answer("servers/another-login-tp8.json"))
    assert isinstance(ours, Servers)
    assert isinstance(other, Servers)
    both = Servers(boot_id=ours.boot_id, hidden=False, servers=(ours.servers[0], other.servers[0]))
    unasked = Absent(absent="not asked")
    seen = tuple(Seen(server=one, listening=True, engine=unasked, python=unasked) for one in both.servers)
    text = describe(page(facts(servers=both), servers=seen))
    assert "marked as run off-by-one-20260131-213358-5515" in text
    box: Any = SimpleNamespace(name="lab", user="me", host="10.0.0.9")
    panel = ServerModel(box, load_profiles())
    panel.facts = facts(servers=both)
    assert [row["run"] for row in panel.server_rows()] == [
        "(marked as run off-by-one-20260131-213358-5515)",
        "(not started by the workbook)",
    ]


def test_of_several_servers_the_look_is_about_your_own_and_says_whose_the_others_are() -> None:
    ours = servers.parse(answer("servers/one-of-ours.json"))
    other = servers.parse(answer("servers/another-login-tp8.json"))
    assert isinstance(ours, Servers)
    assert isinstance(other, Servers)
    server, strange = ours.servers[0], other.servers[0]
    home = "/home/me"

    def owned(of: Server, owner: str | None) -> Whose:
        return whose(of, owner, me="me@laptop", home=home)

    def seen(owner: str | None, pid: int, version: str) -> Seen:
        process = server.process.model_copy(update={"pid": pid, "start_time": pid})
        run = KnownRun(id=f"right-{pid}", profile="right", owner=owner, answers=True) if owner else None
        engine = Engine(package=f"/{version}/sglang", version=version, python="python3", python_version="3.11.7")
        mine = server.model_copy(update={"process": process})
        return Seen(server=mine, listening=True, engine=engine, python=LAPTOP, run=run, whose=owned(mine, owner))

    yours, anns, bare = seen("me@laptop", 1, "0.5.9"), seen("ann@laptop", 2, "0.5.10"), seen(None, 3, "0.5.10")
    assert about([yours, anns, bare]) is yours
    assert about([anns, bare]) is bare
    assert about([anns]) is anns
    unasked = Absent(absent="it is ann's")
    hers = Seen(server=strange, listening=True, engine=unasked, python=unasked, whose=owned(strange, None))
    assert about([hers]) is None
    lab = server.process.model_copy(update={"env": {"HOME": "/home/me/lab"}})
    elsewhere = owned(server.model_copy(update={"process": lab}), None)
    assert (elsewhere.kind, elsewhere.here) == ("elsewhere", False)
    overview = page(facts(servers=ours), servers=(yours, anns, bare, hers), interpreter="server 1", engine=yours.engine)
    text = describe(overview)
    assert "also served here: sglang 0.5.10 in /0.5.10/sglang, by python3" in text
    assert "  server 2 (run right-2, ann@laptop's)" in text
    assert "  server 3 (of this login, and not started by a workbook)" in text
    assert "run right-1 (profile right) of me@laptop (you), answers" in text
