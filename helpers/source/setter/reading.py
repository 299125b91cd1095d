"""Reads a model file: which boundaries its ids tap, in which order, and the lines that prove it.

The setter is read with the ids at hand, then the forward pass of the module that it set them on, layer by layer. What
hangs on anything but the ids, the number of layers and plain text in one pipeline stage is not decided here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from helpers.errors import UsageError
from helpers.source.setter import classes
from helpers.source.setter.engine import Engine
from helpers.source.setter.outcome import SETTER, collector, owner_of
from helpers.source.setter.traps import Reading, Trap, find_traps
from helpers.source.setter.tree import Module, SourceTree
from helpers.source.setter.values import (
    ClassRef,
    Frame,
    Half,
    Id,
    Obj,
    Place,
    Raised,
    Tap,
    Tokens,
    Unknown,
    Unread,
    Value,
    Whole,
    new_list,
)

# Arguments of a forward pass that plain text in one stage does not have.
ABSENT = ("input_embeds", "inputs_embeds", "pp_proxy_tensors", "input_deepstack_embeds")


@dataclass(frozen=True)
class Resolution:
    """What ids tap in one model of one source.

    Attributes:
        ids: as given; the engine's own list where none were given (`defaults`).
        boundaries: in tap order.
        rule: the rule in words, for these ids.
        evidence: lines that prove the rule and the taps.
        traps: what is wrong with these ids; empty where each taps one boundary, in its order.
        assumes: what of the launch was taken for granted.
        differing: classes of the same file that inherit another rule; name them by `architecture`.
    """

    model: str
    architecture: str
    num_layers: int
    ids: tuple[int, ...]
    defaults: bool
    boundaries: tuple[int, ...]
    rule: str
    evidence: tuple[Place, ...]
    traps: tuple[Trap, ...]
    assumes: tuple[str, ...]
    differing: tuple[str, ...] = ()


def resolve(
    tree: SourceTree, model: str, ids: Sequence[int] | None, num_layers: int, *, architecture: str | None = None
) -> Resolution:
    """Which boundaries the ids tap in a model; without ids, the engine's defaults.

    Args:
        tree: the engine's source.
        model: the model file's stem, such as ``deepseek_v2``.
        ids: layer ids as the drafter's config has them.
        num_layers: the target's number of layers.
        architecture: the class, where the file serves several with rules that differ.

    Raises:
        UsageError: ``WB-SETTER-MISSING`` where the model has no setter, ``WB-SETTER-UNREAD`` with the line where the
            reading stopped.
    """
    if num_layers < 1:
        raise UsageError(
            "WB-USAGE", f"a model of {num_layers} layers", expected="1 layer or more", next="num_hidden_layers"
        )
    try:
        module = tree.model(model)
        found: list[tuple[ClassRef, Reading]] = []
        for each in served_classes(module, architecture):
            if not any(classes.adds_nothing(each, known) for known, _ in found):
                found.append((each, read_reaching(each, ids, num_layers)))
    except Unread as error:
        raise unread(error, model) from error
    except RecursionError as error:
        raise unread(Unread(None, "its code is nested too deeply"), model) from error
    cls, first = found[0]
    differing = []
    for other, result in found[1:]:
        if [t.value for t in result.taps] != [t.value for t in first.taps]:
            if own_setter(other) == own_setter(cls):
                place = other.module.at(other.node.lineno)
                raise unread(Unread(place, f"{cls.name} and {other.name} of this file differ: name one"), model)
            differing.append(other.name)
    return conclude(model, cls.name, ids, num_layers, first, tuple(differing))


def served_classes(module: Module, architecture: str | None = None) -> list[ClassRef]:
    """The classes that the file offers as models (`EntryClass`) and that have a setter.

    Raises:
        UsageError: ``WB-SETTER-MISSING``.
        Unread: a setter could be inherited from outside this source.
    """
    entries = list(entry_classes(module))
    if architecture is not None:
        entries = [c for c in entries if c.name == architecture]
    having = sorted((c for c in entries if classes.method(c, SETTER) is not None), key=lambda c: not own_setter(c))
    if having:
        return having
    for cls in entries:
        for foreign in classes.foreign_bases(cls):
            raise Unread(module.at(cls.node.lineno), f"{foreign} is outside this source, and may bring a setter")
    names = ", ".join(c.name for c in entries) or architecture or "no class"
    raise UsageError(
        "WB-SETTER-MISSING",
        f"{module.file} ({names}) has no {SETTER}: this engine cannot serve it with EAGLE-3",
        expected=f"a class with {SETTER}, its own or inherited",
        next="another version of the engine, or a patch that hands the setter through (remote/patches/)",
    )


def own_setter(cls: ClassRef) -> bool:
    """Whether the setter that a class has stands in the class's own file."""
    setter = classes.method(cls, SETTER)
    return setter is not None and setter.module is cls.module


def entry_classes(module: Module) -> Iterator[ClassRef]:
    """`EntryClass` of the file; without one, its classes named `...For...`."""
    if "EntryClass" in module.bindings:
        value = module.resolve("EntryClass")
        nodes = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        for node in nodes:
            held = module.resolve(node.id) if isinstance(node, ast.Name) and node.id in module.bindings else None
            if not isinstance(held, ClassRef):
                raise Unread(module.at(getattr(value, "lineno", 1)), "the classes of EntryClass are not known")
            yield held
    else:
        for stmt in module.node.body:
            if isinstance(stmt, ast.ClassDef) and "For" in stmt.name:
                yield ClassRef(module, stmt)


def read_reaching(cls: ClassRef, ids: Sequence[int] | None, num_layers: int) -> Reading:
    """Reads one class; where nothing is tapped, also whether anything ever is."""
    reading = read_class(cls, ids, num_layers)
    if reading.taps or ids is None:
        return reading
    return replace(reading, reaches=bool(read_class(cls, None, num_layers).taps))


def read_class(cls: ClassRef, ids: Sequence[int] | None, num_layers: int) -> Reading:
    """Reads one class with these ids; ids at which the setter itself raises are left out, and kept as raised."""
    raises: list[Raised] = []
    left = list(enumerate(ids)) if ids is not None else None
    while True:
        try:
            reading = read_once(cls, left, num_layers)
        except Raised as error:
            raises.append(error)
            if left is None or not error.origins:
                evidence = (cls.module.at(cls.node.lineno), error.place)
                return Reading((), (), tuple(raises), None, evidence, ())
            left = [(k, v) for k, v in left if k not in error.origins]
            continue
        return replace(reading, raises=(*raises, *reading.raises))


def read_once(cls: ClassRef, ids: list[tuple[int, int]] | None, num_layers: int) -> Reading:
    machine = Engine(num_layers)
    this = Obj((cls,), kwargs={"config": Unknown(path="config")})
    setter = classes.method(cls, SETTER)
    assert setter is not None
    given = None if ids is None else new_list(tuple(Id(v, frozenset({k})) for k, v in ids))
    outside = Frame(cls.module, {}, "setter", None, cls, this)
    machine.enter(setter, [this, given], {}, setter.node, outside, this=this, role="setter")
    owner, listed = owner_of(machine, setter.module.at(setter.node.lineno), cls)
    forward = classes.method(owner.cls, "forward")
    if forward is None:
        raise Unread(owner.cls.module.at(owner.cls.node.lineno), f"{owner.cls.name} has no forward in this source")
    spec = forward.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)][1:]
    arguments: dict[str, Value] = {name: None for name in names if name in ABSENT}
    arguments |= {name: Tokens() for name in names if name == "input_ids"}
    inside = Frame(forward.module, {}, "forward", None, forward.owner, owner)
    machine.looked.clear()
    result = machine.enter(forward, [owner], arguments, forward.node, inside, this=owner, role="forward")
    # Where no mark and no list of the setter's is looked at, what it returns is its own (a drafter's state).
    looked = any("capture" in name for name in machine.looked)
    sink = collector(result, forward.module.at(forward.node.lineno)) if looked else None
    taps: tuple[Tap, ...] = ()
    if sink is None:
        machine.evidence.setdefault(forward.module.at(forward.node.lineno))
    if sink is not None:
        machine.items(sink, forward.node, inside)  # Unread where the list is not known.
        taps = tuple(t for t in machine.raw(sink) if not has_failed(t))
    for tap in taps:
        if not isinstance(tap, Tap) or not isinstance(tap.value, Whole | Half):
            raise Unread(getattr(tap, "place", None), "what is appended here is not known to be a boundary")
    return Reading(
        taps,
        listed,
        tuple(machine.raised.values()),
        sink.promised if sink is not None else None,
        tuple(dict.fromkeys((*machine.evidence, *(p for tap in taps for p in (tap.place, *tap.also))))),
        tuple(machine.assumed),
    )


def has_failed(tap: Value) -> bool:
    """A tap at which the engine would have raised; `raised` of the machine says so."""
    return isinstance(tap, Tap) and isinstance(tap.value, Unknown) and tap.value.failed


def conclude(
    model: str,
    architecture: str,
    ids: Sequence[int] | None,
    num_layers: int,
    reading: Reading,
    differing: tuple[str, ...],
) -> Resolution:
    """The reading in terms of the ids."""
    boundaries = tuple(tap.value.boundary for tap in reading.taps)
    shown = tuple(int(i) for i in (ids if ids is not None else reading.listed))
    traps = find_traps(shown, ids is None, reading, num_layers)
    pairs = [(shown[k], tap.value.boundary) for tap in reading.taps for k in sorted(tap.origins)]
    return Resolution(
        model,
        architecture,
        num_layers,
        shown,
        ids is None,
        boundaries,
        rule_of(pairs, ids is None, num_layers),
        reading.evidence,
        traps,
        reading.assumes,
        differing,
    )


def rule_of(pairs: list[tuple[int, int]], defaults: bool, num_layers: int) -> str:
    """The rule in words, as these ids show it."""
    if defaults:
        return f"no ids: the engine's own choice for {num_layers} layers"
    offsets = {b - i for i, b in pairs}
    if not pairs:
        return "none of these ids taps anything"
    if len(offsets) == 1:
        offset = offsets.pop()
        return "boundary = id" if offset == 0 else f"boundary = id {'+' if offset > 0 else '-'} {abs(offset)}"
    return ", ".join(f"id {i} -> boundary {b}" for i, b in pairs)


def unread(error: Unread, model: str) -> UsageError:
    """The error of a source that cannot be read for sure."""
    place = error.place
    return UsageError(
        "WB-SETTER-UNREAD",
        f"how {model} reads layer ids is not known for sure: {error.reason}"
        + (f"; stopped at {place}" if place else ""),
        expected="a rule that the source alone decides",
        next=f"read it: workbook show BOX {place.file} {place.line}:{place.line + 20}" if place else "read the file",
        lines=[f"{place}: {place.text}"] if place else [],
    )
