"""SGLang's "all-reduce fused into the next layer's norm", which one node of SM90 or SM100 GPUs uses by default.

On that path a layer returns a sum that is not yet reduced over the ranks, and what EAGLE-3 captures of it is wrong on
every rank. The lab takes the path where ``--enable-flashinfer-allreduce-fusion`` asks for it, to have that looked at.
"""

from __future__ import annotations

from types import ModuleType

from torch import Tensor
from torch.nn.functional import rms_norm

from .change import replace, require


def fuse_where_asked(communicator: ModuleType) -> None:
    """layers/communicator.py:91 asks for an SM90 or SM100 GPU and for flashinfer; the other conditions stay."""
    largest = require(communicator, "FUSE_ALLREDUCE_MAX_BATCH_SIZE")
    under_dp_attention = require(communicator, "is_dp_attention_enabled")
    server_args = require(communicator, "get_global_server_args")

    def apply_flashinfer_allreduce_fusion(batch_size: int) -> bool:
        asked = bool(server_args().enable_flashinfer_allreduce_fusion)
        return asked and 0 < batch_size <= largest and not under_dp_attention()

    replace(communicator, "apply_flashinfer_allreduce_fusion", apply_flashinfer_allreduce_fusion)


def compute_fused(flashinfer_comm_fusion: ModuleType) -> None:
    """layers/layernorm.py:318 calls flashinfer's kernel through layers/flashinfer_comm_fusion.py:142."""
    replace(flashinfer_comm_fusion, "flashinfer_allreduce_residual_rmsnorm", flashinfer_allreduce_residual_rmsnorm)


def flashinfer_allreduce_residual_rmsnorm(
    input_tensor: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float = 1e-6,
    max_token_num: int = 2048,
    use_oneshot: bool | None = None,
    trigger_completion_at_end: bool = False,
    fp32_acc: bool = False,
) -> tuple[Tensor, Tensor]:
    """The fused kernel, step by step.

    Args:
        input_tensor: [tokens, hidden], this rank's term of the sum.
        residual: [tokens, hidden], the same on every rank.
        weight: [hidden].

    Returns:
        The norm of the new residual, and the new residual: sum over the ranks plus ``residual``.
    """
    del max_token_num, use_oneshot, trigger_completion_at_end, fp32_acc
    total = _all_reduce(input_tensor) + residual
    return rms_norm(total.float(), weight.shape, weight.float(), eps).to(input_tensor.dtype), total


def _all_reduce(term: Tensor) -> Tensor:
    from sglang.srt.distributed import tensor_model_parallel_all_reduce

    # SGLang reduces in place on a CPU, and the caller may still hold the term.
    total: Tensor = tensor_model_parallel_all_reduce(term.clone())
    return total
