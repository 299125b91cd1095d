"""What hangs on anything but the source is said to be unread, with its line; a model without a setter is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from setter_sources import HEAD, LOOP, PLUS_ONE, inner, read, served, tiny, write

from helpers.errors import UsageError
from helpers.source.setter import SourceTree, resolve


def stopped(tree: SourceTree, ids: list[int] | None = None, model: str = "tiny") -> str:
    """The line at which the reading stopped."""
    with pytest.raises(UsageError) as caught:
        resolve(tree, model, [2, 4] if ids is None else ids, 12)
    assert caught.value.code == "WB-SETTER-UNREAD"
    assert caught.value.exit_code == 2
    return caught.value.lines[0]


@pytest.mark.parametrize(
    ("setter", "line"),
    [
        ("self.model.layers_to_capture = shift(layer_ids)", "shift(layer_ids)"),
        ("self.model.layers_to_capture = [v + self.config.shift for v in layer_ids]", "self.config.shift"),
        ("self.model.layers_to_capture = layer_ids[: self.config.count]", "self.config.count"),
        ("self.backbone.layers_to_capture = layer_ids", "self.backbone"),
        ("self.backbone.set_eagle3_layers_to_capture(layer_ids)", "self.backbone"),
        ("import os\n        if os.environ.get('X'):\n            return\n" + PLUS_ONE, "os.environ"),
        (
            "match layer_ids:\n            case _:\n                self.model.layers_to_capture = [1]",
            "match layer_ids",
        ),
        ("ids = set(layer_ids)\n        self.model.layers_to_capture = [list(ids)[0]]", "list(ids)[0]"),
    ],
)
def test_setters(tmp_path: Path, setter: str, line: str) -> None:
    assert line in stopped(tiny(tmp_path, f"        {setter}\n"))


@pytest.mark.parametrize(
    "loop",
    [
        LOOP.replace("hidden_states + residual", "self.mix(hidden_states, residual)", 1),
        LOOP.replace("if i in self.layers_to_capture", "if i in self.layers_to_capture and probe()"),
        LOOP.replace("self.layers[i](positions, hidden_states", "self.layers[i](positions, probe(hidden_states)"),
        LOOP.replace("range(self.start_layer, self.end_layer)", "plan(self.start_layer)"),
        LOOP.replace("return hidden_states, aux", "return hidden_states, pack(aux)"),
    ],
)
def test_forward_passes(tmp_path: Path, loop: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tiny(tmp_path, PLUS_ONE, loop), [2, 4])
    assert caught.value.code == "WB-SETTER-UNREAD"
    assert caught.value.lines
    assert "tiny.py:" in caught.value.lines[0]


def test_layers_that_skip_one(tmp_path: Path) -> None:
    """A loop that leaves out a layer would feed another boundary to the next: not what an id says."""
    loop = LOOP.replace("range(self.start_layer, self.end_layer)", "range(self.start_layer, self.end_layer, 2)")
    assert "self.layers[i]" in stopped(tiny(tmp_path, PLUS_ONE, loop))


def test_a_base_outside_the_source(tmp_path: Path) -> None:
    text = "from elsewhere import Base\n\n\nclass TinyForCausalLM(Base):\n    pass\n\n\nEntryClass = TinyForCausalLM\n"
    assert "class TinyForCausalLM(Base)" in stopped(write(tmp_path, tiny=text))


def test_classes_of_one_file_that_differ(tmp_path: Path) -> None:
    other = served("        self.model.layers_to_capture = list(layer_ids)\n", name="OtherForCausalLM")
    text = HEAD + inner() + served() + other + "\nEntryClass = [TinyForCausalLM, OtherForCausalLM]\n"
    tree = write(tmp_path, tiny=text)
    assert "OtherForCausalLM" in stopped(tree)
    assert resolve(tree, "tiny", [2], 12, architecture="OtherForCausalLM").boundaries == (2,)
    assert resolve(tree, "tiny", [2], 12, architecture="TinyForCausalLM").boundaries == (3,)


def test_no_setter(tmp_path: Path) -> None:
    text = HEAD + inner() + "\n\nclass TinyForCausalLM(nn.Module):\n    pass\n\n\nEntryClass = TinyForCausalLM\n"
    tree = write(tmp_path, tiny=text)
    with pytest.raises(UsageError, match="WB-SETTER-MISSING"):
        resolve(tree, "tiny", [2], 12)


def test_a_wrapper_whose_language_model_has_none(tmp_path: Path) -> None:
    setter = """
        if hasattr(self.model, "set_eagle3_layers_to_capture"):
            self.model.set_eagle3_layers_to_capture(layer_ids)
"""
    with pytest.raises(UsageError, match="WB-SETTER-MISSING"):
        read(tiny(tmp_path, setter), [2])


def test_files(tmp_path: Path) -> None:
    tree = tiny(tmp_path)
    with pytest.raises(UsageError, match="WB-SETTER-NO-MODEL") as caught:
        resolve(tree, "tiny_v2", [2], 12)
    assert "tiny" in caught.value.expected
    with pytest.raises(UsageError, match="WB-SOURCE-NO-SGLANG"):
        SourceTree(tmp_path / "nowhere")
    write(tmp_path, broken="class Broken(:\n")
    assert "class Broken" in stopped(SourceTree(tmp_path), model="broken")


@pytest.mark.parametrize("inside", ["", "sglang", "clone"])
def test_where_the_package_may_lie(tmp_path: Path, inside: str) -> None:
    tiny(tmp_path / "python" if inside == "clone" else tmp_path)
    root = tmp_path / inside if inside == "sglang" else tmp_path
    assert resolve(SourceTree(root), "tiny", [2], 12).boundaries == (3,)


def test_code_is_never_run(tmp_path: Path) -> None:
    text = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + (HEAD + inner() + served())
    resolve(write(tmp_path, tiny=text), "tiny", [2], 12)
    assert not (tmp_path / "ran").exists()
