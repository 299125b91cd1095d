"""What the fix would give, from the capture alone: acceptance with the trained taps beside what was served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import WorkbookError

if TYPE_CHECKING:
    from helpers.ledger import Ledger
    from helpers.tensors.capture import Capture
    from helpers.wiring.diagnosis import Diagnosis
    from helpers.wiring.replay import Replay

#: What the texts of a capture are: a dump may be held out (the lab's is), and nothing in its files says which.
TEXTS = "The texts are the dump's own: if the drafter was trained on them, both rates are flattered."
REPLAYED = "A replay over captured texts, without a server: no served rate."


def replay_fix(
    ledger: Ledger, captured: Capture, diagnosis: Diagnosis, draft: Path, target: Path, *, progress: bool = True
) -> None:
    """Replay what was served and what training captured, paired by request, as evidence on a hypothesis of its own.

    Where the capture does not allow a replay, that is noted as a limit: the diagnosis stands without it.
    """
    try:
        _replay(ledger, captured, diagnosis, draft, target, progress)
    except WorkbookError as error:
        ledger.note(f"The fix was not replayed: {error.message} ({error.code}).", about="limit")


def _replay(ledger: Ledger, captured: Capture, diagnosis: Diagnosis, draft: Path, target: Path, progress: bool) -> None:
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
            ledger.note("The fix was not replayed: the trained slots are not all identified.", about="limit")
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
    ledger.note(f"Of the replay of the fix: {TEXTS}", about="limit")
    found = judge_gain(gain.difference_ci95, gain.requests)
    one = ledger.evidence(fixed, on=h, supports=found.supports, title="replay as trained", of=captured, places=places)
    two = ledger.evidence(
        gain,
        on=h,
        supports=found.supports,
        title=f"as trained (taps {said(fixed)}) against as served (taps {said(served)})",
        of=captured,
        places=places,
        note=f"{REPLAYED} {TEXTS}",
    )
    low, high = gain.difference_ci95
    figures = (
        f"In a replay, as trained minus as served: {gain.difference:+.3f} [{low:+.3f}, {high:+.3f}] in accept rate, "
        "paired by text"
    )
    ledger.verdict(h, found.outcome, because=[one, two], reason=found.because(figures))


def said(replayed: Replay) -> str:
    """A replay's taps as a title has them."""
    return ", ".join(map(str, replayed.taps))
