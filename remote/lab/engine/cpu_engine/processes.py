"""How SGLang starts its schedulers and its detokenizer."""

from __future__ import annotations

import functools
import importlib
import logging
import multiprocessing
from pathlib import Path
from types import ModuleType
from typing import Any

from .change import replace, require

log = logging.getLogger(__name__)


def fork_workers(engine: ModuleType) -> None:
    """entrypoints/engine.py:883 asks for "spawn", since CUDA does not survive a fork: each worker then imports all of
    SGLang, torch and transformers again, some 6 s of CPU time for each rank. Without CUDA a fork will do, as long as
    the parent has a single thread: workers start with everything imported, and share its memory.
    """
    set_envs_and_config = require(engine, "_set_envs_and_config")

    @functools.wraps(set_envs_and_config)
    def set_envs_and_config_and_fork(server_args: Any) -> None:
        set_envs_and_config(server_args)
        importlib.import_module("sglang.srt.models.registry")  # every rank looks through all models there
        threads = _threads()
        if threads == 1:
            multiprocessing.set_start_method("fork", force=True)
        else:
            log.warning("Workers are spawned, not forked, and start slowly: the server has %d threads already", threads)

    replace(engine, "_set_envs_and_config", set_envs_and_config_and_fork)


def _threads() -> int:
    """Threads of this process, those of libraries included; 0 where the system does not say (not Linux)."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 0
