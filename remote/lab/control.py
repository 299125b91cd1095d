"""up, status and down: what `python -m remote.lab` does."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from dataclasses import replace
from typing import Any

from remote import runs
from remote.lab import leftovers, start
from remote.lab.checkout import check_engine, check_tp
from remote.lab.errors import FAILED, UNREACHABLE, USAGE, WORKBOOK, LabError
from remote.lab.reach import answers
from remote.lab.session_env import DAEMON_MARKER
from remote.lab.state import ALIAS, HOST, Paths, Record, locked, read_record, user_name, write_record


def up(paths: Paths, *, engine: str | None, tp: int | None, port: int | None) -> dict[str, Any]:
    """Starts the lab, or finds the one that runs.

    Args:
        engine: version of SGLang for the box's checkout; None for a box without.
        tp: tensor parallel size that the lab is wanted for: checked against the target and recorded, no more, for a
            profile says its server's own. None leaves it (1 at first).
        port: None takes a free one.

    Returns:
        the record, ``started`` (False: it ran already) and ``warnings``.
    """
    check_engine(engine)
    warnings = check_tp(1 if tp is None else tp)
    with locked(paths):
        record = read_record(paths)
        if record is not None and record.daemon.alive():
            if not answers(record):  # not ended unasked: servers may run in it
                raise _silent(record, FAILED)
            _check_same(record, engine, port)
            if tp is not None and tp != record.tp:
                record = replace(record, tp=tp)
                write_record(paths, record)
            return {**record.to_json(), "started": False, "warnings": warnings}
        with _bound(port) as listening:
            _sweep(paths, record)
            record = start.start(paths, listening, engine=engine, tp=1 if tp is None else tp)
        return {**record.to_json(), "started": True, "warnings": warnings}


def status(paths: Paths) -> dict[str, Any]:
    """The record of the lab that runs."""
    record = read_record(paths)
    if record is None:
        raise _not_up(f"no lab is up in {paths.root}")
    if not record.daemon.alive():
        raise _not_up(f"the lab in {paths.root} is gone: its process {record.pid} no longer runs")
    if not answers(record):
        raise _silent(record, UNREACHABLE)
    return record.to_json()


def down(paths: Paths) -> dict[str, Any]:
    """Stops the lab and everything that its sessions started. Its folder stays. A lab that is down is no error.

    Returns:
        ``was_up``, and ``ended``: how many processes of sessions were still running.
    """
    if not paths.root.exists():
        return {"was_up": False, "ended": 0}
    with locked(paths):
        record = read_record(paths)
        was_up = record is not None and record.daemon.alive()
        _note_stops(paths)
        return {"was_up": was_up, "ended": _sweep(paths, record)}


def _note_stops(paths: Paths) -> None:
    """The runs that live now are ended by whoever ends the lab, not by themselves: their records say so."""
    for file in (paths.home / ".workbook" / "runs").glob("*/run.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            run = json.loads(file.read_text())
            if runs.leader(run):
                runs.note_stop(run, f"{user_name()} (lab down)", file)


def _sweep(paths: Paths, record: Record | None) -> int:
    """Ends a lab, or what a crash left of one: guardian, daemon, sessions, record."""
    running = len(leftovers.find(paths))
    if record is not None:
        start.stop(record.guardian)
    # Also one whose record was deleted by hand.
    leftovers.end(paths, marker=DAEMON_MARKER)
    leftovers.end(paths)
    left = [*leftovers.find(paths, marker=DAEMON_MARKER), *leftovers.find(paths)]
    if left:
        raise LabError(
            "WB-LAB-STUCK",
            f"processes of the lab did not end: {', '.join(str(process.pid) for process in left)}",
            expected="no process left after SIGKILL",
            next=f"ps -o pid,stat,wchan,args -p {','.join(str(process.pid) for process in left)}",
            exit_code=FAILED,
        )
    paths.record.unlink(missing_ok=True)
    return running


def _check_same(record: Record, engine: str | None, port: int | None) -> None:
    if port in (None, record.port) and engine == record.engine:
        return
    raise LabError(
        "WB-LAB-ALREADY-UP",
        f"a lab is up already: engine {record.engine}, port {record.port}",
        expected=f"that one, or none (asked: engine {engine}, port {port or 'any'})",
        next=f"{WORKBOOK} lab down",
        exit_code=USAGE,
    )


def _bound(port: int | None) -> socket.socket:
    """A socket that listens on the loopback: bound here, so that a taken port fails before anything is made."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port or 0))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise LabError(
            "WB-LAB-PORT-TAKEN",
            f"the lab cannot listen on {HOST}:{port}: {error.strerror}",
            expected="a port that no other program holds",
            next=f"{WORKBOOK} lab up (takes a free port)",
            exit_code=USAGE,
        ) from None
    return sock


def _silent(record: Record, exit_code: int) -> LabError:
    return LabError(
        "WB-LAB-SILENT",
        f"the lab's process {record.pid} runs, but does not serve its client on {record.host}:{record.port}",
        expected="a greeting within seconds, and the client key and known_hosts in their place",
        next=f"{WORKBOOK} lab down, then {WORKBOOK} lab up; its log is {record.log}",
        exit_code=exit_code,
    )


def _not_up(message: str) -> LabError:
    return LabError(
        "WB-LAB-NOT-UP",
        message,
        expected=f"a running lab, reached as {ALIAS!r}",
        next=f"{WORKBOOK} lab up",
        exit_code=UNREACHABLE,
    )


def interruptible() -> None:
    """SIGTERM and a closed terminal unwind like Ctrl-C, so that all leave nothing half-started. `nohup` is respected.

    Only the first of them is taken: Ctrl-C in a terminal goes to the whole group, so that whoever called this command
    ends it as well, and a second interrupt would cut the cleaning up of the first one short.
    """

    def interrupt(*_: object) -> None:
        for number in interrupts:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    interrupts = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    for number in interrupts:
        signal.signal(number, interrupt)
