"""``python -m helpers.lab_dumps PAIR``: the training dump of a pair in the two other formats that trainers write.

PAIR is a folder of the recipe (`make lab-train`). Its ``dump/`` is speculators v1; ``dump-speculators/`` and
``dump-specforge/`` hold the same samples as speculators writes them now and as SpecForge does.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from helpers.errors import UsageError
from helpers.terminal import in_terminal


def write_formats(pair: Path) -> list[Path]:
    """Write both folders anew; gives them.

    Raises:
        UsageError: what the readers of dumps and targets raise.
    """
    from helpers.tensors.dumps import read_dump
    from helpers.tensors.writers import FinalNorm, write_specforge, write_speculators
    from helpers.wiring.drafter.target import load_target

    target, dump = load_target(pair / "target"), read_dump(pair / "dump")
    norm = FinalNorm(target.norm(), target.rms_eps)
    out = [pair / "dump-speculators", pair / "dump-specforge"]
    for folder in out:
        shutil.rmtree(folder, ignore_errors=True)
    write_speculators(dump, out[0], normed=False)
    write_specforge(dump, out[1], norm=norm, normed=False)
    return out


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        for folder in write_formats(Path(sys.argv[1])):
            print(folder)
    except UsageError as error:
        sys.stderr.write(in_terminal(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
