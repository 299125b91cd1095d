"""Small sources for the reader of setters: a package of one model file, and pieces to build it from."""

from __future__ import annotations

import textwrap
from pathlib import Path

from helpers.source.setter import Resolution, SourceTree, resolve

HEAD = """
from torch import nn
from sglang.srt.utils import make_layers


class Layer(nn.Module):
    def forward(self, positions, hidden_states, forward_batch, residual):
        return hidden_states, residual

"""
LOOP = """
        aux = []
        for i in range(self.start_layer, self.end_layer):
            if i in self.layers_to_capture:
                aux.append(hidden_states + residual)
            hidden_states, residual = self.layers[i](positions, hidden_states, forward_batch, residual)
        hidden_states, _ = self.norm(hidden_states, residual)
        if len(aux) == 0:
            return hidden_states
        return hidden_states, aux
"""
PLUS_ONE = """
        if layer_ids is None:
            n = self.config.num_hidden_layers
            self.model.layers_to_capture = [2, n // 2, n - 3]
        else:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]
"""


def inner(loop: str = LOOP, init: str = "", name: str = "Inner", more: str = "") -> str:
    return f"""
class {name}(nn.Module):
    def __init__(self, config, prefix=""):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers, self.start_layer, self.end_layer = make_layers(
            config.num_hidden_layers, lambda idx, prefix: Layer(), pp_rank=0, pp_size=1
        )
        self.norm = nn.Identity()
        self.layers_to_capture = []
{textwrap.indent(textwrap.dedent(init), " " * 8)}
{textwrap.indent(textwrap.dedent(more), " " * 4)}
    def forward(self, input_ids, positions, forward_batch, input_embeds=None):
        if input_embeds is None:
            hidden_states = self.embed_tokens(input_ids)
        else:
            hidden_states = input_embeds
        residual = None
{loop}
"""


def served(setter: str = PLUS_ONE, init: str = "", name: str = "TinyForCausalLM", base: str = "nn.Module") -> str:
    return f"""
class {name}({base}):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = Inner(config)
{textwrap.indent(textwrap.dedent(init), " " * 8)}

    def set_eagle3_layers_to_capture(self, layer_ids=None):
{setter}
"""


def write(root: Path, **files: str) -> SourceTree:
    """A tree with these model files; `tiny` gets EntryClass where it has none."""
    folder = root / "sglang" / "srt" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(text)
    return SourceTree(root)


def tiny(root: Path, setter: str = PLUS_ONE, loop: str = LOOP, init: str = "", more: str = "") -> SourceTree:
    return write(root, tiny=HEAD + inner(loop, init, more=more) + served(setter) + "\nEntryClass = TinyForCausalLM\n")


def read(tree: SourceTree, ids: list[int] | None, layers: int = 12) -> Resolution:
    return resolve(tree, "tiny", ids, layers)


def taps(tree: SourceTree, ids: list[int] | None, layers: int = 12) -> list[int]:
    return list(read(tree, ids, layers).boundaries)


def codes(tree: SourceTree, ids: list[int] | None, layers: int = 12) -> list[str]:
    return [trap.code for trap in read(tree, ids, layers).traps]
