"""A check for people: what was served, the table, and the claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.lab_check.measured import LOOP_TAIL

SHORT = 12  # digits of a hash


def table(found: Mapping[str, Any]) -> str:
    """The table for people: n are verify steps and prompts."""
    from helpers.acceptance.intervals import few

    lines = [served(found["of"]), ""] if found["of"] is not None else []
    if found["missing"]:
        lines += [f"INCOMPLETE: {'; '.join(found['missing'])} gave no answers; this is of the rest alone.", ""]
    lines += ["| run | accept rate (95%) | without loops (n) | accept length | n | tok/s | greedy |"]
    lines += ["|---|---|---|---|---|---|---|", *(_row(name, row) for name, row in found["rows"].items()), ""]
    lines += [f"{'holds ' if claim['holds'] else 'FAILS '} {claim['text']}" for claim in found["claims"]]
    if not found["texts"]:
        lines.append(f"note: nothing is claimed of loops: no text has the {LOOP_TAIL} new tokens that tell one")
    if (said := few(found["rows"]["baseline"]["requests"], "prompt")) is not None:
        lines.append(f"note: {said}")
    return "\n".join(lines)


def served(of: Mapping[str, Any]) -> str:
    """What was served, in a line."""
    weights = ", ".join(f"{name} {digest[:SHORT]}" for name, digest in of["sha256"].items())
    prompts = of["prompts"]
    return (
        f"pair {of['pair']} ({weights}), {prompts['n']} prompts of {prompts['file']} ({prompts['sha256'][:SHORT]}), "
        f"{of['max_new_tokens']} new tokens, {of['engine']}, {of['dtype']}"
    )


def _row(name: str, row: Mapping[str, Any]) -> str:
    rate = length = free = "–"
    if row["accept_rate"] is not None:
        rate = "{:.3f} [{:.3f}, {:.3f}]".format(row["accept_rate"], *row["ci95"])
        length = f"{row['accept_length']:.2f}"
    if (kept := row["loop_free"]) is not None:
        free = "{:.3f} [{:.3f}, {:.3f}] ({})".format(kept["rate"], *kept["ci95"], kept["requests"])
    n = f"{row['verify_steps']}, {row['requests']}" if row["verify_steps"] else f"{row['requests']}"
    equal = "–" if name == "baseline" else "equal" if row["greedy_equal"] else "DIFFERENT"
    return f"| {name} | {rate} | {free} | {length} | {n} | {row['tokens_per_s']:.0f} | {equal} |"
