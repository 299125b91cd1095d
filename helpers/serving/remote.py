"""Calls to the box's side of serving (remote/runner.py), with its refusals as errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from helpers.box.transient import Transient
from helpers.box_python import another, chosen
from helpers.errors import RemoteFailed, UsageError
from helpers.uploads import broken, call, command, upload

if TYPE_CHECKING:
    from helpers.box import Box

Event = dict[str, Any]
#: Seconds for which a watch goes on trying to reach a box that was lost.
PATIENCE = 120.0


def ask(box: Box, operation: str, request: dict[str, Any], *, python: str = "python3") -> dict[str, Any]:
    """One request to the runner.

    Raises:
        UsageError, RemoteFailed: the refusal, by its code.
    """
    answer = call(box, "runner", operation, request, python=python)
    if error := answer.get("error"):
        raise refusal(box.name, error)
    return answer


def watch(
    box: Box,
    run: str,
    *,
    offset: int = 0,
    tail: int | None = None,
    follow: bool = True,
    health: bool = False,
    python: str = "python3",
) -> Iterator[Event]:
    """Events of a run (remote/watching.py) until it is ready, dead, or at its log's present end.

    A lost connection is made again and the watch goes on at the next byte of the log; meanwhile come events ``lost``.
    """
    lost_since: float | None = None
    while True:
        request = {"run": run, "offset": offset, "tail": tail, "follow": follow, "health": health}
        try:
            for event in _events(box, request, python):
                lost_since = None
                if event["event"] == "line":
                    offset, tail = event["offset"], None
                yield event
                if event["event"] in ("ready", "dead", "foreign", "end"):
                    return
        except Transient as error:
            lost_since = lost_since or time.monotonic()
            if error.code == "WB-SSH-CLOSED" or time.monotonic() - lost_since > PATIENCE:
                raise
            yield {"event": "lost"}
            time.sleep(1)


def _events(box: Box, request: dict[str, Any], python: str) -> Iterator[Event]:
    noise: list[str] = []
    python = chosen(box, python)
    words = command("runner", "watch", json.dumps(request), python=python)
    for line in box.stream(words, cwd=upload(box, python=python), check=False):
        try:
            event = json.loads(line)
        except ValueError:
            noise.append(line)
            continue
        if "error" in event:
            raise refusal(box.name, event["error"])
        yield event
    other = another(box, python)
    if other is None:
        raise broken(box.name, python, noise)
    yield from _events(box, request, other)


def refusal(name: str, error: dict[str, Any]) -> UsageError | RemoteFailed:
    """A refusal of the runner as the error that the user sees."""
    code, message = error["code"], error["message"]
    if code == "WB-SERVE-NO-RUN":
        known = error.get("known", [])
        return UsageError(
            code,
            f"{message} on {name}",
            expected="one of " + ", ".join(known) if known else "the id of a run; there is none",
            next=f"workbook runs {name}",
        )
    expected, hint = _ADVICE[code]
    where = error.get("run", "RUN")
    return RemoteFailed(
        code,
        f"{message} (on {name})",
        expected=expected,
        next=hint.format(box=name, run=where, node=error.get("node", "BOX")),
        lines=list(error.get("missing", [])),
    )


_ADVICE = {
    "WB-SERVE-SOURCE-CHANGED": (
        "a checkout that nobody changes between the look at it and the start",
        "start again: the look is made anew; who patches there: workbook runs {box}",
    ),
    "WB-SERVE-NO-MODEL": ("a folder with a readable config.json", "mend the path in the profile, or push the model"),
    "WB-SERVE-PORT-TAKEN": (
        "a port that nobody has",
        "leave the port out of the profile, or: workbook stop {box} {run}",
    ),
    "WB-SERVE-FILES": ("a home that can be read and written, with room left", "workbook run {box} -- df -h ."),
    "WB-SERVE-NO-PROGRAM": (
        "the server's interpreter",
        "mend python in the profile: workbook run {box} -- which python3",
    ),
    "WB-SERVE-OTHER-OWNER": ("your own run", "ask its owner first; then: workbook stop {box} {run} --force"),
    "WB-SERVE-ELSEWHERE": (
        "a connection to the machine that the run was started on; nothing was signalled",
        "stop it from there: workbook stop {node} {run}; if that machine is gone for good, see the page of this code",
    ),
    "WB-SERVE-STRANGER": (
        "the process that was started; nothing was signalled",
        "nothing is left to stop: workbook runs {box}",
    ),
}
