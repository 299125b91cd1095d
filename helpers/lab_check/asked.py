"""What a check is asked for: refused before the first server is started, wherever that can be known."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import UsageError
from helpers.lab_check.arms import ARMS, models
from helpers.lab_pair import HELD_OUT, OWN, check_pair, files_of, is_own, named, prompts_of
from helpers.nearest import did_you_mean
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.acceptance.prompts import Prompt

FEWEST = 2  # new tokens: the first comes from the prefill, so that of one nothing is drafted


@dataclass(frozen=True)
class Asked:
    """A check that can begin.

    Attributes:
        names: of the arms, in order; the baseline is always among them, since texts are held against it.
        file: where the prompts come from. new: tokens a request. out: where the report goes as JSON.
    """

    pair: Path
    names: tuple[str, ...]
    file: Path
    prompts: tuple[Prompt, ...]
    new: int
    out: Path | None

    def of(self) -> dict[str, Any]:
        """What is served, so that a report says of what it is: the files' hashes, and what it is served by."""
        from helpers.ledger.files import sha256_of
        from helpers.serving import load_profiles

        base = load_profiles()["baseline"]
        return {
            "pair": named(self.pair),
            "sha256": {name: sha256_of(self.pair / name / "model.safetensors") for name in models(self.names)},
            "prompts": {"file": named(self.file), "sha256": sha256_of(self.file), "n": len(self.prompts)},
            "max_new_tokens": self.new,
            "engine": base.engine,
            "dtype": base.dtype,
        }


def asked(argv: Sequence[str] | None) -> Asked:
    """The check that these words ask for.

    Raises:
        UsageError: WB-USAGE, WB-LAB-PAIR, WB-LOCAL-WRITE, or as `read_prompts`.
    """
    from helpers.acceptance import read_prompts

    parser = argparse.ArgumentParser(prog="python -m helpers.lab_check", description="serves a pair on the lab")
    parser.add_argument("pair", type=Path, nargs="?", default=OWN, help="default: data/lab")
    parser.add_argument("--arms", default=";".join(ARMS), help="names between semicolons (%(default)s)")
    parser.add_argument("--prompts", type=Path, help="a JSONL file (default: the pair's lab-heldout.jsonl)")
    parser.add_argument("--limit", type=int, help="so many prompts only")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the report there as JSON")
    args = parser.parse_args(argv)
    names = arms(args.arms)
    at_least("--limit", args.limit, 1)
    at_least("--max-new-tokens", args.max_new_tokens, FEWEST)
    if args.out is not None:
        check_out(args.out)
    files = [name for model in models(names) for name in files_of(model)]
    check_pair(args.pair, [*files, *([] if args.prompts or is_own(args.pair) else [HELD_OUT])])
    file = args.prompts or prompts_of(args.pair)
    prompts = read_prompts(file, limit=args.limit)
    return Asked(args.pair, tuple(names), file, tuple(prompts), args.max_new_tokens, args.out)


def arms(text: str) -> list[str]:
    """The arms of a list between semicolons, in their own order.

    >>> arms("miswired; right")
    ['baseline', 'right', 'miswired']

    Raises:
        UsageError: WB-USAGE.
    """
    wanted = [name for part in text.split(";") if (name := part.strip())]
    unknown = [name for name in wanted if name not in ARMS]
    if unknown or not wanted:
        known = "; ".join(ARMS)
        raise UsageError(
            "WB-USAGE",
            f"--arms: no arm is called {'; '.join(map(repr, unknown))}" if wanted else f"--arms {text!r} names no arm",
            expected=f"names between semicolons, of these: {known}",
            next=did_you_mean(unknown[0] if unknown else "", ARMS, f'--arms "{known}"'),
        )
    return [name for name in ARMS if name == "baseline" or name in wanted]


def at_least(option: str, given: int | None, least: int) -> None:
    """Refuse a number that is too small."""
    if given is not None and given < least:
        raise UsageError("WB-USAGE", f"{option} {given}", expected=f"{least} or more", next=f"{option} {least}")


def check_out(out: Path) -> None:
    """Refuse a place that cannot be written to: the report comes after the last server, and would be lost.

    Raises:
        UsageError: WB-LOCAL-WRITE, WB-DISK-FULL.
    """
    from helpers.box.partial import local_problem

    if out.is_dir() or not out.parent.is_dir():
        folder = f"{out.parent} is no folder"
        raise UsageError(
            "WB-LOCAL-WRITE",
            f"{out} cannot be written: {'it is a folder' if out.is_dir() else folder}",
            expected="a file's name in a folder that is there",
            next=f"ls -ld {as_typed(out)}" if out.is_dir() else f"mkdir -p {as_typed(out.parent)}",
        )
    try:
        with tempfile.TemporaryFile(dir=out.parent) as file:
            file.write(b"{}")
    except OSError as error:
        raise local_problem(out, error) from error
