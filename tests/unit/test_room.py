"""How much a capture takes, and that one which does not fit is refused before a server hears of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.acceptance import Prompt
from helpers.errors import WorkbookError
from helpers.serving import Profile, Speculation
from helpers.serving import room as rooms
from helpers.serving.model import ModelFacts
from helpers.serving.room import Bounds, check_room, need_of

KIMI = ModelFacts(num_layers=61, vocab_size=163840, hidden_size=7168)
PROFILE = Profile(
    name="as-served",
    engine="sglang==0.5.9",
    model="~/models/target",
    draft="~/models/drafter",
    speculation=Speculation(num_steps=3, num_draft_tokens=4),
    tp=8,
    capture=True,
)
DUMP = [Prompt(f"s{i}", (1,) * 2000) for i in range(50)]
GB = 10**9


def test_the_readmes_own_capture_of_a_large_model() -> None:
    """62 boundaries, the norm and three slots, 7168 wide, bf16, on eight ranks: three quarters of a terabyte, twice."""
    need = need_of(PROFILE, KIMI, DUMP, Bounds(1))
    assert need is not None
    assert need.row == (62 + 1 + 3) * 7168 * 2 * 8
    assert need.here == 100_000 * need.row
    assert need.there == 2 * need.here
    assert need.there > 1500 * GB


@pytest.mark.parametrize(
    ("bounds", "change", "taps"),
    [
        (Bounds(1), {"draft": None, "speculation": None}, 63),
        (Bounds(1, "none"), {}, 4),
        (Bounds(1, [0, 3, 3]), {}, 6),
        (Bounds(1, terms=True), {}, 190),
        (Bounds(1), {"capture": (3, 31, 59)}, 7),
        (Bounds(1), {"aux_layer_ids": (1, 2, 3, 4)}, 67),
    ],
)
def test_what_lies_in_a_row(bounds: Bounds, change: dict[str, Any], taps: int) -> None:
    need = need_of(PROFILE.model_copy(update=change), KIMI, DUMP[:1], bounds)
    assert need is not None
    assert need.taps == taps


def test_the_engines_own_arguments_come_last() -> None:
    """A profile's ``extra_args`` overrule it: of ranks, and of the width of a number."""
    plain, other = PROFILE, PROFILE.model_copy(update={"extra_args": ("--tp-size", "4", "--dtype", "float32")})
    rows = [need.row for one in (plain, other) if (need := need_of(one, KIMI, DUMP[:1], Bounds(1)))]
    assert rows[0] == rows[1]
    assert need_of(PROFILE, ModelFacts(61, None), DUMP, Bounds(1)) is None, "how wide a tap is, is not known"


def test_rejected_drafts_are_written_too() -> None:
    need = need_of(PROFILE, KIMI, DUMP[:1], Bounds(33))
    assert need is not None
    assert (need.kept, need.written) == ((2032,), (2000 + 32 * 4,))


def told(monkeypatch: pytest.MonkeyPatch, out: Path, there: int | None, here: int) -> str | WorkbookError:
    monkeypatch.setattr(rooms, "model_facts", lambda box, profile: KIMI)
    monkeypatch.setattr(rooms, "call", lambda *words, **how: {"free": there})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=here))
    box: Any = SimpleNamespace(name="node7", path=lambda path: path.replace("~", "/home/me"))
    try:
        return check_room(box, PROFILE, DUMP, out, Bounds(1))
    except WorkbookError as error:
        return error


def test_a_capture_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The box's disk, then this machine's: each with what it takes, what there is, and what would fit."""
    out = tmp_path / "new" / "c"
    error = told(monkeypatch, out, 500 * GB, 5000 * GB)
    assert isinstance(error, WorkbookError)
    assert (error.code, error.exit_code) == ("WB-DISK-FULL", 4)
    assert "takes up to 1.4 TiB on node7" in error.message
    assert "has 465.7 GiB left" in error.message
    assert "--limit 16 fits" in error.next
    assert "--boundaries LIST" in error.next
    assert "workbook run node7 -- df -h /home/me/.workbook/runs" in error.next
    error = told(monkeypatch, out, 5000 * GB, 100 * GB)
    assert isinstance(error, WorkbookError)
    assert (error.code, error.exit_code) == ("WB-DISK-FULL", 2)
    assert f"the disk of {tmp_path} has" in error.message
    assert "--limit 6 fits" in error.next
    error = told(monkeypatch, out, GB, 5000 * GB)
    assert isinstance(error, WorkbookError)
    assert "not even the first prompt fits" in error.next
    said = told(monkeypatch, out, 5000 * GB, 5000 * GB)
    assert isinstance(said, str)
    assert said.startswith("up to 1.4 TiB on node7 (4.5 TiB free), 705.0 GiB here")
    assert isinstance(told(monkeypatch, out, None, 5000 * GB), str), "a box that cannot be asked"
