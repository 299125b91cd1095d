"""CUDA calls that SGLang makes whatever the device."""

from __future__ import annotations

from types import ModuleType

import torch

from .change import require


def skip_synchronize(llama: ModuleType) -> None:
    """Makes ``torch.cuda.synchronize`` do nothing where there is no CUDA.

    models/llama.py:773 (``set_embed``, from speculative/eagle_worker.py:168) calls it after the drafter took over the
    target's embedding, and torch raises without a CUDA device. ``torch.cuda.empty_cache`` beside it is harmless.
    """
    require(llama, "LlamaForCausalLM")
    if not torch.cuda.is_available():
        torch.cuda.synchronize = lambda device=None: None
