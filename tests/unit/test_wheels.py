"""The cache of wheels: what is there is taken, what is not is one clear error, and nothing half-fetched stays."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from helpers.errors import UsageError
from helpers.source.setter import SourceTree
from helpers.source.setter.tree import find_model, version_of
from helpers.source.wheels import cache_dir, cached_wheel, fetch_wheel, parse_spec


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBOOK_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "wheels"


def put(folder: Path, name: str, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as made:
        for path, text in files.items():
            made.writestr(path, text)
    return folder / name


def test_a_wheel_in_the_cache(cache: Path) -> None:
    wheel = put(cache, "sglang-0.5.9-py3-none-any.whl", **{"sglang/version.py": ""})
    assert cache_dir() == cache
    assert cached_wheel("sglang==0.5.9") == wheel
    assert fetch_wheel("sglang==0.5.9") == wheel
    assert cached_wheel("sglang==0.5.90") is None
    assert cached_wheel("sglang==0.5") is None


def test_half_a_wheel_is_none(cache: Path) -> None:
    cache.mkdir()
    (cache / "sglang-0.5.9-py3-none-any.whl").write_bytes(b"PK\x03\x04")
    assert cached_wheel("sglang==0.5.9") is None


def test_offline(cache: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fetch_wheel("sglang==0.5.9")
    assert caught.value.code == "WB-WHEEL-FETCH"
    assert caught.value.lines
    assert str(cache) in caught.value.expected
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("spec", ["sglang", "sglang>=0.5.9", "0.5.9", "sglang==", "sglang==0.5.9 --pre", "-rx==1"])
def test_specs(spec: str) -> None:
    with pytest.raises(UsageError, match="WB-WHEEL-SPEC"):
        parse_spec(spec)


def test_a_tree_in_a_wheel(cache: Path) -> None:
    model = "class TinyForCausalLM(Base):\n    pass\n"
    files = {"sglang/srt/models/tiny.py": model, "sglang/_version.py": "__version__ = version = '0.5.9'\n"}
    tree = SourceTree(put(cache, "sglang-0.5.9-py3-none-any.whl", **files))
    assert tree.model_names == ("tiny",)
    assert version_of(tree) == "0.5.9"
    assert find_model(tree, "TinyForCausalLM") == "tiny"
    with pytest.raises(UsageError, match="WB-SETTER-NO-MODEL"):
        find_model(tree, "OtherForCausalLM")
    with pytest.raises(UsageError, match="WB-FILE-MISSING"):
        tree.read("sglang/nothing.py")
