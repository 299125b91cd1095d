"""How one version of one engine reads layer ids for one model; what serving and diagnosis both must know.

Those below were read in the sources that they name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Convention:
    """One stack's reading of layer ids: boundary = id + `offset`.

    ``embedding_id`` is the id that taps boundary 0, and ``embedding_patch`` the patch that it needs (None: none).
    ``source`` names the file and line that prove the rule. ``last``: boundary n can be tapped, too.
    """

    name: str
    source: str
    offset: int
    embedding_id: int | None = None
    embedding_patch: str | None = None
    last: bool = False

    def boundary(self, layer_id: int) -> int:
        """The boundary that an id taps."""
        if self.embedding_id is not None and layer_id == self.embedding_id:
            return 0
        return layer_id + self.offset

    def boundaries(self, ids: Iterable[int], num_layers: int) -> list[int]:
        """Boundaries in the order in which they are tapped: ascending, doubles once, those out of reach not at all.

        Boundary n is out of reach where the taps are taken inside the loop over layers, before each layer.
        """
        return sorted({b for b in map(self.boundary, ids) if 0 <= b < num_layers + self.last})

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
