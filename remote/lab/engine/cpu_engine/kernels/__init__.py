"""Torch versions of the triton kernels that SGLang 0.5.9 launches on the way of EAGLE-3 on a CPU."""

from .table import KERNELS, replacement, require_kernels

__all__ = ["KERNELS", "replacement", "require_kernels"]
