"""A patch held against the files and the journal of a box as they were a moment ago; and its writing there."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.box.result import printable
from helpers.errors import RemoteFailed
from helpers.owner import whoami
from helpers.source.checkout import Checkout
from helpers.source.journal import above, application, in_force, layers, plain
from helpers.source.patch_report import Action, OldServer, PatchedFile, PatchReport, Relying
from helpers.source.patch_state import FileState, Patch, evaluate, overall
from helpers.source.whose import options
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box


class View:
    """One patch on one folder of the box.

    Args:
        wanted: the patch as it is here; None takes the one that the journal keeps under ``name``.
        root: the folder that the patch's paths are relative to.
        python, env: what imports it. pids: servers that import from it.
    """

    def __init__(
        self,
        box: Box,
        name: str,
        wanted: Patch | None,
        *,
        root: str,
        version: str | None,
        python: str,
        env: Mapping[str, str] | None = None,
        pids: tuple[int, ...] = (),
    ) -> None:
        self.box, self.name, self.root, self.version = box, name, root, version
        self._python, self._pids, self._wanted = python, pids, wanted
        self._whose = options(python, env)
        answer = self._read(wanted)
        self.journal: list[dict[str, Any]] = answer["journal"]
        self.entry = application(self.journal, name, root)
        # What went in is what must come out, also after the patch has changed here.
        held = Patch.of(name, self.entry["text"]) if self.entry else wanted
        assert held is not None
        self.patch = held
        if wanted is None or self.patch.files != wanted.files:
            answer = self._read(self.patch)
        self.outdated = wanted is not None and self.patch.sha256 != wanted.sha256
        self.texts = {path: text_of(file) for path, file in answer["files"].items()}
        self.servers = self._old_servers(answer)
        self.relying = tuple(Relying.model_validate(run) for run in answer["relying"])
        self.files = tuple(self._evaluate(index) for index in range(len(self.patch.files)))
        self.state = overall([file.state for file in self.files])
        if self.entry and self.state == "clean" and wanted is not None:
            # Not in any more (the engine was installed anew): the patch from here is the one to put in.
            self.patch, self.outdated, self.entry = wanted, False, None

    @property
    def above(self) -> tuple[str, ...]:
        """Patches that lie on this one."""
        return tuple(dict.fromkeys(name for file in self.files for name in file.above))

    def proven(self) -> bool:
        """Whether taking the patch out gives bytes that are known: those from before it, or the engine's own."""
        journalled = {file["path"]: file["before"] for file in self.entry["files"]} if self.entry else {}
        return all(
            file.state == "applied" and file.before in (journalled.get(file.path), self.patch.stock.get(file.path))
            for file in self.files
        )

    def write(self, action: Action, *, force: bool = False) -> None:
        """Write the files' other form; with ``force`` also under a living run that relies on them.

        Raises:
            RemoteFailed: WB-PATCH-IN-USE, WB-PATCH-WRITE, WB-PATCH-RACE, WB-PATCH-SYNTAX.
        """
        files = [(self.path(file.path), file.now, file.result) for file in self.files]
        entries = [{"path": file.path, "before": file.before, "after": file.after} for file in self.files]
        replace(self.box, self.name, self._entry(action, entries), files, python=self._python, force=force)

    def again(self) -> View:
        """The same patch, held against what is there now."""
        wanted = self._wanted or self.patch
        return View(
            self.box, self.name, wanted, root=self.root, version=self.version, python=self._python, pids=self._pids
        )

    def path(self, path: str) -> str:
        return f"{self.root}/{plain(path)}"

    def report(self, action: Action, *, changed: bool = False, proven: bool | None = None) -> PatchReport:
        """The view as a report."""
        stock = self.patch.stock
        return PatchReport(
            name=self.patch.name,
            action=action,
            state=self.state,
            checkout=self.root,
            version=self.version,
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
                    above=file.above,
                )
                for file in self.files
            ),
            changed=changed,
            stock=all(stock.get(file.path) == file.before for file in self.files) if stock else None,
            proven=proven,
            since=f"{self.entry['time']} by {self.entry['by']}" if self.entry else None,
            servers=self.servers,
            relying=self.relying,
            diff=printable(self.patch.text) if action == "plan" else "",
        )

    def refusal(self) -> RemoteFailed:
        """Why it is not done."""
        worst = next((file for file in self.files if file.state == self.state), self.files[0])
        problem = worst.problem or "an older version of this patch is in" if self.outdated else worst.problem
        code = {"conflict": "WB-PATCH-CONFLICT", "ambiguous": "WB-PATCH-AMBIGUOUS"}.get(self.state, "WB-PATCH-DRIFTED")
        box, name = self.box.name, self.patch.name
        hint = {
            "WB-PATCH-CONFLICT": f"workbook show {box} {plain(worst.path)} 1:40, and compare with the patch",
            "WB-PATCH-AMBIGUOUS": f"compare {worst.path} with the patch, and mend the patch's line numbers or context",
            "WB-PATCH-DRIFTED": f"workbook patch {box} revert {name} {self._whose}"
            + (" --force takes out its lines and keeps the rest" if self.state == "drifted" else ", then apply"),
        }
        return RemoteFailed(
            code,
            f"patch {name!r} on {box}: {worst.path}: {problem or self.state}",
            expected=f"sglang {self.version} as the patch was made for, in {self.root}",
            next=hint[code],
            lines=list(worst.shown),
        )

    def covered(self) -> RemoteFailed:
        """Why a patch that others lie on is not taken out."""
        return RemoteFailed(
            "WB-PATCH-STACKED",
            f"patch {self.name!r} on {self.box.name} lies under {', '.join(self.above)}, on the same file",
            expected="patches taken out in the reverse order of their going in",
            next=f"workbook patch {self.box.name} revert {self.above[-1]} {self._whose}",
        )

    def _read(self, patch: Patch | None) -> dict[str, Any]:
        paths = [self.path(file.path) for file in patch.files] if patch else []
        patch_at = {"name": self.name, "root": self.root}
        request = {"paths": paths, "pids": list(self._pids), "patch": patch_at}
        return call(self.box, "editing", "read", request, python=self._python)

    def _evaluate(self, index: int) -> FileState:
        file = self.patch.files[index]
        applied = self.entry["files"][index] if self.entry else None
        text = self.texts[self.path(file.path)]
        found = evaluate(file, text, applied)
        if applied is None or found.state == "applied":
            return found
        upper = above(layers(self.journal, self.root, file.path), self.name, found.now)
        if not upper:
            return found
        # Not as this patch left it, and exactly as those after it did: it is in, below them.
        return FileState(file.path, "applied", found.now, applied["before"], applied["after"], above=upper)

    def _old_servers(self, answer: dict[str, Any]) -> tuple[OldServer, ...]:
        changed = max((file.get("changed", 0.0) for file in answer["files"].values()), default=0.0)
        return tuple(
            OldServer(pid=found["pid"], run=found["run"], command=found["command"])
            for found in answer.get("processes", [])
            if found["since"] is not None and found["since"] < changed
        )

    def _entry(self, action: Action, files: list[dict[str, Any]]) -> dict[str, Any]:
        return entry_of(action, self.patch, self.root, self.version, files)


def entry_of(
    action: Action, patch: Patch, root: str, version: str | None, files: list[dict[str, Any]]
) -> dict[str, Any]:
    """A line of the journal, but for its time."""
    return {
        "action": action,
        "patch": patch.name,
        "patch_sha256": patch.sha256,
        "root": root,
        "version": version,
        "by": whoami(),
        "files": files,
        "text": patch.text,
    }


def replace(
    box: Box,
    name: str,
    entry: Mapping[str, Any],
    files: list[tuple[str, str | None, bytes | None]],
    *,
    python: str,
    force: bool = False,
) -> None:
    """Replace files on the box, each (path, sha256 that it must have, content), and journal it; all or none.

    Raises:
        RemoteFailed: WB-PATCH-IN-USE, WB-PATCH-WRITE, WB-PATCH-RACE, WB-PATCH-SYNTAX.
    """
    request = [
        {"path": path, "expect": expect, "data": base64.b64encode(data or b"").decode()} for path, expect, data in files
    ]
    asked = {"files": request, "entry": dict(entry), "force": force}
    answer = call(box, "editing", "write", asked, python=python)
    if error := answer.get("error"):
        if error["code"] == "WB-PATCH-IN-USE":
            raise in_use(box.name, name, entry["action"], [Relying.model_validate(run) for run in error["runs"]])
        raise RemoteFailed(
            error["code"],
            f"patch {name!r} on {box.name}: {error['message']}",
            expected="files that this login may replace, that nobody else edits just now, and that still compile",
            next=f"workbook patch {box.name} status {name} {options(python)}",
        )


def in_use(box: str, name: str, action: str, runs: Sequence[Relying]) -> RemoteFailed:
    """Why a patch is left as it is: somebody's living run relies on it, or on the file that it would change."""
    done = {"apply": "put in", "revert": "taken out"}.get(action, "changed")
    first = runs[0]
    loading = all(run.loading and not run.named and not run.over and run.node is None for run in runs)
    wait = f"wait until it is up (workbook logs {box} {first.run} --follow)" if loading else f"ask {first.owner} first"
    where = first.node or box
    return RemoteFailed(
        "WB-PATCH-IN-USE",
        f"patch {name!r} on {box} is not {done}: {first}",
        expected="no living run that relies on it; nothing was changed",
        next=f"{wait}, or stop that run (workbook stop {where} {first.run}); --force (force=True) does it all the same",
        lines=[str(run) for run in runs[1:]],
    )


def patches_in(box: Box, checkout: Checkout, *, python: str) -> list[Patch]:
    """The patches that the box's journal says are in a checkout, as they went in, the last on top."""
    journal = call(box, "editing", "read", {"paths": []}, python=python)["journal"]
    return [Patch.of(entry["patch"], entry["text"]) for entry in in_force(journal, checkout.root)]


def text_of(file: Mapping[str, Any]) -> bytes | None:
    """A file's bytes as `remote.editing` read them, None where it is missing."""
    return base64.b64decode(file["data"]) if "data" in file else None
