"""What the capture hook costs a server that is not being captured."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import nn

from benchmarks.rows import Row
from helpers.acceptance import read_prompts, run_load
from helpers.acceptance.counters import pool
from helpers.box import connect
from helpers.box.lab import lab_down, lab_up
from helpers.paths import DATA
from helpers.serving import load_profiles, serving
from helpers.serving.hooks import hook_specs
from remote.taps import Hook, make_hook

LAYERS, PASSES = 10, 2000

NAMES = ("hook_disarmed_overhead",)


def rows(names: Sequence[str] = NAMES) -> Iterator[Row]:
    """The hook's own time over a round's of the real engine: one pass that verifies, and the passes that draft."""
    profile = load_profiles()["right"]
    assert profile.speculation is not None
    steps = profile.speculation.num_steps
    verify, draft = pass_time(hooked(target=True)), pass_time(hooked(target=False))
    hook = verify + steps * draft
    rounds, seconds = served()
    forward = statistics.median(seconds)
    detail = (
        f"disarmed: {1e6 * verify:.0f} us for the {len(hooked(target=True))} hooks of a target pass and "
        f"{1e6 * draft:.0f} us for the {len(hooked(target=False))} of a draft pass (medians of {PASSES}), so "
        f"{1e6 * hook:.0f} us a round with {steps} draft passes; a round of the lab's SGLang 0.5.9 with the hooks in "
        f"place takes {1e3 * forward:.1f} ms (median over {len(seconds)} requests of {1e3 * min(seconds):.1f} to "
        f"{1e3 * max(seconds):.1f}, {rounds} rounds)"
    )
    yield Row("hook_disarmed_overhead", hook / forward, "of the forward's time", detail)


def hooked(*, target: bool) -> list[str]:
    """The modules that a capture profile hooks in one of the two runners, the root last."""
    (spec,) = hook_specs(LAYERS, "/none", drafter="drafter")
    mine = [name for name in spec["target_modules"] if name.startswith("model") == target]
    return sorted(mine, key=lambda name: "." not in name)


def pass_time(modules_of: list[str]) -> float:
    """Seconds that the hook takes in one forward pass, called for each module as the engine calls it."""
    with tempfile.TemporaryDirectory(prefix="wb-bench-") as folder:
        hook: Hook = make_hook({"arm": str(Path(folder) / "arm.json")})
        modules = [nn.Identity() for _ in modules_of]
        modules[-1].embed_tokens = nn.Identity()  # what tells the root
        taken = []
        for _ in range(PASSES):
            started = time.perf_counter()
            for module in modules:
                hook(module, (), None)
            taken.append(time.perf_counter() - started)
    return statistics.median(taken[PASSES // 10 :])


def served() -> tuple[int, list[float]]:
    """Rounds, and seconds a round by request, on a lab of its own with the hooks in place and disarmed."""
    prompts = read_prompts(DATA / "prompts" / "lab-heldout.jsonl", limit=8)
    before = os.environ.get("WORKBOOK_LAB_HOME")
    with tempfile.TemporaryDirectory(prefix="wb-bench-lab-") as home:
        os.environ["WORKBOOK_LAB_HOME"] = home
        try:
            lab_up(progress=False)
            with connect("lab") as box:
                profile = load_profiles()["right"].model_copy(update={"capture": True})
                with serving(box, profile, progress=False) as running:
                    load = run_load(running.url, prompts, max_new_tokens=64, progress=False)
        finally:
            lab_down()
            if before is None:
                del os.environ["WORKBOOK_LAB_HOME"]
            else:
                os.environ["WORKBOOK_LAB_HOME"] = before
    found = [(answer.seconds, pool([answer.counters], num_steps=3).verify_steps) for answer in load.answers]
    return sum(n or 0 for _, n in found), [seconds / n for seconds, n in found if n]
