"""Which living runs rely on files that somebody is about to change: asked under the lock under which runs begin.

A server that loads reads its engine's source and its models' configs all the while; one that has loaded was started
with the patches that its run.json names, and whoever restarts it, captures from it or reads its source expects them
still. Only living runs count: one that ended, died or was never begun stands in nobody's way. One of another machine
with the same home counts until somebody has stopped it: nothing here can tell that it died. Standard library only.
"""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remote import ports, runs

PACKAGE = "sglang"
LOADS = 3600.0  # seconds for which a run that cannot be looked at counts as one that still reads its files


def relying(patch: str, root: str, paths: Sequence[str]) -> list[dict[str, Any]]:
    """The living runs, anybody's, that the patch ``patch`` of the folder ``root`` or its files ``paths`` matter to.

    Each is ``{"run", "owner", "started", "loading", "named", "over"}``: ``named``, its run.json names the patch;
    ``over``: the patches of its run.json that lie on one of the files; ``loading``: it has not read all its files yet;
    ``node``: the other machine that it runs on, None for this one.
    Runs to which only the checkout matters are told while they load, and not afterwards.
    """
    real = [os.path.realpath(path) for path in paths]
    found = []
    for record in runs.readable():
        if not runs.may_live(record):
            continue
        checkout = root_of(record)
        named, over = False, []
        for held in record.get("patches", []):
            if held["name"] == patch and os.path.realpath(checkout) == os.path.realpath(root):
                named = True
            elif any(os.path.realpath(at(checkout, path)) in real for path in held["files"]):
                over.append(held["name"])
        loading = not _loaded(record)
        if named or over or (loading and _reads(record, real)):
            found.append(
                {
                    "run": record["id"],
                    "owner": record["owner"],
                    "started": record["started"],
                    "loading": loading,
                    "named": named,
                    "over": over,
                    "node": runs.elsewhere(record),
                }
            )
    return found


def root_of(record: runs.Record) -> str:
    """The folder that holds the package that a run serves from; empty where its record tells none."""
    return str((record.get("engine") or {}).get("checkout") or "")


def at(root: str, path: str) -> str:
    """A patch's path as a file of a checkout: in SGLang's repository the package lies below ``python/``."""
    return f"{root}/{path[len('python/') :] if path.startswith('python/') else path}"


def _loaded(record: runs.Record) -> bool:
    """Whether the server listens: SGLang opens its port only when its weights are there.

    On another machine that cannot be seen: there it is taken to have loaded after an hour.
    """
    if runs.elsewhere(record):
        try:
            started = calendar.timegm(time.strptime(record["started"], "%Y-%m-%dT%H:%M:%SZ"))
        except (TypeError, ValueError):
            return False
        return time.time() - started > LOADS
    host, port = record["host"], record["port"]
    return ports.answers(host, port) and not ports.foreign(port, record["id"])


def _reads(record: runs.Record, real: Sequence[str]) -> bool:
    """Whether a loading server reads one of the files: below its package, or in a folder that its arguments name."""
    checkout = root_of(record)
    folders = [str(Path(checkout) / PACKAGE)] if checkout else []
    folders += [word for word in record.get("argv", [])[1:] if word.startswith("/") and word.strip("/")]
    below = [os.path.realpath(folder) for folder in folders]
    return any(path == folder or path.startswith(f"{folder}/") for path in real for folder in below)
