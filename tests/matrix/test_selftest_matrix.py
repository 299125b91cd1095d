"""The self-test: every code of design.md, present and absent, on two sources of data, 20 seeds each.

A case's codes must be found, and no other: so each code is absent in all cases that are not its own. The table is
printed at the end of the run. `fc-order` needs a drafter, and has cases of its own (tests/orders.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import faults
import jaxtyping
import orders
import pytest
import torch

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import diagnose

SEEDS = 20
ORDER = "fc-order"
# (code, source) -> how often it was present, missed, absent, raised though absent.
present: Counter[tuple[str, str]] = Counter()
missed: Counter[tuple[str, str]] = Counter()
absent: Counter[tuple[str, str]] = Counter()
false_alarms: Counter[tuple[str, str]] = Counter()


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Tensors this small are slower on several threads; shapes are checked in all other tests, and cost most here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
    torch.set_num_threads(before)


@pytest.mark.parametrize("source", faults.SOURCES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_code_is_found_when_present_and_silent_when_absent(tmp_path: Path, source: str, seed: int) -> None:
    world = faults.SOURCES[source](seed)
    dump = read_dump(world.dump(tmp_path / "dump"))
    wrong = []
    for number, (name, case) in enumerate(faults.CASES.items()):
        case.fault(world.fresh())
        capture = read_capture(world.write(tmp_path / str(number)))
        found = diagnose(capture, dump, convention=SGLANG_059_DEEPSEEK)
        codes = set(found.codes())
        count(source, codes, case.codes, faults.CODES)
        if codes != case.codes:
            wrong.append(f"{name}: {sorted(codes)}, not {sorted(case.codes)}: {[f.summary for f in found.findings]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", orders.SOURCES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_order_that_fc_wants(tmp_path: Path, source: str, seed: int) -> None:
    wrong = []
    for number, (name, (fault, expected)) in enumerate(orders.CASES.items()):
        if number > 2 and number % 2 == seed % 2:
            continue  # the last two take turns
        folder = tmp_path / str(number)
        folder.mkdir()
        world = orders.SOURCES[source](seed, folder)
        fault(world)
        capture = read_capture(world.served.write(folder / "capture"))
        found = diagnose(capture, read_dump(world.dump), draft=world.drafter, target=world.target)
        codes = set(found.codes())
        count(source, codes, expected, [*faults.CODES, ORDER])
        named = [tuple(f.evidence["order"]) for f in found.findings if f.code == ORDER]
        if codes != expected or named not in ([], [world.order]):
            wrong.append(f"{name}: {sorted(codes)} {named} {world.order}: {[f.summary for f in found.findings]}")
    assert not wrong, "\n".join(wrong)


def count(source: str, codes: set[str], expected: frozenset[str], possible: list[str]) -> None:
    """Enter a diagnosis into the table."""
    for code in possible:
        here = code in expected
        (present if here else absent)[code, source] += 1
        if here != (code in codes):
            (missed if here else false_alarms)[code, source] += 1


def table() -> list[str]:
    """The matrix as text; empty where it was not run."""
    if not present:
        return []
    rows = [f"{'code':<26}{'source':<11}{'present':>8}{'missed':>8}{'absent':>8}{'false alarms':>14}"]
    rows += [
        f"{code:<26}{source:<11}{present[code, source]:>8}{missed[code, source]:>8}"
        f"{absent[code, source]:>8}{false_alarms[code, source]:>14}"
        for code in sorted([*faults.CODES, ORDER])
        for source in faults.SOURCES
    ]
    return rows
