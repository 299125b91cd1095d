"""The set-up's own checks: torch's pin is found, and CUDA that came in unasked ends it with the cure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_torch_is_pinned_to_the_cpu_build(bootstrap: ModuleType) -> None:
    assert bootstrap.torch_line() == "torch==2.13.0+cpu"


def test_a_cpu_only_environment_passes(bootstrap: ModuleType) -> None:
    bootstrap.check_no_cuda(Path(sys.executable))


@pytest.mark.parametrize("package", ["nvidia_cublas_cu13", "nvidia_nccl_cu13", "cuda_bindings"])
def test_cuda_packages_end_the_set_up(
    package: str, bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / f"{package}-1.0.dist-info"
    info.mkdir()
    name = package.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        bootstrap.check_no_cuda(Path(sys.executable))
    said = str(ended.value)
    assert name in said
    assert "TORCH=cuda make setup" in said


def test_a_python_without_torch_is_told_what_to_do(bootstrap: ModuleType, tmp_path: Path) -> None:
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(SystemExit, match="torch does not import"):
        bootstrap.check_no_cuda(bare)
