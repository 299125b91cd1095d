"""The box's side of serving: ``python3 -m remote.runner OP [REQUEST]`` takes one JSON request (else from standard
input, where ``ps`` does not show it) and answers in JSON.

Operations: ``probe``, ``start``, ``list``, ``stop`` print one object; ``watch`` prints one a line. An error is
``{"error": {"code", "message", ...}}`` with exit status 4. Standard library only, Python 3.9 or later, Linux.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from remote import ports, processes, runs, starting, stopping, watching

ENDINGS, LINES = 20, 600  # so many of the newest dead runs have so many of their last lines told


def listing(request: dict[str, Any]) -> dict[str, Any]:
    """All runs with their state now, the oldest first; what cannot be read is named.

    With ``endings`` the newest that died have ``last``: their log's last lines.
    """
    found = []
    readable = runs.readable()
    for record in readable:
        state = runs.state(record)
        answers = state == "alive" and ports.answers(record["host"], record["port"])
        orphans = [] if state == "alive" else [p.as_dict() for p in watching.left(record)]
        rebooted = record["boot_id"] != processes.boot_id() and state != "elsewhere"
        one: dict[str, Any] = {
            "record": record,
            "state": state,
            "answers": answers,
            "orphans": orphans,
            "rebooted": rebooted,
        }
        found.append(one)
    if request.get("endings"):
        for one in [one for one in found if one["state"] in ("dead", "stranger")][-ENDINGS:]:
            one["last"] = watching.last(one["record"]["id"], LINES)
    damaged = sorted(set(runs.ids()) - {record["id"] for record in readable})
    return {"runs": found, "damaged": damaged}


OPERATIONS = {"probe": starting.probe, "start": starting.start, "list": listing, "stop": stopping.stop}


def main(operation: str, *words: str) -> int:
    """Answer one request; the exit status."""
    request = json.loads(words[0] if words else sys.stdin.read())
    try:
        if operation == "watch":
            for event in watching.watch(request):
                print(watching.dump(event), flush=True)
        else:
            print(json.dumps(OPERATIONS[operation](request)), flush=True)
    except runs.Refused as refusal:
        print(json.dumps({"error": refusal.answer}), flush=True)
        return 4
    except BrokenPipeError:  # the reader went away
        sys.stdout = None
    except OSError as error:
        print(json.dumps({"error": {"code": "WB-SERVE-FILES", "message": str(error)}}), flush=True)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
