"""The command `workbook`. What it is made of takes half a second to import: Ctrl-C there is an interrupt, too."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> None:
    """Entry point: see `helpers.commands.app`."""
    try:
        from helpers.commands.app import run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
    run(argv)


if __name__ == "__main__":
    main()
