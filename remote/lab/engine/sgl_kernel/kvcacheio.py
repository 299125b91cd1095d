"""Copies between device and host caches.

mem_cache/memory_pool_host.py:32 imports them on every device; only hierarchical caching runs them.
"""

from __future__ import annotations

from collections.abc import Callable


def __getattr__(name: str) -> Callable[..., None]:
    """Any ``transfer_kv_...``: it can be imported, not called."""
    if not name.startswith("transfer_kv_"):
        raise AttributeError(f"the stand-in for sgl_kernel.kvcacheio has no {name}")

    def transfer(*_: object, **__: object) -> None:
        raise RuntimeError(f"sgl_kernel.kvcacheio.{name} is not available on a CPU: serve without hierarchical cache")

    return transfer
