"""Makes SGLang use the engine's attention for ``--attention-backend torch_native``.

SGLang's own torch backend (layers/attention/torch_native_backend.py) knows neither the latent cache of MLA, nor the
mask of a draft tree, nor the modes of a drafter.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..change import replace, require


def serve_torch_native(attention_registry: ModuleType) -> None:
    """layers/attention/attention_registry.py:105 registers SGLang's backend; model_executor/model_runner.py:1798 takes
    the constructor from this table, for the target and for the drafter's first pass over a prompt.
    """
    backends = require(attention_registry, "ATTENTION_BACKENDS")
    require(attention_registry, "create_torch_native_backend")
    backends["torch_native"] = _backend


def absorb_mla(attention_backend_handler: ModuleType) -> None:
    """models/deepseek_common/attention_backend_handler.py:22 has no handler for torch_native, and falls back to
    triton's, which expands the latent keys in prefill (MHA). Ours is absorbed in every mode, on one cache layout.
    """
    registry = require(attention_backend_handler, "AttentionBackendRegistry")
    method = require(attention_backend_handler, "AttnForwardMethod")
    require(registry, "register")("torch_native", lambda attn, forward_batch: require(method, "MLA"))


def serve_draft(draft_utils: ModuleType) -> None:
    """speculative/draft_utils.py:43 and :67 list the backends for a drafter's steps and extend passes; torch_native is
    in neither.
    """
    factory = require(draft_utils, "DraftBackendFactory")
    replace(factory, "create_decode_backend", create_decode_backend)
    replace(factory, "create_draft_extend_backend", create_draft_extend_backend)


def create_decode_backend(self: Any) -> Any:
    """For speculative/eagle_worker.py:223: one backend per draft step, none where one step needs no forward."""
    from .backend import DraftStepsBackend

    if self.speculative_num_steps == 1:
        return None
    return DraftStepsBackend(self.draft_model_runner, self.topk, self.speculative_num_steps)


def create_draft_extend_backend(self: Any) -> Any:
    """For speculative/eagle_worker.py:227."""
    return _backend(self.draft_model_runner)


def _backend(runner: Any) -> Any:
    from .backend import CpuAttentionBackend

    return CpuAttentionBackend(runner)
