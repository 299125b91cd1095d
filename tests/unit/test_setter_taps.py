"""How the forward pass consumes the list: before or after a layer, past the loop, within the layer; and its traps."""

from __future__ import annotations

from pathlib import Path

import pytest
from setter_sources import LOOP, PLUS_ONE, codes, read, taps, tiny

PLAIN = "        self.model.layers_to_capture = list(layer_ids)\n"
NONE_SAFE = LOOP.replace(
    "hidden_states + residual)\n", "hidden_states if residual is None else hidden_states + residual)\n", 1
)
AFTER = """
        aux = []
        for i, layer in enumerate(self.layers):
            hidden_states, residual = layer(positions, hidden_states, forward_batch, residual)
            if i in self.layers_to_capture:
                aux.append(hidden_states + residual)
        return hidden_states, aux
"""
PAST_LOOP = LOOP.replace(
    "        hidden_states, _ = self.norm",
    "        if self.end_layer in self.layers_to_capture:\n            aux.append(hidden_states + residual)\n"
    "        hidden_states, _ = self.norm",
)


def test_before_the_layer(tmp_path: Path) -> None:
    assert taps(tiny(tmp_path, PLAIN), [2, 11]) == [2, 11]


def test_after_the_layer(tmp_path: Path) -> None:
    tree = tiny(tmp_path, PLAIN, AFTER)
    assert taps(tree, [0, 2, 11]) == [1, 3, 12]
    assert read(tree, [2]).rule == "boundary = id + 1"


def test_past_the_loop(tmp_path: Path) -> None:
    assert taps(tiny(tmp_path, PLUS_ONE, PAST_LOOP), [2, 11]) == [3, 12]
    assert taps(tiny(tmp_path / "other", PLUS_ONE), [2, 11]) == [3]


def test_order_and_doubles(tmp_path: Path) -> None:
    tree = tiny(tmp_path)
    assert taps(tree, [8, 2, 4]) == [3, 5, 9]
    assert codes(tree, [8, 2, 4]) == ["reordered"]
    assert taps(tree, [4, 4, 8]) == [5, 9]
    double = read(tree, [4, 4, 8]).traps
    assert [(t.code, t.ids, t.boundary) for t in double] == [("collapses", (4, 4), 5)]


@pytest.mark.parametrize(("wrong", "code"), [(11, "out-of-reach"), (40, "out-of-reach"), (-3, "never-fires")])
def test_ids_that_tap_nothing(tmp_path: Path, wrong: int, code: str) -> None:
    found = read(tiny(tmp_path), sorted([2, wrong]))
    assert found.boundaries == (3,)
    assert [(t.code, t.ids) for t in found.traps] == [(code, (wrong,))]


def test_the_embedding_where_the_residual_is_none(tmp_path: Path) -> None:
    """Stock 0.5.9: `hidden_states + None` stops the server at layer 0; models that mind it tap the embedding."""
    stock = read(tiny(tmp_path), [-1, 2])
    assert stock.boundaries == (3,)
    assert [(t.code, t.ids) for t in stock.traps] == [("fails-at-layer", (-1,))]
    said = (
        "the id -1: the server fails in its first forward pass, at layer 0, where there is no residual yet (TypeError, "
    )
    assert stock.traps[0].summary.startswith(said)
    assert "NoneType" in stock.traps[0].summary
    assert stock.traps[0].place is not None
    assert "hidden_states + residual" in stock.traps[0].place.text
    assert taps(tiny(tmp_path / "safe", PLUS_ONE, NONE_SAFE), [-1, 2]) == [0, 3]


def test_the_residual_left_out(tmp_path: Path) -> None:
    loop = LOOP.replace("hidden_states + residual", "hidden_states", 1)
    found = read(tiny(tmp_path, PLUS_ONE, loop), [2])
    assert found.boundaries == (3,)
    assert [t.code for t in found.traps] == ["residual-omitted"]


def test_no_tap_at_all(tmp_path: Path) -> None:
    loop = """
        for layer in self.layers:
            hidden_states, residual = layer(positions, hidden_states, forward_batch, residual)
        return hidden_states
"""
    assert codes(tiny(tmp_path, PLUS_ONE, loop), [2, 4]) == ["never-fires", "never-fires"]


def test_defaults_of_a_shallow_model(tmp_path: Path) -> None:
    """n = 4: the engine's own choice is [2, 2, 1]."""
    found = read(tiny(tmp_path), None, 4)
    assert found.boundaries == (1, 2)
    assert {t.code for t in found.traps} == {"collapses", "reordered"}


def test_both_sides_of_a_launch_switch(tmp_path: Path) -> None:
    """A gather over ranks or none: the same boundary, both lines."""
    loop = LOOP.replace(
        "                aux.append(hidden_states + residual)\n",
        "                if self.enable_a2a:\n"
        "                    aux.append(all_gather(hidden_states + residual, dim=0))\n"
        "                else:\n"
        "                    aux.append(hidden_states + residual)\n",
    )
    found = read(tiny(tmp_path, PLUS_ONE, loop, init="self.enable_a2a = backend().is_deepep()"), [2])
    assert (found.boundaries, found.traps) == ((3,), ())
    assert sum("aux.append" in place.text for place in found.evidence) == 2


def test_taken_for_granted(tmp_path: Path) -> None:
    setter = "        if not self.pp_group.is_last_rank:\n            return\n" + PLUS_ONE
    assert read(tiny(tmp_path, setter), [2]).assumes == ("one pipeline stage (--pp-size 1)",)


def test_a_list_of_its_own_making_is_none_of_the_ids(tmp_path: Path) -> None:
    """A drafter returns its own state in a list, and looks at no ids: nothing is tapped, and the line is kept."""
    loop = """
        for layer in self.layers:
            hidden_states, residual = layer(positions, hidden_states, forward_batch, residual)
        state, before = self.norm(hidden_states, residual)
        return state, [before]
"""
    found = read(tiny(tmp_path, PLUS_ONE, loop), [2, 4])
    assert (found.boundaries, [t.code for t in found.traps]) == ((), ["never-fires", "never-fires"])
    assert "takes no taps" in found.traps[0].summary
    assert any(place.text.startswith("def forward") for place in found.evidence)


def test_a_forward_that_insists_on_one_tensor(tmp_path: Path) -> None:
    loop = LOOP.replace(
        "        return hidden_states, aux\n",
        "        output = (hidden_states, aux)\n        assert isinstance(output, torch.Tensor)\n"
        "        return output\n",
    )
    found = read(tiny(tmp_path, PLUS_ONE, loop), [2, 4])
    assert (found.boundaries, [t.code for t in found.traps]) == ((), ["refused"])


def test_a_model_that_says_itself_how_many_layers_it_has(tmp_path: Path) -> None:
    """A drafter that writes 1 into its config: --layers is the target's."""
    tree = tiny(tmp_path, PLUS_ONE, NONE_SAFE)
    file = tmp_path / "sglang/srt/models/tiny.py"
    file.write_text(
        file.read_text().replace(
            "        self.model = Inner", "        config.num_hidden_layers = 1\n        self.model = Inner"
        )
    )
    assert taps(tree, [-1, 2]) == [0]


@pytest.mark.parametrize("last", ["raise ValueError(kind)", "return Layer()"])
def test_layers_of_a_kind_that_the_config_names(tmp_path: Path, last: str) -> None:
    make = f"""
        def make(idx, prefix):
            kind = config.layer_types[idx]
            if kind == "full":
                return Layer()
            if kind == "linear":
                return Other()
            {last}
"""
    tree = tiny(tmp_path, PLUS_ONE)
    file = tmp_path / "sglang/srt/models/tiny.py"
    text = file.read_text().replace("lambda idx, prefix: Layer()", "make")
    text = text.replace("        self.layers, self.start_layer", make + "        self.layers, self.start_layer")
    file.write_text(text.replace("class Inner", "class Other(Layer):\n    pass\n\n\nclass Inner"))
    assert taps(tree, [2, 4]) == [3, 5]
