"""Real processes on one ledger: killed at random moments, and two that write at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.ledger import open_ledger
from helpers.ledger.check import verify
from helpers.paths import ROOT

KILLS = 30

# Acknowledges each entry by its id, when the call has returned.
WRITER = """
import sys
from helpers.ledger import open_ledger
name, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = open_ledger("case")
h = ledger.hypothesis("many may write", prediction="all entries are there", threshold="none is missing")
sys.stdout.write("ready\\n"); sys.stdout.flush()
for number in range(count):
    long = "x" * (number % 7 * 3000)
    e = ledger.evidence({"number": number, "long": long}, on=h, supports=True, title=f"{prefix} {number}")
    sys.stdout.write(f"{e.title}\\n"); sys.stdout.flush()
"""


@contextmanager
def writer(folder: Path, prefix: str, count: int) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "WORKBOOK_INVESTIGATIONS": str(folder), "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", WRITER, "case", prefix, str(count)]
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.full
def test_kills_at_random_moments_lose_no_acknowledged_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    acknowledged: list[str] = []
    generator = random.Random(8)
    for kill in range(KILLS):
        with writer(tmp_path, f"kill {kill}", 10_000) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            # A moment between two acknowledgements, anywhere within an entry: it is not waited for.
            for _ in range(generator.randrange(1, 25)):
                acknowledged.append(process.stdout.readline().strip())
            process.send_signal(signal.SIGKILL)
            acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
    ledger = open_ledger("case")
    ledger.note("after the kills")
    titles = [e.title for e in ledger.evidence_on()]
    assert len(acknowledged) >= KILLS
    assert set(acknowledged) <= set(titles)
    assert len(titles) == len(set(titles))
    assert len(titles) - len(acknowledged) <= KILLS, "more was written than was ever asked for"
    assert verify(ledger.folder).problems == ()


def test_two_writers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    with writer(tmp_path, "one", 500) as one, writer(tmp_path, "two", 500) as two:
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        said = [process.communicate()[0].splitlines() for process in (one, two)]
        assert [process.returncode for process in (one, two)] == [0, 0]
    ledger = open_ledger("case")
    titles = [e.title for e in ledger.evidence_on("many may write")]
    assert len(titles) == len(set(titles)) == 1000
    assert set(titles) == {*said[0], *said[1]}
    writers = [title.split()[0] for title in titles]
    assert writers != sorted(writers), "they wrote one after the other, not at once"
    found = verify(ledger.folder)
    assert (found.problems, found.entries) == ((), 1002)
    assert [entry.line for entry in ledger.entries] == list(range(1, 1003))
