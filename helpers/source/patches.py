"""Patches of a box's checkout: planned, applied, looked at and taken back, with a journal on the box.

A patch is a unified diff under remote/patches/<engine>-<version>/. It goes in by exact context only, applying it twice
changes nothing, and taking it back gives the very bytes that were there, shown by their hash. Servers read their
source when they start: one that runs is not changed by any of this.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from helpers.errors import RemoteFailed
from helpers.owner import whoami
from helpers.source.checkout import Checkout, find_checkout
from helpers.source.patch_state import FileState, Patch, State, evaluate, load_patch, overall
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box

Action = Literal["plan", "status", "apply", "revert"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PatchedFile(_Record):
    """One file of a report. ``before`` and ``after`` are its sha256 without and with the patch; ``lines`` say where
    its hunks stand or would stand; ``problem`` and ``hunk`` say what is in the way."""

    path: str
    state: State
    sha256: str | None
    before: str | None
    after: str | None
    lines: tuple[int, ...]
    problem: str
    hunk: tuple[str, ...]


class PatchReport(_Record):
    """What a patch's state is, and what was done about it.

    Attributes:
        changed: files were written just now.
        stock: without the patch every file is byte for byte the engine's own (None: the patch states no digests).
        proven: a revert gave the bytes that were there before (None: nothing was reverted).
        since: when and by whom it was applied, as the journal says.
    """

    name: str
    action: Action
    state: State
    checkout: str
    version: str | None
    patch_sha256: str
    files: tuple[PatchedFile, ...]
    changed: bool = False
    stock: bool | None = None
    proven: bool | None = None
    since: str | None = None

    @property
    def good(self) -> bool:
        """Nothing is in the way: the patch is in, or can go in."""
        return self.state in ("clean", "applied")


def plan(box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None) -> PatchReport:
    """What `apply` would do: where each hunk goes, and each file's hash before and after. Nothing is written."""
    return _View(box, name, python, env).report("plan")


def status(box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None) -> PatchReport:
    """Whether the patch is in. Nothing is written."""
    return _View(box, name, python, env).report("status")


def apply(box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None) -> PatchReport:
    """Put the patch in; where it is in already, nothing is changed.

    Raises:
        RemoteFailed: WB-PATCH-CONFLICT, WB-PATCH-AMBIGUOUS, WB-PATCH-DRIFTED (with the hunk), WB-PATCH-WRITE,
            WB-PATCH-RACE. UsageError: WB-PATCH-UNKNOWN.
    """
    view = _View(box, name, python, env)
    if view.state == "applied" and not view.outdated:
        return view.report("apply")
    if view.state != "clean":
        raise view.refusal()
    view.write("apply")
    return _View(box, name, python, env).report("apply", changed=True)


def revert(
    box: Box, name: str, *, python: str = "python3", env: Mapping[str, str] | None = None, force: bool = False
) -> PatchReport:
    """Take the patch out; where it is not in, nothing is changed.

    Args:
        force: also where the file was changed elsewhere after the patch went in: its lines are taken out, the rest
            stays as it is now.

    Raises:
        RemoteFailed: as `apply`.
    """
    view = _View(box, name, python, env)
    if view.state == "clean":
        return view.report("revert")
    if view.state != "applied" and not (force and view.state == "drifted"):
        raise view.refusal()
    if any(file.result is None for file in view.files):
        raise view.refusal()
    proven = view.proven()
    view.write("revert")
    return _View(box, name, python, env).report("revert", changed=True, proven=proven)


class _View:
    """A patch held against the files and the journal as they were a moment ago."""

    def __init__(self, box: Box, name: str, python: str, env: Mapping[str, str] | None) -> None:
        self.box = box
        self.checkout: Checkout = find_checkout(box, python, env)
        wanted = load_patch(name, self.checkout.version)
        self._python = python
        answer = self._read(wanted)
        self.entry = _last(answer["journal"], name, self.checkout.root)
        # What went in is what must come out, also after this repository's own patch has changed.
        self.patch = Patch.of(name, self.entry["text"]) if self.entry else wanted
        if self.patch.files != wanted.files:
            answer = self._read(self.patch)
        self.outdated = self.patch.sha256 != wanted.sha256
        self.texts = {path: _text(file) for path, file in answer["files"].items()}
        self.files = tuple(self._evaluate(index) for index in range(len(self.patch.files)))
        self.state = overall([file.state for file in self.files])
        if self.entry and self.state == "clean":
            # Not in any more (the engine was installed anew): this repository's patch is the one to put in.
            self.patch, self.outdated, self.entry = wanted, False, None

    def _read(self, patch: Patch) -> dict[str, Any]:
        paths = [self._path(file.path) for file in patch.files]
        return call(self.box, "editing", "read", {"paths": paths}, python=self._python)

    def _evaluate(self, index: int) -> FileState:
        file = self.patch.files[index]
        applied = self.entry["files"][index] if self.entry else None
        return evaluate(file, self.texts[self._path(file.path)], applied)

    def _path(self, path: str) -> str:
        # A diff made in SGLang's repository starts with python/; a checkout is the folder that holds the package.
        return f"{self.checkout.root}/{path.removeprefix('python/')}"

    def proven(self) -> bool:
        """Whether taking the patch out gives bytes that are known: those from before it, or the engine's own."""
        journalled = {file["path"]: file["before"] for file in self.entry["files"]} if self.entry else {}
        return all(
            file.state == "applied" and file.before in (journalled.get(file.path), self.patch.stock.get(file.path))
            for file in self.files
        )

    def write(self, action: Action) -> None:
        """Write the files' other form."""
        files, entries = [], []
        for file in self.files:
            assert file.result is not None
            data = base64.b64encode(file.result).decode()
            files.append({"path": self._path(file.path), "expect": file.now, "data": data})
            entries.append({"path": file.path, "before": file.before, "after": file.after})
        entry = {
            "action": action,
            "patch": self.patch.name,
            "patch_sha256": self.patch.sha256,
            "root": self.checkout.root,
            "version": self.checkout.version,
            "by": whoami(),
            "files": entries,
            "text": self.patch.text,
        }
        answer = call(self.box, "editing", "write", {"files": files, "entry": entry}, python=self._python)
        if error := answer.get("error"):
            raise RemoteFailed(
                error["code"],
                f"patch {self.patch.name!r} on {self.box.name}: {error['message']}",
                expected="files of the checkout that this login may replace, and that nobody else edits just now",
                next=f"workbook patch {self.box.name} status {self.patch.name}",
            )

    def report(self, action: Action, *, changed: bool = False, proven: bool | None = None) -> PatchReport:
        """The view as a report."""
        stock = self.patch.stock
        return PatchReport(
            name=self.patch.name,
            action=action,
            state=self.state,
            checkout=self.checkout.root,
            version=self.checkout.version,
            patch_sha256=self.patch.sha256,
            files=tuple(
                PatchedFile(
                    path=file.path,
                    state=file.state,
                    sha256=file.now,
                    before=file.before,
                    after=file.after,
                    lines=file.lines,
                    problem=file.problem,
                    hunk=file.shown,
                )
                for file in self.files
            ),
            changed=changed,
            stock=all(stock.get(file.path) == file.before for file in self.files) if stock else None,
            proven=proven,
            since=f"{self.entry['time']} by {self.entry['by']}" if self.entry else None,
        )

    def refusal(self) -> RemoteFailed:
        """Why it is not done."""
        worst = next((file for file in self.files if file.state == self.state), self.files[0])
        problem = worst.problem or "an older version of this patch is in" if self.outdated else worst.problem
        code = {"conflict": "WB-PATCH-CONFLICT", "ambiguous": "WB-PATCH-AMBIGUOUS"}.get(self.state, "WB-PATCH-DRIFTED")
        hint = {
            "WB-PATCH-CONFLICT": f"workbook show {self.box.name} {worst.path} 1:40, and compare with the patch",
            "WB-PATCH-AMBIGUOUS": f"compare {worst.path} with the patch, and mend the patch's line numbers or context",
            "WB-PATCH-DRIFTED": f"workbook patch {self.box.name} revert {self.patch.name}"
            + (" --force takes out its lines and keeps the rest" if self.state == "drifted" else ", then apply"),
        }
        return RemoteFailed(
            code,
            f"patch {self.patch.name!r} on {self.box.name}: {worst.path}: {problem or self.state}",
            expected=f"sglang {self.checkout.version} as the patch was made for, in {self.checkout.root}",
            next=hint[code],
            lines=list(worst.shown),
        )


def _last(journal: list[dict[str, Any]], name: str, root: str) -> dict[str, Any] | None:
    """The last application of the patch in this checkout, unless it was taken back."""
    entries = [entry for entry in journal if entry.get("patch") == name and entry.get("root") == root]
    return entries[-1] if entries and entries[-1]["action"] == "apply" else None


def _text(file: Mapping[str, Any]) -> bytes | None:
    return base64.b64decode(file["data"]) if "data" in file else None
