"""SGLang's interface of an attention backend (layers/attention/base_attn_backend.py:17): ``plan``, then ``attend``."""

from __future__ import annotations

from typing import Any

from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from torch import Tensor

from .attend import attend
from .plan import Group, plan_decode, plan_draft_step, plan_extend, plan_verify


class CpuAttentionBackend(AttentionBackend):  # type: ignore[misc]
    """Attention of the target in every mode, and of the drafter's extend passes."""

    def __init__(self, runner: Any) -> None:
        super().__init__()
        self.device = runner.device
        self._groups: list[Group] = []

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Called once before the layers of a pass (model_executor/model_runner.py:2295): plans who sees what."""
        self._groups = [] if forward_batch.forward_mode.is_idle() else self._plan(forward_batch)

    def _plan(self, batch: Any) -> list[Group]:
        """Lengths: ``seq_lens`` holds the new tokens of an extend or a decode, and not those of a tree."""
        mode = batch.forward_mode
        table = batch.req_to_token_pool.req_to_token[batch.req_pool_indices]
        if mode.is_decode():
            return plan_decode(table, batch.seq_lens)
        lengths = batch.seq_lens.tolist()
        if mode.is_target_verify():
            return plan_verify(table, lengths, batch.spec_info.draft_token_num, batch.spec_info.custom_mask)
        new = batch.spec_info.accept_length if mode.is_draft_extend() else batch.extend_seq_lens
        return plan_extend(table, lengths, new.tolist())

    def forward_extend(
        self, q: Tensor, k: Tensor, v: Tensor, layer: Any, forward_batch: Any, save_kv_cache: bool = True, **_: Any
    ) -> Tensor:
        """Called by layers/radix_attention.py:127 through ``AttentionBackend.forward``, for every mode but decode.

        Args:
            q: [tokens, query heads * key width].
            k, v: [tokens, key heads, width]; for MLA one latent head, v its first ``kv_lora_rank`` columns.

        Returns:
            [tokens, query heads * value width].
        """
        pool = forward_batch.token_to_kv_pool
        if save_kv_cache and k is not None:
            pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
        return attend(query, keys, values, self._groups, layer.scaling).flatten(1)

    forward_decode = forward_extend


class DraftStepBackend(CpuAttentionBackend):
    """Attention of the drafter in one step of drafting."""

    def __init__(self, runner: Any, step: int, steps: int, topk: int) -> None:
        super().__init__(runner)
        self._step, self._steps, self._topk = step, steps, topk

    def _plan(self, batch: Any) -> list[Group]:
        table = batch.req_to_token_pool.req_to_token[batch.req_pool_indices]
        return plan_draft_step(table, batch.seq_lens, self._step, self._steps, self._topk)


class DraftStepsBackend:
    """What speculative/eagle_worker.py:567 prepares before drafting, and takes a backend from for each step (:666)."""

    def __init__(self, runner: Any, topk: int, steps: int) -> None:
        # The last step's tokens need no forward (eagle_worker.py:651).
        self.attn_backends = [DraftStepBackend(runner, step, steps, topk) for step in range(steps - 1)]

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """Plans all steps at once."""
        for backend in self.attn_backends:
            backend.init_forward_metadata(forward_batch)
