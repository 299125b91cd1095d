"""The ledger's bytes: no changed byte passes, no torn line hides an entry, none that was acknowledged is given up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.errors import UsageError, WrongResult
from helpers.ledger import Ledger, open_ledger
from helpers.ledger.chain import Chain
from helpers.ledger.check import verify
from helpers.ledger.writing import FILE


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    made = open_ledger("case")
    h = made.hypothesis("ä claim", prediction="p", threshold="t")
    made.evidence({"x": 1}, on=h, supports=True, title="x")
    return made


def test_every_flipped_byte_of_a_line_is_found(ledger: Ledger) -> None:
    path = ledger.folder / FILE
    whole = path.read_bytes()
    starts = [0, *(i + 1 for i, byte in enumerate(whole) if byte == 10)]
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        found = verify(ledger.folder)
        line = sum(start <= place for start in starts)
        assert not found.good, place
        assert min(p.line or 0 for p in found.problems) == line, (place, found.problems)
    path.write_bytes(whole)
    assert verify(ledger.folder).good


def test_a_removed_a_doubled_and_an_exchanged_line_are_found(ledger: Ledger) -> None:
    path = ledger.folder / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    for wrong in ([0, 2], [0, 1, 1, 2], [1, 0, 2], [0, 2, 1]):
        path.write_bytes(b"".join(lines[i] for i in wrong))
        assert not verify(ledger.folder).good, wrong


def test_nothing_is_added_to_a_broken_chain(ledger: Ledger) -> None:
    path = ledger.folder / FILE
    whole = path.read_bytes()
    path.write_bytes(whole.replace("ä claim".encode(), "ö claim".encode()))
    for work in (lambda: open_ledger("case").note("x"), lambda: Chain(path).read()):
        with pytest.raises(WrongResult, match=r"WB-LEDGER-BROKEN: .* line 2 is not what its own sha256 says"):
            work()
    assert path.read_bytes().count(b"\n") == 3


def test_a_line_torn_anywhere_leaves_the_others_and_is_put_aside(ledger: Ledger) -> None:
    path = ledger.folder / FILE
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in [*range(last + 1, len(whole), 23), *range(len(whole) - 3, len(whole))]:
        for part in ledger.folder.glob("torn-*"):
            part.unlink()
        path.write_bytes(whole[:cut])
        assert not verify(ledger.folder).good
        again = open_ledger("case")
        complete = cut == len(whole) - 1  # but for its newline the line was there: it is kept
        assert len(again.entries) == 2 + complete
        note = again.note(f"after {cut}")
        assert note.line == 3 + complete
        assert [p.read_bytes() for p in ledger.folder.glob("torn-*")] == ([] if complete else [whole[last:cut]])
        assert verify(ledger.folder).good


def test_a_last_line_whose_newline_was_damaged_is_not_given_up(ledger: Ledger) -> None:
    path = ledger.folder / FILE
    path.write_bytes(path.read_bytes()[:-1] + b"\x0b")
    assert not verify(ledger.folder).good
    again = open_ledger("case")
    again.note("after")
    assert [e.kind for e in again.entries] == ["opened", "hypothesis", "evidence", "note"]
    assert verify(ledger.folder).good


def test_lines_cut_off_at_the_end_show_against_the_report(ledger: Ledger) -> None:
    """The chain alone cannot tell that its end is missing; the report says how far it went."""
    path = ledger.folder / FILE
    anchor = f'{{"ledger": {{"entries": 3, "head": "{ledger.head}"}}}}'
    (ledger.folder / "report.json").write_text(anchor)
    ledger.note("later than the report")
    assert verify(ledger.folder).good
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    (problem,) = verify(ledger.folder).problems
    assert (problem.file, "3 entries" in problem.what) == ("report.json", True)


def test_a_ledger_put_back_to_an_older_state_is_read_anew(ledger: Ledger) -> None:
    path = ledger.folder / FILE
    older = path.read_bytes()
    ledger.note("a")
    path.write_bytes(older)
    assert len(ledger.entries) == 3
    assert ledger.note("b").line == 4
    assert verify(ledger.folder).good


def test_a_disk_without_room_leaves_the_ledger_as_it_was(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ledger.folder / FILE
    whole = path.read_bytes()
    real = os.pwrite

    def half(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) < 40:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) // 2], offset)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(UsageError, match=r"WB-LEDGER-WRITE: .*No space left"):
        ledger.note("x")
    monkeypatch.undo()
    assert path.read_bytes() == whole


def test_a_batch_reads_like_single_entries(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(5):
            ledger.note(f"note {number}")
    assert len(open_ledger("case").entries) == 8
    assert verify(ledger.folder).good
