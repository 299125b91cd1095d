"""The drafter in torch against the same arithmetic done slowly, for every variant of checkpoint; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drafters
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from helpers.errors import UsageError
from helpers.wiring.drafter import Drafter, chain, load_drafter, load_target
from helpers.wiring.drafter.rope import Rope

HIDDEN, TAP, STEPS, ROWS = 16, 10, 3, 7


def build(
    path: Path, *, slots: int = 3, tap: int = HIDDEN, add: dict[str, Tensor] | None = None, **settings: Any
) -> tuple[Drafter, drafters.Naive]:
    target = load_target(drafters.write_target(path / "target", HIDDEN))
    tensors = drafters.weights(HIDDEN, slots, tap) | (add or {})
    wanted = drafters.config(HIDDEN, target_hidden_size=tap, **settings)
    folder = drafters.write_drafter(path / "draft", tensors, wanted)
    return load_drafter(folder, target), drafters.Naive(tensors, wanted, target.embedding())


def agree(drafter: Drafter, naive: drafters.Naive, slots: int, tap: int) -> None:
    """All drafts from all rows, against a server that has just that many rows."""
    g = torch.Generator().manual_seed(1)
    taps = torch.randn(ROWS, slots, tap, generator=g) * torch.tensor([1.0, 3.0, 9.0, 2.0])[:slots, None]
    tokens = torch.randint(0, drafters.VOCABULARY, (ROWS + 1,), generator=g)
    steps = list(chain(drafter, tokens[None, 1:], drafter.fuse(taps.flatten(1)[None]), STEPS))
    for row in range(ROWS):
        expected = naive.drafts(tokens.tolist(), [list(t) for t in taps], row + 1, STEPS)
        for step, (guess, logits) in zip(steps, expected, strict=True):
            torch.testing.assert_close(step.logits[0, row], logits, rtol=1e-4, atol=1e-5)
            assert int(step.tokens[0, row]) == guess


def norms(slots: int, tap: int) -> dict[str, Tensor]:
    return {f"fc_norm.{i}.weight": torch.rand(tap) + 0.5 for i in range(slots)}


@pytest.mark.parametrize(
    ("slots", "tap", "settings", "add"),
    [
        (3, HIDDEN, {}, {}),
        (3, TAP, {}, {}),
        (2, HIDDEN, {}, {}),
        (4, TAP, {"norm_output": True}, {}),
        (3, HIDDEN, {"norm_before_residual": True}, {}),
        (3, TAP, {"norm_before_fc": True}, {"input_norm.weight": torch.rand(3 * TAP) + 0.5}),
        (
            2,
            TAP,
            {"eagle_config": {"norm_before_fc": True}, "norm_before_fc": True},
            {"input_norm.weight": torch.rand(20)},
        ),
        (3, HIDDEN, {"fc_norm": True, "norm_output": True}, norms(3, HIDDEN)),
    ],
)
def test_equal_to_the_slow_way(
    tmp_path: Path, slots: int, tap: int, settings: dict[str, Any], add: dict[str, Tensor]
) -> None:
    drafter, naive = build(tmp_path, slots=slots, tap=tap, add=add, **settings)
    assert drafter.slots == slots
    agree(drafter, naive, slots, tap)


def test_speculators_names_and_config(tmp_path: Path) -> None:
    drafter, naive = build(tmp_path, norm_before_residual=True)
    tensors = load_file(tmp_path / "draft" / "model.safetensors")
    renamed = {name.replace("midlayer.", "layers.0."): t for name, t in tensors.items()}
    renamed |= {"embed_tokens.weight": drafter.embedding.clone(), "verifier_norm.weight": torch.ones(HIDDEN)}
    flat = drafters.config(HIDDEN)
    nested = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": [2, 5, 9],
        "transformer_layer_config": {k: v for k, v in flat.items() if k != "rope_theta"}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    }
    folder = drafters.write_drafter(tmp_path / "speculators", renamed, nested)
    other = load_drafter(folder, load_target(tmp_path / "target"))
    assert other.config == drafter.config.__class__(**{**vars(drafter.config), "aux_layer_ids": (2, 5, 9)})
    assert other.notes == ()
    agree(other, naive, 3, HIDDEN)


def test_old_names_of_slot_norms(tmp_path: Path) -> None:
    _, naive = build(tmp_path, add=norms(3, HIDDEN), fc_norm=True)
    tensors = load_file(tmp_path / "draft" / "model.safetensors")
    for i, old in enumerate(("low", "mid", "high")):
        tensors[f"aux_norm_{old}.weight"] = tensors.pop(f"fc_norm.{i}.weight")
    folder = drafters.write_drafter(tmp_path / "old", tensors, drafters.config(HIDDEN, use_aux_norm=True))
    agree(load_drafter(folder, load_target(tmp_path / "target")), naive, 3, HIDDEN)


def test_an_embedding_of_its_own_is_named_and_not_used(tmp_path: Path) -> None:
    drafter, _ = build(tmp_path, add={"embed_tokens.weight": torch.randn(drafters.VOCABULARY, HIDDEN)})
    assert torch.equal(drafter.embedding, load_target(tmp_path / "target").embedding())
    assert len(drafter.notes) == 1


def test_the_targets_head_where_it_has_none(tmp_path: Path) -> None:
    build(tmp_path)
    tensors = load_file(tmp_path / "draft" / "model.safetensors")
    kept = {name: t for name, t in tensors.items() if name not in ("lm_head.weight", "d2t", "t2d")}
    folder = drafters.write_drafter(tmp_path / "headless", kept, drafters.config(HIDDEN, draft_vocab_size=None))
    target = load_target(tmp_path / "target")
    drafter = load_drafter(folder, target)
    assert torch.equal(drafter.head, target.head())
    assert torch.equal(drafter.to_target, torch.arange(drafters.VOCABULARY))


def test_one_slot_passes_as_it_is(tmp_path: Path) -> None:
    """What servers do with an input that is as wide as the embedding."""
    drafter, _ = build(tmp_path, slots=1)
    taps = torch.randn(1, 4, HIDDEN)
    assert torch.equal(drafter.fuse(taps), taps)


def test_a_wrapped_target_and_a_tied_head(tmp_path: Path) -> None:
    folder = drafters.write_target(tmp_path / "t", HIDDEN, prefix="language_model.")
    tensors = load_file(folder / "model.safetensors")
    del tensors["language_model.lm_head.weight"]
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(
        json.dumps({"text_config": {"rms_norm_eps": 1e-3, "tie_word_embeddings": True}})
    )
    target = load_target(folder)
    assert torch.equal(target.head(), target.embedding())
    x = torch.randn(2, HIDDEN)
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-3).sqrt() * tensors["language_model.model.norm.weight"]
    torch.testing.assert_close(target.final_norm(x), expected)


def test_long_texts_are_attended_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter, _ = build(tmp_path)
    tokens, state = torch.randint(0, 1024, (2, 23)), torch.randn(2, 23, HIDDEN)
    whole = [step.logits for step in chain(drafter, tokens, state)]
    monkeypatch.setattr("helpers.wiring.drafter.drafting.ROWS", 5)
    for one, other in zip(whole, chain(drafter, tokens, state), strict=True):
        torch.testing.assert_close(one, other.logits)


def change(path: Path, tensors: dict[str, Tensor | None], **settings: Any) -> str:
    """The code that a changed drafter is refused with."""
    build(path)
    folder = path / "draft"
    kept = load_file(folder / "model.safetensors") | tensors
    save_file({name: t for name, t in kept.items() if t is not None}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v != "gone"}))
    with pytest.raises(UsageError) as caught:
        load_drafter(folder, load_target(path / "target"))
    assert str(folder) in caught.value.message
    return caught.value.code


@pytest.mark.parametrize(
    ("tensors", "settings", "code"),
    [
        ({"fc.weight": None}, {}, "WB-DRAFT-FC"),
        ({"fc.weight": torch.zeros(HIDDEN, 3 * HIDDEN + 1)}, {}, "WB-DRAFT-FC"),
        ({"midlayer.mlp.up_proj.weight": None}, {}, "WB-DRAFT-WEIGHTS"),
        ({"midlayer.self_attn.q_norm.weight": torch.ones(4)}, {}, "WB-DRAFT-WEIGHTS"),
        ({"d2t": None}, {}, "WB-DRAFT-WEIGHTS"),
        ({}, {"norm_before_fc": True}, "WB-DRAFT-WEIGHTS"),
        ({"input_norm.weight": torch.ones(3 * HIDDEN)}, {}, "WB-DRAFT-WEIGHTS"),
        ({}, {"num_attention_heads": 2}, "WB-DRAFT-WEIGHTS"),
        ({}, {"hidden_act": "gelu"}, "WB-DRAFT-UNSUPPORTED"),
        ({}, {"num_hidden_layers": 2}, "WB-DRAFT-UNSUPPORTED"),
        ({}, {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "WB-DRAFT-UNSUPPORTED"),
        ({}, {"rms_norm_eps": "gone"}, "WB-MODEL-CONFIG"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, tensors: dict[str, Tensor | None], settings: dict[str, Any], code: str
) -> None:
    assert change(tmp_path, tensors, **settings) == code


def test_targets_that_are_refused(tmp_path: Path) -> None:
    folder = drafters.write_target(tmp_path / "t", HIDDEN)
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"mtp.lm_head.weight": torch.zeros(2, 2)}, folder / "model.safetensors")
    with pytest.raises(UsageError, match="WB-TARGET-WEIGHTS"):
        load_target(folder)
    (folder / "config.json").write_text("[1]")
    with pytest.raises(UsageError, match="WB-MODEL-CONFIG"):
        load_target(folder)


def test_rope_scaling_follows_the_published_rules() -> None:
    """Fast pairs stay, slow ones are divided by the factor; yarn makes cosine and sine longer."""
    plain = Rope(10000.0, 64).frequencies()
    scaled = (("factor", 8.0), ("high_freq_factor", 4.0), ("low_freq_factor", 1.0))
    llama3 = Rope(10000.0, 64, "llama3", scaled, original_positions=1024).frequencies()
    yarn = Rope(10000.0, 64, "yarn", (("factor", 8.0),), original_positions=1024)
    for found in (llama3, yarn.frequencies()):
        assert float(found[0]) == 1.0
        torch.testing.assert_close(found[-1], plain[-1] / 8)
        ratio = plain / found
        assert bool((ratio.diff() >= -1e-5).all())
    assert yarn.magnitude() == pytest.approx(1.2079, abs=1e-4)
    torch.testing.assert_close(Rope(10000.0, 64, "linear", (("factor", 4.0),)).frequencies(), plain / 4)
    x = torch.randn(5, 2, 8)
    positions = torch.arange(5)
    pairs = Rope(100.0, 8, neox=False).turn(x, positions)
    halves = Rope(100.0, 8).turn(x[..., [0, 2, 4, 6, 1, 3, 5, 7]], positions)
    torch.testing.assert_close(pairs[..., ::2], halves[..., :4])
    part = Rope(100.0, 4).turn(x, positions)
    assert torch.equal(part[..., 4:], x[..., 4:])
