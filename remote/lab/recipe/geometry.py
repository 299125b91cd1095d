"""Shapes of the target and the drafter, and the config.json that each is served with.

Heads, experts and every split width divide by 8, so that the lab serves the pair at tensor parallel 1, 2, 4 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BOS, EOS, PAD = 0, 1, 2
STEPS = 3  # draft steps that the drafter is trained over


def halves_first(width: int) -> list[int]:
    """The order of rows that turns DeepSeek's rotary pairs, which are neighbours, into (i, i + width / 2).

    >>> halves_first(6)
    [0, 2, 4, 1, 3, 5]
    """
    return [*range(0, width, 2), *range(1, width, 2)]


def _shared(dtype: str) -> dict[str, Any]:
    """What config.json says alike of the target and of the drafter, in the order in which it has always stood."""
    return {
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "attention_bias": False,
    }


@dataclass(frozen=True)
class TargetShape:
    """A DeepSeek-V3: multi-head latent attention, the first layer dense, experts in all others.

    Attributes:
        q_rank, kv_rank: widths of the two latents. nope, rope, value: widths of a head's parts.
        dense: inner width of layer 0. expert: inner width of each routed expert and of the shared one.
        chosen: routed experts a token. scale: what their summed weight is multiplied by.
        factor, original: yarn's stretch, and the length that its angles were made for.
    """

    vocab: int = 1024
    hidden: int = 192
    layers: int = 10
    heads: int = 8
    q_rank: int = 96
    kv_rank: int = 64
    nope: int = 16
    rope: int = 16
    value: int = 16
    dense: int = 512
    expert: int = 64
    experts: int = 8
    chosen: int = 2
    groups: int = 2
    scale: float = 2.5
    eps: float = 1e-6
    theta: float = 10000.0
    factor: float = 4.0
    original: int = 1024
    positions: int = 4096

    @property
    def softmax_scale(self) -> float:
        """Attention's scale: 1 / sqrt(head width), times yarn's square (mscale_all_dim is 1)."""
        return float((self.nope + self.rope) ** -0.5 * (0.1 * math.log(self.factor) + 1.0) ** 2)

    @property
    def latent_rows(self) -> list[int]:
        """The order of the rows of q_a over kv_a in which the rotary part comes as halves, not as neighbours."""
        start = self.q_rank + self.kv_rank
        return [*range(start), *(start + i for i in halves_first(self.rope))]

    @property
    def query_rows(self) -> list[int]:
        """The same of q_b, head by head."""
        head = [*range(self.nope), *(self.nope + i for i in halves_first(self.rope))]
        return [h * len(head) + row for h in range(self.heads) for row in head]

    def config(self, dtype: str) -> dict[str, Any]:
        """config.json, as transformers and SGLang read it."""
        return {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            "hidden_size": self.hidden,
            "intermediate_size": self.dense,
            "moe_intermediate_size": self.expert,
            "num_hidden_layers": self.layers,
            "num_nextn_predict_layers": 0,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "n_shared_experts": 1,
            "n_routed_experts": self.experts,
            "ep_size": 1,
            "routed_scaling_factor": self.scale,
            "kv_lora_rank": self.kv_rank,
            "q_lora_rank": self.q_rank,
            "qk_rope_head_dim": self.rope,
            "v_head_dim": self.value,
            "qk_nope_head_dim": self.nope,
            "topk_method": "noaux_tc",
            "n_group": self.groups,
            "topk_group": self.groups,
            "num_experts_per_tok": self.chosen,
            "moe_layer_freq": 1,
            "first_k_dense_replace": 1,
            "norm_topk_prob": True,
            "scoring_func": "sigmoid",
            "vocab_size": self.vocab,
            "max_position_embeddings": self.positions,
            "rms_norm_eps": self.eps,
            "rope_theta": self.theta,
            "rope_scaling": {
                "type": "yarn",
                "factor": int(self.factor),
                "original_max_position_embeddings": self.original,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
            **_shared(dtype),
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "use_cache": True,
            "pretraining_tp": 1,
        }


@dataclass(frozen=True)
class DrafterShape:
    """One llama layer whose attention sees a token's embedding beside a state, and a head over fewer tokens.

    Key heads are two: SGLang repeats them over ranks where tensor parallel is more.
    """

    hidden: int = 192
    vocab: int = 1024
    draft_vocab: int = 768
    inner: int = 384
    heads: int = 8
    kv_heads: int = 2
    head: int = 32
    slots: int = 3
    eps: float = 1e-6
    theta: float = 10000.0
    positions: int = 4096

    def config(self, layer_ids: Sequence[int], dtype: str) -> dict[str, Any]:
        """config.json, with `layer_ids` where SGLang reads them; in SGLang 0.5.9 an id is a boundary less one."""
        return {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": 1,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head,
            "vocab_size": self.vocab,
            "draft_vocab_size": self.draft_vocab,
            "max_position_embeddings": self.positions,
            "rms_norm_eps": self.eps,
            "rope_theta": self.theta,
            **_shared(dtype),
            "mlp_bias": False,
            "pad_token_id": PAD,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(layer_ids), "use_aux_hidden_state": True},
        }
