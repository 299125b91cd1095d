"""How SGLang starts its schedulers and its detokenizer."""

from __future__ import annotations

import functools
import multiprocessing
import sys
from types import ModuleType
from typing import Any

from .change import replace, require


def fork_workers(engine: ModuleType) -> None:
    """entrypoints/engine.py:883 asks for "spawn", since CUDA does not survive a fork: each worker then imports all of
    SGLang, torch and transformers again, some 10 s of CPU time for each rank. Without CUDA a fork is safe here: the
    parent has no other thread yet (tests/unit/test_engine_processes.py), and workers start with everything imported.
    """
    set_envs_and_config = require(engine, "_set_envs_and_config")

    @functools.wraps(set_envs_and_config)
    def set_envs_and_config_and_fork(server_args: Any) -> None:
        set_envs_and_config(server_args)
        if sys.platform == "linux":
            multiprocessing.set_start_method("fork", force=True)

    replace(engine, "_set_envs_and_config", set_envs_and_config_and_fork)
