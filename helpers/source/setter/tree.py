"""The engine's source: a folder that holds the package, or a wheel, read file by file; imports followed, never run."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from helpers.errors import UsageError
from helpers.library_errors import why
from helpers.screen import as_typed
from helpers.source.parsing import parsed
from helpers.source.setter.values import ClassRef, Function, ModuleRef, Place, Unknown, Unread, Value

MODELS = "srt/models"


class SourceTree:
    """Files under a root: `sglang/srt/models/llama.py` and so on.

    Args:
        root: a wheel, the folder that holds the package ``sglang``, that package itself, or a clone of its repository.

    Raises:
        UsageError: ``WB-SOURCE-NO-SGLANG`` where there is no such package.
    """

    def __init__(self, root: Path) -> None:
        root = root.expanduser()
        self.root = root.resolve()
        self._zip: zipfile.ZipFile | None = None
        self._modules: dict[str, Module | None] = {}
        # What was found out about classes, so that it is looked up once (classes.py).
        self.memo: dict[tuple[object, ...], Any] = {}
        if root.is_file() and zipfile.is_zipfile(root):
            self._zip = zipfile.ZipFile(root)
            self._names = frozenset(self._zip.namelist())
        else:
            if (root / MODELS).is_dir() and not (root / "sglang" / MODELS).is_dir():
                self.root = root.resolve().parent
            elif (root / "python" / "sglang" / MODELS).is_dir():
                self.root = root.resolve() / "python"
            if not (self.root / "sglang").is_dir():
                raise UsageError(
                    "WB-SOURCE-NO-SGLANG",
                    f"{root} is no wheel and holds no package sglang",
                    expected="the folder that holds the package, such as ~/sglang/python, or a wheel of it",
                    next=f"ls {as_typed(root)}",
                )

    def exists(self, file: str) -> bool:
        return file in self._names if self._zip else (self.root / file).is_file()

    def read(self, file: str) -> str:
        """A file's text.

        Raises:
            UsageError: ``WB-FILE-MISSING`` where it is not there, or is no text.
        """
        try:
            raw = self._zip.read(file) if self._zip else (self.root / file).read_bytes()
            return raw.decode("utf-8-sig")
        except (KeyError, OSError, UnicodeDecodeError, zipfile.BadZipFile) as error:
            raise UsageError(
                "WB-FILE-MISSING",
                f"{file} cannot be read from {self.root}: {why(error)}",
                expected="a Python file of the engine",
                next="check --source, or the name after --model",
            ) from error

    def files(self, folder: str) -> list[str]:
        """The Python files below a folder."""
        if self._zip:
            return sorted(n for n in self._names if n.startswith(folder) and n.endswith(".py"))
        return sorted(p.relative_to(self.root).as_posix() for p in (self.root / folder).rglob("*.py"))

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        """Stems of the model files."""
        prefix = f"sglang/{MODELS}/"
        stems = (PurePosixPath(f).relative_to(prefix).with_suffix("").as_posix() for f in self.files(prefix))
        return tuple(sorted(s for s in stems if not s.endswith("__init__")))

    def model(self, stem: str) -> Module:
        """The model file of that stem (`deepseek_v2`).

        Raises:
            UsageError: ``WB-SETTER-NO-MODEL`` where there is none.
        """
        stem = stem.removesuffix(".py")
        if stem not in self.model_names:
            from helpers.source.setter.naming import no_model  # it reads the files that it names

            raise no_model(self, stem)
        found = self.module("sglang." + f"{MODELS}/{stem}".replace("/", "."))
        assert found is not None
        return found

    def module(self, dotted: str) -> Module | None:
        """A module by its name; None where the tree does not hold it."""
        if dotted not in self._modules:
            base = dotted.replace(".", "/")
            file = next((f for f in (f"{base}.py", f"{base}/__init__.py") if self.exists(f)), None)
            self._modules[dotted] = Module(self, dotted, file) if file else None
        return self._modules[dotted]


class Module:
    """One file: its tree, its lines and what its names mean."""

    def __init__(self, tree: SourceTree, name: str, file: str) -> None:
        self.tree, self.name, self.file = tree, name, file
        self._resolved: dict[str, Value] = {}

    @cached_property
    def text(self) -> str:
        return self.tree.read(self.file)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def node(self) -> ast.Module:
        try:
            return parsed(self.text)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise Unread(self.at(line), f"the file is no Python that can be read: {error}") from error

    def at(self, line: int) -> Place:
        return Place(self.file, line, self.lines[line - 1].strip() if 0 < line <= len(self.lines) else "")

    @cached_property
    def bindings(self) -> dict[str, list[ast.stmt]]:
        """What each top-level name is bound by, those within `if` and `try` too."""
        found: dict[str, list[ast.stmt]] = {}
        for stmt in top_level(self.node.body):
            for name in bound_names(stmt):
                found.setdefault(name, []).append(stmt)
        return found

    def resolve(self, name: str, depth: int = 0) -> Value:
        """What a top-level name stands for, looked up once."""
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name, depth)
        return self._resolved[name]

    def _resolve(self, name: str, depth: int) -> Value:
        """What a top-level name stands for: a class, function, module, or the expression assigned to it.

        Raises:
            KeyError: the file does not bind that name.
        """
        bound = self.bindings[name]
        stmt = bound[-1]
        unknown = Unknown(f"{name} is not defined in the engine's own source", self.at(stmt.lineno), name)
        if depth > 8 or (len(bound) > 1 and len({type(s) for s in bound}) > 1):
            return unknown
        if isinstance(stmt, ast.ClassDef):
            return ClassRef(self, stmt)
        if isinstance(stmt, ast.FunctionDef):
            return Function(self, stmt)
        if isinstance(stmt, ast.Import):
            alias = next(a for a in stmt.names if (a.asname or a.name.split(".")[0]) == name)
            module = self.tree.module(alias.name if alias.asname else name)
            return ModuleRef(module) if module else unknown
        if isinstance(stmt, ast.ImportFrom):
            alias = next(a for a in stmt.names if (a.asname or a.name) == name)
            return self.imported(stmt, alias.name, depth)
        if isinstance(stmt, ast.Assign | ast.AnnAssign) and stmt.value is not None:
            return stmt.value if len(bound) == 1 else unknown
        return unknown

    def imported(self, stmt: ast.ImportFrom, name: str, depth: int = 0) -> Value:
        """What `from X import name` brings."""
        package = self.name.split(".") if self.file.endswith("__init__.py") else self.name.split(".")[:-1]
        base = package[: len(package) - stmt.level + 1] if stmt.level else []
        dotted = ".".join([*base, *([stmt.module] if stmt.module else [])])
        unknown = Unknown(f"{name} comes from {dotted}, which is not in this source", self.at(stmt.lineno), name)
        submodule = self.tree.module(f"{dotted}.{name}")
        if submodule is not None:
            return ModuleRef(submodule)
        module = self.tree.module(dotted)
        if module is None or name not in module.bindings:
            return unknown
        value = module.resolve(name, depth + 1)
        return unknown if isinstance(value, ast.expr) else value


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those within `if`, `try` and `with` too."""
    for stmt in body:
        if isinstance(stmt, ast.If | ast.Try | ast.With):
            yield from top_level(stmt.body)
            yield from top_level(getattr(stmt, "orelse", []))
            for handler in getattr(stmt, "handlers", []):
                yield from top_level(handler.body)
        else:
            yield stmt


def bound_names(stmt: ast.stmt) -> list[str]:
    if isinstance(stmt, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [stmt.name]
    if isinstance(stmt, ast.Import):
        return [a.asname or a.name.split(".")[0] for a in stmt.names]
    if isinstance(stmt, ast.ImportFrom):
        return [a.asname or a.name for a in stmt.names]
    if isinstance(stmt, ast.Assign):
        return [n.id for t in stmt.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    if isinstance(stmt, ast.AnnAssign | ast.AugAssign) and isinstance(stmt.target, ast.Name):
        return [stmt.target.id]
    return []


def find_model(tree: SourceTree, architecture: str) -> str:
    """The stem of the model file that defines an architecture of config.json.

    Raises:
        UsageError: ``WB-SETTER-NO-MODEL``.
    """
    for stem in tree.model_names:
        if f"class {architecture}(" in tree.read(f"sglang/{MODELS}/{stem}.py"):
            return stem
    raise UsageError(
        "WB-SETTER-NO-MODEL",
        f"no model file of {tree.root.name} defines {architecture}",
        expected="an architecture that this engine serves",
        next="check `architectures` in the target's config.json",
    )


def version_of(tree: SourceTree) -> str | None:
    """The engine's version, as the source itself says it; None where it does not."""
    for file in ("sglang/version.py", "sglang/_version.py"):
        if tree.exists(file):
            found = re.search(r"^(?:__version__|version)\b.*= ['\"]([0-9][^'\"]*)", tree.read(file), re.M)
            if found:
                return found[1]
    return None
