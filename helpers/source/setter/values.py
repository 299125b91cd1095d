"""What the reader knows of a value in the engine's code: exactly, as a part of the residual stream, or not at all.

The reader never runs the engine: it walks the syntax tree with these in place of numbers, modules and tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.source.setter.tree import Module

# A value of the engine's code: a plain Python value (int, str, None, tuple, dict, range) or one of the classes below.
Value = Any
Origins = frozenset[int]
UNKNOWN = "its value is not known from the source"


@dataclass(frozen=True)
class Place:
    """A line of the source: file as found under the checkout, line from 1, the text without indentation."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Unread(Exception):
    """The reader stopped: what this line does to the wiring is not known for sure."""

    def __init__(self, place: Place | None, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class Raised(Exception):
    """The engine's own code would raise here; ``layer``: ahead of which, where it is the forward pass for an id."""

    def __init__(
        self, kind: str, message: str, place: Place, origins: Origins = frozenset(), layer: int | None = None
    ) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.place = place
        self.origins = origins
        self.layer = layer


class Id(int):
    """An integer that came from the given layer ids: `origins` are their positions in the list as given."""

    origins: Origins

    def __new__(cls, value: int, origins: Origins) -> Id:
        made = super().__new__(cls, value)
        made.origins = origins
        return made


def origins_of(*values: Value) -> Origins:
    """Positions of the ids from which these values came."""
    found: Origins = frozenset()
    for value in values:
        if isinstance(value, Id | Flag):
            found |= value.origins
    return found


@dataclass(frozen=True)
class Flag:
    """A truth that was found in the ids, such as `-1 in layer_ids`, or that marks a layer."""

    value: bool
    origins: Origins


@dataclass(frozen=True)
class Unknown:
    """Anything else. `place` and `reason`: where and why the reader lost sight of it; `path`: how the code names it."""

    reason: str = UNKNOWN
    place: Place | None = None
    path: str = ""
    # The engine would have raised: nothing comes of it.
    failed: bool = False


@dataclass(frozen=True)
class Tokens:
    """The token ids of a forward pass: what they are embedded into is boundary 0."""


@dataclass(frozen=True)
class Whole:
    """The whole residual stream at a boundary, [tokens, hidden]."""

    boundary: int


@dataclass(frozen=True)
class Half:
    """One of the two terms of a boundary: a layer's `output` or the `residual` still to be added to it."""

    boundary: int
    part: str


@dataclass(frozen=True)
class Owed:
    """A layer's output whose residual the engine keeps on the batch (0.5.23's `residual_batch`)."""

    boundary: int


Stream = Whole | Half | Owed


@dataclass(frozen=True)
class Tap:
    """One tensor appended to the list of hidden states: what, where (on the other sides of branches `also`), and which
    ids asked for it."""

    value: Value
    place: Place
    origins: Origins
    also: tuple[Place, ...] = ()


@dataclass(eq=False)
class ListValue:
    """A list or a set. Its content lies in `cell`, so that the trail can undo and join what branches do to it.

    ``cell["items"]``: a tuple, or Unknown; ``cell["ordered"]``: False where the order is a set's.
    """

    cell: dict[str, Value]
    site: ast.AST | None = None
    is_set: bool = False
    # A collector of hidden states (0.5.23's classes): refuses to be short of `promised` taps where that is a number.
    promised: Value = None

    @property
    def items(self) -> tuple[Value, ...] | Unknown:
        held: tuple[Value, ...] | Unknown = self.cell["items"]
        return held

    @property
    def ordered(self) -> bool:
        return bool(self.cell["ordered"])


def new_list(
    items: tuple[Value, ...] | Unknown,
    *,
    ordered: bool = True,
    site: ast.AST | None = None,
    is_set: bool = False,
    promised: Value = None,
) -> ListValue:
    return ListValue({"items": items, "ordered": ordered}, site, is_set, promised)


@dataclass(frozen=True)
class ClassRef:
    """A class of the source."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class ModuleRef:
    """A module of the source, as a value."""

    module: Module


@dataclass(eq=False)
class Obj:
    """An instance of a class of the source; its `__init__` is read when first needed.

    ``classes`` has several members where the config decides among them (layer types of hybrid models).
    """

    classes: tuple[ClassRef, ...]
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    site: ast.AST | None = None
    layer: int | None = None
    attrs: dict[str, Value] = field(default_factory=dict)

    @property
    def cls(self) -> ClassRef:
        return self.classes[0]


@dataclass(frozen=True)
class Choice:
    """One of several values: the config or the launch decides which."""

    options: tuple[Value, ...]


@dataclass(eq=False)
class Frame:
    """One call being read: names, enclosing function, the class and object that it belongs to."""

    module: Module
    env: dict[str, Value]
    role: str
    outer: Frame | None = None
    owner: ClassRef | None = None
    this: Value = None

    def lookup(self, name: str) -> tuple[bool, Value]:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.env:
                return True, frame.env[name]
            frame = frame.outer
        return False, None


@dataclass(frozen=True)
class Function:
    """A function or lambda of the source, with the class and the frame in which it was defined."""

    module: Module
    node: ast.FunctionDef | ast.Lambda
    owner: ClassRef | None = None
    closure: Frame | None = None

    @property
    def name(self) -> str:
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "<lambda>"


@dataclass(frozen=True)
class Bound:
    """A method with its object."""

    function: Function
    this: Value


@dataclass(frozen=True)
class Native:
    """A built-in function, or a method of a built-in value or tensor."""

    name: str
    this: Value = None


@dataclass(frozen=True)
class Super:
    """`super()` within a method of `owner`."""

    this: Value
    owner: ClassRef


def dotted(node: ast.AST) -> str:
    """`self.model.layers` as text, calls as `()`; empty for what has no such name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{dotted(node.func)}()"
    if isinstance(node, ast.Subscript):
        return f"{dotted(node.value)}[]"
    return ""


def names_in(node: ast.AST) -> Iterator[str]:
    """Names that a piece of code mentions."""
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
