"""What the fix would give, from captures alone: acceptance with the trained taps beside what was served.

The diagnosis wants whole samples, for it compares rows that were trained on. The replay wants answers, for it follows
rounds of drafts, and those of a drafter that was trained on answers. So the texts are cut, and the server, while it is
up, is captured once more as it goes on with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import WorkbookError

if TYPE_CHECKING:
    from helpers.acceptance import Prompt
    from helpers.investigate.texts import Text
    from helpers.ledger import Ledger
    from helpers.tensors.capture import Capture
    from helpers.wiring.diagnosis import Diagnosis
    from helpers.wiring.replay import Replay

REPLAYED = "A replay over captured texts, without a server: no served rate."

Take = Callable[[Sequence["Prompt"], Sequence[int]], Path]
"""Captures prompts at boundaries, each answer to its natural end, and returns where."""


def capture_answers(
    ledger: Ledger, take: Take, texts: Sequence[Text], captured: Capture, diagnosis: Diagnosis
) -> Capture | None:
    """What the server goes on with after the cut texts, with no more boundaries than the replay of the fix needs.

    Args:
        texts: with different cut prompts (`texts.different`).
        captured: the whole texts, and with them every boundary that there is to be had.

    Where there is nothing to be replayed, or the capture fails, that is noted as a limit, and None is returned: the
    diagnosis stands without it.
    """
    from helpers.tensors.capture import read_capture

    if not captured.slots:
        ledger.note(not_replayed("what the server feeds its drafter was not captured as whole slots"), about="limit")
        return None
    named = {side.boundary for slot in diagnosis.slots for side in (slot.trained, slot.served)}
    # The last one is for the target's own word on each token.
    needed = {*named, captured.info.model.num_layers} & set(captured.ranks[0].boundaries)
    try:
        taken = take([text.cut for text in texts], sorted(b for b in needed if b is not None))
        return read_capture(taken, verify=True)
    except WorkbookError as error:
        ledger.note(not_replayed(f"{error.message} ({error.code})"), about="limit")
        return None


def replay_fix(
    ledger: Ledger,
    answers: Capture,
    said: str,
    diagnosis: Diagnosis,
    draft: Path,
    target: Path,
    *,
    progress: bool = True,
) -> None:
    """Replay what was served and what training captured, paired by request, as evidence on a hypothesis of its own.

    Args:
        answers: as `capture_answers` gives them. said: what they are, in sentences (`texts.continued`).

    Where the capture does not allow a replay, that is noted as a limit: the diagnosis stands without it.
    """
    try:
        _replay(ledger, answers, said, diagnosis, draft, target, progress)
    except WorkbookError as error:
        ledger.note(not_replayed(f"{error.message} ({error.code})"), about="limit")


def _replay(
    ledger: Ledger, captured: Capture, said: str, diagnosis: Diagnosis, draft: Path, target: Path, progress: bool
) -> None:
    from helpers.acceptance.intervals import ENOUGH
    from helpers.ledger.judging import judge_gain
    from helpers.progress import progress as show
    from helpers.wiring import replay as room
    from helpers.wiring.drafter import load_drafter, load_target
    from helpers.wiring.replay.taps import Source

    source = Source(captured)
    places = {"DRAFT": draft, "TARGET": target}
    steps = int(captured.info.launch.get("speculative_num_steps") or 3)
    lender = load_target(target)
    drafter = load_drafter(draft, lender, dtype=source.dtype)
    with show("replay", enabled=progress, done="replayed") as bar:
        bar.update("as served")
        served = room.replay(drafter, lender, source, source.served(), steps=steps)
        ledger.evidence(served, title="replay as served", of=captured, places=places)
        trained = [slot.trained.boundary for slot in diagnosis.slots]
        known = [boundary for boundary in trained if boundary is not None]
        if len(known) < len(trained) or not known:
            ledger.note(not_replayed("the trained slots are not all identified"), about="limit")
            return
        if served.taps == known:
            return
        mended = room.boundaries(known)
        h = ledger.hypothesis(
            "with the taps that training captured, more drafts are accepted",
            key="fix",
            prediction="replay over the same texts gives a higher accept rate than as served",
            threshold="the paired 95% interval of the difference lies above 0 (across it, or under "
            f"{ENOUGH} requests: inconclusive)",
        )
        bar.update("as trained")
        fixed = room.replay(drafter, lender, source, mended, steps=steps)
        gain = room.versus(drafter, lender, source, mended, source.served(), steps=steps)
    ledger.note(f"Of the replay of the fix: {said}", about="limit")
    found = judge_gain(gain.difference_ci95, gain.requests)
    one = ledger.evidence(fixed, on=h, supports=found.supports, title="replay as trained", of=captured, places=places)
    two = ledger.evidence(
        gain,
        on=h,
        supports=found.supports,
        title=f"as trained (taps {taps(fixed)}) against as served (taps {taps(served)})",
        of=captured,
        places=places,
        note=f"{REPLAYED} {said}",
    )
    low, high = gain.difference_ci95
    figures = (
        f"In a replay of the target's own answers, as trained minus as served: {gain.difference:+.3f} "
        f"[{low:+.3f}, {high:+.3f}] in accept rate, paired by text"
    )
    ledger.verdict(h, found.outcome, because=[one, two], reason=found.because(figures))


def not_replayed(why: str) -> str:
    """The limit of an investigation without a replay of the fix."""
    return f"The fix was not replayed: {why}."


def taps(replayed: Replay) -> str:
    """A replay's taps as a title has them."""
    return ", ".join(map(str, replayed.taps))
