"""Imported where SGLang looks for TMA support (layers/moe/fused_moe_triton/fused_moe_triton_kernels.py:33)."""


class TensorDescriptor:
    """Never made on a CPU."""
