"""An engine that is no release: a checkout of git, or one that tells no version.

.venv/bin/python -m pytest tests/unit/test_versions.py
"""

from __future__ import annotations

import importlib
import tomllib
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.acceptance.sources.definition import rule_of
from helpers.errors import RemoteFailed, UsageError
from helpers.serving import Profile
from helpers.serving.launch import check_ids, plan
from helpers.source import Checkout
from helpers.source.patch_state import load_patch, patch_names
from helpers.source.versions import is_before, nearest_release, release_of
from helpers.tensors.capture_info import Engine
from helpers.wiring.boundaries import convention_of

GIT = "0.5.10.dev3+g1a2b3c.d20260131"
CONFIG = {"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61}


def profile(**change: Any) -> Profile:
    return Profile(**{"name": "git", "engine": f"sglang=={GIT}", "model": "/m", **change})


class LookedUp(Exception):
    """The start went past the version."""


def planned(monkeypatch: pytest.MonkeyPatch, there: str | None, wanted: Profile) -> None:
    """Plan a start on a box whose checkout tells this version."""
    launch = importlib.import_module("helpers.serving.launch")
    found = Checkout("/src/python/sglang", there, "python3", "3.12")
    monkeypatch.setattr(launch, "find_checkout", lambda *_: found)

    def further(*_: object, **__: object) -> None:
        raise LookedUp

    monkeypatch.setattr(launch, "call", further)
    box: Any = SimpleNamespace(name="box", home="/home/me")
    plan(box, wanted)


@pytest.mark.parametrize("there", [GIT, "0.5.9+cu128", "0.0.0.dev0", "0.5.9.post1", "0.5.10rc1", "1!2.0_x"])
def test_what_the_hint_says_can_be_put_into_the_profile(monkeypatch: pytest.MonkeyPatch, there: str) -> None:
    """Must-show: the very line of the message, taken into the profile, is what the box has."""
    with pytest.raises(RemoteFailed) as caught:
        planned(monkeypatch, there, profile(engine="sglang==0.5.8"))
    assert caught.value.code == "WB-SERVE-ENGINE-VERSION"
    line = caught.value.next.partition('set engine = "')[2].partition('"')[0]
    told = tomllib.loads(f'engine = "{line}"')
    with pytest.raises(LookedUp):
        planned(monkeypatch, there, profile(**told))
    assert ("engine_base" in caught.value.next) == (release_of(there) is None)


@pytest.mark.parametrize("there", [None, "", "unknown", "\x1b[31m0.5.9"])
def test_a_checkout_that_tells_no_version(monkeypatch: pytest.MonkeyPatch, there: str | None) -> None:
    with pytest.raises(RemoteFailed) as caught:
        planned(monkeypatch, there, profile(engine="sglang==0.5.9"))
    assert "None" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert 'engine_base = "RELEASE"' in caught.value.next
    with pytest.raises(LookedUp):
        planned(monkeypatch, there, profile(engine="sglang==0.5.9", engine_base="0.5.9"))


def test_a_word_for_an_untold_version_is_none_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RemoteFailed, match="ENGINE-VERSION"):
        planned(monkeypatch, "0.5.23", profile(engine="sglang==0.5.9", engine_base="0.5.9"))


def test_the_release_whose_rules_hold() -> None:
    assert profile().engine_release == GIT
    assert profile(engine_base="0.5.9").engine_release == "0.5.9"
    assert profile(engine="sglang==0.5.9+cu128").engine_release == "0.5.9"
    with pytest.raises(ValueError, match="engine_base"):
        profile(engine_base=GIT)


def test_ids_are_held_against_the_rule_that_was_named() -> None:
    spoken = {"draft": "/d", "speculation": {"num_steps": 3, "num_draft_tokens": 4}, "aux_layer_ids": (2, 30, 60)}
    check_ids(profile(**spoken), CONFIG)  # no rule is known
    with pytest.raises(UsageError, match=r"taps only boundaries \[3, 31\]"):
        check_ids(profile(**spoken, engine_base="0.5.9"), CONFIG)


def test_a_capture_is_read_by_the_rule_that_was_named() -> None:
    def captured(version: str, base: str | None = None) -> Any:
        model = SimpleNamespace(architecture="DeepseekV3ForCausalLM")
        return SimpleNamespace(engine=Engine(name="sglang", version=version, base=base), model=model)

    assert convention_of(captured(GIT)) is None
    for known in (captured(GIT, "0.5.9"), captured("0.5.9+cu128")):
        rule = convention_of(known)
        assert rule is not None
        assert rule.offset == 1


def test_patches_of_the_nearest_release_go_in_by_their_lines() -> None:
    known = patch_names("0.5.9")
    assert "capture-embedding" in known
    for version in (GIT, "0.5.9+cu128", "0.0.0.dev0", None):
        assert patch_names(version) == known
        assert load_patch("capture-embedding", version).text == load_patch("capture-embedding", "0.5.9").text
    assert patch_names("0.5.10") == []  # a release of its own: nothing is guessed


def test_order_of_versions() -> None:
    assert nearest_release("0.5.23.dev1", ["0.5.9", "0.5.10", "0.5.23"]) == "0.5.23"
    assert nearest_release("0.5.11.dev1", ["0.5.9", "0.5.10", "0.5.23"]) == "0.5.10"
    assert nearest_release("0.5.9", []) is nearest_release(None, []) is None
    assert not is_before("0.5.23+cu128", (0, 5, 23))
    assert is_before("0.5.23rc1", (0, 5, 23))
    assert rule_of("sglang==0.5.23.dev4+g1") is None
    assert rule_of(f"sglang=={GIT}") == rule_of("sglang==0.5.9")
