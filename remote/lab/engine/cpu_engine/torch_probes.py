"""What torch finds out about triton: that it is not there. The stand-in is for SGLang only."""

from __future__ import annotations

from types import ModuleType

from .change import replace


def deny_triton(probes: ModuleType) -> None:
    """torch/utils/_triton.py:37 imports triton to see whether it is installed, and torch._inductor, which transformers
    imports (integrations/flex_attention.py), then goes on to the compiler inside.
    """
    replace(probes, "has_triton_package", lambda: False)
