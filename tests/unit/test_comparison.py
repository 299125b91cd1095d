"""Laptop against box: which differences matter for a comparison of tensors, and how they are shown.

.venv/bin/python -m pytest tests/unit/test_comparison.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.box.facts.comparison import Row, compare
from helpers.box.facts.gpus import Gpu, Gpus
from helpers.box.facts.launched import launched
from helpers.box.facts.python import Python

FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
SAVED = ("BF16", "F32", "F8_E4M3", "F8_E5M2")


def python(**changes: Any) -> Python:
    packages = {"torch": "2.9.1+cpu", "safetensors": "0.7.0", "numpy": "2.3.0", "transformers": "4.57.1"}
    fields: dict[str, Any] = {
        "executable": "/usr/bin/python3",
        "version": "3.11.7",
        "prefix": "/usr",
        "machine": "x86_64",
        "byteorder": "little",
        "torch_dtypes": FLOATS,
        "safetensors_dtypes": SAVED,
        "packages": packages | changes.pop("packages", {}),
    }
    return Python(**(fields | changes))


def rows(laptop: Python, box: Python | None, **more: Any) -> dict[str, Row]:
    return {row.name: row for row in compare(laptop, box, **more)}


def test_equal_sides_match_in_every_row() -> None:
    here = python(packages={"sglang": "0.5.9"})
    found = rows(here, here, engine="0.5.9")
    assert {row.state for row in found.values()} == {"match"}
    assert all(row.why for row in found.values())


@pytest.mark.parametrize(
    ("torch", "state", "why"),
    [
        ("2.9.1+cu128", "differs", "compare by cosine, not bits"),
        ("2.8.0+cu128", "differs", "compare by cosine, not bits"),
        (None, "critical", "--python"),
    ],
)
def test_torch(torch: str | None, state: str, why: str) -> None:
    row = rows(python(), python(packages={"torch": torch}))["torch"]
    assert (row.state, row.box) == (state, torch)
    assert why in row.why


def test_a_dtype_that_only_the_box_has_is_critical_and_named() -> None:
    newer = python(torch_dtypes=(*FLOATS, "float4_e2m1fn_x2"), safetensors_dtypes=(*SAVED, "F8_E8M0"))
    found = rows(python(), newer)
    assert found["dtypes"].state == found["dtypes in files"].state == "critical"
    assert "float4_e2m1fn_x2" in found["dtypes"].why
    assert "F8_E8M0" in found["dtypes in files"].why
    the_other_way = rows(newer, python())
    assert the_other_way["dtypes"].state == the_other_way["dtypes in files"].state == "differs"
    unknown = rows(python(), python(torch_dtypes=None))["dtypes"]
    assert (unknown.state, unknown.box) == ("differs", None)


def test_gpus_calculate_otherwise_than_a_cpu() -> None:
    gpu = Gpu(index=0, name="NVIDIA H200", compute_capability="9.0")
    cuda = python(packages={"torch": "2.9.1+cu128"}, torch_cuda="12.8")
    row = rows(python(), cuda, gpus=Gpus(gpus=(gpu,) * 8))["calculates on"]
    assert (row.laptop, row.box, row.state) == ("CPU", "8 x NVIDIA H200 (sm_90): bfloat16, float8", "differs")


@pytest.mark.parametrize(
    ("capability", "kinds"),
    [("7.5", ""), ("8.0", "bfloat16"), ("8.9", "bfloat16 float8"), ("10.0", "bfloat16 float8 float4")],
)
def test_what_a_gpu_calculates_in_follows_from_its_compute_capability(capability: str, kinds: str) -> None:
    gpu = Gpu(index=0, name="x", compute_capability=capability)
    assert " ".join(kind for kind in ("bfloat16", "float8", "float4") if gpu.calculates(kind)) == kinds
    assert Gpu(index=0, name="x").calculates("float8") is None


def test_sglang() -> None:
    with_engine = python(packages={"sglang": "0.5.9"})
    assert rows(with_engine, python(), engine="0.5.23")["sglang"].state == "critical"
    none_here = rows(python(), python(), engine="0.5.9")["sglang"]
    assert (none_here.state, none_here.laptop, none_here.box) == ("differs", None, "0.5.9")
    assert rows(with_engine, python(), engine=None)["sglang"].state == "differs"


def test_other_rows_that_are_critical() -> None:
    assert rows(python(), python(version="3.8.10"))["python"].state == "critical"
    assert rows(python(), python(version="3.12.1"))["python"].state == "differs"
    assert rows(python(), python(machine="s390x", byteorder="big"))["machine"].state == "critical"
    assert rows(python(), python(machine="aarch64"))["machine"].state == "differs"
    assert rows(python(), python(packages={"safetensors": None}))["safetensors"].state == "critical"
    assert rows(python(), python(packages={"transformers": "5.1.0"}))["transformers"].state == "differs"
    assert rows(python(), None)["python"].state == "critical"


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        (["python3", "-m", "sglang.launch_server"], ("/srv",)),
        (["python3", "-I", "-m", "sglang.launch_server"], ()),
        (["python3", "-uP", "-m", "sglang.launch_server"], ()),
        (["/env/bin/python3", "/env/bin/sglang", "serve"], ("/env/bin",)),
        (["python3", "python/sglang/launch_server.py"], ("/srv/python/sglang",)),
    ],
)
def test_what_comes_before_the_search_path(argv: list[str], first: tuple[str, ...]) -> None:
    how = launched(argv)
    assert how is not None
    assert how.first("/srv") == first


def test_the_last_of_two_values_counts_as_for_argparse() -> None:
    how = launched(["python3", "-X", "dev", "-m", "sglang.launch_server", "--port", "1", "--port=31000", "--tp"])
    assert how is not None
    assert (how.port, how.tp, how.flags) == (31000, 1, ("-X", "dev"))
