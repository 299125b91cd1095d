"""What the oracle for `workbook boundaries` stands on: a wheel's model files, and what was found by running them."""

from __future__ import annotations

import ast
import zipfile
from dataclasses import dataclass
from pathlib import Path

SETTER = "set_eagle3_layers_to_capture"
MODELS = "sglang/srt/models/"


@dataclass(frozen=True)
class Expected:
    """What the engine really did: boundaries in tap order, and whether it would have raised."""

    boundaries: tuple[int, ...]
    raised: bool
    partial: bool  # Taps that lack their other term.


class Wheel:
    """A wheel's model files."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self.modern = path.name.startswith("sglang-0.5.23")
        self._trees: dict[str, ast.Module] = {}

    def tree(self, stem: str) -> ast.Module:
        if stem not in self._trees:
            self._trees[stem] = ast.parse(self.text(stem))
        return self._trees[stem]

    def text(self, stem: str) -> str:
        return self._zip.read(f"{MODELS}{stem}.py").decode("utf-8-sig")

    def stems(self) -> list[str]:
        """Every model file."""
        names = [n.removeprefix(MODELS) for n in self._zip.namelist() if n.startswith(MODELS) and n.endswith(".py")]
        return sorted(n.removesuffix(".py") for n in names if "/" not in n and n != "__init__.py")

    def stems_with_setter(self) -> list[str]:
        """Model files in which a setter is defined."""
        return [s for s in self.stems() if f"def {SETTER}" in self.text(s)]

    def layer_arity(self, stem: str, cls: str) -> int:
        """How many values the forward pass of a class takes from a layer; 0 where it calls none."""
        if f"{MODELS}{stem}.py" not in self._zip.namelist():
            return 0
        for node in self.tree(stem).body:
            if isinstance(node, ast.ClassDef) and node.name == cls:
                for found in ast.walk(node):
                    if isinstance(found, ast.Assign) and isinstance(found.value, ast.Call):
                        called = found.value.func
                        if ast.unparse(called) == "layer" or isinstance(called, ast.Subscript):
                            target = found.targets[0]
                            return len(target.elts) if isinstance(target, ast.Tuple) else 1
        return 0
