"""How much each slot brings into the drafter's state: the weight of fc's columns times what enters them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from helpers.wiring.drafter import Drafter
from helpers.wiring.replay.taps import Source, Wiring

# Rows that norms are measured on.
ROWS = 4096


class SlotShare(BaseModel):
    """One slot of fc.

    Attributes:
        fc_norm: Frobenius norm of the slot's columns; input_norm: mean length of what enters them (after the norms
            before fc, where there are any); product: of the two, the bound on what the slot can bring.
        contribution: mean length of what it does bring, columns times input; share: of the sum over slots.
    """

    model_config = ConfigDict(frozen=True)

    slot: int
    tap: str
    fc_norm: float
    input_norm: float
    product: float
    contribution: float
    share: float


def attribute(drafter: Drafter, source: Source, wiring: Wiring) -> list[SlotShare]:
    """Attribute the drafter's fused state to its slots, token 0 of each request left out."""
    source.check(wiring, drafter)
    entered, brought, rows = [0.0] * drafter.slots, [0.0] * drafter.slots, 0
    for text in source.texts:
        taps = drafter.normed_taps(source.taps(text, wiring)[1:])
        for slot, part in enumerate(taps.chunk(drafter.slots, dim=-1)):
            entered[slot] += float(part.float().norm(dim=-1).sum())
            brought[slot] += float((part @ drafter.block(slot).T).float().norm(dim=-1).sum())
        rows += len(taps)
        if rows >= ROWS:
            break
    weights = [float(drafter.block(slot).float().norm()) for slot in range(drafter.slots)]
    total = sum(brought) or 1.0
    return [
        SlotShare(
            slot=slot,
            tap=str(wiring[slot]),
            fc_norm=weights[slot],
            input_norm=entered[slot] / rows,
            product=weights[slot] * entered[slot] / rows,
            contribution=brought[slot] / rows,
            share=brought[slot] / total,
        )
        for slot in range(drafter.slots)
    ]
