"""``python -m remote.lab.recipe --seed 1 --out FOLDER``: trains the lab's pair.

The same words again go on where a run was killed.

Exit codes: 0 done, 2 bad usage, 4 the folder cannot be written, 130 interrupted. Progress goes to standard error,
losses to FOLDER/losses.jsonl, the time that each call took to FOLDER/runs.jsonl.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError

from remote.lab.errors import FAILED, INTERRUPTED, USAGE, LabError
from remote.lab.recipe.budget import BUDGETS
from remote.lab.recipe.clock import clocked


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

    try:
        args.out.mkdir(parents=True, exist_ok=True)
        with (args.out / ".lock").open("w") as lock:
            hold(lock.fileno(), args.out)
            with clocked(args.out):
                train(args.out, args.seed, args.budget, args.text)
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except (OSError, SafetensorError, RuntimeError) as error:
        problem = of_the_disk(args.out, error)
        if problem is None:
            raise
        print(not_written(args.out, problem), file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED
    print(args.out / "MODEL_CARD.md")
    return 0


def train(out: Path, seed: int, size: str, text: Path | None) -> None:
    # Here, as torch and transformers take seconds, in which an interrupt is to be understood already.
    import torch

    from remote.lab.recipe.run import run
    from remote.lab.recipe.state import Journal

    torch.set_num_threads(1)  # parts of a batch run beside each other (parallel.py)
    run(out, seed, size, Journal(out / "losses.jsonl"), text)


def of_the_disk(out: Path, error: Exception) -> OSError | None:
    """What was wrong with the disk, if it was that: safetensors and torch say it in words of their own.

    torch's hold no error number; writing on shows it, for what was too much for the disk still is.
    """
    if isinstance(error, OSError):
        return error
    told = re.search(r"\(os error (\d+)\)", str(error))
    if told is not None:
        return OSError(int(told[1]), os.strerror(int(told[1])))
    try:
        with tempfile.TemporaryFile(dir=out) as file:
            file.write(bytes(1 << 20))
            file.flush()
    except OSError as found:
        return found
    return None


def not_written(out: Path, error: OSError) -> LabError:
    """A full disk, a folder that is a file: what was written before is whole."""
    return LabError(
        "WB-RECIPE-WRITE",
        f"{out}: {error.strerror or error}" + (f" ({error.filename})" if error.filename else ""),
        expected="a folder that can be written, with some 200 MB of room",
        next="make room, or give another --out; the same command goes on from the last checkpoint",
        exit_code=FAILED,
    )


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
