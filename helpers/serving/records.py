"""What is kept of a run (run.json on the box, schema ``workbook.run/1``) and what a stop reports."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from helpers.serving.profile import Profile

SCHEMA = "workbook.run/1"
RUNS = "~/.workbook/runs"

#: ``stopped``: somebody ended it. ``dead``: it ended by itself; ``stranger``: so, and its pid is another process now.
#: ``elsewhere``: started on another machine with the same home, which cannot be looked at from here.
State = Literal["alive", "stopped", "dead", "stranger", "elsewhere"]


class Node(BaseModel):
    """A machine, as it names itself."""

    model_config = ConfigDict(frozen=True)

    name: str
    machine_id: str | None = None


class Engine(BaseModel):
    """The engine that a run serves with. ``checkout``: the folder that holds its package. ``base``: the release whose
    rules hold for it by the word of its profile; None where its version tells."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: str | None
    base: str | None = None
    checkout: str
    python: str


class AppliedPatch(BaseModel):
    """A patch that was in the checkout when the run was started. ``files``: path -> sha256 as served."""

    model_config = ConfigDict(frozen=True)

    name: str
    sha256: str
    files: dict[str, str | None]

    def __str__(self) -> str:
        """Name and the beginning of its hash, as evidence has it."""
        return f"{self.name}@{self.sha256[:12]}"


class RunRecord(BaseModel):
    """run.json. What the box adds when the server starts is ``pid`` and below; secrets are masked in argv and env.

    Attributes:
        owner: who started it, ``user@laptop``.
        code: the folder of remote/ on the box that the run was started with.
        start_time: of the process, in clock ticks since the boot ``boot_id``.
        node: the machine that it was started on; None in records from before that was written down.
        stopped: who stopped it and when, None while nobody has.
    """

    model_config = ConfigDict(frozen=True)

    schema_: str = Field(default=SCHEMA, alias="schema")
    id: str
    profile: Profile
    argv: tuple[str, ...]
    env: dict[str, str]
    host: str
    port: int
    owner: str
    engine: Engine
    patches: tuple[AppliedPatch, ...] = ()
    code: str
    pid: int
    pgid: int
    start_time: int
    boot_id: str
    started: str
    node: Node | None = None
    stopped: dict[str, str] | None = None


class ProcessInfo(BaseModel):
    """A process of the box as a report shows it."""

    model_config = ConfigDict(frozen=True)

    pid: int
    pgid: int
    start_time: int
    command: str


class StopReport(BaseModel):
    """What a stop found and did.

    Attributes:
        was: whether its server lived before. stopped: who stopped it (now or earlier) and when.
        signalled: what got TERM. killed: those of them that needed KILL.
        left: processes of its group that could not be ended. orphans: its processes outside group and session.
        port_closed: nobody answers on its port any more. port_holder: who does, where that is no process of the run.
        gpu: ``{"before_mib", "after_mib", "holders_left"}``, None where the box has no nvidia-smi.
        seconds: how long it took.
    """

    model_config = ConfigDict(frozen=True)

    run: str
    was: Literal["alive", "dead"]
    stopped: dict[str, str] | None = None
    signalled: tuple[ProcessInfo, ...]
    killed: tuple[ProcessInfo, ...]
    left: tuple[ProcessInfo, ...]
    orphans: tuple[ProcessInfo, ...]
    port_closed: bool
    port_holder: ProcessInfo | None
    gpu: dict[str, Any] | None
    seconds: float

    @property
    def clean(self) -> bool:
        """Nothing of the run is left."""
        holders = self.gpu["holders_left"] if self.gpu else []
        return (self.port_closed or self.port_holder is not None) and not (self.left or self.orphans or holders)


def new_id(profile: str) -> str:
    """An id that tells the profile and the time (UTC): ``right-20260131-101500-3f2a``."""
    return f"{profile}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
