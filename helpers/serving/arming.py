"""The hook of a run armed for the length of a `with` block, whatever ends it."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from helpers.errors import RemoteFailed, WorkbookError
from helpers.screen import as_typed
from helpers.serving.remote import refusal
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box

#: An arm file lapses so many seconds after its last renewal: no longer than that is a hook armed for nobody.
SECONDS = 60.0


@contextlib.contextmanager
def armed(box: Box, arm: str, order: dict[str, Any], *, python: str = "python3") -> Iterator[None]:
    """The hook armed inside the block: by this capture only, and not for long should this process be killed.

    Args:
        arm: the arm file on the box. order: its content; ``capture`` tells it from all others.

    Raises:
        RemoteFailed: WB-CAPTURE-BUSY, where another capture is under way; WB-SERVE-FILES.
    """
    order = {"capture": secrets.token_hex(4), "seconds": SECONDS, **order}
    mine = {"arm": arm, "capture": order["capture"]}
    try:
        answer = call(box, "arming", "arm", {"arm": arm, "order": order}, python=python)
        if error := answer.get("error"):
            raise refusal(box.name, error)
        if not answer["armed"]:
            raise busy(box, arm, answer)
        with renewed(box, mine, order["seconds"] / 4, python):
            yield
    finally:
        # Also where the arming was interrupted before it was answered; another's file is not touched.
        call(box, "arming", "disarm", mine, python=python)


@contextlib.contextmanager
def renewed(box: Box, mine: dict[str, Any], every: float, python: str) -> Iterator[None]:
    """The arm file renewed inside the block, every so many seconds."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(every):
            # A link that broke is the capture's to tell; the next renewal makes it anew.
            with contextlib.suppress(WorkbookError):
                call(box, "arming", "renew", mine, python=python)

    thread = threading.Thread(target=renew, daemon=True, name="arming")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def discard(box: Box, arm: str, capture: str, *, python: str = "python3") -> None:
    """Remove what a capture that failed left on the box; where the box is lost, the failure itself is told."""
    with contextlib.suppress(WorkbookError):
        call(box, "arming", "discard", {"arm": arm, "capture": capture}, python=python)


def busy(box: Box, arm: str, other: dict[str, Any]) -> RemoteFailed:
    """The refusal of a second capture."""
    return RemoteFailed(
        "WB-CAPTURE-BUSY",
        f"the hook is armed already on {box.name}, by {other['by'] or 'somebody'} (capture {other['capture'] or '?'})",
        expected="one capture at a time for each run",
        next=f"wait for it; one that died lapses after {SECONDS:.0f} s. By hand: "
        f"workbook run {box.name} -- rm {as_typed(arm)}",
    )
