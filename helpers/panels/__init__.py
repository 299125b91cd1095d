"""Panels: thin ipywidgets views over plain models, each with a static twin and the call that does the same.

>>> from helpers.panels import wiring_panel                     # doctest: +SKIP
>>> panel = wiring_panel(capture, dump, diagnosis); panel       # doctest: +SKIP
>>> panel.static()                                              # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.panels.acceptance import acceptance_panel as acceptance_panel
    from helpers.panels.patches import patches_panel as patches_panel
    from helpers.panels.server import server_panel as server_panel
    from helpers.panels.wiring import wiring_panel as wiring_panel

_LAZY = {
    "acceptance_panel": "helpers.panels.acceptance",
    "patches_panel": "helpers.panels.patches",
    "server_panel": "helpers.panels.server",
    "wiring_panel": "helpers.panels.wiring",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'helpers.panels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
