"""What a drafter's checkpoint says about its wiring, read from its header alone."""

from __future__ import annotations

from pathlib import Path

from helpers.errors import UsageError
from helpers.screen import as_typed
from helpers.tensors.header import Entry, read_header
from helpers.tensors.places import met, way_out


def fc_width(draft: Path) -> int:
    """How wide the input of the drafter's fc is: its weight is [drafter's hidden, K * target's hidden].

    Raises:
        UsageError: ``WB-DRAFT-FC`` where the folder has no such weight.
    """
    entries: dict[str, Entry] = {}
    for file in sorted(draft.glob("*.safetensors")):
        entries |= read_header(file)
    fc = next((entry for name, entry in entries.items() if name.split(".")[-2:] == ["fc", "weight"]), None)
    if fc is None or len(fc.shape) != 2:
        raise UsageError(
            "WB-DRAFT-FC",
            met(draft, "drafter", "no fc.weight" if fc is None else f"an fc.weight of {list(fc.shape)}"),
            expected="*.safetensors with fc.weight [hidden, K * hidden], as EAGLE-3 drafters have",
            next=way_out(draft, "drafter", f"ls {as_typed(draft)}"),
        )
    return fc.shape[1]
