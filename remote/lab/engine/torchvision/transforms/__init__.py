"""Imported as a module, and for ``InterpolationMode``."""

from .functional import InterpolationMode

__all__ = ["InterpolationMode"]
