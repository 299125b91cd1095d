"""Did you mean: the same kindness wherever a name is given on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.acceptance.grid import Grid, Spec
from helpers.acceptance.points import points
from helpers.box import connect
from helpers.errors import WorkbookError
from helpers.ledger import open_ledger
from helpers.ledger.book import read_ledger
from helpers.nearest import did_you_mean, nearest
from helpers.serving import get_profile, load_profiles
from helpers.serving.preflight.chips import parse_chip
from helpers.source.patch_state import load_patch
from helpers.tensors.dumps import read_dump


def test_one_wrong_letter_is_near_and_another_word_is_not() -> None:
    known = ["lab", "gpu-box", "H200"]
    assert [nearest(name, known) for name in ("labb", "la", "LAB", "gpubox", "gpu", "h20O")] == [
        "lab",
        "lab",
        "lab",
        "gpu-box",
        "gpu-box",
        "H200",
    ]
    assert [nearest(name, known) for name in ("", " ", "zebra", "x" * 5000, "b")] == [None] * 5
    assert did_you_mean("zebra", known, "look") == "look"
    assert did_you_mean("labb", [], "") == ""


def patched(name: str) -> None:
    load_patch(name, "0.5.9")


@pytest.mark.parametrize(
    ("work", "meant"),
    [
        (lambda: get_profile("miswird"), "miswired"),
        (lambda: patched("capture-embeding"), "capture-embedding"),
        (lambda: parse_chip("H2000"), "H200"),
        (lambda: points(Grid(base="rihgt", points=(Spec(),)), load_profiles()), "right"),
        (lambda: read_dump(Path("x"), format="specforgee"), "specforge"),
    ],
)
def test_a_mistyped_name_is_asked_about(work: Callable[[], object], meant: str) -> None:
    with pytest.raises(WorkbookError) as caught:
        work()
    assert f"did you mean '{meant}'?" in str(caught.value)


def test_a_mistyped_investigation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    open_ledger("acceptance-drop").note("begun")
    with pytest.raises(WorkbookError, match="did you mean 'acceptance-drop'") as caught:
        read_ledger("aceptance-drop")
    assert caught.value.code == "WB-LEDGER-MISSING"


def test_a_mistyped_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.patch").write_text("")
    with pytest.raises(WorkbookError, match=r"did you mean 'mine\.patch'"):
        patched(str(tmp_path / "mnie.patch"))


@pytest.mark.parametrize(("name", "meant"), [("labb", "lab"), ("me@gpubox.invalid", None), ("gpubox1", "gpu-box1")])
def test_a_mistyped_box(name: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host *.internal\n  User x\nHost gpu-box1 gpu-box2\n  HostName 127.0.0.1\n")
    with pytest.raises(WorkbookError) as caught:
        connect(name)
    assert caught.value.code == "WB-SSH-CONNECT"
    assert ("did you mean" in caught.value.next) == (meant is not None)
    assert meant is None or f"did you mean '{meant}'?" in caught.value.next
    assert "ssh -v" in caught.value.next
