"""Tensor-parallel ranks that share the machine's cores."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .change import replace, require


def share_cores(model_runner: ModuleType) -> None:
    """model_executor/model_runner.py:2240 refuses more ranks than NUMA nodes, unless SGLANG_CPU_OMP_THREADS_BIND names
    the cores of each rank of just this TP. Its result binds threads of sgl_kernel's CPU build only (:788), which is not
    here: neither for AMX nor for arm64 (:193).
    """
    replace(require(model_runner, "ModelRunner"), "init_threads_binding", init_threads_binding)
    replace(model_runner, "_is_cpu_arm64", False)


def init_threads_binding(self: Any) -> None:
    """For model_executor/model_runner.py:386: every rank may run on every core."""
    self.local_omp_cpuid = "all"
