"""Why a server died, by recorded logs: tests/cases/crash/<case>.json, each with where its lines come from.

A new case needs no code: ``{"source", "lines", "code", "line": how the line that decided begins}``.

.venv/bin/python -m pytest tests/cases/test_crash.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.paths import DOCS
from helpers.serving.crash import SHOWN_OTHERS, recognise

CASES = sorted((Path(__file__).parent / "crash").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_cause_is_recognised_and_shown(path: Path) -> None:
    case = json.loads(path.read_text())
    crash = recognise(case["lines"])
    assert crash.code == case["code"]
    assert crash.line.startswith(case["line"])
    assert bool(crash.line) == bool(case["line"])
    assert crash.next
    if crash.code == "WB-SERVE-DIED":
        assert len(crash.lines) <= SHOWN_OTHERS
        assert crash.lines[-1] == case["lines"][-1].rstrip()
    else:
        assert any(crash.line[-40:] in line for line in crash.lines) or crash.line.startswith("AssertionError: assert")
    assert (DOCS / "errors" / f"{crash.code}.md").is_file()


def test_every_cause_has_a_case() -> None:
    met = {json.loads(path.read_text())["code"] for path in CASES}
    assert met == {
        "WB-SERVE-BAD-ARGUMENT",
        "WB-SERVE-BROKEN-FILE",
        "WB-SERVE-CUDA-VERSION",
        "WB-SERVE-DIED",
        "WB-SERVE-EMBEDDING-TAP",
        "WB-SERVE-IMPORT",
        "WB-SERVE-KERNEL-BUILD",
        "WB-SERVE-MISSING-FILE",
        "WB-SERVE-NCCL",
        "WB-SERVE-OUT-OF-MEMORY",
        "WB-SERVE-PORT-TAKEN",
        "WB-SERVE-SHAPE-MISMATCH",
    }


def test_one_ranks_cause_comes_before_what_it_did_to_the_others() -> None:
    lines = [
        "[2026-01-31 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[2026-01-31 10:10:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.",
    ]
    assert recognise(lines).code == "WB-SERVE-OUT-OF-MEMORY"


def test_words_in_the_middle_of_a_line_prove_nothing() -> None:
    lines = ["[2026-01-31 10:00:00] Ignore import error when loading x: No module named 'y'", "KeyError: 'w2_weight'"]
    crash = recognise(lines)
    assert (crash.code, crash.summary) == ("WB-SERVE-DIED", "KeyError: 'w2_weight'")


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'g++'",
        "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)",
        "RuntimeError: Failed to find C compiler. Please specify via CC environment variable",
        "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x.c', '-O3']' returned non-zero exit status 1.",
        "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found",
        "sh: line 1: ninja: command not found",
    ],
)
def test_what_kernels_are_built_by(line: str) -> None:
    assert recognise([line]).code == "WB-SERVE-KERNEL-BUILD"


def test_an_empty_log_says_so() -> None:
    crash = recognise([])
    assert (crash.code, crash.line, crash.lines) == ("WB-SERVE-DIED", "", ())
