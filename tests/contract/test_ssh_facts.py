"""Facts of a real box: this machine, asked over both servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.box import Box
from helpers.box.facts import FACTS, gather
from helpers.errors import UsageError


def test_all_facts_of_this_machine(box: Box) -> None:
    facts = gather(box, python=sys.executable)
    assert facts.problems == {}
    assert facts.cpu is not None
    assert facts.cpu.cores == len(os.sched_getaffinity(0))
    assert facts.memory is not None
    assert facts.memory.total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert facts.python is not None
    assert facts.python.executable == sys.executable
    assert "bfloat16" in (facts.python.dtypes or ())
    assert facts.disk is not None
    assert facts.disk.disks
    assert facts.sockets is not None
    assert box.port in {listener.port for listener in facts.sockets.listeners}


def test_a_server_is_found_with_its_very_arguments(box: Box, tmp_path: Path) -> None:
    """A process that looks like a server: the arguments come back as they are, and its own SGLang is found."""
    package = tmp_path / "python/sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text('__version__ = "0.5.9+local"\n')
    (package / "launch_server.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    odd = "a 'b'\n$(c)\t;d"
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", odd, "--port=31234", "--tp", "2"]
    with subprocess.Popen(argv, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "python")}, stdout=-1) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"up\n"
        facts = gather(box, ["servers", "engine"], python=sys.executable)
        server.kill()
    assert facts.servers is not None
    found = next(item for item in facts.servers.servers if item.pid == server.pid)
    assert found.argv == tuple(argv)
    assert (found.model, found.port, found.tp, found.uid) == (odd, 31234, 2, os.getuid())
    assert facts.engine is not None
    engine = next(item for item in facts.engine.engines if item.pid == server.pid)
    assert (engine.package, engine.version, engine.cwd) == (str(package), "0.5.9+local", str(tmp_path))


def test_a_fact_that_cannot_be_had_is_a_problem_not_the_end(box: Box) -> None:
    facts = gather(box, ["python", "cpu"], python="no-such-python")
    assert facts.python is None
    assert "no-such-python" in facts.problems["python"]
    assert facts.cpu is not None
    with pytest.raises(UsageError, match="WB-FACT-UNKNOWN"):
        gather(box, ["colour"])
    assert set(FACTS) >= {"gpus", "servers", "engine"}
