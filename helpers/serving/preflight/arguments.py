"""What a command line means to SGLang: its settings by their own names, the last word of a flag winning.

>>> settings_of(["--tp", "8", "--moe-a2a-backend=deepep", "--enable-dp-attention"])["moe_a2a_backend"]
'deepep'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Flags that SGLang knows by more than one name.
_ALIASES = {
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "model": "model_path",
    "speculative_algo": "speculative_algorithm",
    "attention_context_parallel_size": "attn_cp_size",
    "speculative_draft_model": "speculative_draft_model_path",
}
#: SGLang's defaults of what the checks ask.
_DEFAULTS: dict[str, Any] = {
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "nnodes": 1,
    "attn_cp_size": 1,
    "device": None,
    "moe_a2a_backend": "none",
    "enable_dp_attention": False,
    "enable_flashinfer_allreduce_fusion": False,
    "enforce_disable_flashinfer_allreduce_fusion": False,
    "flashinfer_allreduce_fusion_backend": None,
    "enable_two_batch_overlap": False,
    "disable_cuda_graph": False,
    "speculative_algorithm": None,
    "speculative_draft_model_path": None,
    "forward_hooks": None,
    "context_length": None,
}


def settings_of(words: Sequence[str]) -> dict[str, Any]:
    """Settings of a command line's words, defaults filled in; a flag without a value is True, digits are a number."""
    settings = dict(_DEFAULTS)
    name: str | None = None
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            name = flag.replace("-", "_")
            name = _ALIASES.get(name, name)
            settings[name] = _value(value) if equals else True
            name = None if equals else name
        elif name is not None:
            settings[name] = _value(word)
            name = None
    return settings


def _value(word: str) -> Any:
    return int(word) if word.isascii() and word.isdigit() else word
