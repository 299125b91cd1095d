"""What a patch's state is and what was done about it, as records that cross borders."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from helpers.source.patch_state import State

Action = Literal["plan", "status", "apply", "revert"]

WORDS: dict[State, str] = {
    "clean": "not in, can go in",
    "applied": "in",
    "conflict": "cannot go in: the file lacks its lines",
    "ambiguous": "cannot go in: its place is not certain",
    "drifted": "in, and the file was changed since",
}


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PatchedFile(_Record):
    """One file of a report. ``before`` and ``after`` are its sha256 without and with the patch; ``lines`` say where
    its hunks stand or would stand; ``problem`` and ``hunk`` say what is in the way; ``above`` names patches that went
    in after this one and have to come out first."""

    path: str
    state: State
    sha256: str | None
    before: str | None
    after: str | None
    lines: tuple[int, ...]
    problem: str
    hunk: tuple[str, ...]
    above: tuple[str, ...] = ()


class OldServer(_Record):
    """A server that was started before a file of the patch was last changed: it runs the old text.

    Attributes:
        run: the id of the run that it is, None for a server that was not started from here.
    """

    pid: int
    run: str | None
    command: str

    def __str__(self) -> str:
        return f"run {self.run}" if self.run else f"pid {self.pid}"


class Relying(_Record):
    """A living run, anybody's, that the patch or its files matter to.

    Attributes:
        loading: it still reads its files. named: its run.json names the patch.
        over: patches of its run.json that lie on one of the files.
        node: the machine that it was started on, where that is another one with the same home.
    """

    run: str
    owner: str
    started: str
    loading: bool
    named: bool
    over: tuple[str, ...] = ()
    node: str | None = None

    def __str__(self) -> str:
        if self.named:
            why = "was started with it in"
        elif self.over:
            why = f"was started with {', '.join(self.over)} on the same file"
        else:
            why = "is reading the same source"
        since = f"{'loading' if self.loading else 'up'} since {self.started}"
        if self.node:
            since = f"started {self.started} on {self.node}, another machine with this home"
        return f"run {self.run} of {self.owner}, {since}, {why}"


class PatchReport(_Record):
    """What a patch's state is, and what was done about it.

    Attributes:
        changed: files were written just now.
        stock: without the patch every file is byte for byte the engine's own (None: the patch states no digests).
        proven: a revert gave the bytes that were there before (None: nothing was reverted).
        since: when and by whom it was applied, as the journal says.
        servers: those that run an older text of the files.
        relying: living runs that keep the patch from being changed (without ``force``).
        diff: the patch itself, for a plan.
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
    servers: tuple[OldServer, ...] = ()
    relying: tuple[Relying, ...] = ()
    diff: str = ""

    @property
    def good(self) -> bool:
        """Nothing is in the way: the patch is in, or can go in."""
        return self.state in ("clean", "applied")

    def __str__(self) -> str:
        """What was planned, found or done, in sentences."""
        told = [self._outcome(), *([self._places()] if self.good and self.action != "revert" else [])]
        if self.servers:
            old = ", ".join(map(str, self.servers))
            told.append(f"Started before and running the old text, to be restarted: {old}.")
        return " ".join(told)

    def _outcome(self) -> str:
        is_in = f"it is in already{f', since {self.since}' if self.since else ''}"
        if self.action == "plan":
            able = {"clean": "it can go in", "applied": is_in}.get(self.state, WORDS[self.state])
            return f"Plan of {self.name}: {able}. Nothing was written."
        if self.action == "status":
            return f"{self.name}: {WORDS[self.state]}."
        if not self.changed:
            return f"{self.name}: nothing had to be changed; {is_in if self.state == 'applied' else 'it is not in'}."
        if self.action == "apply":
            return f"{self.name} is in now."
        proof = "the bytes are those from before it" if self.proven else "not the bytes from before it"
        return f"{self.name} was taken out: {proof}."

    def _places(self) -> str:
        """Where its hunks stand, or would stand."""
        verb = "stands in" if self.state == "applied" else "would change"
        each = (f"{file.path}{' at lines ' * bool(file.lines)}{', '.join(map(str, file.lines))}" for file in self.files)
        return f"It {verb} {'; '.join(each)}."
