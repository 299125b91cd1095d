"""`workbook run|facts|pull|push`: the box, its files and what it is."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from helpers.box import Transfer, connect
from helpers.box.box import Box
from helpers.box.facts.comparison import Comparison, compare, laptop
from helpers.box.facts.gathering import FACTS, BoxFacts, command_of, gather
from helpers.box.facts.text import to_text
from helpers.box.meter import human
from helpers.box.result import printable
from helpers.commands.output import AsJson, emit

BoxName = Annotated[str, typer.Argument(metavar="BOX", help="lab, user@host[:port], or an alias of ~/.ssh/config.")]


def run(
    box: BoxName,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    cwd: Annotated[str | None, typer.Option(help="Working folder on the box; default: its home.")] = None,
    deadline: Annotated[float | None, typer.Option(min=0, help="Seconds after which it is ended.")] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Pass this command's standard input on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Runs a command on the box, shows its output as it comes, and exits with its exit status.

    Ctrl-C ends it there too. With --json the output comes at the end, with the record of the command.
    """
    given = sys.stdin.buffer.read() if stdin else None
    with connect(box) as there:
        if as_json:
            result = there.run(command, cwd=cwd, stdin=given, deadline=deadline, check=False)
            output = {"stdout": printable(result.stdout), "stderr": printable(result.stderr)}
            emit({**result.record(), **output}, as_json=True, text="")
            raise typer.Exit(result.exit_status)
        execution = there.execute(command, cwd=cwd, stdin=given, deadline=deadline)
        streams = {"out": sys.stdout.buffer, "err": sys.stderr.buffer}
        with contextlib.closing(execution.events()) as events:
            for name, block in events:
                streams[name].write(block)
                streams[name].flush()
    raise typer.Exit(execution.exit_status or 0)


def facts(
    box: BoxName,
    only: Annotated[str | None, typer.Option(help="Names of facts, by commas; default: all.")] = None,
    python: Annotated[str, typer.Option(help="The box's interpreter that packages are asked of.")] = "python3",
    raw: Annotated[str | None, typer.Option(metavar="FACT", help="Print the command's own answer, unread.")] = None,
    as_json: AsJson = False,
) -> None:
    """Says what the box is and does: GPUs, memory, disk, servers and the SGLang that they import, Python.

    Compares laptop and box, and marks what matters for a comparison of tensors. Changes nothing on the box.
    """
    with connect(box) as there:
        if raw is not None:
            _raw(there, raw, python)
            return
        found = gather(there, only.split(",") if only else None, python=python)
    table = _comparison(found)
    result: dict[str, Any] = {"facts": found.model_dump(mode="json")}
    result["comparison"] = table.model_dump(mode="json")["rows"] if table is not None else None
    emit(result, as_json=as_json, text=to_text(found, table))


def _raw(box: Box, name: str, python: str) -> None:
    if name not in FACTS:
        gather(box, [name])  # says which facts there are
    answer = box.run(command_of(name, python), check=False, idempotent=True)
    sys.stdout.write(printable(answer.stdout))
    sys.stderr.write(printable(answer.stderr))


def _comparison(found: BoxFacts) -> Comparison | None:
    if found.python is None:
        return None
    versions = {engine.version for engine in (found.engine.engines if found.engine is not None else ())}
    # Servers of several releases: then none of them speaks for the box.
    return compare(laptop(), found.python, versions.pop() if len(versions) == 1 else None)


def pull(
    box: BoxName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="File or folder on the box; ~/ is its home.")],
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="Where to put it; a folder's files go into it.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for files that are still being written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetches a file or a folder, checked by size and sha256; goes on where a broken transfer stopped."""
    with connect(box) as there:
        done = there.pull(path, local, wait=wait)
    emit(done.to_json(), as_json=as_json, text=_account(done, done.local))


def push(
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="File or folder here.")],
    box: BoxName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Where to put it on the box; ~/ is its home.")],
    as_json: AsJson = False,
) -> None:
    """Brings a file or a folder to the box, checked by size and sha256; goes on where a broken transfer stopped."""
    with connect(box) as there:
        done = there.push(local, path)
    emit(done.to_json(), as_json=as_json, text=_account(done, f"{box}:{done.remote}"))


def _account(done: Transfer, where: str) -> str:
    files = f"{done.files} files" if done.files != 1 else "1 file"
    lines = [f"{where}: {files}, {human(done.bytes)} in {done.seconds:.1f} s, {human(done.sent)} sent"]
    if done.resumed:
        lines.append(f"the connection was lost and made anew {done.resumed} times")
    if done.skipped:
        lines.append(f"no files, and so left out: {', '.join(done.skipped[:10])}")
    checked = f"sha256 {done.sha256}" if done.verified == "sha256" else "the box has no shell: only sizes were checked"
    return "\n".join([*lines, checked])
