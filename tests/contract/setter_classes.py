"""An oracle for models that inherit: their real classes, cut out of the wheel with their bases, built and run.

Python itself then finds the setter, the inner model and the forward pass (its method resolution order, its `super()`);
all that is no class of a model file is a stand-in. A statement of a constructor that stumbles over one is passed over.
"""

from __future__ import annotations
import __future__

import ast
import builtins
from collections.abc import Iterator, Sequence
from typing import Any

from setter_oracle import Expected, Wheel
from setter_standins import SETTER, Anything, Tensor, make_layer, names_of_engine

MODELS = "sglang.srt.models."
HOLDERS = ("language_model", "model")
FLAGS = __future__.annotations.compiler_flag


class Stand:
    """The base of a class whose own bases are outside the model files."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == SETTER:
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return Anything()


def known(**given: Any) -> Stand:
    """A stand-in of which a few things are known."""
    made = Stand()
    vars(made).update(given)
    return made


def is_one(value: object, kinds: Any) -> bool:
    """`isinstance`, where classes from elsewhere are stand-ins."""
    return any(isinstance(value, k) for k in (kinds if isinstance(kinds, tuple) else (kinds,)) if isinstance(k, type))


def make_layers(count: int, *args: object, **kwargs: object) -> Any:
    """As many; with a pipeline rank also the range of this stage."""
    made = list(range(count))
    return (made, 0, count) if "pp_rank" in kwargs else made


LAST = known(is_last_rank=True, is_first_rank=True, world_size=1)


class Config(Anything):
    """A config that knows one number."""

    def __init__(self, layers: int) -> None:
        self.num_hidden_layers = layers
        self.mhc = False
        self.text_config = self.config = self


class Torch(Anything):
    """`torch` and `torch.nn`: a module list is the list that it was given."""

    Tensor = Tensor

    def __getattr__(self, name: str) -> Any:
        return Torch() if name == "nn" else list if name == "ModuleList" else super().__getattr__(name)


class Lenient(ast.NodeTransformer):
    """Puts each statement of a function under `try`."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if node.name not in ("forward", SETTER):
            node.body = [self.tried(s) for s in node.body]
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        """An import within a function, of a model's class or of something else."""
        text = "{} = _imported({!r}, {!r})"
        return [ast.parse(text.format(a.asname or a.name, node.module, a.name)).body[0] for a in node.names]

    def tried(self, stmt: ast.stmt) -> ast.stmt:
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(stmt, ast.FunctionDef | ast.ClassDef) and getattr(stmt, field, None):
                setattr(stmt, field, [self.tried(s) for s in getattr(stmt, field)])
        if isinstance(stmt, ast.FunctionDef | ast.Return | ast.Raise | ast.Nonlocal | ast.Global):
            return stmt
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
        return ast.fix_missing_locations(ast.copy_location(ast.Try([stmt], [handler], [], []), stmt))


class Whole:
    """A model file as a module."""

    def __init__(self, classes: Classes, stem: str) -> None:
        self._classes, self._stem = classes, stem

    def __getattr__(self, name: str) -> Any:
        return self._classes.file(self._stem)[name]


class File(dict[str, Any]):
    """The globals of one model file: classes are made when they are first named."""

    def __init__(self, classes: Classes, stem: str) -> None:
        super().__init__(names_of_engine() | {"__name__": stem, "torch": Torch(), "nn": Torch()})
        same = known(copy=lambda held: held, deepcopy=lambda held: held)
        self.update(isinstance=is_one, copy=same, cast=lambda kind, held: held)
        self.classes, self.stem = classes, stem
        self.update(make_layers=make_layers, make_pp_layers=lambda *args, **kwargs: make_layers(*args, pp_rank=0))
        self.update(get_pp_group=lambda: LAST, get_parallel=lambda: known(pp_group=LAST))
        self["_imported"] = self.import_of
        self.imported: dict[str, tuple[str, str]] = {}
        for node in classes.wheel.tree(stem).body:
            if isinstance(node, ast.ImportFrom) and f"{node.module}." == MODELS:
                self.update({a.asname or a.name: Whole(classes, a.name) for a in node.names})
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(MODELS):
                there = (node.module or "").removeprefix(MODELS).replace(".", "/")
                self.imported |= {a.asname or a.name: (there, a.name) for a in node.names}

    def import_of(self, module: str, name: str) -> Any:
        stem = module.removeprefix(MODELS).replace(".", "/")
        return self.classes.file(stem)[name] if module.startswith(MODELS) else Anything()

    def __missing__(self, name: str) -> Any:
        if name in self.imported:
            stem, original = self.imported[name]
            value = self.classes.file(stem)[original]
        else:
            nodes = [n for n in self.classes.wheel.tree(self.stem).body if getattr(n, "name", "") == name]
            value = self.made(nodes[-1]) if nodes else getattr(builtins, name, Anything())
        self[name] = value
        return value

    def made(self, node: ast.stmt) -> Any:
        """A class, or a function that finds its way in a config; no other function."""
        if isinstance(node, ast.FunctionDef) and "config" in node.name:
            exec(compile(ast.Module([node], []), self.stem, "exec", flags=FLAGS), self)
            return self[node.name]
        if not isinstance(node, ast.ClassDef):
            return Anything()
        names = [b for b in node.bases if isinstance(b, ast.Name) and isinstance(self[b.id], type)]
        copy = ast.parse(ast.unparse(node)).body[0]
        assert isinstance(copy, ast.ClassDef)
        copy.bases = [ast.Name(b.id, ast.Load()) for b in names] or [ast.Name("Stand", ast.Load())]
        copy.keywords, copy.decorator_list = [], []
        for stmt in copy.body:
            if isinstance(stmt, ast.FunctionDef):
                kept = ("property", "staticmethod", "classmethod")
                stmt.decorator_list = [d for d in stmt.decorator_list if ast.unparse(d) in kept]
        lenient = Lenient()
        copy.body = [s if isinstance(s, ast.FunctionDef) else lenient.tried(s) for s in copy.body]
        module = ast.fix_missing_locations(lenient.visit(ast.Module([copy], [])))
        self["Stand"] = Stand
        # A class body looks names up without asking `__missing__`.
        for name in set(named_at_once(copy)):
            self[name]
        exec(compile(module, self.stem, "exec", flags=FLAGS), self)
        return self[node.name]  # type: ignore[no-any-return]


def named_at_once(cls: ast.ClassDef) -> Iterator[str]:
    """Names that making a class looks up: those of its statements, and of its methods' defaults."""
    for stmt in cls.body:
        parts: list[ast.AST | None] = [stmt]
        if isinstance(stmt, ast.FunctionDef):
            parts = [*stmt.args.defaults, *stmt.args.kw_defaults]
        for part in parts:
            yield from (n.id for n in ast.walk(part) if isinstance(n, ast.Name)) if part else ()


class Classes:
    """The classes of a wheel's model files."""

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self._arity: dict[type, int] = {}
        self._files: dict[str, File] = {}

    def file(self, stem: str) -> File:
        if stem not in self._files:
            self._files[stem] = File(self, stem)
        return self._files[stem]

    def entries(self, stem: str) -> list[str]:
        """Names of the classes that a file serves and that have a setter."""
        for node in self.wheel.tree(stem).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EntryClass":
                held = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
                names = [e.id for e in held if isinstance(e, ast.Name)]
                return [n for n in names if hasattr(self.file(stem)[n], SETTER)]
        return []

    def build(self, stem: str, name: str, layers: int) -> tuple[Any, Any]:
        """A served model, and the part of it that holds the layers."""
        served = self.file(stem)[name](config=Config(layers))
        inner = served
        while held := [vars(inner)[h] for h in HOLDERS if isinstance(vars(inner).get(h), Stand)]:
            inner = held[0]
        residual = type(inner).__name__ == "Gemma3TextModel"
        made = [
            make_layer(i, self.wheel.modern and not residual, self.arity(type(inner)))
            for i in range(len(vars(inner).get("layers", ())))
        ]
        served.pp_group = LAST
        embed = lambda *_: Tensor(0)  # noqa: E731
        vars(inner).update(
            layers=made,
            start_layer=0,
            end_layer=len(made),
            pp_group=LAST,
            norm=lambda *given: (Anything(), Anything()) if len(given) > 1 else Anything(),
            embed_tokens=embed,
            word_embeddings=embed,
            get_input_embeddings=lambda *given: embed() if given else embed,
            flashinfer_mnnvl_cutedsl_fusion=None,
            llama_4_scaling_config=None,
            _dsa_forward_uses_topk=lambda: False,
            _prepare_aux_hidden_state=lambda tensor: tensor,
        )
        return served, inner

    def arity(self, cls: type) -> int:
        """How many values the forward pass, its own or an inherited one, takes from a layer."""
        if cls not in self._arity:
            counts = (self.wheel.layer_arity(each.__module__, each.__name__) for each in cls.__mro__)
            self._arity[cls] = next(count for count in counts if count)
        return self._arity[cls]


def run_class(classes: Classes, stem: str, name: str, ids: Sequence[int] | None, layers: int) -> Expected:
    """What the class really does with ids: the setter that Python finds, then the forward pass of its inner model.

    Ids at which either raises are left out, and the rest is tried again.
    """
    given = list(ids) if ids is not None else None
    raised = False
    while True:
        try:
            taps, promised = once(classes, stem, name, given, layers)
        except AssertionError:
            return Expected((), True, False)
        except (IndexError, TypeError):
            raised = True
            bad = [i for i in given or () if fails(classes, stem, name, i, layers)]
            given = [i for i in given or () if i not in bad]
            if not given:
                return Expected((), True, False)
            assert bad
            continue
        raised |= promised is not None and bool(taps) and promised != len(taps)
        return Expected(tuple(t.boundary for t in taps), raised, any(t.part == "output" for t in taps))


def fails(classes: Classes, stem: str, name: str, one: int, layers: int) -> bool:
    try:
        once(classes, stem, name, [one], layers)
    except (IndexError, TypeError):
        return True
    return False


def once(classes: Classes, stem: str, name: str, ids: list[int] | None, layers: int) -> tuple[list[Tensor], int | None]:
    served, inner = classes.build(stem, name, layers)
    getattr(served, SETTER)(ids)
    batch = known(can_run_tbo=False)
    result = inner.forward(Anything(), Anything(), batch)
    taps = result[1] if isinstance(result, tuple) else []
    found = [t for t in taps if isinstance(t, Tensor)] if isinstance(taps, list) else []
    return found, getattr(taps, "promised", None)
