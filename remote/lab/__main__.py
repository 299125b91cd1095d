"""`python -m remote.lab up|status|down [--json]`: the lab's only door.

With --json one object goes to standard output, an error as ``{"error": {...}}``; text otherwise. Progress and errors
for people go to standard error. Exit codes: 0 good, 2 bad usage, 3 no lab is up, 4 it could not be started or
stopped, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import Any, NoReturn

from remote.lab.checkout import ENGINES
from remote.lab.control import down, interruptible, status, up
from remote.lab.errors import INTERRUPTED, USAGE, LabError
from remote.lab.state import lab_paths


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise LabError(
            "WB-USAGE",
            message,
            expected=self.format_usage().strip(),
            next="python -m remote.lab --help",
            exit_code=USAGE,
        )


def main(argv: list[str]) -> int:
    as_json = "--json" in argv
    try:
        interruptible()
        arguments = _parser().parse_args(argv)
        result, text = _run(arguments)
    except LabError as error:
        if as_json:
            print(json.dumps(error.to_json()))
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: nothing of the lab was left half-started", file=sys.stderr)
        return INTERRUPTED
    print(json.dumps(result) if as_json else text)
    return 0


def _run(arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    paths = lab_paths()
    if arguments.command == "up":
        engine = None if arguments.engine == "none" else arguments.engine
        result = up(paths, engine=engine, tp=arguments.tp, port=arguments.port)
        return result, _describe(result, "is up" if result["started"] else "was up already")
    if arguments.command == "status":
        result = status(paths)
        return result, _describe(result, "is up")
    result = down(paths)
    ended = f"; {result['ended']} processes of its sessions were ended" if result["ended"] else ""
    return result, ("lab is down" if result["was_up"] else "lab was not up") + ended


def _describe(record: dict[str, Any], state: str) -> str:
    engine = f"SGLang {record['engine']}" if record["engine"] else "no SGLang"
    lines = [
        f"{record['alias']} {state}: port {record['port']}, {engine}, tp {record['tp']}, home {record['home']}",
        *(f"note: {warning}" for warning in record.get("warnings", [])),
        f"ssh -F {shlex.quote(record['ssh_config'])} {record['alias']}",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m remote.lab", description="The lab: a box on the loopback with the real SGLang.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    for name, text in (("up", "start it, or find it"), ("status", "say where it is"), ("down", "stop it")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--json", action="store_true", help="one JSON object on standard output")
        if name == "up":
            command.add_argument("--engine", default=ENGINES[0], help="SGLang's version, or none (%(default)s)")
            command.add_argument(
                "--tp",
                type=int,
                help="check that the target splits so many ways (a profile has its own)",
            )
            command.add_argument("--port", type=_port, help="default: a free one")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError(f"{port} is no port (1 to 65535)")
    return port


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
