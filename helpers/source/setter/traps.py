"""What is wrong with ids: those that tap nothing, that fall together, that come out in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helpers.source.setter.values import Half, Place, Raised, Tap, Value


@dataclass(frozen=True)
class Reading:
    """One setter and one forward pass, read with given ids.

    Attributes:
        taps: in the order in which they are appended.
        listed: the list that the setter made.
        raises: where the engine itself would raise.
        promised: how many taps the engine insists on; not a number where it does not.
        reaches: whether the forward pass takes taps at all.
    """

    taps: tuple[Tap, ...]
    listed: tuple[int, ...]
    raises: tuple[Raised, ...]
    promised: Value
    evidence: tuple[Place, ...]
    assumes: tuple[str, ...]
    reaches: bool = True


@dataclass(frozen=True)
class Trap:
    """One coded trap.

    Codes: ``never-fires`` (an id for which no tap is taken), ``fails-at-layer`` (taking its tap raises: the server
    fails in its first forward pass), ``out-of-reach`` (no layer at which it could be taken), ``collapses`` (several
    ids, one tap), ``reordered`` (slots are in layer order, not in that of the ids), ``wraps-around`` (a negative id
    counted from the end), ``residual-omitted`` (the tap is a layer's own output), ``refused`` (the engine raises: too
    few taps, or the setter itself), ``no-ids`` (none tap the boundaries asked for), ``ids-ignored`` and ``aux-off``
    (of a drafter's config).
    """

    code: str
    summary: str
    ids: tuple[int, ...] = ()
    boundary: int | None = None
    place: Place | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"code": self.code, "ids": list(self.ids), "summary": self.summary}
        if self.boundary is not None:
            found["boundary"] = self.boundary
        if self.place is not None:
            found["evidence"] = [{"file": self.place.file, "line": self.place.line, "text": self.place.text}]
        return found


def find_traps(ids: tuple[int, ...], defaults: bool, reading: Reading, num_layers: int) -> tuple[Trap, ...]:
    """Traps of ids, or of the engine's defaults: there `ids` are the boundaries that it lists."""
    taps, raises, promised = reading.taps, reading.raises, reading.promised
    fired = [origins(tap, ids, defaults) for tap in taps]
    traps: list[Trap] = []
    if not ids and not raises:
        traps.append(Trap("never-fires", "the list of ids is empty: nothing is tapped"))
    for error in raises:
        if not error.origins:
            text = f"the engine itself raises {error} at {error.place}"
            traps.append(Trap("refused", text, ids, place=error.place))
    refused = any(not error.origins for error in raises)
    if not refused or taps:
        missing = [k for k in range(len(ids)) if not any(k in which for which in fired)]
        traps += [silent(k, ids, reading, num_layers, defaults) for k in missing]
    for tap, which in zip(taps, fired, strict=True):
        values = tuple(ids[k] for k in sorted(which))
        b = tap.value.boundary
        if len(which) > 1:
            text = f"the ids {list(values)} all tap boundary {b}: one slot, not {len(which)}"
            traps.append(Trap("collapses", text, values, b, tap.place))
        if any(v < 0 for v in values) and b > 0 and not defaults:
            text = f"a negative id counts from the last layer: {list(values)} taps boundary {b}"
            traps.append(Trap("wraps-around", text, values, b, tap.place))
        if isinstance(tap.value, Half):
            text = f"the tap at boundary {b} is the {tap.value.part} alone: its other term is not added"
            traps.append(Trap("residual-omitted", text, values, b, tap.place))
    order = [min(which) for which in fired if which]
    if order != sorted(order):
        inorder = tuple(ids[k] for k in order)
        text = f"taps are taken in the order of the layers: the slots hold {list(inorder)}, not {list(ids)}"
        traps.append(Trap("reordered", text, inorder))
    if isinstance(promised, int) and taps and promised != len(taps):
        text = f"the engine expects {promised} taps, gets {len(taps)}, and raises in the first forward pass"
        traps.append(Trap("refused", text, ids, place=taps[-1].place))
    return tuple(traps)


def origins(tap: Tap, ids: tuple[int, ...], defaults: bool) -> frozenset[int]:
    """Which of the ids asked for a tap."""
    if defaults:
        return frozenset(k for k, v in enumerate(ids) if v == tap.value.boundary)
    return frozenset(tap.origins)


def silent(k: int, ids: tuple[int, ...], reading: Reading, num_layers: int, defaults: bool) -> Trap:
    """The trap of an id that taps nothing, or at which the forward pass ends."""
    value, name = ids[k], "default" if defaults else "id"
    # Of several branches the last: the first one is what a launch argument would have to ask for.
    error = next((e for e in reversed(reading.raises) if k in e.origins), None)
    if error is not None and error.layer is not None:
        why = ", where there is no residual yet" if error.layer == 0 and "NoneType" in error.message else ""
        text = f"the {name} {value}: the server fails in its first forward pass, at layer {error.layer}{why}"
        text += f" ({error.kind}, {error.message} at {error.place})"
        return Trap("fails-at-layer", text, (value,), place=error.place)
    beyond = value >= 0 and reading.reaches and (error is None or error.kind == "IndexError")
    why = ": no tap is taken there"
    if error is not None:
        why = f": {error.kind}, {error.message} at {error.place}"
    elif not reading.reaches:
        why = ": the forward pass of this model takes no taps"
    elif beyond:
        why = f": it is beyond the last boundary that a model of {num_layers} layers taps"
    text = f"the {name} {value} taps nothing{why}"
    return Trap("out-of-reach" if beyond else "never-fires", text, (value,), place=error.place if error else None)
