"""What the engine's library does to layers and the stream, for the few of its functions that are not read line by line.

Each is known by its name and, where it has one, by the file that defines it; its line there is kept as evidence. A
function of another name is read like any other code.
"""

from __future__ import annotations

import ast

from helpers.source.setter.layers import Layers
from helpers.source.setter.tree import Module
from helpers.source.setter.values import (
    Bound,
    Frame,
    Function,
    Half,
    ListValue,
    Obj,
    Owed,
    Place,
    Tap,
    Unknown,
    Unread,
    Value,
    Whole,
    dotted,
    new_list,
)

LAYER_MAKERS = ("make_layers", "make_layers_non_pp", "make_pp_layers")
# What the reading takes for granted of a launch, asked by a call.
GRANTED_CALLS = {
    "nsa_use_prefill_cp": (False, "no context-parallel prefill"),
    "dsa_use_prefill_cp": (False, "no context-parallel prefill"),
    "is_idle": (False, "a batch that is not idle"),
}
# Gathers and reduces over ranks: the same boundary, of all tokens or with all terms.
COLLECTIVES = ("all_gather", "tensor_model_parallel_all_gather", "tensor_model_parallel_all_reduce", "all_reduce")
RESIDUAL_BATCH = "layer_boundary/residual/batch.py"
STAGE = "sglang.srt.layers.layer_boundary.stage"
COLLECTORS = ("AuxHiddenStateList", "AuxHiddenStatePacker", "AuxHiddenStateAccumulator")


class Engine(Layers):
    """The reader with the engine's own operations."""

    def engine(
        self, name: str, function: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> tuple[bool, Value]:
        if name in GRANTED_CALLS:
            answer, assumption = GRANTED_CALLS[name]
            self.assume(assumption)
            return True, answer
        if name in LAYER_MAKERS and not isinstance(function, Obj):
            return True, self.make_layers(name, args, kwargs, node, frame)
        if name == "ModuleList" and args:
            return True, self.number_layers(args[0], node, frame)
        text = dotted(node.func) if isinstance(node, ast.Call) else ""
        if any(part in COLLECTORS for part in text.split(".")):
            promised = args[-1] if "Packer" in text and args else None
            return True, new_list((), site=node, promised=promised)
        if isinstance(function, Obj) and function.layer is not None:
            return True, self.layer_call(function, args, kwargs, node, frame)
        first = args[0] if args else kwargs.get("hidden_states")
        if name in COLLECTIVES and isinstance(first, Whole):
            return True, first
        source = self.called_function(function)
        if source is not None and source.module.file.endswith(RESIDUAL_BATCH):
            return self.residual_batch(source, args, kwargs, node, frame)
        if name == "prepare" and any(k.startswith("capture") for k in kwargs):
            return True, self.boundary_prepare(text, first, kwargs, node, frame)
        if name == "prepare_attn" and isinstance(function, Bound):
            return self.prepare_attention(function, args, kwargs, node, frame)
        if name == "_communicate_simple_fn" and isinstance(first, Whole | Half | Owed):
            return True, first
        return False, None

    def make_layers(self, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        """The layers, and with a pipeline rank also the range of this stage, which is all of them."""
        count = args[0] if args else kwargs.get("num_hidden_layers")
        make = args[1] if len(args) > 1 else kwargs.get("layer_fn")
        if not isinstance(count, int):
            raise Unread(self.place(node, frame), "how many layers are made is not known")
        made = []
        for i in range(count):
            parameters = self.parameters(make)
            given = {"idx": i, "layer_id": i, "prefix": Unknown(path="prefix")}
            known = {k: v for k, v in given.items() if k in parameters}
            positional = [] if known else [i, Unknown(path="prefix")]
            made.append(self.invoke(make, positional, known, node, frame))
        layers = self.number_layers(new_list(tuple(made), site=node), node, frame)
        return (layers, 0, count) if name == "make_pp_layers" or "pp_rank" in kwargs else layers

    def parameters(self, function: Value) -> list[str]:
        source = self.called_function(function)
        return [a.arg for a in source.node.args.args] if source is not None else []

    def number_layers(self, held: Value, node: ast.AST, frame: Frame) -> Value:
        """A module list; its members become layers, each with its index."""
        if not isinstance(held, ListValue):
            return held
        layers: list[Value] = []
        for i, member in enumerate(self.items(held, node, frame)):
            kinds = member.classes if isinstance(member, Obj) else self.layer_classes(member)
            if not kinds:
                lost = Unknown("the class of its layers is not known", self.place(node, frame))
                layers.append(member if isinstance(member, Unknown) else lost)
                continue
            args, kwargs = (member.args, member.kwargs) if isinstance(member, Obj) else ((), {})
            layers.append(Obj(kinds, args, kwargs, site=node, layer=i))
        return new_list(tuple(layers), site=node)

    def residual_batch(
        self, source: Function, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> tuple[bool, Value]:
        """0.5.23 keeps the residual on the batch: `hidden_states` alone is only what a layer owes."""
        held = args[0] if args else kwargs.get("hidden_states")
        where = source.module.at(source.node.lineno)
        if source.name == "start":
            self.trail.write(self.state, "batch", True)
            return True, None
        if isinstance(held, Whole | Owed):
            if source.name == "snapshot":
                self.evidence.setdefault(where)
                return True, Whole(held.boundary)
            if source.name in ("complete_output", "add_to_output", "fold"):
                return True, Owed(held.boundary)
            if source.name == "final_norm":
                sink = kwargs.get("capture") or (args[3] if len(args) > 3 else None)
                self.hand_over(sink, Whole(held.boundary), where, node, frame)
                return True, Unknown("after the final norm", self.place(node, frame))
        return True, Unknown(f"{source.name} of {RESIDUAL_BATCH}", self.place(node, frame))

    def boundary_prepare(self, text: str, held: Value, kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
        """`attn_boundary.prepare(hidden_states, forward_batch, capture=...)`: hands over the stream that enters."""
        sinks = [v for k, v in kwargs.items() if k in ("capture", "capture_gathered") and v is not None]
        if sinks and (not text.endswith("attn_boundary.prepare") or not isinstance(held, Whole | Owed)):
            raise Unread(self.place(node, frame), "what is handed over as the captured value is not known")
        stage = frame.module.tree.module(STAGE)
        for key in ("capture", "capture_gathered"):
            sink = kwargs.get(key)
            if sink is not None:
                where = self.line_of(stage, "_prepare_attention", key)
                if where is None:
                    raise Unread(self.place(node, frame), f"no {key} is found in {STAGE}")
                self.hand_over(sink, Whole(held.boundary), where, node, frame)
        return Unknown("the input of attention", self.place(node, frame))

    def line_of(self, module: Module | None, function: str, key: str) -> Place | None:
        """The line in which a library function hands over the captured value: it calls `key`, or `key.capture`."""
        if module is None:
            return None
        for found in ast.walk(module.node):
            if isinstance(found, ast.FunctionDef) and found.name == function:
                calls = [c for c in ast.walk(found) if isinstance(c, ast.Call)]
                lines = [c.lineno for c in calls if dotted(c.func) in (key, f"{key}.capture", f"{key}.append")]
                return module.at(max(lines)) if lines else None
        return None

    def hand_over(self, sink: Value, value: Value, where: Place, node: ast.AST, frame: Frame) -> None:
        """Gives a tap to whatever collects it: a list, a bound `.append` or `.capture`, a function of the model."""
        if sink is None:
            return
        if isinstance(sink, ListValue):
            self.items(sink, node, frame)
            tap = Tap(value, self.place(node, frame), self.trigger())
            self.trail.write(sink.cell, "items", (*self.raw(sink), tap))
        else:
            self.invoke(sink, [value], {}, node, frame)
        self.prove(node, frame)
        self.evidence.setdefault(where)

    def prepare_attention(
        self, function: Bound, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
    ) -> tuple[bool, Value]:
        """`LayerCommunicator.prepare_attn(hidden_states, residual, ...)` -> (normed, the sum of both)."""
        held = args[0] if args else kwargs.get("hidden_states")
        residual = args[1] if len(args) > 1 else kwargs.get("residual")
        entered = self.entering(held, residual)
        if entered is None:
            return True, Unknown("the input of prepare_attn", self.place(node, frame))
        self.evidence.setdefault(function.function.module.at(function.function.node.lineno))
        return True, (Unknown("the input of attention", self.place(node, frame)), Whole(entered))

    def layer_classes(self, member: Value) -> tuple[Value, ...]:
        """Classes of a layer that a choice of objects stands for."""
        options = getattr(member, "options", ())
        found = tuple(c for o in options if isinstance(o, Obj) for c in o.classes)
        return found if found and all(isinstance(o, Obj) for o in options) else ()
