"""``python -m helpers.lab_dumps PAIR``: the training dump of a pair in the two other formats that trainers write.

PAIR is a folder of the recipe (`make lab-train`). Its ``dump/`` is speculators v1; ``dump-speculators/`` and
``dump-specforge/`` hold the same samples as speculators writes them now and as SpecForge does.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.errors import WorkbookError
from helpers.interrupts import exit_status, interruptible
from helpers.progress import slow
from helpers.terminal import in_terminal


def write_formats(pair: Path) -> list[Path]:
    """Write both folders anew; gives them. The old ones stay until both new ones are whole.

    Raises:
        UsageError: what the readers of dumps and targets raise; WB-DISK-FULL, WB-LOCAL-WRITE.
    """
    from helpers.box.partial import local_problem
    from helpers.tensors.dumps import read_dump
    from helpers.tensors.writers import FinalNorm, write_specforge, write_speculators
    from helpers.wiring.drafter.target import load_target

    target, dump = load_target(pair / "target"), read_dump(pair / "dump")
    norm = FinalNorm(target.norm(), target.rms_eps)
    out = [pair / "dump-speculators", pair / "dump-specforge"]
    parts = [folder.with_name(folder.name + ".part") for folder in out]
    try:
        for part in parts:
            if part.exists():  # of a call that was killed
                shutil.rmtree(part)
        write_speculators(dump, parts[0], normed=False)
        write_specforge(dump, parts[1], norm=norm, normed=False)
        for part, folder in zip(parts, out, strict=True):
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(part, folder)
    except OSError as error:
        raise local_problem(Path(error.filename or pair), error) from error
    finally:
        for part in parts:
            shutil.rmtree(part, ignore_errors=True)
    return out


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        # Imports, the target and both formats: 2 s here, more on a slow disk or with a large dump.
        with interruptible(), slow("dumps", "writing two more formats"):
            written = write_formats(Path(arguments[0]))
    except WorkbookError as error:
        sys.stderr.write(in_terminal(error))
        return error.exit_code
    except KeyboardInterrupt as cut:
        sys.stderr.write("\ninterrupted; the same command writes both formats anew\n")
        return exit_status(cut)
    for folder in written:
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
