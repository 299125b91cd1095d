"""`boundaries` is right for every model file of three releases: against their own code, executed on stand-ins."""

from __future__ import annotations

import random
import subprocess
import zipfile
from pathlib import Path

import pytest
from setter_classes import Classes, run_class
from setter_oracle import SETTER, Expected, Wheel

from helpers.errors import UsageError
from helpers.paths import REMOTE
from helpers.source.setter import Resolution, SourceTree, resolve
from helpers.source.wheels import fetch_wheel
from helpers.wiring.boundaries import convention_for
from helpers.wiring.same_taps import same_taps

RELEASES = ("0.5.9", "0.5.10", "0.5.23")
# Model files whose own code defines a setter, and those that serve a class with one, an inherited one too.
COUNTED = {"0.5.9": (16, 31), "0.5.10": (18, 34), "0.5.23": (29, 57)}
# MindSpore's model is another package (sgl_mindspore): its setter hands the ids to code that no wheel of SGLang holds.
_MINDSPORE = "sglang/srt/models/mindspore.py:360: self.model.set_eagle3_layers_to_capture(layer_ids)"
UNREAD = {"0.5.9": {}, "0.5.10": {"mindspore": _MINDSPORE}, "0.5.23": {"mindspore": _MINDSPORE}}
TRIALS = 4


@pytest.fixture(scope="session")
def wheels() -> dict[str, Path]:
    """The wheels, from the cache or by pip; offline without them this fails, and says what to do."""
    return {version: fetch_wheel(f"sglang=={version}") for version in RELEASES}


@pytest.fixture(scope="session")
def trees(wheels: dict[str, Path]) -> dict[str, SourceTree]:
    """Each wheel as a tree, parsed once."""
    return {version: SourceTree(path) for version, path in wheels.items()}


def random_ids(rng: random.Random, layers: int) -> list[int]:
    """Ids as people write them: three or so, now and then in disorder, doubled, negative, out of reach."""
    kind = rng.choice(["plain", "plain", "first", "last", "wild"])
    count = rng.randint(1, 4)
    if kind == "wild":
        return [rng.randint(-1, layers + 1) for _ in range(count)]
    ids = sorted(rng.sample(range(layers - 1), count))
    if kind == "first":
        ids[0] = rng.choice([-1, 0, 1])
    if kind == "last":
        ids[-1] = rng.choice([layers - 1, layers])
    return ids


@pytest.mark.parametrize("version", RELEASES)
def test_every_model_with_a_setter(version: str, wheels: dict[str, Path], trees: dict[str, SourceTree]) -> None:
    """Every class that a model file serves and that has a setter, its own or an inherited one."""
    rng = random.Random(version)
    tree, classes = trees[version], Classes(Wheel(wheels[version]))
    served = {stem: classes.entries(stem) for stem in classes.wheel.stems()}
    served = {stem: names for stem, names in served.items() if names}
    own = classes.wheel.stems_with_setter()
    assert set(own) <= set(served)
    assert (len(own), len(served)) == COUNTED[version]
    wrong, read_at_all = [], set()
    for stem in set(served) - set(UNREAD[version]):
        for name in served[stem]:
            # A file's other classes, and those that only inherit: without ids, and once with some.
            for trial in range(TRIALS if stem in own and name == served[stem][0] else 2):
                layers = rng.randint(6, 40)
                ids = random_ids(rng, layers) if trial else None
                found = resolve(tree, stem, ids, layers, architecture=name)
                problem = differs(found, run_class(classes, stem, name, ids, layers), ids)
                wrong += [(stem, name, ids, layers, problem)] if problem else []
                assert any(SETTER in place.text or "class " in place.text for place in found.evidence), stem
                assert all(tree.read(p.file).split("\n")[p.line - 1].strip() == p.text for p in found.evidence), stem
                read_at_all.add(stem)
    assert not wrong, "\n".join(map(str, wrong))
    assert read_at_all | set(UNREAD[version]) == set(served)


def differs(found: Resolution, expected: Expected, ids: list[int] | None) -> str:
    """What the reading says otherwise than the engine's code did; empty where nothing."""
    asked = list(ids) if ids is not None else list(expected.boundaries)
    clean = not (expected.raised or expected.partial) and len(expected.boundaries) == len(asked)
    clean = clean and asked == sorted(set(asked)) and bool(asked)
    if ids is None:
        clean = not found.traps if not expected.partial else False
    if found.boundaries != expected.boundaries or (not found.traps) != clean:
        return f"{expected}, read {found.boundaries} with {[t.code for t in found.traps]}"
    if expected.boundaries and not any("append" in p.text or "capture" in p.text for p in found.evidence[1:]):
        return f"no line of the tap among {found.evidence}"
    return ""


@pytest.mark.parametrize("version", RELEASES)
def test_what_no_wheel_can_tell_is_unread_at_its_line(version: str, trees: dict[str, SourceTree]) -> None:
    tree = trees[version]
    for stem, line in UNREAD[version].items():
        with pytest.raises(UsageError) as caught:
            resolve(tree, stem, [2, 5], 12)
        assert caught.value.code == "WB-SETTER-UNREAD"
        assert caught.value.lines[0] == line


@pytest.mark.parametrize("version", RELEASES)
def test_models_without_a_setter(version: str, trees: dict[str, SourceTree]) -> None:
    tree = trees[version]
    for stem in ("gemma2", "phi", "olmo"):
        with pytest.raises(UsageError, match="WB-SETTER-MISSING"):
            resolve(tree, stem, [2, 5], 12)
    if version == "0.5.9":  # The case's own model.
        with pytest.raises(UsageError, match="WB-SETTER-MISSING"):
            resolve(tree, "kimi_k25", [2, 30, 58], 61)


def test_the_case(trees: dict[str, SourceTree]) -> None:
    """An upgrade moves every tap by one."""
    before, after = trees["0.5.9"], trees["0.5.23"]
    assert resolve(before, "deepseek_v2", [2, 30, 58], 61).boundaries == (3, 31, 59)
    assert resolve(after, "deepseek_v2", [2, 30, 58], 61).boundaries == (2, 30, 58)
    miswired = resolve(before, "deepseek_v2", [-1, 2, 30], 61)
    assert miswired.boundaries == (3, 31)
    assert [(t.code, t.ids) for t in miswired.traps] == [("fails-at-layer", (-1,))]
    assert "NoneType" in miswired.traps[0].summary


def test_the_case_with_its_patch(wheels: dict[str, Path], tmp_path: Path) -> None:
    """With the patch of the case, -1 taps the embedding: read from a patched checkout."""
    with zipfile.ZipFile(wheels["0.5.9"]) as wheel:
        wheel.extractall(tmp_path, [n for n in wheel.namelist() if n.endswith(".py")])
    patch = REMOTE / "patches" / "sglang-0.5.9" / "capture-embedding.patch"
    subprocess.run(["git", "apply", str(patch)], cwd=tmp_path, check=True, capture_output=True)
    tree = SourceTree(tmp_path)
    found = resolve(tree, "deepseek_v2", [-1, 2, 30], 61)
    assert (found.boundaries, found.traps) == ((0, 3, 31), ())
    assert any("capture_embedding_for_eagle3" in place.text for place in found.evidence)
    refused = resolve(tree, "deepseek_v2", [-2, 2, 30], 61)
    assert [trap.code for trap in refused.traps] == ["refused"]
    assert refused.boundaries == ()


def test_conventions_from_the_source(wheels: dict[str, Path]) -> None:
    """What the diagnosis asks: by architecture, both ways."""
    rule = convention_for("sglang", "0.5.23", "DeepseekV3ForCausalLM", source=wheels["0.5.23"])
    assert rule.boundaries([2, 30, 58], 61) == [2, 30, 58]
    assert rule.ids([3, 31, 59], 61) == [3, 31, 59]
    assert rule.ids([2, 30, 58], 61) == [2, 30, 58]
    assert rule.ids([3, 31, 61], 61) is None
    assert rule.name == "sglang 0.5.23, deepseek_v2"
    assert "deepseek_v2.py:" in rule.source
    kimi = convention_for("sglang", "0.5.10", "KimiK25ForConditionalGeneration", source=wheels["0.5.10"])
    assert kimi.ids([3, 31, 59], 61) == [2, 30, 58]
    with pytest.raises(UsageError, match="WB-SETTER-MISSING"):
        convention_for("sglang", "0.5.9", "KimiK25ForConditionalGeneration", source=wheels["0.5.9"])


def test_the_same_taps_in_every_convention(trees: dict[str, SourceTree]) -> None:
    taps = same_taps([3, 31, 59], 61, model="deepseek_v2", here=("sglang==0.5.9", trees["0.5.9"]))
    ids = {tap["convention"]: tap["ids"] for tap in taps}
    assert ids["sglang==0.5.9"] == ids["sglang==0.5.10"] == ids["SpecForge on sglang==0.5.9"] == [2, 30, 58]
    assert ids["sglang==0.5.23"] == ids["vLLM"] == [3, 31, 59]
    assert ids["speculators"] == [3, 31, 59, 61]


@pytest.mark.parametrize(
    ("typed", "shown", "then"),
    [
        ("deepsek_v2", "such as deepseek_v2", "did you mean 'deepseek_v2'? else: look up"),
        ("lama", "such as llama, llama4, mllama4", "did you mean 'llama'? else: look up"),
        ("gpt", "such as gpt_oss", "did you mean 'gpt_oss'? else: look up"),
        ("kimi_k2.5", "with set_eagle3_layers_to_capture", "did you mean 'kimi_k25'? else: look up"),
        ("xyz", "with set_eagle3_layers_to_capture", "look up which file"),
    ],
)
def test_a_mistyped_model_is_told_the_nearest_that_can_capture(
    trees: dict[str, SourceTree], typed: str, shown: str, then: str
) -> None:
    """The name that is asked about is the first of the list, and the list has neither helpers nor drafters."""
    with pytest.raises(UsageError, match="WB-SETTER-NO-MODEL") as caught:
        resolve(trees["0.5.9"], typed, [2], 61)
    names = caught.value.expected.partition(", such as ")[2].split(", ")
    assert shown in caught.value.expected
    assert caught.value.next.startswith(then)
    assert not [name for name in names if "/" in name or "nextn" in name or "eagle" in name]
