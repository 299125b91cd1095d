"""``python -m remote.lab.recipe --seed 1 --out FOLDER``: trains the lab's pair.

The same words again go on where a run was killed.

Exit codes: 0 done, 2 bad usage, 130 interrupted. Progress goes to standard error, losses to FOLDER/losses.jsonl, the
time that each call took to FOLDER/runs.jsonl.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from remote.lab.errors import INTERRUPTED, USAGE, LabError
from remote.lab.recipe.budget import BUDGETS
from remote.lab.recipe.clock import clocked
from remote.lab.recipe.run import run
from remote.lab.recipe.state import Journal


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m remote.lab.recipe", description="trains the lab's target and drafter"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="folder for everything; a run in it is gone on with")
    parser.add_argument("--budget", choices=sorted(BUDGETS), default="full", help="how much is trained (%(default)s)")
    parser.add_argument(
        "--text", type=Path, help="folder of Python files to learn from (default: the standard library)"
    )
    args = parser.parse_args(argv)

    torch.set_num_threads(1)  # parts of a batch run beside each other (parallel.py)
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        with (args.out / ".lock").open("w") as lock:
            hold(lock.fileno(), args.out)
            with clocked(args.out):
                run(args.out, args.seed, args.budget, Journal(args.out / "losses.jsonl"), args.text)
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED
    print(args.out / "MODEL_CARD.md")
    return 0


def hold(lock: int, out: Path) -> None:
    """One run at a time in a folder."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LabError(
            "WB-RECIPE-OUT",
            f"another process trains in {out}",
            expected="one run at a time in a folder",
            next="wait for it, or give another --out",
            exit_code=USAGE,
        ) from None


if __name__ == "__main__":
    sys.exit(main())
