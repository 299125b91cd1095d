"""Counters are read as the released engines write them: their own arithmetic, executed, is what is parsed here.

.venv/bin/python -m pytest tests/contract/test_counters_wheels.py
"""

from __future__ import annotations

import ast
import random
import zipfile
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.acceptance.counters import from_meta_info, meanings
from helpers.acceptance.sources import read_log
from helpers.source.wheels import fetch_wheel

# Where each release computes meta_info, and the decode line.
MANAGER = "sglang/srt/managers/tokenizer_manager.py"
META = ("0.5.9", "0.5.10", "0.5.23")
LINE = {
    "0.5.9": ("sglang/srt/managers/scheduler_metrics_mixin.py", "log_decode_stats", "L/N"),
    "0.5.10": ("sglang/srt/observability/scheduler_metrics_mixin.py", "report_decode_stats", "L/N"),
    "0.5.23": ("sglang/srt/managers/scheduler_components/metrics_reporter.py", "report_decode_stats", "(L-1)/(N-1)"),
}
DRAFTS = 3


def function_in(version: str, file: str, name: str) -> ast.FunctionDef:
    with zipfile.ZipFile(fetch_wheel(f"sglang=={version}")) as wheel:
        tree = ast.parse(wheel.read(file))
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)


def spec() -> SimpleNamespace:
    return SimpleNamespace(speculative_num_draft_tokens=DRAFTS + 1, speculative_num_steps=DRAFTS)


def executed(statements: list[ast.stmt], names: dict[str, Any]) -> dict[str, Any]:
    """Runs statements of the wheel on stand-ins for what surrounds them; imports are left out."""
    kept = [s for s in statements if not isinstance(s, ast.Import | ast.ImportFrom)]
    module = ast.fix_missing_locations(ast.Module(body=kept, type_ignores=[]))
    surrounding = {
        "get_spec": spec,
        "hasattr": hasattr,
        "_ragged_verify_cap_accept": lambda: False,
        "read_ragged_verify_mode": lambda: None,
        "RaggedVerifyMode": SimpleNamespace(CAP_ACCEPT=object()),
    }
    space = {**surrounding, **names}
    exec(compile(module, "wheel", "exec"), space)
    return space


@pytest.mark.parametrize("version", META)
def test_meta_info_as_the_release_computes_it(version: str) -> None:
    rng = random.Random(version)
    body = function_in(version, MANAGER, "_calculate_spec_decoding_metrics").body
    for _ in range(20):
        histogram = [rng.randint(0, 9) for _ in range(DRAFTS)] + [rng.randint(1, 9)]
        steps, correct = sum(histogram), sum(i * n for i, n in enumerate(histogram))
        names = {
            "completion_tokens": [steps + correct + 1],
            "spec_verify_ct": [steps],
            "spec_accepted_tokens": [correct],
            "spec_num_correct_drafts": [correct],
            "spec_acceptance_histogram": [histogram],
            "spec_correct_drafts_histogram": [histogram],
        }
        meta: dict[str, Any] = {}
        manager = SimpleNamespace(server_args=spec())
        executed(body, {"self": manager, "meta_info": meta, "recv_obj": SimpleNamespace(**names), "i": 0})
        found = from_meta_info(meta)
        assert found is not None
        assert (found.verify_steps, found.correct, found.proposed) == (steps, correct, DRAFTS * steps)
        assert meanings(meta).length is None  # completion tokens are filled in elsewhere
        told = meanings({**meta, "completion_tokens": names["completion_tokens"][0]})
        assert told.rate == "correct / proposed drafts"
        assert told.length == "completion tokens / verify steps"


def decode_line(version: str, steps: int, correct: int) -> str:
    """A decode line whose acceptance part the release's own statements wrote."""
    file, name, _ = LINE[version]
    branch = next(
        node
        for node in ast.walk(function_in(version, file, name))
        if isinstance(node, ast.If) and "spec_algorithm.is_none()" in ast.unparse(node.test)
    )
    algorithm = SimpleNamespace(is_none=lambda: False, is_dspark=lambda: False)
    reporter = SimpleNamespace(
        server_args=spec(),
        spec_algorithm=algorithm,
        scheduler=SimpleNamespace(spec_algorithm=algorithm),
        current_scheduler_metrics_enabled=False,
        spec_num_accepted_tokens=correct + steps,
        spec_num_accept_tokens=correct + steps,
        spec_num_correct_drafts=correct,
        spec_num_forward_ct=steps,
        spec_total_num_accepted_tokens=0,
        spec_total_num_accept_tokens=0,
        spec_total_num_forward_ct=0,
        spec_num_cap_tokens=0,
        spec_num_block_accept_tokens=0,
    )
    before = "[2026-11-30 05:43:00] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, "
    written: str = executed(branch.orelse, {"self": reporter, "msg": before})["msg"]
    return written + "cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0"


@pytest.mark.parametrize("version", LINE)
def test_the_log_as_the_release_writes_it(version: str) -> None:
    rng = random.Random(version)
    counts = [(steps, rng.randint(0, DRAFTS * steps)) for steps in (40, 80, 120, 40, 40, 77)]
    found = read_log([decode_line(version, steps, correct) for steps, correct in counts])
    lengths = [1 + correct / steps for steps, correct in counts]
    assert found.accept_length == pytest.approx(sum(lengths) / len(lengths), abs=0.005)
    assert found.num_draft_tokens == DRAFTS + 1  # told by the figures: the lines have no server_args
    assert found.accept_rate == pytest.approx((sum(lengths) / len(lengths) - 1) / DRAFTS, abs=0.002)
    assert f"'accept rate' is {LINE[version][2]} (N = 4)" in found.definition
