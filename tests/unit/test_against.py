"""Two dumps held against each other: the place of each slot, on the texts that both have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import dump_files
import pytest
import torch
from torch import Tensor

from helpers.commands import wiring
from helpers.errors import UsageError
from helpers.tensors.against import hold_against
from helpers.tensors.dumps import read_dump

HIDDEN = 32


def states(tokens: int, seed: int) -> Tensor:
    """Three slots and a verifier's state; all share one large feature, as those of a model do."""
    common = 30 * torch.ones(HIDDEN)
    return (dump_files.states(tokens, 3, HIDDEN, torch.float32, seed) + common).bfloat16()


def same(x: Tensor) -> Tensor:
    return x


def exchanged(x: Tensor) -> Tensor:
    return x[:, [1, 0, 2, 3]]


def one_on(x: Tensor) -> Tensor:
    """Row t holds what was token t + 1's."""
    return torch.cat([x[1:], x[-1:]])


def doubled(x: Tensor) -> Tensor:
    return 2 * x


@pytest.mark.parametrize(
    ("change", "places", "equal"),
    [
        (same, [(0, 0), (1, 0), (2, 0)], 1.0),
        (exchanged, [(1, 0), (0, 0), (2, 0)], pytest.approx(1 / 3)),
        (one_on, [(0, -1), (1, -1), (2, -1)], pytest.approx(0.0, abs=0.1)),
        (doubled, [(0, 0), (1, 0), (2, 0)], 0.0),
    ],
)
def test_where_each_slot_is_found(
    change: Callable[[Tensor], Tensor], places: list[tuple[int, int]], equal: float, tmp_path: Path
) -> None:
    for i, tokens in enumerate((20, 31)):
        dump_files.speculators_v1(tmp_path / "a", i, states(tokens, i), input_ids=torch.arange(tokens) + 50 * i)
        dump_files.specforge(tmp_path / "b", 1 - i, change(states(tokens, i)), input_ids=torch.arange(tokens) + 50 * i)
    a, b = read_dump(tmp_path / "a"), read_dump(tmp_path / "b")
    found = hold_against(a, b)
    assert (found.samples, found.of, found.tokens) == (2, 2, 20 + 31 - 2 * 5)
    assert [(slot, shift) for slot, shift, _ in found.nearest] == places
    assert all(cosine > 0.98 for _, _, cosine in found.nearest)
    assert found.equal_rows == equal
    assert found.in_place == (places == [(0, 0), (1, 0), (2, 0)])
    assert float(found.norms[1][2] / found.norms[0][2]) == pytest.approx(2 if change is doubled else 1, rel=0.05)
    assert ("the slots do not stand in the same places" in found.lines()) == (not found.in_place)


def test_a_common_start_is_compared_and_broken_rows_are_counted(tmp_path: Path) -> None:
    """The second dump's text goes another way after 12 tokens; two rows of a slot there are no numbers."""
    x = states(20, 0)
    broken = x.clone()
    broken[3, 1], broken[5, 1], broken[6, 2] = float("nan"), float("inf"), 0
    ids = torch.arange(20)
    dump_files.speculators_v1(tmp_path / "a", 0, x, input_ids=ids)
    dump_files.speculators_v1(tmp_path / "a", 1, x, input_ids=ids + 500)
    dump_files.speculators_v1(tmp_path / "b", 0, broken, input_ids=torch.where(ids < 12, ids, ids + 100))
    found = hold_against(read_dump(tmp_path / "a"), read_dump(tmp_path / "b"))
    assert (found.samples, found.of) == (1, 2)
    assert found.broken == {"non_finite": ([0, 0, 0], [0, 2, 0]), "zero": ([0, 0, 0], [0, 0, 1])}
    assert found.in_place
    assert "non finite rows by slot: [0, 0, 0] here, [0, 2, 0] there" in found.lines()


def test_another_number_of_slots_and_another_type(tmp_path: Path) -> None:
    x = states(20, 0)
    dump_files.speculators_v1(tmp_path / "a", 0, x)
    dump_files.speculators_v1(tmp_path / "b", 0, x[:, [0, 2, 3]].float())
    found = hold_against(read_dump(tmp_path / "a"), read_dump(tmp_path / "b"))
    assert found.centred.shape == (5, 3, 2)
    assert [slot for slot, _, _ in found.nearest][::2] == [0, 1]
    assert not found.in_place
    assert found.equal_rows is None


def test_what_shares_nothing(tmp_path: Path) -> None:
    dump_files.speculators_v1(tmp_path / "a", 0, states(20, 0))
    dump_files.speculators_v1(tmp_path / "b", 0, states(20, 0), input_ids=torch.arange(20) + 900)
    dump_files.speculators_v1(tmp_path / "c", 0, dump_files.states(20, 3, 16))
    a, b, c = (read_dump(tmp_path / name) for name in "abc")
    for other, code in ((b, "WB-ALIGN-NOTHING"), (c, "WB-DUMP-HIDDEN")):
        with pytest.raises(UsageError) as error:
            hold_against(a, other)
        assert error.value.code == code


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump_files.speculators_v1(tmp_path / "a", 0, states(20, 0))
    dump_files.speculators_v1(tmp_path / "b", 0, exchanged(states(20, 0)))
    assert wiring.inspect(tmp_path / "a", against=tmp_path / "b", as_json=True) == 1
    told = json.loads(capsys.readouterr().out)["against"]
    assert not told["in_place"]
    assert [row["slot"] for row in told["nearest"]] == [1, 0, 2]
    assert wiring.inspect(tmp_path / "a", against=tmp_path / "a") == 0
    assert "same bits in the same slot: 100.0%" in capsys.readouterr().out
