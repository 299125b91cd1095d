"""Runs a patch on a module right after Python has executed it, whoever imports it and wherever its file lies.

Every Python on the lab's box imports this file: it takes nothing from the library that costs time.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class PostImportFinder:
    """Finds what the other finders find, and has the patches of a module run at the end of its execution.

    The module's own spec and loader are kept, so tracebacks, ``inspect`` and ``python -m`` see nothing new. A patch
    runs before any other module can take names from the patched one by ``from ... import``.

    Args:
        patches: full module name -> patches, each as ``"module:function"`` of this package. They are imported only
            when they are needed; the function gets the module.
        absent: full module name -> a package that must look as if not installed while that module is executed.
    """

    def __init__(self, patches: Mapping[str, Sequence[str]], absent: Mapping[str, str]) -> None:
        self._patches = patches
        self._absent = absent

    def install(self) -> None:
        """Puts this finder first in ``sys.meta_path``."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the other finders, its loader set to patch; None for modules without patches."""
        if fullname not in self._patches and fullname not in self._absent:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Loader) -> None:
        """Each spec has a loader object of its own: its ``exec_module`` is shadowed on the instance."""
        execute = loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            _execute_without(self._absent.get(module.__name__), execute, module)
            for reference in self._patches.get(module.__name__, ()):
                _resolve(reference)(module)

        loader.exec_module = execute_and_patch  # type: ignore[method-assign]


def _execute_without(package: str | None, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Executes a module; where a package is named, importing that is a ModuleNotFoundError meanwhile."""
    if package is None:
        execute(module)
        return
    loaded = sys.modules.get(package)
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        execute(module)
    finally:
        del sys.modules[package]
        if loaded is not None:
            sys.modules[package] = loaded


def _resolve(reference: str) -> Callable[[ModuleType], None]:
    """The function that ``"module:function"`` names."""
    module, _, function = reference.partition(":")
    patch: Callable[[ModuleType], None] = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return patch
