"""Patches of a box's checkout: planned, applied, looked at and taken back, with a journal on the box.

A patch is a unified diff under remote/patches/<engine>-<version>/, or a file of one's own. It goes in by exact context
only, applying it twice changes nothing, and taking it back gives the very bytes that were there, shown by their hash.
Several lie on one file in the order in which they went in, and come out in the reverse one. Servers read their source
when they start: one that runs is not changed by any of this, and is named. A checkout is everybody's: what a living run
relies on is neither put in nor taken out under it, unless by force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from helpers.errors import RemoteFailed, UsageError
from helpers.screen import as_typed
from helpers.source.checkout import Checkout, find_checkout
from helpers.source.imported import importing
from helpers.source.journal import application
from helpers.source.patch_report import OldServer as OldServer
from helpers.source.patch_report import PatchedFile as PatchedFile
from helpers.source.patch_report import PatchReport as PatchReport
from helpers.source.patch_report import Relying as Relying
from helpers.source.patch_state import Patch, is_path, load_patch, patch_names
from helpers.source.patch_view import View
from helpers.source.whose import options
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box


def plan(box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None) -> PatchReport:
    """What `apply` would do: where each hunk goes, each file's hash before and after, and which servers would go on
    with the old text. Nothing is written.

    Args:
        name: of a patch of this repository, or the path of a file of one's own.
    """
    return _view(box, name, python, env).report("plan")


def status(
    box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None, servers: bool = True
) -> PatchReport:
    """Whether the patch is in. Nothing is written.

    Args:
        servers: also look for servers that run an older text.
    """
    return _view(box, name, python, env, servers=servers).report("status")


def statuses(box: Box, *, python: str = "python3", env: Mapping[str, str] | None = None) -> list[PatchReport]:
    """The state of every patch that there is here for the version that the box has. Nothing is written."""
    version = find_checkout(box, python, env).version
    return [status(box, name, python=python, env=env) for name in patch_names(version)]


def apply(
    box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None, force: bool = False
) -> PatchReport:
    """Put the patch in; where it is in already, nothing is changed.

    Args:
        force: also under a living run, anybody's, that reads this source or was started with a patch on the same file.

    Raises:
        RemoteFailed: WB-PATCH-IN-USE, with the run and its owner; WB-PATCH-CONFLICT, WB-PATCH-AMBIGUOUS,
            WB-PATCH-DRIFTED (with the hunk), WB-PATCH-WRITE, WB-PATCH-RACE, WB-PATCH-SYNTAX.
        UsageError: WB-PATCH-UNKNOWN.
    """
    view = _view(box, name, python, env)
    if view.state == "applied" and not view.outdated:
        return view.report("apply")
    if view.state != "clean":
        raise view.refusal()
    view.write("apply", force=force)
    return view.again().report("apply", changed=True)


def revert(
    box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None, force: bool = False
) -> PatchReport:
    """Take the patch out; where it is not in, nothing is changed.

    Args:
        name: also that of a file of one's own that is gone here: the journal keeps its text.
        force: also where the file was changed elsewhere after the patch went in: its lines are taken out, the rest
            stays as it is now. And also under a living run, anybody's, that relies on the patch.

    Raises:
        RemoteFailed: as `apply`; WB-PATCH-STACKED where others lie on it.
    """
    view = _view(box, name, python, env)
    if view.state == "clean":
        return view.report("revert")
    if view.above:
        raise view.covered()
    if view.state != "applied" and not (force and view.state == "drifted"):
        raise view.refusal()
    if any(file.result is None for file in view.files):
        raise view.refusal()
    proven = view.proven()
    view.write("revert", force=force)
    return view.again().report("revert", changed=True, proven=proven)


def take_back(box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None) -> str | None:
    """Take out a patch that was put in for a while; None where it is out, else which run needs it, and it stays.

    Raises:
        As `revert`, but for WB-PATCH-IN-USE.
    """
    try:
        revert(box, name, python=python, env=env)
    except RemoteFailed as error:
        if error.code != "WB-PATCH-IN-USE":
            raise
        again = f"workbook patch {as_typed(box.name)} revert {as_typed(name)} {options(python, env)}"
        return f"{error.message.partition(': ')[2]}; {again} when that has ended"
    return None


def _view(box: Box, name: str, python: str, env: Mapping[str, str] | None, *, servers: bool = True) -> View:
    checkout = find_checkout(box, python, env)
    own, wanted = _wanted(box, name, checkout, python)
    return View(
        box,
        own,
        wanted,
        root=checkout.root,
        version=checkout.version,
        python=python,
        env=env,
        pids=importing(box, checkout) if servers else (),
    )


def _wanted(box: Box, name: str, checkout: Checkout, python: str) -> tuple[str, Patch | None]:
    """The patch by its name in the journal; None where only the journal has it (a file of one's own that is gone)."""
    try:
        patch = load_patch(name, checkout.version)
    except UsageError as error:
        kept = name.rpartition("/")[2].removesuffix(".patch").removesuffix(".diff") if is_path(name) else name
        journal = call(box, "editing", "read", {"paths": []}, python=python)["journal"]
        if error.code != "WB-PATCH-UNKNOWN" or application(journal, kept, checkout.root) is None:
            raise
        return kept, None
    return patch.name, patch
