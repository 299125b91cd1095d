"""The recipe's modules compute what others compute: transformers' DeepSeek-V3, and the drafter of helpers/wiring.

.venv/bin/python -m pytest tests/unit/test_recipe_models.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from helpers.wiring.drafter import load_drafter
from helpers.wiring.drafter import load_target as lend
from helpers.wiring.drafter.drafting import attend
from remote.lab.recipe.drafter import Drafter, new_drafter
from remote.lab.recipe.export import load_target, places, save_target
from remote.lab.recipe.geometry import STEPS, DrafterShape, TargetShape
from remote.lab.recipe.norm import unit
from remote.lab.recipe.target import Cache, Layer, Target, new_target
from remote.lab.recipe.train_drafter import save_drafter

# Every part is there, and small: two layers with experts behind the dense one.
SMALL = TargetShape(vocab=96, hidden=48, layers=3, heads=4, q_rank=24, kv_rank=16, dense=64, expert=16)
# Of the largest value: sums in another order differ by 1e-5 here, a norm or a head in the wrong place by more than .1.
CLOSE = 1e-4


def uneven(model: nn.Module) -> None:
    """Norms, which start as ones, and whatever starts small: else a norm in the wrong place would not show."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            short = name.rsplit(".", 1)[-1]
            weight.mul_(1 + 0.3 * torch.randn(weight.shape)) if short.endswith("norm") else weight.mul_(4)


@pytest.fixture(scope="module")
def target() -> Target:
    torch.manual_seed(0)
    model = new_target(SMALL, torch.Generator().manual_seed(1)).eval()
    uneven(model)
    for layer in model.layers:
        assert isinstance(layer, Layer)
        if layer.bias is not None:
            layer.bias.normal_(0, 0.2)
    return model


@pytest.fixture(scope="module")
def folder(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pair")
    (root / "tokenizer").mkdir()
    save_target(target, root / "tokenizer", root / "target", torch.float32)
    return root / "target"


@torch.no_grad()
def test_logits_and_boundaries_are_those_of_transformers(target: Target, folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(0, SMALL.vocab, (2, 80), generator=torch.Generator().manual_seed(2))
    said = theirs(ids, output_hidden_states=True)
    boundaries: list[torch.Tensor] = []
    loads: list[torch.Tensor] = []
    logits = target(ids, boundaries=boundaries, loads=loads)
    assert float((logits - said.logits).abs().max()) < CLOSE * float(logits.abs().max())
    assert len(boundaries) == SMALL.layers + 1
    # transformers' last hidden state has been through the final norm.
    for ours, other in zip(boundaries[:-1], said.hidden_states[:-1], strict=True):
        assert float((ours - other).abs().max()) < CLOSE * float(other.abs().max())
    assert [int(load.sum()) for load in loads] == [ids.numel() * SMALL.chosen] * (SMALL.layers - 1)
    assert all((load > 0).all() for load in loads)


@torch.no_grad()
def test_a_cache_gives_what_the_whole_text_gives(target: Target) -> None:
    ids = torch.randint(0, SMALL.vocab, (3, 40), generator=torch.Generator().manual_seed(3))
    cache = Cache(SMALL, 3, 40, torch.float32)
    parts = [target(ids[:, :25], cache=cache), *(target(ids[:, i : i + 1], cache=cache) for i in range(25, 40))]
    whole = target(ids)
    assert float((torch.cat(parts, dim=1) - whole).abs().max()) < CLOSE * float(whole.abs().max())


@torch.no_grad()
def test_a_checkpoint_is_read_back_as_it_was(target: Target, folder: Path) -> None:
    again = load_target(folder, SMALL)
    stored = places(target)
    assert all(torch.equal(tensor, stored[name]) for name, tensor in places(again).items())
    assert not any(p.requires_grad for p in again.parameters())


def test_the_norm_has_the_gradient_of_torchs() -> None:
    x = torch.randn(5, 7, 48, requires_grad=True)
    grad = torch.randn(5, 7, 48)
    (ours,) = torch.autograd.grad(unit(x, 1e-2), x, grad)
    (theirs,) = torch.autograd.grad(torch.nn.functional.rms_norm(x, (48,), None, 1e-2), x, grad)
    assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.fixture(scope="module")
def drafter() -> Drafter:
    shape = DrafterShape(hidden=SMALL.hidden, vocab=SMALL.vocab, draft_vocab=64, inner=80, heads=4, kv_heads=2, head=16)
    torch.manual_seed(4)
    model = new_drafter(shape, torch.Generator().manual_seed(5))
    uneven(model)
    return model


@torch.no_grad()
def test_a_draft_step_is_that_of_the_replay(drafter: Drafter, folder: Path, tmp_path: Path) -> None:
    chosen = torch.randperm(SMALL.vocab, generator=torch.Generator().manual_seed(6))[:64].sort().values
    save_drafter(drafter, chosen, [1, 4, 8], tmp_path / "drafter", torch.float32)
    theirs = load_drafter(tmp_path / "drafter", lend(folder))
    assert torch.equal(theirs.to_target, chosen)
    assert theirs.config.aux_layer_ids == (1, 4, 8)
    ids = torch.randint(0, SMALL.vocab, (2, 50), generator=torch.Generator().manual_seed(7))
    taps = torch.randn(2, 50, 3 * SMALL.hidden)
    rows = 50 - STEPS
    state, kept = theirs.fuse(taps[:, :rows]), []
    for step, ours in enumerate(drafter(ids, taps, theirs.embedding)):
        positions = torch.arange(rows) + (step + 1 if step else 0)
        q, k, v, residual = theirs.qkv(ids[:, step + 1 : step + 1 + rows], state, positions)
        kept.append((k, v))
        state, logits = theirs.finish(attend(q, kept), residual)
        assert float((ours - logits).abs().max()) < CLOSE * float(logits.abs().max())


def test_the_pair_splits_eight_ways() -> None:
    config, draft = TargetShape().config("bfloat16"), DrafterShape().config([1, 4, 8], "bfloat16")
    assert all(
        config[key] % 8 == 0
        for key in (
            "num_attention_heads",
            "n_routed_experts",
            "moe_intermediate_size",
            "intermediate_size",
            "vocab_size",
        )
    )
    assert draft["num_attention_heads"] % 8 == draft["intermediate_size"] % 8 == draft["draft_vocab_size"] % 8 == 0
    assert 8 % draft["num_key_value_heads"] == 0  # SGLang repeats them
