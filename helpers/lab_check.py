"""`make lab-check`: serves a pair on the lab, wired right and wrong, and says whether it is worth studying.

Seven servers, one after another: no speculation; the drafter fed what it was trained on, miswired, one boundary early,
and with the blocks of its fc in reverse; then the mirror, a drafter that was trained on the miswired taps, fed by its
config and as it was trained. Exit 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import UsageError, WorkbookError
from helpers.paths import DATA
from helpers.terminal import in_terminal

if TYPE_CHECKING:
    from helpers.acceptance.load_records import Load
    from helpers.acceptance.prompts import Prompt
    from helpers.box.box import Box
    from helpers.serving.profile import Profile

#: An arm's profile in data/profiles/lab.toml, and the drafter's folder in the pair.
ARMS = {
    "baseline": ("baseline", None),
    "right": ("right", "drafter"),
    "miswired": ("miswired", "drafter"),
    "off by one": ("off-by-one", "drafter"),
    "permuted": ("right", "permuted"),
    "mirror, by its config": ("right", "mirror/drafter"),
    "mirror, as trained": ("miswired", "mirror/drafter"),
}
LOOP_TAIL, LOOP_PERIOD = 40, 20


def loops(ids: Sequence[int]) -> bool:
    """Whether a text ends in a loop: its last 40 tokens have a period of 20 or less.

    >>> loops(list(range(30)) + [1, 2, 3] * 20), loops(range(64))
    (True, False)
    """
    tail = list(ids[-LOOP_TAIL:])
    return len(tail) == LOOP_TAIL and any(tail[period:] == tail[:-period] for period in range(1, LOOP_PERIOD + 1))


@dataclass(frozen=True)
class Claim:
    """What a pair must show, and whether it did."""

    text: str
    holds: bool


def arm_profile(pair: Path, name: str, profiles: Mapping[str, Profile], scratch: Path) -> Profile:
    """The profile of an arm, with the pair's folders in place of the lab's own."""
    base, drafter = ARMS[name]
    changes: dict[str, Any] = {"model": str(pair / "target")}
    if drafter == "permuted":
        changes["draft"] = str(permuted(pair / "drafter", scratch / "permuted"))
    elif drafter is not None:
        changes["draft"] = str(pair / drafter)
    return profiles[base].model_copy(update=changes)


def permuted(drafter: Path, out: Path) -> Path:
    """A copy of a drafter with the column blocks of its fc in reverse: a feed that is right meets the wrong columns."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(drafter, out, dirs_exist_ok=True)
    tensors = load_file(out / "model.safetensors")
    tensors["fc.weight"] = torch.cat(tensors["fc.weight"].chunk(3, dim=1)[::-1], dim=1).contiguous()
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


def serve_arms(
    box: Box, pair: Path, names: Sequence[str], prompts: Sequence[Prompt], new: int, scratch: Path
) -> dict[str, Load]:
    """Every arm's answers, a server each."""
    from helpers.acceptance import run_load
    from helpers.serving import load_profiles, serving

    profiles, found = load_profiles(), {}
    for name in names:
        with serving(box, arm_profile(pair, name, profiles, scratch)) as served:
            found[name] = run_load(served.url, prompts, max_new_tokens=new, title=name)
    return found


def report(loads: Mapping[str, Load], profiles: Mapping[str, Profile]) -> dict[str, Any]:
    """The table and the claims, as plain values."""
    from helpers.acceptance import compare, measurement

    baseline = loads["baseline"]
    free = [not loops(answer.output_ids) for answer in baseline.answers]
    rows: dict[str, Any] = {}
    for name, load in loads.items():
        row = measurement(profiles[ARMS[name][0]], load, baseline).model_dump(mode="json") | {"name": name}
        rows[name] = row | {"loop_free": loop_free(load, free)}
    # Read like a paired difference of rates: what one prompt does to both sides cancels out.
    pairs = {
        name: compare("right", loads["right"], name, loads[name]).model_dump(mode="json")
        for name in loads
        if name not in ("baseline", "right") and "right" in loads
    }
    found = {"loops": free.count(False), "texts": len(free), "rows": rows, "against_right": pairs}
    return found | {"claims": [{"text": c.text, "holds": c.holds} for c in claims(found)]}


def loop_free(load: Load, free: Sequence[bool]) -> dict[str, Any] | None:
    """Accept rate over the prompts whose text does not loop: {rate, ci95, requests}; None without speculation."""
    from helpers.acceptance.intervals import ratio_interval

    kept = [a.counters for a, keep in zip(load.answers, free, strict=True) if keep and a.counters is not None]
    if not kept:
        return None
    correct, proposed = [float(c.correct) for c in kept], [float(c.proposed) for c in kept]
    rate = sum(correct) / sum(proposed)
    return {"rate": rate, "ci95": list(ratio_interval(correct, proposed)), "requests": len(kept)}


def claims(found: Mapping[str, Any]) -> list[Claim]:
    """What must hold of a pair that is worth studying; only claims whose arms were served."""
    rows, pairs = found["rows"], found["against_right"]
    rate = {name: row["accept_rate"] for name, row in rows.items() if row["accept_rate"] is not None}
    equal = [name for name in rows if name != "baseline"]
    told = [
        Claim(
            f"greedy text equals the baseline's on every prompt ({', '.join(equal)})",
            all(rows[name]["greedy_equal"] for name in equal),
        )
    ]
    if "right" in rate:
        told.append(Claim(f"right is accepted at .5 or more: {rate['right']:.3f}", rate["right"] >= 0.5))
    for name, share, words in (("miswired", 0.5, "half"), ("permuted", 1 / 3, "a third")):
        if name in rate and "right" in rate:
            text = f"{name} is accepted at most {words} as often as right: {rate[name]:.3f} of {rate['right']:.3f}"
            told.append(Claim(text, rate[name] <= share * rate["right"]))
    if "off by one" in pairs:
        low, high = pairs["off by one"]["ci95"]
        text = f"off by one is below right, paired: {pairs['off by one']['difference']:.3f} [{low:.3f}, {high:.3f}]"
        told.append(Claim(text, low > 0))
    config, trained = rate.get("mirror, by its config"), rate.get("mirror, as trained")
    if config is not None and trained is not None:
        text = f"the mirror is accepted less often by its config than as it was trained: {config:.3f} of {trained:.3f}"
        told.append(Claim(text, config < trained))
    low, high = share_interval(found["loops"], found["texts"])
    text = f"not shown to loop in more than a tenth of its greedy texts: {found['loops']} of {found['texts']}"
    told.append(Claim(f"{text} [{low:.3f}, {high:.3f}]", low <= 0.1))
    return told


def share_interval(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share: 32 texts say little of loops, and the claim must not say more.

    >>> [round(x, 3) for x in share_interval(5, 32)]
    [0.069, 0.318]
    """
    z, share = 1.96, count / n
    middle, half = share + z * z / (2 * n), z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def table(found: Mapping[str, Any]) -> str:
    """The table for people: n are verify steps and prompts."""
    head = "| run | accept rate (95%) | without loops (n) | accept length | n | tok/s | greedy |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for name, row in found["rows"].items():
        rate = length = free = "–"
        if row["accept_rate"] is not None:
            rate = "{:.3f} [{:.3f}, {:.3f}]".format(row["accept_rate"], *row["ci95"])
            length = f"{row['accept_length']:.2f}"
        if (kept := row["loop_free"]) is not None:
            free = "{:.3f} [{:.3f}, {:.3f}] ({})".format(kept["rate"], *kept["ci95"], kept["requests"])
        n = f"{row['verify_steps']}, {row['requests']}" if row["verify_steps"] else f"{row['requests']}"
        equal = "–" if name == "baseline" else "equal" if row["greedy_equal"] else "DIFFERENT"
        lines.append(f"| {name} | {rate} | {free} | {length} | {n} | {row['tokens_per_s']:.0f} | {equal} |")
    return "\n".join([*lines, "", *(f"{'holds ' if c['holds'] else 'FAILS '} {c['text']}" for c in found["claims"])])


def prompts_of(pair: Path) -> Path:
    """The pair's held-out prompts: beside it where the recipe put them, or the project's own."""
    beside = pair / "lab-heldout.jsonl"
    return beside if beside.exists() else DATA / "prompts" / "lab-heldout.jsonl"


def check(
    pair: Path, names: Sequence[str], file: Path | None, limit: int | None, new: int, scratch: Path
) -> dict[str, Any]:
    """Serve the arms on the lab (started where none is up, and then stopped again) and report."""
    import helpers
    from helpers.acceptance import read_prompts
    from helpers.box.lab import lab_down, lab_up
    from helpers.serving import load_profiles

    for folder in ("target", "drafter"):
        if not (pair / folder / "config.json").exists():
            raise UsageError(
                "WB-LAB-PAIR",
                f"{pair} holds no {folder}/config.json",
                expected="a folder of make lab-train, or data/lab",
                next="make lab-train",
            )
    prompts = read_prompts(file or prompts_of(pair), limit=limit)
    mine = lab_up()["started"]
    try:
        with helpers.connect("lab") as box:
            loads = serve_arms(box, pair, names, prompts, new, scratch)
    finally:
        if mine:
            lab_down()
    return report(loads, load_profiles())


def main(argv: Sequence[str] | None = None) -> int:
    import tempfile

    parser = argparse.ArgumentParser(prog="python -m helpers.lab_check", description="serves a pair on the lab")
    parser.add_argument("pair", type=Path, nargs="?", default=DATA / "lab", help="default: data/lab")
    parser.add_argument("--arms", default=";".join(ARMS), help="names between semicolons (%(default)s)")
    parser.add_argument("--prompts", type=Path, help="a JSONL file (default: the pair's lab-heldout.jsonl)")
    parser.add_argument("--limit", type=int, help="so many prompts only")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the report there as JSON")
    args = parser.parse_args(argv)
    try:
        wanted = [name for name in ARMS if name == "baseline" or name in args.arms.split(";")]
        with tempfile.TemporaryDirectory(prefix="lab-check-") as scratch:
            found = check(args.pair.resolve(), wanted, args.prompts, args.limit, args.max_new_tokens, Path(scratch))
    except WorkbookError as error:
        sys.stderr.write(in_terminal(error))
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; no server is left\n")
        return 130
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1))
    print(table(found))
    return 0 if all(claim["holds"] for claim in found["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
