"""Replay against the real engine: the same accept histogram for every request, and the same logits at every draft step.

One capture of the right server serves for all wirings: replay takes what another server would have fed from its ladder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers.acceptance import Load, Prompt, read_prompts, run_load
from helpers.box import Box
from helpers.paths import DATA
from helpers.serving import Profile, serving
from helpers.serving.capture import capture
from helpers.tensors.capture import read_capture
from helpers.wiring.drafter import Drafter, Target, chain, load_drafter, load_target
from helpers.wiring.replay import Replay, boundaries, replay, search
from helpers.wiring.replay.taps import Source

LAB = DATA / "lab"
HERE = Path(__file__).parent
# Past the end of what is scored: the drafts of the last round, and the one token that never has a state.
BEYOND = 8


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target(LAB / "target")


@pytest.fixture(scope="module")
def drafter(target: Target) -> Drafter:
    return load_drafter(LAB / "drafter", target)


def histograms(load: Load, steps: int = 3) -> dict[str, list[int]]:
    """What the server counted, by request."""
    return {
        answer.id: [*answer.counters.histogram, *[0] * steps][: steps + 1]
        for answer in load.answers
        if answer.counters is not None
    }


def replayed(result: Replay) -> dict[str, list[int]]:
    return {request.id: request.histogram for request in result.requests}


def rate(counted: dict[str, list[int]]) -> float:
    return sum(i * n for h in counted.values() for i, n in enumerate(h)) / sum(3 * sum(h) for h in counted.values())


@pytest.mark.full
def test_one_server(
    box: Box, profiles: dict[str, Profile], prompts: list[Prompt], target: Target, drafter: Drafter, tmp_path: Path
) -> None:
    """The quick case: six prompts of the right server; then its logits, draft step by draft step, on one more."""
    passes = f"{box.home}/draft-logits"
    box.push(HERE / "draft_logits.py", f"{box.home}/hooks/draft_logits.py", progress=False)
    hook = {
        "name": "draft-logits",
        "target_modules": ["logits_processor"],
        "hook_factory": "draft_logits:make_hook",
        "config": {"directory": passes, "width": len(drafter.head)},
    }
    python_path = box.sh('printf %s "$PYTHONPATH"').stdout
    profile = profiles["right"].model_copy(
        update={
            "env": {**profiles["right"].env, "PYTHONPATH": f"{box.home}/hooks:{python_path}"},
            "extra_args": (*profiles["right"].extra_args, "--forward-hooks", json.dumps([hook])),
        }
    )
    few = prompts[:6]
    with serving(box, profile, progress=False) as served:
        box.run(["mkdir", passes])
        loads = [run_load(served.url, few[:1], max_new_tokens=24, progress=False)]
        box.pull(passes, tmp_path / "passes", progress=False)
        box.run(["rm", "-r", passes])
        loads.append(run_load(served.url, few, max_new_tokens=24, progress=False))
    with serving(box, profiles["right"].model_copy(update={"capture": True}), progress=False) as served:
        capture(box, served.run, few, max_new_tokens=24 + BEYOND, out=tmp_path / "capture", progress=False)
    source = Source(read_capture(tmp_path / "capture", verify=True))
    assert source.served() == boundaries([2, 5, 9])
    result = replay(drafter, target, source, source.served(), new_tokens=24)
    assert replayed(result) == histograms(loads[1])
    assert sum(result.histogram[1:]) > 10, "drafts were accepted, or there was nothing to compare"
    compare_logits(drafter, source, tmp_path / "passes")


def compare_logits(drafter: Drafter, source: Source, passes: Path) -> None:
    """Every draft of the first request, against the chain from the row that its round starts in."""
    text = source.texts[0]
    state = drafter.fuse(source.taps(text, boundaries([2, 5, 9])))[None, :-1]
    steps = list(chain(drafter, text.tokens[None, 1:], state, 3))
    names = sorted(passes.glob("*.safetensors"))
    # The load's warm-up answers the same prompt first; the request proper starts at the last prefill.
    start = max(i for i, name in enumerate(names) if ".EXTEND." in name.name)
    row, step, compared = 0, 0, [0, 0, 0]
    for name in names[start:]:
        found = load_file(name)
        position = int(found["position"])
        row, step = (row, step + 1) if ".DECODE." in name.name else (position, 0)
        if step:
            assert position == row + step + 1, "the gap that SGLang leaves before a step on own state"
        if row >= state.shape[1]:
            break
        expected = steps[step].logits[0, row]
        difference = (found["logits"][0] - expected).norm() / expected.norm()
        assert float(difference) < 1e-3, f"row {row}, step {step}: {float(difference):.2e}"
        compared[step] += 1
    assert min(compared) >= 6


@pytest.fixture(scope="module")
def many() -> list[Prompt]:
    return read_prompts(DATA / "prompts" / "lab-heldout.jsonl", limit=32)


@pytest.fixture(scope="module")
def whole(
    box: Box, profiles: dict[str, Profile], many: list[Prompt], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Source]:
    """32 prompts of the right server, all boundaries."""
    folder = tmp_path_factory.mktemp("whole") / "capture"
    with serving(box, profiles["right"].model_copy(update={"capture": True}), progress=False) as served:
        capture(box, served.run, many, max_new_tokens=64 + BEYOND, out=folder, progress=False)
    yield Source(read_capture(folder, verify=True))
    shutil.rmtree(folder)


WIRINGS = {"right": (2, 5, 9), "miswired": (0, 2, 5), "off-by-one": (1, 4, 8), "permuted": (2, 5, 9)}


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", WIRINGS)
def test_every_histogram(
    box: Box,
    profiles: dict[str, Profile],
    many: list[Prompt],
    whole: Source,
    target: Target,
    drafter: Drafter,
    permuted: Path,
    name: str,
) -> None:
    profile = profiles.get(name) or profiles["right"].model_copy(update={"draft": "~/models/permuted", "name": name})
    if name == "permuted":
        box.push(permuted, "~/models/permuted", progress=False)
        drafter = load_drafter(permuted, target)
    with serving(box, profile, progress=False) as served:
        load = run_load(served.url, many, max_new_tokens=64, progress=False)
    result = replay(drafter, target, whole, boundaries(WIRINGS[name]), new_tokens=64)
    assert len(result.requests) == 32
    assert replayed(result) == histograms(load)
    assert result.accept_rate == pytest.approx(rate(histograms(load)))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_search_finds_what_the_drafter_was_trained_with(whole: Source, target: Target, drafter: Drafter) -> None:
    found = search(drafter, target, whole, start=(0, 2, 5), new_tokens=64)  # for a minute, as by default
    print(f"{found.tried} of {found.candidates} wirings in {found.seconds:.0f} s")
    assert found.best == [2, 5, 9]
    assert [one.within_chance for one in found.ranking] == [True] + [False] * (len(found.ranking) - 1)
    assert len(found.ranking) > 1


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_permuted_fc_is_found_by_its_order(whole: Source, target: Target, permuted: Path) -> None:
    found = search(load_drafter(permuted, target), target, whole)
    assert found.best == [9, 5, 2]
    assert not found.ranking[0].reachable


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["right", "miswired"])
def test_bf16_rates(
    box: Box, profiles: dict[str, Profile], many: list[Prompt], target: Target, tmp_path: Path, name: str
) -> None:
    """Rounding makes ties and other texts: the rates agree, not each histogram."""
    profile = profiles[name].model_copy(update={"dtype": "bfloat16", "capture": True})
    with serving(box, profile, progress=False) as served:
        capture(box, served.run, many, max_new_tokens=64 + BEYOND, out=tmp_path / "capture", progress=False)
        load = run_load(served.url, many, max_new_tokens=64, progress=False)
    source = Source(read_capture(tmp_path / "capture"))
    drafter = load_drafter(LAB / "drafter", target, dtype=source.dtype)
    assert drafter.dtype == torch.bfloat16
    assert source.served() == boundaries(WIRINGS[name])
    result = replay(drafter, target, source, source.served(), new_tokens=64)
    served = rate(histograms(load))
    print(f"{name} in bf16: served {served:.4f}, replayed {result.accept_rate:.4f} {result.ci95}")
    assert result.accept_rate == pytest.approx(served, abs=0.03)
