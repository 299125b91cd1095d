"""Stop a run: its process group and session, and nothing else; then look whether it is really gone.

Signals go only to what is proven to be the run's: the group while its leader is the process that was started (pid,
start time, boot), else those members that carry the run's mark. What left the group is reported, and signalled only
on request.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

from remote import gpus, ports, processes, runs

Processes = list[processes.Process]
POLL, KILL_SECONDS = 0.1, 10.0


def stop(request: dict[str, Any]) -> dict[str, Any]:
    """End the run's processes: TERM, and KILL after ``grace`` seconds.

    The request holds ``run``, ``owner`` (who asks), ``force`` (also another owner's), ``orphans`` (also what left the
    group) and ``grace``.

    Raises:
        Refused: WB-SERVE-OTHER-OWNER, WB-SERVE-ELSEWHERE where it runs on another machine with this home, or
            WB-SERVE-STRANGER where the pid is another process now.
    """
    record = runs.load(request["run"])
    if record["owner"] != request["owner"] and not request["force"]:
        raise runs.Refused(
            "WB-SERVE-OTHER-OWNER",
            f"run {record['id']} was started by {record['owner']}, not by {request['owner']}",
            owner=record["owner"],
            run=record["id"],
        )
    if runs.state(record) == "elsewhere":
        raise runs.elsewhere_refused(record)
    began = time.monotonic()
    leader = runs.leader(record)
    members, outside = _sort(record, leader)
    if leader is None and not members and not outside and runs.state(record) == "stranger":
        other = processes.find(record["pid"])
        raise runs.Refused(
            "WB-SERVE-STRANGER",
            f"run {record['id']} is gone: its pid {record['pid']} is now another process"
            + (f" ({other.command})" if other else ""),
        )
    memory = gpus.before([p.pid for p in [*members, *outside]])
    targets = [*members, *outside] if request["orphans"] else members
    if leader:
        runs.note_stop(record, request["owner"])
    _signal(targets, record, leader, signal.SIGTERM)
    killed: Processes = []
    if not _gone(targets, request["grace"]):
        killed = [p for p in targets if _alive(p)]
    left, orphans = _finish(record, targets, orphans=request["orphans"])
    return {
        "run": record["id"],
        "was": "alive" if leader else "dead",
        "stopped": record.get("stopped"),
        "signalled": [p.as_dict() for p in targets],
        "killed": [p.as_dict() for p in killed],
        "left": [p.as_dict() for p in left],
        "orphans": [p.as_dict() for p in {p.pid: p for p in [*outside, *orphans]}.values() if _alive(p)],
        **_port(record),
        "gpu": gpus.after(memory),
        "seconds": round(time.monotonic() - began, 3),
    }


def _sort(record: runs.Record, leader: processes.Process | None) -> tuple[Processes, Processes]:
    """The run's living processes: those in its group or session, and those that left both."""
    among = processes.running()
    marked = {p.pid for p in processes.marked(record["id"], among)}
    below = {p.pid for p in processes.descendants(record["pid"], among)} if leader else set()
    members, outside = [], []
    for process in among:
        inside = record["pgid"] in (process.group, process.session)
        if inside and (leader or process.pid in marked):
            members.append(process)
        elif process.pid in marked or process.pid in below:
            outside.append(process)
    return members, outside


def _finish(record: runs.Record, targets: Processes, *, orphans: bool) -> tuple[Processes, Processes]:
    """KILL what stays, also members born while the first signal went round; what is left inside and outside."""
    until = time.monotonic() + KILL_SECONDS
    while True:
        inside, outside = _sort(record, None)
        stay = {p.pid: p for p in [*targets, *inside, *(outside if orphans else [])] if _alive(p)}
        if not stay or time.monotonic() > until:
            return list(stay.values()), outside
        _signal(list(stay.values()), record, runs.leader(record), signal.SIGKILL)
        _gone(list(stay.values()), 1)


def _signal(targets: Processes, record: runs.Record, leader: processes.Process | None, number: int) -> None:
    if leader:  # the group in one call: no member can be born between two signals and be missed
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record["pgid"], number)
    for process in targets:
        if (not leader or process.group != record["pgid"]) and _alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _gone(targets: Processes, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while any(_alive(p) for p in targets):
        if time.monotonic() > until:
            return False
        time.sleep(POLL)
    return True


def _alive(process: processes.Process) -> bool:
    now = processes.find(process.pid)
    return now is not None and now.alive and now.start == process.start


def _port(record: runs.Record) -> dict[str, Any]:
    """Whether nobody listens on the run's port any more, and who does: it may be another's by now.

    A socket can outlive its process by a moment.
    """
    until = time.monotonic() + 3
    while ports.answers(record["host"], record["port"]):
        holder = ports.holder(record["port"])
        if holder and not processes.marked(record["id"], [holder]):
            return {"port_closed": False, "port_holder": holder.as_dict()}
        if time.monotonic() > until:
            return {"port_closed": False, "port_holder": None}
        time.sleep(POLL)
    return {"port_closed": True, "port_holder": None}
