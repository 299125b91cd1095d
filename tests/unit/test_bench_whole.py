"""A bench that was cut does not pass for a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.acceptance import Bench, LoadSettings
from helpers.acceptance.load_records import Failure
from helpers.errors import RemoteFailed


def made(answered: int, failure: Failure | None = None) -> Bench:
    return Bench(Path("b"), LoadSettings(), (), (), failure, 48, answered, 0, (), {})


def test_a_whole_one_is_itself() -> None:
    whole = made(48)
    assert whole.whole() is whole


def test_a_cut_one_raises_its_own_cause() -> None:
    cause = Failure(code="WB-SERVE-DIED", message="the server died", next="workbook logs lab miswired", lines=("boom",))
    with pytest.raises(RemoteFailed, match="16 of 48 requests were answered: the server died") as caught:
        made(16, cause).whole()
    assert (caught.value.code, caught.value.next) == ("WB-SERVE-DIED", "workbook logs lab miswired")


def test_one_that_was_interrupted_says_how_to_go_on() -> None:
    with pytest.raises(RemoteFailed, match="16 of 48") as caught:
        made(16).whole()
    assert "goes on" in caught.value.next
