"""A hook for SGLang's ``--forward-hooks``: writes the logits of each pass of the drafter.

``directory`` is where to write, while it exists; ``width`` the drafter's vocabulary, which tells its passes from the
target's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def make_hook(config: dict[str, Any]) -> Callable[[torch.nn.Module, tuple[Any, ...], Any], None]:
    directory = Path(config["directory"])

    def hook(_: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        logits = output.next_token_logits
        if logits is None or logits.shape[-1] != config["width"] or not directory.is_dir():
            return
        batch = next(a for a in args if hasattr(a, "forward_mode"))
        tensors = {"logits": logits.float().cpu(), "position": batch.positions[-1:].cpu()}
        name = directory / f"{time.monotonic_ns():020d}.{batch.forward_mode.name}"
        save_file({key: tensor.contiguous().clone() for key, tensor in tensors.items()}, f"{name}.part")
        Path(f"{name}.part").rename(f"{name}.safetensors")

    return hook
