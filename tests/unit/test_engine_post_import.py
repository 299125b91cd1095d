"""The lab's CPU engine: patches that run right after an import, and what is refused."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from remote.lab.engine import environment
from remote.lab.engine.cpu_engine import version
from remote.lab.engine.cpu_engine.change import EngineMismatch, provide, replace, require
from remote.lab.engine.cpu_engine.patches import ABSENT, PATCHES
from remote.lab.engine.cpu_engine.post_import import PostImportFinder

ENGINE = Path(environment.__file__).parent


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package ``patched_one`` with a module ``low``, and ``high`` that takes a name from it. Forgotten afterwards."""
    folder = tmp_path / "patched_one"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "low.py").write_text("__version__ = '0.5.9'\ndef answer():\n    return 1\n")
    (folder / "high.py").write_text("from patched_one.low import __version__\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "patched_one"]:
        del sys.modules[name]


def test_a_patch_runs_before_others_can_take_names(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "SUPPORTED", "0.5.9")
    seen = []
    monkeypatch.setattr(
        version, "mark", lambda module: seen.append(vars(module).update(__version__="7")), raising=False
    )
    PostImportFinder({"patched_one.low": ("version:require_supported", "version:mark")}, {}).install()
    high = importlib.import_module("patched_one.high")
    assert high.__version__ == "7"
    assert seen == [None]
    low = sys.modules["patched_one.low"]
    assert inspect.getsource(low.answer) == "def answer():\n    return 1\n"
    assert low.__spec__ is not None
    assert type(low.__spec__.loader) is importlib.machinery.SourceFileLoader


def test_another_version_ends_the_process(package: Path) -> None:
    (package / "low.py").write_text("__version__ = '0.5.10'\n")
    PostImportFinder({"patched_one.low": ("version:require_supported",)}, {}).install()
    with pytest.raises(
        SystemExit, match=r"(?s)WB-ENGINE-MISMATCH: .*0\.5\.10 \(from .*low\.py\).*expected: sglang 0\.5\.9"
    ):
        importlib.import_module("patched_one.high")


def test_a_package_is_hidden_while_one_module_is_executed(package: Path) -> None:
    (package / "low.py").write_text("try:\n    import json\nexcept ImportError:\n    json = None\n")
    PostImportFinder({}, {"patched_one.low": "json"}).install()
    assert importlib.import_module("patched_one.low").json is None
    assert importlib.import_module("json") is sys.modules["json"] is not None


def test_other_imports_are_left_alone(package: Path) -> None:
    finder = PostImportFinder({"patched_one.low": ()}, {})
    assert finder.find_spec("patched_one.high") is None
    assert finder.find_spec("patched_one.missing") is None


def test_a_missing_module_stays_missing(package: Path) -> None:
    PostImportFinder({"patched_one.missing": ("version:require_supported",)}, {}).install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("patched_one.missing")


def sample() -> ModuleType:
    """A module with a function that calls a name it does not have."""
    module = ModuleType("sample")
    exec("def verify(a, b):\n    return kernel(a)\n", vars(module))
    return module


def test_a_replaced_function_must_be_there_and_take_the_same_arguments() -> None:
    module = sample()

    def verify(a: int, b: int) -> int:
        return a + b

    replace(module, "verify", verify)
    assert module.verify(1, 2) == 3
    with pytest.raises(EngineMismatch, match=r"sample\.verify takes \(a, b\)(?s:.*)expected: \(a\)"):
        replace(module, "verify", lambda a: a)
    with pytest.raises(EngineMismatch, match="sample has no gone"):
        replace(module, "gone", 1)
    with pytest.raises(EngineMismatch, match="sample has no gone"):
        require(module, "gone")


def test_a_provided_name_must_be_called() -> None:
    module = sample()
    provide(module, "kernel", lambda a: 5, used_by="verify")
    assert module.verify(1, 2) == 5
    with pytest.raises(EngineMismatch, match=r"sample\.verify does not call other_kernel"):
        provide(module, "other_kernel", None, used_by="verify")
    with pytest.raises(EngineMismatch, match="sample has no gone"):
        provide(module, "kernel", None, used_by="gone.verify")


def test_no_except_clause_of_sglang_swallows_a_mismatch() -> None:
    assert not issubclass(EngineMismatch, Exception)


def test_the_lists_name_functions_that_exist() -> None:
    for references in PATCHES.values():
        for reference in references:
            module, _, function = reference.partition(":")
            path = ENGINE / "cpu_engine" / module.replace(".", "/")
            source = path / "table.py" if path.is_dir() else path.with_suffix(".py")
            assert f"def {function}(" in source.read_text()
    assert not set(PATCHES) & set(ABSENT)


def test_the_environment_is_text_and_turns_the_engine_on() -> None:
    variables = environment.box_environment()
    assert variables["SGLANG_USE_CPU_ENGINE"] == "1"
    assert "PYTHONPATH" not in variables
    assert all(isinstance(value, str) for value in variables.values())
    assert environment.box_environment() is not variables
    assert 'os.environ.get("SGLANG_USE_CPU_ENGINE") == "1"' in (ENGINE / "sitecustomize.py").read_text()
