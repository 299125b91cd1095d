"""What figures of the wiring show: the size of each slot, which slot and which boundary it is, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.figures.said.phrasing import listed, rows_of, sentence

if TYPE_CHECKING:
    import pandas as pd

# Sizes of two slots that agree to this on every token are those of the same vectors, rounding in 16 bits apart.
SAME_SIZE = 0.005


def norms(rows: pd.DataFrame) -> str:
    """The size of each served slot against its own trained slot, and against the others' where it is one of theirs.

    Args:
        rows: as `helpers.wiring.tables.norm_rows` gives: both sides of a slot have the same tokens in the same order.
    """
    import numpy as np

    sides = {
        side: {int(str(slot)): np.asarray(column["norm"], dtype=float) for slot, column in part.groupby("slot")}
        for side, part in rows.groupby("side")
    }
    served, trained = sides.get("served", {}), sides.get("trained", {})
    told = []
    for slot in sorted(set(served) & set(trained)):
        if served[slot].shape != trained[slot].shape:
            size = 100 * float(np.median(served[slot]) / max(float(np.median(trained[slot])), 1e-30))
        else:
            size = 100 * float(np.median(served[slot] / np.maximum(trained[slot], 1e-30)))
        text = f"slot {slot} is fed vectors of {_points(size)}% of its trained size"
        alike = [o for o in sorted(trained) if _same_size(served[slot], trained[o])]
        if slot in alike:
            text = f"slot {slot} has its trained size on every token, to {SAME_SIZE:.1%}"
        elif alike:
            owner = listed([str(other) for other in alike])
            text += f", and has on every token the size of trained slot {owner}, to {SAME_SIZE:.1%}"
        told.append(text)
    return sentence("; ".join(told)) + "." if told else "No slot is on both sides."


def _same_size(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool((abs(one - other) <= SAME_SIZE * abs(other)).all())


def slot_matrix(rows: pd.DataFrame) -> str:
    """Which trained slot each served one is most like, the diagonal, and the trained slots that nothing is like.

    Args:
        rows: as `helpers.wiring.tables.slot_matrix_rows` gives.
    """
    from helpers.wiring.comparison import SAME

    cells = rows_of(rows)
    told, taken = [], set()
    for slot in sorted({int(cell["served"]) for cell in cells}):
        best = max((c for c in cells if c["served"] == slot), key=lambda c: c["cosine"])
        at = int(best["trained"])
        if best["cosine"] < SAME:
            told.append(f"served slot {slot} is no trained slot (the most alike, {at}, has {best['cosine']:.3f})")
            continue
        taken.add(at)
        which = "its own trained one" if at == slot else f"trained slot {at}"
        told.append(f"served slot {slot} is {which} ({best['cosine']:.3f})")
    lost = [str(t) for t in sorted({int(cell["trained"]) for cell in cells} - taken)]
    end = "" if not lost else f". No served slot is trained slot {listed(lost, 'or')}"
    return sentence("; ".join(told)) + end + "."


def ladder(rows: pd.DataFrame) -> str:
    """The boundary at which each slot peaks on both sides, how far ahead, and the taps that no slot is fed any more.

    Args:
        rows: as `helpers.wiring.tables.ladder_rows` gives.
    """
    peaks: dict[tuple[str, int], int] = {}
    leads = []
    for (side, slot), part in rows.groupby(["side", "slot"]):
        key = (str(side), int(str(slot)))
        ranked = rows_of(part.sort_values("cosine", ascending=False))
        peaks[key] = int(ranked[0]["boundary"])
        if len(ranked) > 1:
            lead = ranked[0]["cosine"] - ranked[1]["cosine"]
            leads.append((lead, f"{key[0]} slot {key[1]}: {lead:.3f} ahead of boundary {int(ranked[1]['boundary'])}"))
    if not peaks:
        return "The capture has no ladder."
    sides = {side: [b for (s, _), b in sorted(peaks.items()) if s == side] for side in ("served", "trained")}
    moved = [str(slot) for side, slot in sorted(peaks) if side == "served" and _moved(peaks, slot)]
    for side, at in sides.items():
        if len(at) == len(peaks):  # the other side has none
            return f"{side.capitalize()} slots peak at the boundaries {listed(list(map(str, at)))}."
    text = (
        f"Served slots peak at the boundaries {listed(list(map(str, sides['served'])))}, trained ones at "
        f"{listed(list(map(str, sides['trained'])))}: "
    )
    text += f"{_slots(moved)} peak{'s' if len(moved) == 1 else ''} elsewhere than in training" if moved else "the same"
    if lost := sorted(set(sides["trained"]) - set(sides["served"])):
        text += f"; no served slot peaks at {listed([str(b) for b in lost], 'or')}"
    return text + (f". The closest race is {min(leads)[1]}." if leads else ".")


def _moved(peaks: dict[tuple[str, int], int], slot: int) -> bool:
    return ("trained", slot) in peaks and peaks[("trained", slot)] != peaks[("served", slot)]


def slot_costs(rows: pd.DataFrame) -> str:
    """What putting each slot right gives, what costs most, and the bars that are too short to be seen.

    Args:
        rows: as `helpers.wiring.tables.ablation_rows` gives.
    """
    cells = rows_of(rows)
    if not cells:
        return "Nothing was changed."
    put_right = sorted((c for c in cells if c["change"] == "right"), key=lambda c: -c["difference"])
    told = []
    if put_right:
        parts = [f"slot {c['slot']}: {_change(c)}" for c in put_right]
        told.append(f"What putting one slot right does to the accept rate: {'; '.join(parts)}")
    others = [c for c in cells if c["change"] != "right"]
    if others:
        worst = min(others, key=lambda c: c["difference"])
        told.append(f"Of the other changes, slot {worst['slot']} given {_given(worst)} costs most: {_change(worst)}")
    widest = max(max(abs(c["low"]), abs(c["high"])) for c in cells)
    if unseen := [c for c in cells if abs(c["difference"]) < 0.01 * widest]:
        parts = [f"slot {c['slot']} given {_given(c)} ({_change(c)})" for c in unseen]
        told.append(f"Too short a bar to be seen: {'; '.join(parts)}")
    return ". ".join(told) + "."


_GIVEN = {
    "zeros": "zeros",
    "embedding": "the embedding",
    "earlier": "the boundary before",
    "later": "the boundary after",
    "right": "its trained tap",
}


def _given(row: dict[str, Any]) -> str:
    return _GIVEN.get(str(row["change"]), str(row["change"]))


def _change(row: dict[str, Any]) -> str:
    """``+24.0 points [+18.1, +30.7]``, and whether chance is excluded; or that nothing changed at all."""
    if not row["difference"] and row["low"] == row["high"]:
        return "no change in any request"
    text = f"{100 * row['difference']:+.1f} points [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
    return text if row["low"] > 0 or row["high"] < 0 else f"{text}, not beyond chance"


def _points(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def _slots(slots: list[str]) -> str:
    return f"slot {slots[0]}" if len(slots) == 1 else f"slots {listed(slots)}"
