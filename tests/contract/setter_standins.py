"""Stand-ins on which the engine's own setters and forward passes run: layers that count boundaries."""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

SETTER = "set_eagle3_layers_to_capture"


class Anything:
    """Stands in for all that has no bearing: can be called, entered, added to, and counts as false."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return Anything()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: object) -> Any:
        return Anything()

    def __iter__(self) -> Any:
        """As many as `a, b, ... = ` of the caller takes; none for a loop."""
        caller = sys._getframe(1)
        operation, count = caller.f_code.co_code[caller.f_lasti : caller.f_lasti + 2]
        return iter([Anything() for _ in range(count if operation == dis.opmap["UNPACK_SEQUENCE"] else 0)])

    def __contains__(self, item: object) -> bool:
        return False

    def _same(self, other: object) -> Any:
        return Anything()

    def _no(self, other: object) -> bool:
        return False

    __lt__ = __gt__ = __le__ = __ge__ = _no
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __or__ = __ror__ = _same


@dataclass(frozen=True)
class Tensor:
    """A boundary: `whole`, or one of its terms (`output`, `residual`)."""

    boundary: int
    part: str = "whole"
    shape = (3, 8)
    device = "cpu"

    def __add__(self, other: object) -> Tensor:
        if not isinstance(other, Tensor):
            return NotImplemented
        assert {self.part, other.part} == {"output", "residual"}
        assert self.boundary == other.boundary
        return Tensor(self.boundary)

    def clone(self) -> Tensor:
        return self


class Collector(list[Any]):
    """0.5.23's list of hidden states."""

    promised: int | None = None

    def capture(self, tensor: Tensor, *, owned: bool = False) -> None:
        self.append(tensor)

    def finalize(self) -> Collector:
        return self


class Names(dict[str, Any]):
    """The globals of a function that was cut out: what is not given is `Anything`."""

    def __missing__(self, name: str) -> Any:
        import builtins

        return getattr(builtins, name) if hasattr(builtins, name) else Anything()


class Module:
    """A stand-in for a module of the model."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == SETTER:
            raise AttributeError(name)
        return Anything()


def names_of_engine() -> dict[str, Any]:
    def start(forward_batch: object) -> None:
        return None

    def through(hidden_states: Tensor, forward_batch: object, *more: object) -> Tensor:
        return hidden_states

    def snapshot(hidden_states: Tensor, forward_batch: object) -> Tensor:
        return Tensor(hidden_states.boundary)

    def final_norm(hidden_states: Tensor, forward_batch: object, norm: object, capture: Any = None, **rest: Any) -> Any:
        if capture is not None:
            capture(Tensor(hidden_states.boundary))
        return Anything()

    def packer(promised: int) -> Collector:
        made = Collector()
        made.promised = promised
        return made

    batch = Module(
        start=start, complete_output=through, add_to_output=through, snapshot=snapshot, final_norm=final_norm
    )
    last = SimpleNamespace(is_last_rank=True, is_first_rank=True, world_size=1)
    return {
        "residual_batch": batch,
        "AuxHiddenStateList": Collector,
        "AuxHiddenStatePacker": packer,
        "get_pp_group": lambda: last,
        "get_parallel": lambda: SimpleNamespace(pp_group=last),
    }


def make_layer(index: int, modern: bool, arity: int) -> Module:
    """A layer that hands over the boundary that enters it, where it is asked to, and lets the next one out."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        for name in ("captured_last_layer_outputs", "capture_output"):
            sink = kwargs.get(name)
            if sink is not None:
                (sink if callable(sink) else sink.append)(Tensor(index))
        if not modern or "residual" in kwargs:
            rest = [Anything()] * (arity - 2)
            return (Tensor(index + 1, "output"), Tensor(index + 1, "residual"), *rest)
        out = Tensor(index + 1, "owed")
        return (out, *[Anything()] * (arity - 1)) if arity > 1 else out

    class Layer(Module):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            if name == "_is_layer_to_capture":
                raise AttributeError(name)
            return super().__getattr__(name)

    return Layer()
