"""Commands that start a profile anew, as a message suggests them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.screen import as_typed
from helpers.serving.profile import load_profiles

if TYPE_CHECKING:
    from helpers.serving.run import Run


def serve_again(run: Run) -> str:
    """The command that starts a run's profile again. A run does not know its profile's file: where the profile is none
    of the lab's own, the command has a place for it.
    """
    known = load_profiles().get(run.profile.name)
    # Whether a start captures is often changed on the way (helpers/investigate does), and leaves the profile the same.
    same = known is not None and known == run.profile.model_copy(update={"capture": known.capture})
    file = "" if same else " --profiles FILE"
    return f"workbook serve {as_typed(run.box.name)} {run.profile.name}{file}"


def with_hook(run: Run) -> str:
    """What it takes to have a run's profile serve with the capture hook: only a start registers it."""
    stop = f"workbook stop {as_typed(run.box.name)} {run.id}; " if run.state == "alive" else ""
    return f"{stop}add `capture = true` to [profiles.{run.profile.name}] of its file; {serve_again(run)}"
