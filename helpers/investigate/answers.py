"""Answers of one server, captured and counted: what a replay is made of, beside what the server itself counted.

A replay is worth something only as far as it gives the counts that the server had. So the same prompts are asked twice
of one server: once with the hook armed, for the tensors, and once without, for the counters of requests that end where
the replay's do. Greedy texts are the same both times, and only the first pass is longer: the last round of a request
is decided by tokens beyond its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.notebook_text import Worded
from helpers.progress import Progress
from helpers.serving.captured import is_of, newest_first

if TYPE_CHECKING:
    from helpers.acceptance import Load, Prompt
    from helpers.box import Box
    from helpers.serving.profile import Profile

COUNTED = "counted.json"
BEYOND = 8
"""Tokens that are captured beyond those that are scored."""


@dataclass(frozen=True)
class Answers(Worded):
    """Where a capture of answers lies, and the server's own counts.

    Attributes:
        capture: its folder; its texts are `BEYOND` tokens longer than what was counted.
        new_tokens: per request, as counted: a replay is to be scored with as many.
        histograms: by request; ``histograms[id][i]`` verify steps of the server accepted exactly i drafts.
    """

    capture: Path
    new_tokens: int
    histograms: Mapping[str, tuple[int, ...]]

    def __str__(self) -> str:
        steps = sum(map(sum, self.histograms.values()))
        return (
            f"{self.capture.name}: {len(self.histograms)} requests captured; the server itself counted {steps} verify "
            f"steps for the first {self.new_tokens} new tokens of each"
        )


def counted_answers(
    box: Box, profile: Profile, prompts: Sequence[Prompt], folder: Path, *, new_tokens: int, progress: bool = True
) -> Answers:
    """The newest capture of these prompts' answers that has the server's counts; where there is none, one is made.

    Args:
        profile: speculating; it is served with the capture hook for that long.
        folder: of captures. new_tokens: per prompt.

    Raises:
        As `helpers.serving.serving`, `helpers.serving.capture.capture` and `helpers.acceptance.run_load`.
    """
    for path in newest_first(folder):
        found = read_answers(path) if is_of(path, profile, prompts, new_tokens + BEYOND) else None
        if found is not None and found.new_tokens == new_tokens:
            Progress(f"answers of {profile.name}", enabled=progress).done(f"there are some: {path.name}")
            return found
    return _make(box, profile, prompts, folder, new_tokens, progress)


def read_answers(path: Path) -> Answers | None:
    """What lies beside a capture; None where nothing was counted."""
    try:
        said = json.loads((path / COUNTED).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Answers(path, said["new_tokens"], {r["id"]: tuple(r["histogram"]) for r in said["requests"]})


def _make(
    box: Box, profile: Profile, prompts: Sequence[Prompt], folder: Path, new_tokens: int, progress: bool
) -> Answers:
    from helpers.acceptance import run_load
    from helpers.serving import check_prompts, serving
    from helpers.serving.capture import capture
    from helpers.serving.room import Bounds, check_room

    check_prompts(box, profile, prompts)
    hooked = profile if profile.capture else profile.model_copy(update={"capture": True})
    check_room(box, hooked, prompts, folder, Bounds(new_tokens + BEYOND))
    with serving(box, hooked, progress=progress) as served:
        out = folder / f"{served.run.id}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        capture(box, served.run, prompts, max_new_tokens=new_tokens + BEYOND, out=out, progress=progress)
        load = run_load(
            served.url, prompts, max_new_tokens=new_tokens, title="the server's own counts", progress=progress
        )
    counted = {"new_tokens": new_tokens, "run": served.run.id, "requests": _rows(load)}
    part = out / f"{COUNTED}.part"
    part.write_text(json.dumps(counted, indent=1) + "\n", encoding="utf-8")
    part.replace(out / COUNTED)
    found = read_answers(out)
    assert found is not None
    return found


def _rows(load: Load) -> list[dict[str, object]]:
    """Counters by request, as the server told them; a request that tells none is left out."""
    told = [(answer.id, answer.counters) for answer in load.answers]
    return [{"id": id, "histogram": list(counters.histogram)} for id, counters in told if counters is not None]
