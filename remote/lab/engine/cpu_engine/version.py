"""The one version of SGLang that the engine knows."""

from __future__ import annotations

from types import ModuleType

from .change import EngineMismatch, require

SUPPORTED = "0.5.9"


def require_supported(version: ModuleType) -> None:
    """Runs on ``sglang.version``, which sglang/__init__.py:38 imports before any server starts.

    Raises:
        EngineMismatch: another version.
    """
    met = require(version, "__version__")
    if met != SUPPORTED:
        raise EngineMismatch(
            f"the CPU engine does not know sglang {met} (from {version.__file__})", f"sglang {SUPPORTED}"
        )
