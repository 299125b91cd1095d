"""Each shape that a setter's rule takes, read from a small source."""

from __future__ import annotations

from pathlib import Path

import pytest
from setter_sources import HEAD, PLUS_ONE, inner, read, served, taps, tiny, write

from helpers.source.setter import resolve


@pytest.mark.parametrize(
    ("body", "ids", "boundaries"),
    [
        ("self.model.layers_to_capture = list(layer_ids)", [2, 5], [2, 5]),
        ("self.model.layers_to_capture = [val - 1 for val in layer_ids]", [2, 5], [1, 4]),
        ("self.model.layers_to_capture = [v + 1 for v in layer_ids if v >= 0]", [-1, 2], [3]),
        ("self.model.layers_to_capture = sorted(set(layer_ids))", [5, 2, 5], [2, 5]),
        ("self.model.layers_to_capture = {v + 1 for v in layer_ids}", [5, 2], [3, 6]),
        ("self.model.layers_to_capture = list(set(layer_ids))", [5, 2], [2, 5]),
        ("shift = 1\n        self.model.layers_to_capture = [v + shift for v in layer_ids]", [2], [3]),
        (
            "out = []\n        for v in layer_ids:\n            out.append(v + 1)\n"
            "        self.model.layers_to_capture = out",
            [2, 5],
            [3, 6],
        ),
        (
            "out = []\n        i = 0\n        while i < len(layer_ids):\n            out += [layer_ids[i] + 2]\n"
            "            i += 1\n        self.model.layers_to_capture = out",
            [2, 5],
            [4, 7],
        ),
        ("self.model.layers_to_capture = [x for i, x in enumerate(layer_ids) if i != 1]", [2, 5, 7], [2, 7]),
        ("self.model.layers_to_capture = [min(v + 1, 11) for v in layer_ids]", [2, 40], [3, 11]),
        ("self.model.layers_to_capture = [v % 12 for v in layer_ids]", [14], [2]),
        ("n = len(self.model.layers)\n        self.model.layers_to_capture = [n // 2, *layer_ids]", [2], [2, 6]),
        ("setattr(self.model, 'layers_to_capture', [v + 1 for v in layer_ids])", [2], [3]),
        ("ids = layer_ids if layer_ids else [1]\n        self.model.layers_to_capture = ids", [], [1]),
    ],
)
def test_arithmetic(tmp_path: Path, body: str, ids: list[int], boundaries: list[int]) -> None:
    assert taps(tiny(tmp_path, f"        {body}\n"), ids) == boundaries


def test_a_condition_on_the_ids_and_its_line(tmp_path: Path) -> None:
    setter = """
        if layer_ids and layer_ids[0] == 1:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]
        else:
            self.model.layers_to_capture = list(layer_ids)
"""
    tree = tiny(tmp_path, setter)
    assert taps(tree, [1, 4]) == [2, 5]
    assert taps(tree, [2, 4]) == [2, 4]
    assert read(tree, [1, 4]).rule == "boundary = id + 1"
    assert read(tree, [2, 4]).rule == "boundary = id"
    assert any("layer_ids[0] == 1" in place.text for place in read(tree, [2, 4]).evidence)


def test_defaults(tmp_path: Path) -> None:
    tree = tiny(tmp_path)
    assert taps(tree, None) == [2, 6, 9]
    assert read(tree, None).defaults
    assert read(tree, None).ids == (2, 6, 9)


def test_a_setter_within_the_setter(tmp_path: Path) -> None:
    more = """
    def set_eagle3_layers_to_capture(self, layers):
        self.layers_to_capture = layers
    """
    setter = "        self.model.set_eagle3_layers_to_capture([v + 1 for v in layer_ids])\n"
    assert taps(tiny(tmp_path, setter, more=more), [2, 4]) == [3, 5]


def test_marked_layers(tmp_path: Path) -> None:
    setter = """
        self.model.layers_to_capture = layer_ids
        for i in layer_ids:
            setattr(self.model.layers[i], "_is_layer_to_capture", True)
"""
    loop = """
        aux = []
        for layer in self.layers:
            if getattr(layer, "_is_layer_to_capture", False):
                aux.append(hidden_states + residual)
            hidden_states, residual = layer(positions, hidden_states, forward_batch, residual)
        return hidden_states, aux
"""
    assert taps(tiny(tmp_path, setter, loop), [5, 3]) == [3, 5]
    wrapped = read(tiny(tmp_path, setter, loop), [-2])
    assert (wrapped.boundaries, [t.code for t in wrapped.traps]) == ((10,), ["wraps-around"])
    beyond = read(tiny(tmp_path, setter, loop), [3, 12])
    assert (beyond.boundaries, [(t.code, t.ids) for t in beyond.traps]) == ((3,), [("out-of-reach", (12,))])
    assert "IndexError" in beyond.traps[0].summary


def test_delegation_and_inheritance_across_files(tmp_path: Path) -> None:
    base = HEAD + inner() + served(name="BaseForCausalLM")
    child = """
from sglang.srt.models.base import BaseForCausalLM


class ChildForCausalLM(BaseForCausalLM):
    pass


EntryClass = [ChildForCausalLM]
"""
    wrapper = """
from torch import nn
from sglang.srt.models.child import ChildForCausalLM


class WrapForConditionalGeneration(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.language_model = None
        if not config.encoder_only:
            self.language_model = ChildForCausalLM(config.text_config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        if not hasattr(self.language_model, "set_eagle3_layers_to_capture"):
            raise AttributeError("none")
        getattr(self.language_model, "set_eagle3_layers_to_capture")(layer_ids)


EntryClass = WrapForConditionalGeneration
"""
    tree = write(tmp_path, base=base, child=child, wrapper=wrapper)
    assert resolve(tree, "child", [2, 4], 12).boundaries == (3, 5)
    read_through = resolve(tree, "wrapper", [2, 4], 12)
    assert read_through.boundaries == (3, 5)
    assert {place.file.split("/")[-1] for place in read_through.evidence} == {"base.py", "wrapper.py"}


def test_super_and_the_model_made_by_a_method(tmp_path: Path) -> None:
    text = f"""{HEAD}{inner()}
class BaseForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = self.make_model(config)

    def make_model(self, config):
        raise NotImplementedError("of the child")

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.model.layers_to_capture = [v + 1 for v in layer_ids]


class TinyForCausalLM(BaseForCausalLM):
    def make_model(self, config):
        return Inner(config)

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        super().set_eagle3_layers_to_capture([v + 1 for v in layer_ids])


EntryClass = TinyForCausalLM
"""
    assert taps(write(tmp_path, tiny=text), [2]) == [4]


def test_the_case_of_the_patch(tmp_path: Path) -> None:
    """-1 as a flag for the embedding, as the case's patch reads it."""
    setter = """
        self.model.capture_embedding = -1 in layer_ids
        self.model.layers_to_capture = [v + 1 for v in layer_ids if v >= 0]
"""
    loop = """
        aux = []
        if self.capture_embedding:
            aux.append(hidden_states.clone())
        for i in range(self.start_layer, self.end_layer):
            if i in self.layers_to_capture:
                aux.append(hidden_states + residual)
            hidden_states, residual = self.layers[i](positions, hidden_states, forward_batch, residual)
        return hidden_states, aux
"""
    found = read(tiny(tmp_path, setter, loop, init="self.capture_embedding = False"), [-1, 2, 4])
    assert (found.boundaries, found.traps) == ((0, 3, 5), ())
    assert read(tiny(tmp_path, PLUS_ONE), [-1, 2, 4]).boundaries == (3, 5)
