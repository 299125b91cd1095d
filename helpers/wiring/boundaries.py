"""Layer ids of a stack <-> boundaries, the one unit in which stacks are compared.

A `Convention` is how one version of one engine reads ids for one model. Those below were read in the sources that they
name; an engine or a model that is not among them is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from helpers.errors import UsageError


@dataclass(frozen=True)
class Convention:
    """One stack's reading of layer ids: boundary = id + `offset`.

    ``embedding_id`` is the id that taps boundary 0, and ``embedding_patch`` the patch that it needs (None: none).
    ``source`` names the file and line that prove the rule.
    """

    name: str
    source: str
    offset: int
    embedding_id: int | None = None
    embedding_patch: str | None = None

    def boundary(self, layer_id: int) -> int:
        """The boundary that an id taps."""
        if self.embedding_id is not None and layer_id == self.embedding_id:
            return 0
        return layer_id + self.offset

    def boundaries(self, ids: Iterable[int], num_layers: int) -> list[int]:
        """Boundaries in the order in which they are tapped: ascending, doubles once, those out of reach not at all.

        Boundary n is out of reach: the taps are taken inside the loop over layers, before each layer.
        """
        return sorted({b for b in map(self.boundary, ids) if 0 <= b < num_layers})

    def layer_id(self, boundary: int) -> int | None:
        """The id that taps a boundary; None where no id does."""
        if boundary == 0 and self.embedding_id is not None:
            return self.embedding_id
        layer_id = boundary - self.offset
        return layer_id if layer_id >= 0 else None

    def ids(self, boundaries: Iterable[int], num_layers: int) -> list[int] | None:
        """The ids that tap these boundaries in this order; None where ids cannot."""
        wanted = list(boundaries)
        ids = [self.layer_id(b) for b in wanted]
        known = [i for i in ids if i is not None]
        return known if len(known) == len(wanted) and self.boundaries(known, num_layers) == wanted else None


SGLANG_059_DEEPSEEK = Convention(
    name="sglang 0.5.9, deepseek_v2",
    source="sglang/srt/models/deepseek_v2.py:2975",
    offset=1,
    embedding_id=-1,
    embedding_patch="capture-embedding",
)
KNOWN = {
    ("sglang", "0.5.9", architecture): SGLANG_059_DEEPSEEK
    for architecture in ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM")
}


def default_boundaries(num_layers: int) -> list[int]:
    """What SGLang taps when no ids are given."""
    return [2, num_layers // 2, num_layers - 3]


def convention_for(engine: str, version: str, architecture: str) -> Convention:
    """The convention of a served model.

    Raises:
        UsageError: ``WB-BOUNDARIES-UNREAD`` where nobody has read the rule yet.
    """
    found = KNOWN.get((engine, version, architecture))
    if found is None:
        raise UsageError(
            "WB-BOUNDARIES-UNREAD",
            f"how {engine} {version} reads layer ids for {architecture} has not been read from its source",
            expected="one of: " + ", ".join(f"{e} {v} {a}" for e, v, a in KNOWN),
            next="read set_eagle3_layers_to_capture in the model's file: workbook grep BOX set_eagle3 FILE",
        )
    return found
