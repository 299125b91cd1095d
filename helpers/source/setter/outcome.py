"""What a setter leaves behind, and what a forward pass returns: the list of ids, the list of taps."""

from __future__ import annotations

from helpers.errors import UsageError
from helpers.source.setter.engine import Engine
from helpers.source.setter.values import ClassRef, ListValue, Obj, Place, Unknown, Unread, Value

SETTER = "set_eagle3_layers_to_capture"


def owner_of(machine: Engine, place: Place, cls: ClassRef) -> tuple[Obj, tuple[int, ...]]:
    """The module on which the setter put the ids, and the list that it put there."""
    owners = machine.written["owners"]
    if not isinstance(owners, tuple):
        raise Unread(owners.place or place, owners.reason)
    distinct = list(dict.fromkeys(owners))
    if not distinct:
        raise UsageError(
            "WB-SETTER-MISSING",
            f"{SETTER} of {cls.name} ({place}) sets nothing: what it hands the ids to has no setter",
            expected="a list of layers set on the language model",
            next=f"read it: {place}",
        )
    if len(distinct) > 1:
        raise Unread(place, "the ids are set on several modules")
    owner: Obj = distinct[0]
    lists = [v for k, v in owner.attrs.items() if "capture" in k and isinstance(v, ListValue | Unknown)]
    for held in lists:
        content = held if isinstance(held, Unknown) else held.items
        if isinstance(content, Unknown):
            raise Unread(content.place or place, content.reason)
    members = [tuple(v.items) for v in lists if isinstance(v, ListValue) and isinstance(v.items, tuple)]
    numbers = next((m for m in members if m), ())
    for number in numbers:
        if not isinstance(number, int):
            where = number.place if isinstance(number, Unknown) else None
            raise Unread(where or place, "the list that the setter makes is not known")
    return owner, tuple(numbers)


def collector(result: Value, place: Place) -> ListValue | None:
    """The list of hidden states among what a forward pass returns; None where it returns none."""
    if isinstance(result, ListValue):
        return result
    if isinstance(result, tuple):
        lists = [v for v in result if isinstance(v, ListValue)]
        if lists:
            return lists[0]
        if all(v is None for v in result[1:]):
            return None
        raise Unread(place, "what the forward pass returns beside its result is no list that is read")
    if isinstance(result, Unknown) and "branch" in result.reason:
        raise Unread(result.place or place, "what the forward pass returns is not known")
    return None
