"""Commands that a recipe adds: what was asked of a capture, asked of a new one, and a figure's by what it shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.ledger.records import Evidence

#: How the title of an ablation's figure begins (helpers/figures/wiring.py).
ABLATION = "What each slot costs"


def made_in(evidence: Sequence[Evidence], folder: Path) -> Path:
    """The investigation's folder as its commands have it: another one than today's where it was copied since."""
    homes = {Path(f.path).parent.as_posix() for e in evidence for f in e.files if f.path.endswith("capture.json")}
    ends = [f"/{folder.name}/{home}" for home in homes if not home.startswith("..")]
    words = (word for e in evidence for word in shlex.split(e.command or "") if Path(word).is_absolute())
    found = (Path(word[: -len(end)]) / folder.name for word in words for end in ends if word.endswith(end))
    return next(found, folder)


def anew(evidence: Sequence[Evidence], folder: Path) -> dict[str, str]:
    """Where a capture lies -> where its command puts a new one of the same."""
    found = {}
    for e in evidence:
        words = shlex.split(e.command or "")
        home = next((Path(f.path).parent for f in e.files if f.path.endswith("capture.json")), None)
        if e.source == "capture" and home is not None and "--out" in words[:-1]:
            found[str(folder / home)] = words[words.index("--out") + 1]
    return found


def renewed(e: Evidence, new: Mapping[str, str]) -> Evidence | None:
    """The same question to the new capture; None where it was asked of none that is made again."""
    words = shlex.split(e.command or "")
    if not any(word in new for word in words):
        return None
    return e.model_copy(update={"command": shlex.join(new.get(word, word) for word in words)})


def with_ablation(e: Evidence, evidence: Sequence[Evidence]) -> Evidence:
    """What each slot costs, drawn or as it is, with the command that says the same: a replay of its run, --ablate."""
    if e.command or not (_ablated(e) or (e.source == "figure" and e.summary.startswith(ABLATION))):
        return e
    replays = [one for one in evidence if one.source == "replay" and one.run == e.run and one.command]
    if not replays:
        return e
    words = shlex.split(replays[0].command or "")
    if "--taps" in words:
        at = words.index("--taps")
        words = words[:at] + words[at + 2 :]
    slots = next((one.values.get("slots") or [] for one in reversed(evidence) if one.source == "diagnosis"), [])
    right = [str(slot["trained"]["boundary"]) for slot in slots if slot["trained"]["boundary"] is not None]
    held = ["--right", ",".join(right)] if slots and len(right) == len(slots) else []
    return e.model_copy(update={"command": shlex.join([*words, "--ablate", *held]), "source": "replay"})


def _ablated(e: Evidence) -> bool:
    """Whether it is an ablation, or a list of such."""
    results = e.values.get("results")
    every = [e.values, *(results if isinstance(results, list) else [])]
    return any(isinstance(values, dict) and {"slot", "change", "difference"} <= set(values) for values in every)
