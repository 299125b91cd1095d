"""``runs.jsonl``: how long each call of the command took. Apart from what is trained, which must not differ by it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

RUNS = "runs.jsonl"


@contextlib.contextmanager
def clocked(out: Path) -> Iterator[None]:
    """Adds a line when the block ends, however it ends; a run that was killed leaves none.

    Its values: ``began`` (UTC), ``resumed`` (whether the folder held a run already), ``ended`` (``done``,
    or the exception's name), ``wall_s`` and ``processor_s`` (all threads) in seconds, ``cores`` that this process may
    use, and ``load``: the machine's load of the minute before, which says whether other work ran beside.
    """
    line = {
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "resumed": (out / "run.json").exists(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    wall, processor, ended = time.monotonic(), time.process_time(), "done"
    try:
        yield
    except BaseException as error:
        ended = type(error).__name__
        raise
    finally:
        spent = {"wall_s": time.monotonic() - wall, "processor_s": time.process_time() - processor}
        line |= {name: round(seconds, 1) for name, seconds in spent.items()} | {"ended": ended}
        with (out / RUNS).open("a") as file:
            file.write(json.dumps(line) + "\n")
