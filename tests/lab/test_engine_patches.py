"""The CPU engine on the real SGLang: every patch finds what it is written for, and a changed checkout is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sglang_tree

from helpers.paths import REMOTE
from remote.lab.engine.cpu_engine.patches import ABSENT, PATCHES
from remote.lab.engine.environment import box_environment

ENGINE = REMOTE / "lab" / "engine"


def python(code: str, *, engine: bool = True, checkout: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs code as on the lab's box: the engine on PYTHONPATH, before it a checkout where one is given."""
    path = [str(ENGINE), *([str(checkout)] if checkout else [])]
    environment = {**os.environ, **(box_environment() if engine else {}), "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=environment)


LOADED = """
import json, sys
import sglang.srt.entrypoints.http_server, sglang.srt.managers.scheduler, sglang.srt.speculative.eagle_worker
import sglang.srt.models.deepseek_v2, sglang.srt.models.llama_eagle3, sglang.srt.layers.flashinfer_comm_fusion
import torch._inductor.compile_fx, torch._inductor.runtime.triton_compat as compat, triton
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.models.deepseek_common.attention_backend_handler import AttentionBackendRegistry
from sglang.srt.speculative import draft_utils, eagle_info, eagle_utils, spec_utils
try:
    spec_utils.get_target_cache_loc[(1,)]()
except RuntimeError as error:
    refused = str(error)
print(json.dumps({
    "loaded": sorted(sys.modules),
    "triton": [triton.__version__, compat.HAS_TRITON],
    "verify": eagle_utils.verify_tree_greedy_func.__module__,
    "bound": eagle_info.verify_tree_greedy_func is eagle_utils.verify_tree_greedy_func,
    "sampling": [spec_utils.TREE_SPEC_KERNEL_AVAILABLE, eagle_info.TREE_SPEC_KERNEL_AVAILABLE],
    "method": AttentionBackendRegistry.get_handler("torch_native")(None, None).name,
    "backend": ATTENTION_BACKENDS["torch_native"].__module__,
    "draft": draft_utils.DraftBackendFactory.create_decode_backend.__module__,
    "refused": refused,
}))
"""


def test_every_patch_runs_on_what_a_server_imports() -> None:
    result = python(LOADED)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert {*PATCHES, *ABSENT} <= set(seen["loaded"])
    assert seen["triton"] == ["0.0.0+stand.in", False]  # for SGLang, not for torch
    assert (seen["verify"], seen["bound"]) == ("cpu_engine.speculation.wiring", True)
    assert seen["sampling"] == [True, True]
    assert (seen["method"], seen["backend"], seen["draft"]) == ("MLA", *["cpu_engine.attention.wiring"] * 2)
    assert "WB-ENGINE-KERNEL" in seen["refused"]
    assert "spec_utils.get_target_cache_loc" in seen["refused"]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("_version.py", "version = '0.5.9'", "version = '0.5.10'", r"does not know sglang 0.5.10"),
        (
            "srt/speculative/eagle_utils.py",
            "def verify_tree_greedy_func(",
            "def renamed(",
            "has no verify_tree_greedy_func",
        ),
        (
            "srt/speculative/spec_utils.py",
            "    accept_lens,\n    positions,",
            "    accept_lens,\n    other,",
            "takes (",
        ),
    ],
)
def test_a_checkout_that_the_engine_does_not_know_ends_the_process(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    """A half-patched server would serve wrong results: nothing that SGLang catches may stop this."""
    checkout = sglang_tree.edited(tmp_path, file, old, new)
    result = python(
        "try:\n  import sglang.srt.speculative.eagle_info\nexcept Exception: print('on')", checkout=checkout
    )
    assert result.returncode == 1
    assert "WB-ENGINE-MISMATCH" in result.stderr
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("  next: ")
    assert result.stdout == ""


def test_an_edit_of_the_checkout_is_what_is_imported(tmp_path: Path) -> None:
    checkout = sglang_tree.edited(tmp_path, "srt/speculative/eagle_utils.py", "import math", "import math\nEDITED = 1")
    result = python("from sglang.srt.speculative.eagle_utils import EDITED; print(EDITED)", checkout=checkout)
    assert (result.returncode, result.stdout.strip()) == (0, "1"), result.stderr


def test_other_pythons_pay_next_to_nothing() -> None:
    """Without the engine's switch its folder on the path adds its own tiny sitecustomize, and no other module."""
    probe = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True)
    added = set(json.loads(python(probe, engine=False).stdout)) - set(json.loads(bare.stdout))
    assert added <= {"sitecustomize"}
    assert "torch" not in json.loads(python(probe).stdout)
