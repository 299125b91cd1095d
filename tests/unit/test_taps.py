"""The hook on toy modules, called by torch itself (tests/lab has the real engine)."""

from __future__ import annotations

import errno
import json
import os
import time
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from helpers.serving.hooks import hook_specs
from remote import taps
from remote.taps import make_hook

H, N = 4, 3


class Mode(Enum):
    EXTEND = 1
    DECODE = 2
    IDLE = 4
    TARGET_VERIFY = 5


class Layer(nn.Module):
    """Returns (hidden, residual), and destroys its inputs as fused CUDA kernels do."""

    def forward(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        residual_out = hidden.clone() if residual is None else hidden + residual
        out = residual_out * 0.5
        hidden.fill_(float("nan"))
        if residual is not None:
            residual.fill_(float("nan"))
        return out, residual_out


class Model(nn.Module):
    """The shape of SGLang's inner model: embed_tokens, layers, norm; closes the pass."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(32, H)
        self.layers = nn.ModuleList([Layer() for _ in range(N)])
        self.norm = nn.Identity()
        self.config = SimpleNamespace(architectures=["ToyForCausalLM"], num_hidden_layers=N, hidden_size=H)
        self.layers_to_capture = [1, 2]

    def forward(self, ids: Tensor, positions: Tensor, batch: Any) -> Tensor:
        hidden, residual = self.embed_tokens(ids), None
        for layer in self.layers:
            hidden, residual = layer(hidden, residual)
        return self.norm(hidden + residual)


class Drafter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(32, H)
        self.fc = nn.Linear(2 * H, H)

    def forward(self, ids: Tensor, positions: Tensor, batch: Any) -> Tensor:
        embeds = self.embed_tokens(ids)
        hidden = batch.fed if batch.fed.shape[-1] == H else self.fc(batch.fed)
        return embeds + hidden


class Wrapped(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def register(model: nn.Module, arm: Path, **how: Any) -> None:
    """As SGLang 0.5.9's hook manager does: the factory once a spec and runner, then every module by its name."""
    for spec in hook_specs(N, str(arm), **how):
        hook = make_hook(spec["config"])
        for name, module in Wrapped(model).named_modules():
            if name in spec["target_modules"]:
                module.register_forward_hook(hook)


def batch(mode: Mode, lengths: list[int], fed: Tensor | None = None) -> Any:
    return SimpleNamespace(
        forward_mode=mode,
        req_pool_indices=torch.arange(len(lengths)),
        extend_seq_lens_cpu=lengths,
        spec_info=SimpleNamespace(draft_token_num=lengths[0] if lengths else 0, topk=1),
        input_ids=None,
        fed=fed,
    )


def arm_with(arm: Path, folder: Path, **order: Any) -> None:
    part = arm.with_suffix(".part")
    part.write_text(json.dumps({"directory": str(folder), "boundaries": None, "terms": False, **order}))
    os.replace(part, arm)


def chunks(folder: Path) -> list[tuple[dict[str, Any], dict[str, Tensor]]]:
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["about"])
            found.append((about, {name: file.get_tensor(name) for name in file.keys()}))  # noqa: SIM118
    return found


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    return tmp_path / "arm.json"


IDS, POSITIONS = torch.tensor([3, 5, 7]), torch.tensor([0, 1, 0])


def test_boundaries_are_the_sums_of_what_layers_return(arm: Path, tmp_path: Path) -> None:
    model = Model()
    register(model, arm)
    embedded = model.embed_tokens(IDS).detach().clone()
    arm_with(arm, tmp_path / "c", terms=True)
    for _ in range(2):  # the first pass of all, and one in which the module names are known
        model(IDS, POSITIONS, batch(Mode.EXTEND, [2, 1]))
    first, second = chunks(tmp_path / "c")
    for about, tensors in (first, second):
        assert about["runner"] == "target"
        assert about["segments"] == [[0, 2], [1, 1]]
        assert about["model"]["tapped"] == [1, 2]
        assert about["model"]["num_layers"] == N
        expected = embedded
        for b in range(N + 1):
            assert torch.equal(tensors[f"boundary.{b:03d}"], expected), b
            expected = expected * 0.5 + expected
        assert torch.equal(tensors["out.2"] + tensors["residual.2"], tensors["boundary.002"])
        assert "residual.0" not in tensors
        assert torch.equal(tensors["normed"], tensors["boundary.003"])
        assert torch.equal(tensors["token_ids"], IDS)
    assert first[1].keys() == second[1].keys()


def test_only_the_boundaries_that_are_asked_for(arm: Path, tmp_path: Path) -> None:
    model = Model()
    register(model, arm)
    arm_with(arm, tmp_path / "c", boundaries=[0, 2])
    for _ in range(2):
        model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    for _, tensors in chunks(tmp_path / "c"):
        assert sorted(tensors) == ["boundary.000", "boundary.002", "normed", "positions", "token_ids"]


def test_target_and_drafter_are_told_apart(arm: Path, tmp_path: Path) -> None:
    target, drafter = Model(), Drafter()
    register(target, arm)
    register(drafter, arm)
    arm_with(arm, tmp_path / "c")
    fed = torch.randn(3, 2 * H, dtype=torch.float32)
    target(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    drafter(IDS, POSITIONS, batch(Mode.EXTEND, [3], fed))
    drafter(IDS[:1], POSITIONS[:1], batch(Mode.DECODE, [1], torch.zeros(1, H)))  # its own state: no fc, no feed
    found = chunks(tmp_path / "c")
    assert [about["runner"] for about, _ in found] == ["target", "draft"]
    assert torch.equal(found[1][1]["feed"], fed)
    assert sorted(found[1][1]) == ["feed", "positions", "token_ids"]


def test_disarmed_it_writes_nothing_and_arms_without_a_restart(arm: Path, tmp_path: Path) -> None:
    model = Model()
    register(model, arm)

    def go() -> None:
        model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))

    go()
    arm_with(arm, tmp_path / "a")
    go()
    arm.unlink()
    go()
    arm_with(arm, tmp_path / "b")
    go()
    model(IDS[:0], POSITIONS[:0], batch(Mode.IDLE, []))
    arm.unlink()
    go()
    assert len(chunks(tmp_path / "a")) == len(chunks(tmp_path / "b")) == 1


def test_an_arm_file_that_nobody_keeps_fresh_arms_no_longer(arm: Path, tmp_path: Path) -> None:
    """A capture whose laptop was killed or cut off must not write until the disk is full."""
    model = Model()
    register(model, arm)
    arm_with(arm, tmp_path / "c", seconds=60)
    for age, written in ((50, 1), (61, 1), (0, 2)):
        then = time.time() - age
        os.utime(arm, (then, then))
        model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
        assert len(chunks(tmp_path / "c")) == written


def test_a_renewal_does_not_revive_a_capture_that_failed(arm: Path, tmp_path: Path) -> None:
    model = Model()
    register(model, arm)
    arm_with(arm, tmp_path / "c")
    bad = batch(Mode.EXTEND, [3])
    del bad.req_pool_indices
    model(IDS, POSITIONS, bad)
    os.utime(arm, (time.time() + 1, time.time() + 1))
    model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    assert chunks(tmp_path / "c") == []
    arm_with(arm, tmp_path / "d")
    model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    assert len(chunks(tmp_path / "d")) == 1


def test_disarmed_it_asks_the_disk_once_a_pass(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    register(model, arm)
    asked: list[object] = []
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, *a, **k: (asked.append(path), real(path, *a, **k))[1])
    for _ in range(5):
        model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    assert asked == [arm] * 5


def test_the_engine_keeps_its_dtype_and_its_output(arm: Path, tmp_path: Path) -> None:
    model = Model().bfloat16()
    before = model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    register(model, arm)
    arm_with(arm, tmp_path / "c")
    assert torch.equal(model(IDS, POSITIONS, batch(Mode.EXTEND, [3])), before)
    assert chunks(tmp_path / "c")[0][1]["boundary.001"].dtype == torch.bfloat16


@pytest.mark.parametrize("where", ["batch", "disk"])
def test_an_error_ends_the_capture_and_not_the_server(arm: Path, tmp_path: Path, where: str) -> None:
    model = Model()
    register(model, arm)
    folder = tmp_path / "c"
    arm_with(arm, folder)
    bad = batch(Mode.EXTEND, [3])
    if where == "batch":
        del bad.req_pool_indices
    else:
        folder.write_text("a file where the folder should be")
    assert torch.isfinite(model(IDS, POSITIONS, bad)).all()
    assert torch.isfinite(model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))).all()
    assert not list(folder.glob("*.safetensors"))
    if where == "batch":
        report = json.loads(next(folder.glob("error.rank0.*.json")).read_text())
        assert report["error"].startswith("AttributeError")


@pytest.mark.parametrize("words", [True, False])
def test_a_full_disk_is_told_by_its_number(
    arm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bool
) -> None:
    """safetensors has it in words only; and where not even a report can be written, its name is there, and no part."""
    model = Model()
    register(model, arm)
    folder = tmp_path / "c"
    arm_with(arm, folder)

    def full(tensors: Any, path: Path, metadata: Any) -> None:
        Path(path).write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    def no_room(path: Path, text: str) -> int:
        path.touch()
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(taps, "save_file", full)
    if not words:
        monkeypatch.setattr(Path, "write_text", no_room)
    model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    (report,) = folder.iterdir()
    assert report.name.startswith("error.rank0.")
    assert report.suffix == ".json"
    if words:
        assert json.loads(report.read_text())["errno"] == errno.ENOSPC
    else:
        assert report.read_bytes() == b""


def test_a_pass_that_broke_off_leaves_nothing_behind(arm: Path, tmp_path: Path) -> None:
    model = Model()
    register(model, arm)
    arm_with(arm, tmp_path / "c")
    model(IDS, POSITIONS, batch(Mode.EXTEND, [3]))
    with pytest.raises(IndexError):
        model(torch.tensor([99]), POSITIONS[:1], batch(Mode.EXTEND, [1]))
    model(IDS[:1], POSITIONS[:1], batch(Mode.EXTEND, [1]))
    assert [len(tensors["token_ids"]) for _, tensors in chunks(tmp_path / "c")] == [3, 1]


def test_specs_name_layers_one_by_one() -> None:
    (spec,) = hook_specs(N, "/x/arm.json", prefix="language_model.", boundaries=[0, 2])
    assert spec["target_modules"] == [
        "language_model.model.embed_tokens", "language_model.model.layers.1", "language_model.model.norm",
        "language_model.model", "model.fc", "model",
    ]  # fmt: skip
    assert not any("*" in name for name in spec["target_modules"])
    with pytest.raises(ValueError, match="outside"):
        hook_specs(N, "/x", boundaries=[4])
