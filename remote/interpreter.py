"""What an interpreter is and has, without importing any of it: ``python3 -c SOURCE``, one JSON object on stdout.

Versions come from the packages' metadata, dtypes from the text of their files. Sent with the call, not uploaded, and
run on the laptop too. Standard library only, Python 3.8 or later.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import sys
from typing import Any

PACKAGES = (
    "torch",
    "transformers",
    "safetensors",
    "sglang",
    "numpy",
    "sgl-kernel",
    "flashinfer-python",
    "triton",
    "tokenizers",
    "huggingface-hub",
    "compressed-tensors",
    "vllm",
)


def describe() -> dict[str, Any]:
    """The whole answer. ``dtypes`` is None where the package, or the file that tells, is not there."""
    torch, safetensors = folder("torch"), folder("safetensors")
    return {
        "executable": sys.executable,
        "version": platform.python_version(),
        "prefix": sys.prefix,
        "machine": platform.machine(),
        "byteorder": sys.byteorder,
        "packages": {name: version(name) for name in PACKAGES},
        "torch_cuda": constant(read(torch, "version.py"), "cuda"),
        "torch_hip": constant(read(torch, "version.py"), "hip"),
        "torch_dtypes": found(r"^(\w+): dtype = ", read(torch, os.path.join("_C", "__init__.pyi"))),
        "safetensors_dtypes": found(r'^\s*"([A-Z][A-Z0-9_]*)": (?:torch\.|_float)', read(safetensors, "torch.py")),
    }


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def folder(package: str) -> str | None:
    """Where a package would be imported from; looking for it runs none of its code."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def read(folder: str | None, name: str) -> str | None:
    try:
        with open(os.path.join(folder or "", name), encoding="utf-8") as file:
            return file.read() if folder else None
    except OSError:
        return None


def found(pattern: str, text: str | None) -> list[str] | None:
    return None if text is None else sorted(set(re.findall(pattern, text, re.M)))


def constant(text: str | None, name: str) -> str | None:
    """The string that a module assigns to ``name``, by its source."""
    for node in ast.walk(ast.parse(text or "")):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
    return None


if __name__ == "__main__":
    sys.path = [path for path in sys.path if path]  # not what lies in the working folder by chance
    print(json.dumps(describe()))
