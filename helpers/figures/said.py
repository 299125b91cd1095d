"""What a figure shows, in one or two sentences, made of the same tidy table that the figure is made of.

Nothing here measures: a sentence names the values with their intervals, and claims no difference where those do not
part them. The sentences that belong to no figure are in `remarks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Sizes of two slots that agree to this on every token are those of the same vectors, rounding in 16 bits apart.
SAME_SIZE = 0.005


def survival(rows: pd.DataFrame) -> str:
    """Who keeps how much after the first draft and after the last, and from which draft on the others fall behind.

    Args:
        rows: as `helpers.acceptance.tables.survival_rows` gives.
    """
    parts = {str(name): _rows(part.sort_values("k")) for name, part in rows.groupby("profile", sort=False)}
    if not parts:
        return "No configuration here speculates."
    best = max(parts, key=lambda name: sum(row["survival"] for row in parts[name]))
    told = [f"S(1) is {_listed([f'{_share(part[0])} ({name})' for name, part in parts.items()])}"]
    if len(parts[best]) > 1:
        lasts = [f"{_share(part[-1])} ({name})" for name, part in parts.items()]
        told.append(f"all {parts[best][-1]['k']} drafts survive in {_listed(lasts)}")
    return (
        ". ".join([_sentence("; ".join(told)), *(_behind(name, parts, best) for name in parts if name != best)]) + "."
    )


def _behind(name: str, parts: dict[str, list[dict[str, Any]]], best: str) -> str:
    pairs = list(zip(parts[name], parts[best], strict=False))
    if all(abs(row["survival"] - other["survival"]) < 1e-9 for row, other in pairs):
        return f"The curve of {name} is that of {best}"
    apart = [row["k"] for row, other in pairs if row["high"] < other["low"]]
    if not apart:
        return f"The bands of {name} and {best} overlap at every k, which a paired comparison may still part"
    first = "already at the first draft" if apart[0] == 1 else f"from k = {apart[0]} on"
    return f"The band of {name} lies below that of {best} {first}"


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
        size = 100 * float(np.median(served[slot] / np.maximum(trained[slot], 1e-30)))
        text = f"slot {slot} is fed vectors of {_points(size)}% of its trained size"
        alike = [o for o in sorted(trained) if _same_size(served[slot], trained[o])]
        if slot in alike:
            text = f"slot {slot} has its trained size on every token, to {SAME_SIZE:.1%}"
        elif alike:
            owner = _listed([str(other) for other in alike])
            text += f", and has on every token the size of trained slot {owner}, to {SAME_SIZE:.1%}"
        told.append(text)
    return _sentence("; ".join(told)) + "." if told else "No slot is on both sides."


def _same_size(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool((abs(one - other) <= SAME_SIZE * abs(other)).all())


def slot_matrix(rows: pd.DataFrame) -> str:
    """Which trained slot each served one is most like, the diagonal, and the trained slots that nothing is like.

    Args:
        rows: as `helpers.wiring.tables.slot_matrix_rows` gives.
    """
    from helpers.wiring.comparison import SAME

    cells = _rows(rows)
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
    end = "" if not lost else f". No served slot is trained slot {_listed(lost, 'or')}"
    return _sentence("; ".join(told)) + end + "."


def ladder(rows: pd.DataFrame) -> str:
    """The boundary at which each slot peaks on both sides, how far ahead, and the taps that no slot is fed any more.

    Args:
        rows: as `helpers.wiring.tables.ladder_rows` gives.
    """
    peaks: dict[tuple[str, int], int] = {}
    leads = []
    for (side, slot), part in rows.groupby(["side", "slot"]):
        key = (str(side), int(str(slot)))
        ranked = _rows(part.sort_values("cosine", ascending=False))
        peaks[key] = int(ranked[0]["boundary"])
        if len(ranked) > 1:
            lead = ranked[0]["cosine"] - ranked[1]["cosine"]
            leads.append((lead, f"{key[0]} slot {key[1]}: {lead:.3f} ahead of boundary {int(ranked[1]['boundary'])}"))
    if not peaks:
        return "The capture has no ladder."
    sides = {side: [b for (s, _), b in sorted(peaks.items()) if s == side] for side in ("served", "trained")}
    moved = [str(slot) for side, slot in sorted(peaks) if side == "served" and _moved(peaks, slot)]
    text = (
        f"Served slots peak at the boundaries {_listed(list(map(str, sides['served'])))}, trained ones at "
        f"{_listed(list(map(str, sides['trained'])))}: "
    )
    text += f"{_slots(moved)} peak{'s' if len(moved) == 1 else ''} elsewhere than in training" if moved else "the same"
    if lost := sorted(set(sides["trained"]) - set(sides["served"])):
        text += f"; no served slot peaks at {_listed([str(b) for b in lost], 'or')}"
    return text + (f". The closest race is {min(leads)[1]}." if leads else ".")


def _moved(peaks: dict[tuple[str, int], int], slot: int) -> bool:
    return ("trained", slot) in peaks and peaks[("trained", slot)] != peaks[("served", slot)]


def slot_costs(rows: pd.DataFrame) -> str:
    """What putting each slot right gives, what costs most, and the bars that are too short to be seen.

    Args:
        rows: as `helpers.wiring.tables.ablation_rows` gives.
    """
    cells = _rows(rows)
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
        told.append(
            f"Of the other changes, slot {worst['slot']} given {_GIVEN[worst['change']]} costs most: {_change(worst)}"
        )
    widest = max(max(abs(c["low"]), abs(c["high"])) for c in cells)
    if unseen := [c for c in cells if abs(c["difference"]) < 0.01 * widest]:
        parts = [f"slot {c['slot']} given {_GIVEN[c['change']]} ({_change(c)})" for c in unseen]
        told.append(f"Too short a bar to be seen: {'; '.join(parts)}")
    return ". ".join(told) + "."


_GIVEN = {
    "zeros": "zeros",
    "embedding": "the embedding",
    "earlier": "the boundary before",
    "later": "the boundary after",
    "right": "its trained tap",
}


def _change(row: dict[str, Any]) -> str:
    """``+24.0 points [+18.1, +30.7]``, and whether chance is excluded; or that nothing changed at all."""
    if not row["difference"] and row["low"] == row["high"]:
        return "no change in any request"
    text = f"{100 * row['difference']:+.1f} points [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
    return text if row["low"] > 0 or row["high"] < 0 else f"{text}, not beyond chance"


def prompts(rows: pd.DataFrame, *, first: str, second: str) -> str:
    """In how many prompts the second configuration is ahead, and by how much in the middle and at the ends.

    Args:
        rows: as `helpers.acceptance.tables.prompt_rows` gives.
    """
    if not len(rows):
        return f"{first} and {second} have no prompt in common."
    gains = (rows["second"] - rows["first"]).astype(float)
    ahead, equal = int((gains > 0).sum()), int((gains == 0).sum())
    behind = len(gains) - ahead - equal
    return (
        f"{second} is ahead of {first} in {ahead} of {len(gains)} prompts, equal in {equal} and behind in {behind}; "
        f"the gain is {gains.median():+.2f} tokens per verify step in the middle prompt, and {gains.min():+.2f} to "
        f"{gains.max():+.2f} over all."
    )


def forecast(rows: pd.DataFrame, *, baseline: float, num_steps: int, measured: Sequence[int]) -> str:
    """The speed at the number of draft steps that was served, and what the other points rest on.

    Args:
        rows: as `helpers.acceptance.tables.prediction_rows` gives.
        baseline: tokens/s without speculation. num_steps: as served. measured: the numbers of steps with a step time.
    """
    at = next(row for row in _rows(rows) if row["num_steps"] == num_steps)
    outcome = "pays" if at["low"] > baseline else "does not pay" if at["high"] < baseline else "may pay or not"
    text = (
        f"At {_steps(num_steps)}, as served, speculation {outcome}: {at['tokens_per_s']:.1f} tok/s "
        f"[{at['low']:.1f}, {at['high']:.1f}] against {baseline:.1f} without; it has {at['accept_length']:.2f} tokens "
        f"a verify step and needs {at['break_even']:.2f}."
    )
    if len(set(measured)) > 1:
        return f"{text} Step times were measured at {_listed([str(k) for k in sorted(set(measured))])} draft steps."
    return (
        f"{text} One number of draft steps was measured, so what a draft step costs is assumed: the other points show "
        "what that assumption gives, and which of them is best is not known."
    )


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _share(row: dict[str, Any]) -> str:
    return f"{row['survival']:.1%} [{row['low']:.1%}, {row['high']:.1%}]"


def _points(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def _steps(number: int) -> str:
    return f"{number} draft step{'' if number == 1 else 's'}"


def _slots(slots: list[str]) -> str:
    return f"slot {slots[0]}" if len(slots) == 1 else f"slots {_listed(slots)}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
