"""Stand-in for sgl_kernel 0.3.21 in plain torch: what SGLang 0.5.9 calls on a CPU with EAGLE-3.

It registers no ``torch.ops.sgl_kernel``: without ``convert_weight_packed`` there SGLang sees no AMX kernels
(utils/common.py:274) and every layer keeps its own torch forward. The names are imported by
speculative/eagle_utils.py:14 and :173 and eagle_info.py:45 on CUDA; ``cpu_engine.speculation`` sees to it on a CPU.
"""

from .probabilities import top_k_renorm_prob, top_p_renorm_prob
from .tree import build_tree_kernel_efficient
from .verify_greedy import verify_tree_greedy
from .verify_sampling import tree_speculative_sampling_target_only

__version__ = "0.3.21+stand.in"
__all__ = [
    "build_tree_kernel_efficient",
    "top_k_renorm_prob",
    "top_p_renorm_prob",
    "tree_speculative_sampling_target_only",
    "verify_tree_greedy",
]
