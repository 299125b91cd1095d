"""Start a server in its own session, so that it outlives whoever asked for it.

The child itself writes run.json before it becomes the server: from the first moment that a server runs, it can be
found, whatever happens to the asking side in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

from remote import draft, editing, ports, processes, relying, runs


def probe(request: dict[str, Any]) -> dict[str, Any]:
    """What would stand in the way, and what the models are.

    ``{"port", "missing": [folder (why), ...], "configs": {folder: config.json}}``; the port is a free one where none
    was asked for.
    """
    missing, configs = _models(request["folders"])
    return {"port": _port(request["host"], request["port"]), "missing": missing, "configs": configs}


def start(request: dict[str, Any]) -> dict[str, Any]:
    """Start the server and return its record.

    The request holds ``record`` (run.json without this side's facts), ``argv`` and ``env`` as the server gets them
    (the record has them without secrets), ``prepend`` (put in front of path-like variables; PATH gets the program's own
    folder besides), ``draft`` (folder and ids for a copy, or null), ``folders`` that must be models, and ``journal``:
    how many entries the journal of patches had for this checkout when the start was planned (absent: not looked at).

    Raises:
        Refused: WB-SERVE-NO-MODEL, WB-SERVE-PORT-TAKEN, WB-SERVE-NO-PROGRAM, or WB-SERVE-SOURCE-CHANGED where the
            checkout is no longer what run.json would say of it.
    """
    record = request["record"]
    folder = runs.folder(record["id"])
    if missing := _models(request["folders"])[0]:
        raise runs.Refused("WB-SERVE-NO-MODEL", f"there is no model at {missing[0]}", missing=missing)
    with runs.locked():
        _source(record, request.get("journal"))
        _port(record["host"], record["port"])
        folder.mkdir(mode=0o700)  # the log of a server tells its arguments, keys among them
        try:
            if request["draft"]:
                draft.copy(Path(request["draft"]["folder"]), folder / "draft", request["draft"]["aux_layer_ids"])
            error = _spawn(request, folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        if error:
            shutil.rmtree(folder)
            raise runs.Refused(**json.loads(error))
    return runs.load(record["id"])


def _spawn(request: dict[str, Any], folder: Path) -> str:
    """Fork, and become the server in the child; where that fails its refusal as JSON, else nothing."""
    heard, said = os.pipe()  # both close on exec: an end of file without words means that the server runs
    child = os.fork()
    if child == 0:
        _become(request, folder, said)
    os.close(said)
    with open(heard, encoding="utf-8", errors="replace") as words:
        error = words.read()
    if error:
        os.waitpid(child, 0)
    return error


def _become(request: dict[str, Any], folder: Path, said: int) -> NoReturn:
    argv, env = command_and_environment(request)
    try:
        os.setsid()
        for ignored in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):  # what Python or nohup ignore is inherited
            signal.signal(ignored, signal.SIG_DFL)
        log = os.open(folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, said)  # nothing of the asking side stays open, so that its channel can close
        os.closerange(said + 1, 1024)
        me = processes.find(os.getpid())
        assert me is not None
        record = {
            **request["record"],
            "pid": me.pid,
            "pgid": os.getpgrp(),
            "start_time": me.start,
            "boot_id": processes.boot_id(),
            "node": processes.node(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        runs.save(record)
        runs.write(folder / "pid", f"{me.pid}\n")
        os.chdir(folder)
    except BaseException as error:  # noqa: BLE001 - this process must end here, whatever it was
        _say(said, "WB-SERVE-FILES", str(error))
    else:
        try:
            os.execvpe(argv[0], argv, env)
        except OSError as error:
            _say(said, "WB-SERVE-NO-PROGRAM", f"{argv[0]!r} cannot be run: {error.strerror}")
    finally:
        os._exit(127)


def _say(said: int, code: str, message: str) -> None:
    with contextlib.suppress(OSError):
        os.write(said, json.dumps({"code": code, "message": message}).encode())


def command_and_environment(request: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of the server.

    A bare SSH session is not an activated environment: ``ninja``, which FlashInfer runs by its name, lies beside the
    interpreter and is found only where that folder is on PATH. So it is put there, unless it is there already: what
    comes before it stays before it. A program without a folder is the one that the session finds, whatever is put in
    front of PATH for what it runs.
    """
    argv = list(request["argv"])
    env = {**os.environ, **request["env"], processes.MARKER: request["record"]["id"]}
    # SGLang's workers rename themselves (setproctitle), which overwrites the environment that /proc shows, and with
    # it the mark by which they are found again. This keeps it.
    env.setdefault("SPT_NOENV", "1")
    path = env.get("PATH", os.defpath)
    if os.path.isabs(argv[0]):
        beside = os.path.dirname(argv[0])
        if beside not in path.split(os.pathsep):
            env["PATH"] = os.pathsep.join([beside, path])
    elif os.sep not in argv[0]:
        argv[0] = shutil.which(argv[0], path=path) or argv[0]
    for name, value in request["prepend"].items():
        present = env.get(name, os.defpath if name == "PATH" else "")
        env[name] = os.pathsep.join(part for part in (value, present) if part)
    return argv, env


def _port(host: str, wanted: int | None) -> int:
    claimed = runs.claimed_ports()
    if wanted is None:
        port = ports.free(host, claimed=set(claimed))
        if port is None:
            raise runs.Refused("WB-SERVE-PORT-TAKEN", f"no port of {ports.FIRST}-{ports.LAST} is free")
        return port
    if wanted in claimed:
        raise runs.Refused(
            "WB-SERVE-PORT-TAKEN", f"port {wanted} belongs to run {claimed[wanted]}", run=claimed[wanted]
        )
    if not ports.bindable(host, wanted):
        holder = ports.holder(wanted)
        who = f"pid {holder.pid}: {holder.command}" if holder else "a process that this user may not see"
        raise runs.Refused("WB-SERVE-PORT-TAKEN", f"port {wanted} on {host} is taken by {who}")
    return wanted


def _source(record: runs.Record, planned: int | None) -> None:
    """Refuse a start whose source was changed after it was looked at: by a patch, or a patched file by hand.

    Patches are written under the lock under which runs begin, so what is found here holds until run.json tells of it.
    """
    root = relying.root_of(record)
    entries = editing.journal_of(root)
    if planned is not None and len(entries) != planned:
        last = entries[-1] if entries else {}
        who = f": {last['action']} of {last['patch']} by {last['by']} at {last['time']}" if last else ""
        raise runs.Refused("WB-SERVE-SOURCE-CHANGED", f"{root} was patched while this start was being prepared{who}")
    for patch in record.get("patches", []):
        for path, expected in patch["files"].items():
            if expected is not None and editing.digest(relying.at(root, path)) != expected:
                raise runs.Refused(
                    "WB-SERVE-SOURCE-CHANGED",
                    f"{relying.at(root, path)} was changed while this start was being prepared",
                )


def _models(folders: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Folders that are no model (absent, or without a config.json that can be read), and the configs of the others."""
    missing: list[str] = []
    configs: dict[str, Any] = {}
    for folder in folders:
        try:
            configs[folder] = json.loads((Path(folder) / "config.json").read_text())
        except OSError as error:
            missing.append(f"{folder} ({error.strerror}: {error.filename})")
        except ValueError as error:
            missing.append(f"{folder} (config.json is not JSON: {error})")
    return missing, configs
