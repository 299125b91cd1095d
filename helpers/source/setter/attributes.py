"""Names and attributes: of modules, classes, objects, and of what the config and the launch would have set."""

from __future__ import annotations

import ast
from abc import abstractmethod

from helpers.source.setter import classes
from helpers.source.setter.base import Base
from helpers.source.setter.trail import Trail
from helpers.source.setter.values import (
    UNKNOWN,
    Bound,
    Choice,
    ClassRef,
    Flag,
    Frame,
    Function,
    Half,
    ListValue,
    ModuleRef,
    Native,
    Obj,
    Owed,
    Raised,
    Super,
    Unknown,
    Value,
    Whole,
)

SIZES = ("len", "range", "sum", "min", "max", "abs", "int", "bool")
CONTAINERS = ("list", "tuple", "set", "frozenset", "dict", "str", "iter", "sorted", "reversed", "enumerate", "zip")
BUILTINS = {*SIZES, *CONTAINERS, "any", "all", "isinstance", "hasattr", "getattr", "setattr", "super", "print"}
# What the reading takes for granted of a launch; named in its result.
ONE_STAGE = "one pipeline stage (--pp-size 1)"
NO_TBO = "no two-batch overlap"
GRANTED = {
    "is_last_rank": (True, ONE_STAGE),
    "is_first_rank": (True, ONE_STAGE),
    "can_run_tbo": (False, NO_TBO),
}
READY = "\0ready"


class Attributes(Base):
    """Reading and writing of names and attributes."""

    @abstractmethod
    def value(self, node: ast.expr, frame: Frame) -> Value: ...

    @abstractmethod
    def invoke(
        self, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> Value:
        """The value of calling a function with values."""

    @abstractmethod
    def initialise(self, this: Obj, cls: ClassRef) -> None:
        """Reads `__init__` into an object's attributes."""

    def name(self, node: ast.Name, frame: Frame) -> Value:
        found, value = frame.lookup(node.id)
        if found:
            return value
        if node.id in frame.module.bindings:
            return self.module_value(frame.module.resolve(node.id), ModuleRef(frame.module))
        if node.id in BUILTINS:
            return Native(node.id)
        return Unknown(f"{node.id} is not known", self.place(node, frame), node.id)

    def module_value(self, resolved: Value, module: ModuleRef) -> Value:
        """A top-level name's value: constants, and tables of classes, are valued; calls are not made."""
        if not isinstance(resolved, ast.expr):
            return resolved
        calls = any(isinstance(n, ast.Call) for n in ast.walk(resolved))
        if calls:
            return Unknown(f"{ast.unparse(resolved)[:60]} is not known", module.module.at(resolved.lineno))
        return self.value(resolved, Frame(module.module, {}, "module"))

    def attribute(self, held: Value, name: str, node: ast.expr, frame: Frame) -> Value:
        """`held.name`."""
        if isinstance(held, Choice):
            # None has no attributes, so it is not the one that is meant.
            options = [o for o in held.options if o is not None]
            if len(options) == 1:
                return self.attribute(options[0], name, node, frame)
        if isinstance(held, Obj):
            return self.of_object(held, name, node, frame)
        if isinstance(held, Super):
            return self.of_super(held, name)
        if isinstance(held, ClassRef):
            return self.of_class(held, name, held)
        if isinstance(held, ModuleRef):
            if name in held.module.bindings:
                return self.module_value(held.module.resolve(name), held)
            module = held.module.tree.module(f"{held.module.name}.{name}")
            return ModuleRef(module) if module else Unknown(path=f"{held.module.name}.{name}")
        if isinstance(held, ListValue | Whole | Half | Owed | dict | str):
            return Native(name, held)
        if held is None:
            raise Raised("AttributeError", f"'NoneType' object has no attribute '{name}'", self.place(node, frame))
        return self.granted(held, name, node, frame)

    def granted(self, held: Value, name: str, node: ast.expr, frame: Frame) -> Value:
        """An attribute of something outside the source: the launch, the config."""
        path = f"{held.path if isinstance(held, Unknown) else ''}.{name}"
        if name in GRANTED:
            value, assumption = GRANTED[name]
            self.assume(assumption)
            return value
        if name == "num_hidden_layers" and is_text(path):
            return self.num_layers
        return Unknown(UNKNOWN, self.place(node, frame), path)

    def of_object(self, held: Obj, name: str, node: ast.expr, frame: Frame) -> Value:
        self.looked.add(name)
        if name in held.attrs:
            return held.attrs[name]
        method = classes.method(held.cls, name)
        if method is not None and not classes.is_property(method):
            return method if classes.is_static(method) else Bound(method, held)
        self.ready(held)
        if name in held.attrs:
            return held.attrs[name]
        if method is not None:
            return self.invoke(Bound(method, held), [], {}, node, frame)
        at_class = classes.class_attribute(held.cls, name)
        if at_class is not None:
            return self.value(at_class[1], Frame(at_class[0].module, {}, "module"))
        return self.granted(Unknown(path=held.cls.name), name, node, frame)

    def ready(self, held: Obj) -> None:
        """Sees to it that `__init__` has been read.

        It depends on the arguments alone, so it is not undone with the branch in which it was first needed.
        """
        if READY in held.attrs:
            return
        held.attrs[READY] = True
        outside, state = self.trail, dict(self.state)
        self.trail = Trail()
        try:
            self.initialise(held, held.cls)
        finally:
            self.trail = outside
            self.state.clear()
            self.state.update(state)

    def of_super(self, held: Super, name: str) -> Value:
        cls = held.this.cls if isinstance(held.this, Obj) else held.owner
        method = classes.method(cls, name, after=held.owner)
        return Bound(method, held.this) if method is not None else Unknown(path=f"super().{name}")

    def of_class(self, held: ClassRef, name: str, this: Value) -> Value:
        method = classes.method(held, name)
        if method is not None:
            return method if classes.is_static(method) else Bound(method, this)
        at_class = classes.class_attribute(held, name)
        if at_class is not None:
            return self.value(at_class[1], Frame(at_class[0].module, {}, "module"))
        return Unknown(path=f"{held.name}.{name}")

    def has_attribute(self, held: Value, name: str) -> bool | None:
        """`hasattr`; None where the source does not say."""
        if isinstance(held, Choice):
            options = [o for o in held.options if o is not None]
            return self.has_attribute(options[0], name) if len(options) == 1 else None
        if not isinstance(held, Obj):
            return False if held is None else None
        if name in held.attrs or classes.method(held.cls, name) or classes.class_attribute(held.cls, name):
            return True
        if any(classes.foreign_bases(held.cls)):
            return None
        if not any(classes.sets_attribute(c, name) for c in held.classes):
            return False
        self.ready(held)
        return name in held.attrs or None

    def set_attribute(self, held: Value, name: str, value: Value, node: ast.AST, frame: Frame) -> None:
        """`held.name = value`; in a setter, remembers whose list or mark it was."""
        if isinstance(held, Choice):
            options = [o for o in held.options if o is not None]
            if len(options) == 1:
                held = options[0]
        if not isinstance(held, Obj):
            if frame.role == "setter":
                raise self.lost(held, node, frame)
            if name == "num_hidden_layers" and isinstance(held, Unknown) and is_text(held.path):
                # A drafter made of one layer says so in the config that it was given.
                self.num_layers = value
            return
        self.ready(held)
        if frame.role == "setter":
            if held.layer is not None:
                # A mark on a layer, such as setattr(self.layers[i], "_is_layer_to_capture", True).
                old = held.attrs.get(name)
                before = old.origins if isinstance(old, Flag) else frozenset()
                if isinstance(value, bool):
                    value = Flag(value, before | self.state["indexed"])
                self.prove(node, frame)
            elif isinstance(value, ListValue | Flag | Unknown):
                self.trail.write(self.written, "owners", (*self.written["owners"], held))
                self.prove(node, frame)
        self.trail.write(held.attrs, name, value)

    def called_function(self, held: Value) -> Function | None:
        """The function of the source behind a value that can be called."""
        return held.function if isinstance(held, Bound) else held if isinstance(held, Function) else None


def is_text(path: str) -> bool:
    """Whether a config, as the code names it, is the language model's."""
    return not any(word in path for word in ("vision", "visual", "audio"))
