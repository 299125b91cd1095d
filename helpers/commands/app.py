"""Wires the rooms' commands together and turns errors into exit codes.

Exit codes: 0 done and good; 1 done, and something was found wrong; 2 bad usage or bad input; 3 the box is out of reach;
4 the box answered, and the remote action failed; 130 interrupted (143 by SIGTERM, 129 by SIGHUP).
"""

from __future__ import annotations

import inspect
import os
import re
import sys

import typer
from typer.exceptions import TyperException

from helpers import __version__
from helpers.commands import (
    archaeology,
    bench,
    boundaries,
    box,
    capture,
    counters,
    export,
    facts,
    investigate,
    lab,
    ledger,
    preflight,
    replay,
    serving,
    source,
    sweep,
    wiring,
)
from helpers.commands.going_on import interrupted
from helpers.commands.output import emit_error
from helpers.commands.refused import refused
from helpers.errors import UsageError, WorkbookError
from helpers.interrupts import exit_status, interruptible

HELP = """Find out why an EAGLE-3 drafter is accepted less often in serving than training promised.

BOX is `lab` (the box on this machine: `workbook lab up`), an alias of ~/.ssh/config, or user@host. One that is slow to
reach gets WORKBOOK_CONNECT_TIMEOUT seconds in place of 15 (or of its ConnectTimeout in ~/.ssh/config).
Exit codes: 0 good, 1 something was found wrong, 2 bad input, 3 box out of reach, 4 the remote action failed."""

app = typer.Typer(
    name="workbook",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root() -> None:
    """Keeps `workbook` a group even while it has few commands; the help text is the app's."""


def unwrapped(doc: str) -> str:
    """A docstring's paragraphs as a line each: the terminal wraps them, at its own width.

    >>> unwrapped("One\\n    two.\\n\\n    Three\\n    four.")
    'One two.\\n\\nThree four.'
    """
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(doc))


app.add_typer(lab.app, name="lab", no_args_is_help=True)
app.add_typer(ledger.app, name="ledger", no_args_is_help=True)
for command in (
    box.run,
    facts.facts,
    box.pull,
    box.push,
    serving.serve,
    serving.wait,
    serving.stop,
    serving.logs,
    serving.runs,
    archaeology.grep,
    archaeology.show,
    source.patch,
    preflight.preflight,
    boundaries.boundaries,
    capture.capture,
    wiring.diagnose,
    wiring.inspect,
    replay.replay,
    counters.counters,
    bench.bench,
    sweep.sweep,
    ledger.report,
    investigate.investigate,
    export.export,
):
    app.command(no_args_is_help=True)(command)
for registered in (*app.registered_commands, *lab.app.registered_commands, *ledger.app.registered_commands):
    registered.help = unwrapped((registered.callback and registered.callback.__doc__) or "")


@app.command()
def version() -> None:
    """Prints the workbook's version."""
    print(f"eagle-workbook {__version__}")


def run(argv: list[str] | None = None) -> None:
    """Run a command. A user's mistake becomes one message, a code and an exit status; nothing else is caught."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` belongs to another program, its --json too.
    as_json = "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)
    try:
        _check_empty(arguments)
        status = _run(arguments)
    except WorkbookError as error:
        emit_error(error, as_json=as_json)
        raise SystemExit(error.exit_code) from None
    except TyperException as error:
        if error.format_message():  # empty: no command was given, and the help was shown
            emit_error(refused(error), as_json=as_json)
        raise SystemExit(UsageError.exit_code) from None
    except (KeyboardInterrupt, typer.Abort) as error:
        sys.stderr.write(interrupted(error))
        raise SystemExit(exit_status(error)) from None
    except BrokenPipeError:
        # The reader (head, less) went away: not an error, but the interpreter would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    raise SystemExit(status if isinstance(status, int) else 0)


def _check_empty(arguments: list[str]) -> None:
    """Refuse an argument without a letter: a shell's variable that was never set would mean this folder, or a home.

    What `run` passes on and what `grep` looks for may be empty.
    """
    if "" in arguments[1:] and arguments[0] not in ("run", "grep"):
        number = arguments.index("", 1)
        raise UsageError(
            "WB-USAGE",
            f"argument {number} of workbook {arguments[0]} is empty",
            expected="a name or a path",
            next=f"look at the command: a shell variable may not be set; workbook {arguments[0]} --help",
        )


def _run(arguments: list[str]) -> object:
    """The command's result, or the exit status that it asked for.

    Typer's own `app(...)` would turn an interrupt into an exit status of 130, which a remote command may have too.
    """
    command = typer.main.get_command(app)
    try:
        with interruptible(), command.make_context("workbook", [*arguments], obj=tuple(arguments)) as context:
            return command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
