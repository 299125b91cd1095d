"""`workbook run|pull|push`: a command on the box, and files to and from it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from helpers.box import Transfer, connect
from helpers.box.meter import human
from helpers.box.result import printable
from helpers.commands.output import AsJson, emit
from helpers.screen import visible

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


def pull(
    box: BoxName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="File or folder on the box; ~/ is its home.")],
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="Where to put it; a folder's files go into it.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for files that are still being written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetches a file or a folder, checked by size and sha256; goes on where a broken transfer stopped."""
    with connect(box) as there:
        done = there.pull(path, local, wait=wait, digest=True)
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
    lines = [f"{visible(where)}: {files}, {human(done.bytes)} in {done.seconds:.1f} s, {human(done.sent)} sent"]
    if done.resumed:
        lines.append(f"the connection was lost and made anew {done.resumed} times")
    if done.skipped:
        lines.append(f"no files, and so left out: {', '.join(map(visible, done.skipped[:10]))}")
    checked = f"sha256 {done.sha256}" if done.verified == "sha256" else "the box has no shell: only sizes were checked"
    return "\n".join([*lines, checked])
