"""How far a loading server has come, read from its log. Pure.

The words are those of SGLang 0.5.9 (the files that print them stand beside); a log may skip stages, and with tensor
parallelism each rank says its own.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

Stage = Literal["starting", "weights", "memory pool", "graph capture", "ready"]
STAGES: tuple[Stage, ...] = get_args(Stage)

_SIGNS: tuple[tuple[Stage, re.Pattern[str]], ...] = (
    ("weights", re.compile(r"Load weight begin|Loading safetensors checkpoint shards")),  # model_runner.py:899
    ("memory pool", re.compile(r"KV Cache is allocated|Memory pool end")),  # mem_cache/memory_pool.py:652
    ("graph capture", re.compile(r"Capture [\w ]*graph begin")),  # model_runner.py:2147
    ("ready", re.compile(r"The server is fired up and ready to roll")),  # http_server.py:1836
)
_SHARDS = re.compile(r"checkpoint shards:\s+(\d+)%")
_BATCHES = re.compile(r"Capturing batches .*?(\d+)%\|")


def stage_of(line: str) -> Stage | None:
    """The stage that a log line announces, or None for all other lines."""
    for stage, sign in _SIGNS:
        if sign.search(line):
            return stage
    return None


def percent_of(line: str) -> int | None:
    """The share done that a progress line of a stage tells (shards loaded, graphs captured), or None."""
    found = _SHARDS.search(line) or _BATCHES.search(line)
    return int(found.group(1)) if found else None
