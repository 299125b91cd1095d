"""The workbook's laptop side: what the notebooks and the command `workbook` import.

>>> import helpers
>>> box = helpers.connect("lab")          # doctest: +SKIP

Rooms, each depending only on those to its right: panels, figures, cli -> ledger -> acceptance, wiring -> tensors,
serving, source -> box. Importing this package costs milliseconds: torch, pandas and plotly come with the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from helpers.box import Box as Box
    from helpers.box import connect as connect
    from helpers.errors import WorkbookError as WorkbookError

_LAZY = {"Box": "helpers.box", "connect": "helpers.box", "WorkbookError": "helpers.errors"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'helpers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
