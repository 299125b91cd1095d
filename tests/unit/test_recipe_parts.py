"""The recipe's parts that need no training: text, loops, order of batches, the journal, the optimiser.

.venv/bin/python -m pytest tests/unit/test_recipe_parts.py
"""

from __future__ import annotations

import json
import sysconfig
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

from remote.lab.errors import LabError
from remote.lab.recipe.budget import BUDGETS
from remote.lab.recipe.corpus import SourceFile, library_files, read_corpus, shorten_tables
from remote.lab.recipe.export import write_model
from remote.lab.recipe.generate import AT_ONCE, continue_texts
from remote.lab.recipe.geometry import TargetShape
from remote.lab.recipe.loops import looping, repeated
from remote.lab.recipe.measure import bootstrap, wilson
from remote.lab.recipe.optimise import Optimiser, orthogonal, rate
from remote.lab.recipe.run import check_enough, claim
from remote.lab.recipe.samples import held_prompts
from remote.lab.recipe.state import Journal, read_losses
from remote.lab.recipe.target import new_target
from remote.lab.recipe.tokens import Tokens
from remote.lab.recipe.train_target import batches

SMALL = TargetShape(vocab=96, hidden=48, layers=3, heads=4, q_rank=24, kv_rank=16, dense=64, expert=16)


def lines(start: int, count: int) -> str:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    return "".join(
        f"{words[n % 6]}_{n} = {words[n * n % 5]}({'[' * (n % 4)}{n}{']' * (n % 4)})\n"
        for n in range(start, start + count)
    )


def test_near_duplicates_go_and_other_files_stay() -> None:
    a, b = lines(0, 60), lines(1000, 60)
    files = [
        SourceFile("a.py", a),
        SourceFile("almost_a.py", a + "x = 1\n"),
        SourceFile("b.py", b),
        SourceFile("c.py", a[:300] + b),
    ]
    corpus = read_corpus(files)
    assert sorted(f.name for f in (*corpus.train, *corpus.held)) == ["a.py", "b.py"]
    assert corpus.duplicates == 2


def test_nothing_is_held_out_that_lies_within_a_later_larger_file() -> None:
    small, large = lines(0, 20), lines(0, 20) + lines(1000, 60)
    held = next(name for name in (f"a{i}.py" for i in range(99)) if SourceFile(name, "").held_out)
    train = next(name for name in (f"b{i}.py" for i in range(99)) if not SourceFile(name, "").held_out)
    corpus = read_corpus([SourceFile(held, small), SourceFile(train, large)])
    assert ([f.name for f in corpus.train], corpus.held, corpus.duplicates) == ([train], (), 1)


def test_the_split_is_by_name_and_no_file_is_on_both_sides() -> None:
    names = [f"m{i}.py" for i in range(400)]
    corpus = read_corpus(SourceFile(name, lines(i * 50, 20)) for i, name in enumerate(names))
    train, held = {f.name for f in corpus.train}, {f.name for f in corpus.held}
    assert train | held == set(names)
    assert not train & held
    assert 10 <= len(held) <= 45  # one in sixteen
    assert {f.name for f in read_corpus(SourceFile(n, n * 200) for n in names).held} <= held


def test_tables_are_cut_and_code_is_not() -> None:
    code = lines(0, 8)
    assert shorten_tables(code) == code
    table = "".join(f"    0x{i:02x}: '\\u{i:04x}',\n" for i in range(256))
    assert len(shorten_tables("T = {\n" + table + "}\n").splitlines()) == 8
    assert shorten_tables("\n" * 30) == "\n" * 30


def test_nothing_of_this_machine_is_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    for name in ("site-packages/x.py", "_sysconfigdata__linux_x86_64-linux-gnu.py", "good.py"):
        (tmp_path / name).write_text(lines(0, 40))
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9\n" * 100)
    (tmp_path / "short.py").write_text("x = 1\n")
    assert [f.name for f in library_files(tmp_path)] == ["good.py"]
    prefix = sysconfig.get_paths()["stdlib"]
    assert not [f.name for f in library_files() if prefix in f.text]


def test_loops_are_what_ends_periodic() -> None:
    free = torch.arange(64)
    late = torch.cat([torch.arange(30), torch.arange(34) % 5])  # loops, but not for the last 40 tokens
    slow = torch.arange(64) % 21  # a longer period than counts
    assert looping(torch.stack([free, late, slow, torch.arange(64) % 20, torch.zeros(64).long()])).tolist() == [
        False, False, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("length", [1, 10, 20, 39])
def test_too_short_a_text_is_no_loop(length: int) -> None:
    assert looping(torch.zeros(2, length).long()).tolist() == [False, False]


def test_marked_tokens_are_those_that_were_said_before() -> None:
    text = torch.tensor([[50, 51, 52, *range(10), *range(10), 60, *range(10)]])
    # The eleventh of the repeated ones is the first whose whole period, ten, was said again before it: there is none.
    assert not repeated(text).any()
    thrice = torch.tensor([[50, 51, *(list(range(10)) * 3)]])
    assert repeated(thrice)[0].nonzero().flatten().tolist() == list(range(22, 32))


def test_batches_go_on_where_they_were_left() -> None:
    tokens = torch.arange(1000)
    whole = [next(stream) for stream in [batches(tokens, 4, 20, 3, 0)] for _ in range(30)]
    late = batches(tokens, 4, 20, 3, 17)
    assert all(torch.equal(next(late), batch) for batch in whole[17:])
    other = next(batches(tokens, 4, 20, 4, 0))
    assert not torch.equal(other, whole[0])
    first = torch.cat(whole[:11])  # an epoch is 11 or 12 batches: no text comes twice
    assert len({int(row[0]) for row in first}) == len(first)
    with pytest.raises(ValueError, match="no batch"):
        next(batches(tokens[:50], 4, 20, 3, 0))


def test_prompts_lie_within_one_file_each() -> None:
    held = torch.cat([torch.full((n,), i) for i, n in enumerate((50, 300, 20, 120))])
    prompts = held_prompts(Tokens(held, held, (0, 50, 350, 370)), 12, 40)
    assert prompts.shape == (12, 40)
    assert all(len(row.unique()) == 1 for row in prompts)
    assert {int(row[0]) for row in prompts} >= {1, 3}  # long files; one of 20 tokens has no room for any
    assert 2 not in prompts


def test_a_line_that_a_kill_has_cut_is_dropped(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "losses.jsonl", quiet=True)
    journal.add("target", 1, 3, train=1.0)
    whole = journal.path.read_text()
    journal.path.write_text(whole + '{"stage": "tar')
    journal.resume("target", 1)
    assert journal.path.read_text() == whole


def test_a_folder_of_weights_appears_with_its_other_files_or_not_at_all(tmp_path: Path) -> None:
    tensors: dict[str, torch.Tensor] = {"x": torch.zeros(2)}
    with pytest.raises(FileNotFoundError):
        write_model(tensors, {}, tmp_path / "target", [tmp_path / "no-such-tokenizer.json"])
    assert not (tmp_path / "target").exists()
    (tmp_path / "tokenizer.json").write_text("{}")
    write_model(tensors, {}, tmp_path / "target", [tmp_path / "tokenizer.json"])
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_a_text_that_a_budget_cannot_be_drawn_from_is_refused_before_it_trains() -> None:
    enough = Tokens(torch.zeros(400).long(), torch.zeros(400).long(), (0,))
    check_enough(enough, BUDGETS["tiny"], "notes")
    short = torch.zeros(60).long()
    for tokens in (
        replace(enough, train=short),
        replace(enough, held=short),
        replace(enough, held_starts=tuple(range(0, 400, 30))),
    ):
        with pytest.raises(LabError, match="WB-RECIPE-TEXT"):
            check_enough(tokens, BUDGETS["tiny"], "notes")


def test_the_journal_never_runs_ahead_of_a_checkpoint(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "losses.jsonl", quiet=True)
    for step in (1, 2, 3):
        journal.add("target", step, 3, train=1.0 / step)
    journal.add("unloop", 1, 1, train=9.0)
    journal.resume("target", 2)
    assert [(x["stage"], x["step"]) for x in read_losses(tmp_path / "losses.jsonl")] == [
        ("target", 1),
        ("target", 2),
        ("unloop", 1),
    ]
    assert json.loads((tmp_path / "losses.jsonl").read_text().splitlines()[1])["train"] == 0.5


def test_the_rate_rises_stays_and_falls() -> None:
    rates = [rate(step, 1000) for step in range(1000)]
    assert rates[0] < 0.1
    assert set(rates[20:400]) == {1.0}
    assert rates[-1] == 0.02
    assert all(a >= b for a, b in pairwise(rates[400:]))


def test_a_step_of_muon_is_orthogonal_and_finds_a_minimum() -> None:
    x = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(x))
    assert values.min() > 0.5
    assert values.max() < 1.4
    assert torch.equal(orthogonal(x.mT).mT.contiguous(), orthogonal(x))
    torch.manual_seed(1)
    weight, scale, goal = nn.Parameter(torch.zeros(2, 6, 9)), nn.Parameter(torch.ones(5)), torch.randn(2, 6, 9)
    moves = Optimiser([weight], [([scale], 0.05, 0.0)], matrix_rate=0.05)
    before = float(goal.pow(2).mean())
    for step in range(400):
        ((weight - goal).pow(2).mean() + scale.pow(2).mean()).backward()
        moves.step(1 - step / 400)
    assert float((weight.detach() - goal).pow(2).mean()) < 0.1 * before
    assert float(scale.detach().abs().max()) < 0.1


def test_a_text_does_not_depend_on_those_beside_it() -> None:
    model = new_target(SMALL, torch.Generator().manual_seed(1)).eval()
    with torch.no_grad():
        model.head.mul_(40)
    prompts = torch.randint(0, SMALL.vocab, (AT_ONCE + 6, 12), generator=torch.Generator().manual_seed(2))
    heat = (torch.arange(len(prompts)) % 2).float()
    mixed = continue_texts(model, prompts, 10, temperatures=heat, seed=5)
    greedy = continue_texts(model, prompts[:8], 10)
    assert torch.equal(mixed[:8:2], greedy[::2])
    assert not torch.equal(mixed[1::2], continue_texts(model, prompts, 10)[1::2])
    assert torch.equal(mixed, continue_texts(model, prompts, 10, temperatures=heat, seed=5))


def test_intervals() -> None:
    low, high = wilson(0, 32)
    assert low == pytest.approx(0, abs=1e-9)
    assert 0.08 < high < 0.12
    assert bootstrap(torch.full((20,), 0.5)) == [0.5, 0.5]
    low, high = bootstrap(torch.tensor([0.0, 1.0] * 50))
    assert 0.38 < low < 0.45 < 0.55 < high < 0.62


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    claim(tmp_path, {"seed": 1, "budget": "full"})
    claim(tmp_path, {"seed": 1, "budget": "full"})
    with pytest.raises(LabError, match="seed 1, not 2") as caught:
        claim(tmp_path, {"seed": 2, "budget": "full"})
    assert (caught.value.code, caught.value.exit_code) == ("WB-RECIPE-OUT", 2)
