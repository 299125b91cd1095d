"""Puts the torch versions of ``sgl_kernel`` where SGLang's EAGLE modules call them."""

from __future__ import annotations

from types import ModuleType

import sgl_kernel
from torch import Tensor

from ..change import provide, replace


def build_and_verify_trees(eagle_utils: ModuleType) -> None:
    """speculative/eagle_utils.py:13 imports the tree kernel on CUDA and HIP only, so its call in :137 is a NameError on
    a CPU; and ``verify_tree_greedy_func`` (:161) does nothing there, without a word: no draft is ever verified, and the
    "accepted" tokens are what ``torch.empty`` found in memory.
    """
    provide(
        eagle_utils,
        "sgl_build_tree_kernel_efficient",
        sgl_kernel.build_tree_kernel_efficient,
        used_by="build_tree_kernel_efficient",
    )
    replace(eagle_utils, "verify_tree_greedy_func", verify_tree_greedy_func)


def verify_tree_greedy_func(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
    topk: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """For speculative/eagle_utils.py:161: what its CUDA branch does."""
    del topk
    sgl_kernel.verify_tree_greedy(
        predicts,
        accept_index,
        accept_token_num,
        candidates,
        retrive_index,
        retrive_next_token,
        retrive_next_sibling,
        target_predict,
    )
    return predicts, accept_index, accept_token_num


def allow_tree_sampling(spec_utils: ModuleType) -> None:
    """speculative/spec_utils.py:50: without this a temperature above 0 is verified greedily (eagle_info.py:304)."""
    replace(spec_utils, "TREE_SPEC_KERNEL_AVAILABLE", True)


def sample_trees(eagle_info: ModuleType) -> None:
    """speculative/eagle_info.py:44 imports these on CUDA only; ``verify`` calls them at :334, :341 and :361."""
    for name in ("top_k_renorm_prob", "top_p_renorm_prob", "tree_speculative_sampling_target_only"):
        provide(eagle_info, name, getattr(sgl_kernel, name), used_by="EagleVerifyInput.verify")
