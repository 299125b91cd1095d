"""Runs, profiles, preflight and what the source says as evidence."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import TYPE_CHECKING, Any

from helpers.ledger.results.base import Summary, jsonable, names_of, reader, saved

if TYPE_CHECKING:
    from helpers.serving.preflight import Preflight
    from helpers.serving.profile import Profile
    from helpers.serving.records import RunRecord, StopReport
    from helpers.serving.run import Run
    from helpers.serving.session import Served
    from helpers.source.reading import Statement, WiringReport


def profile_hash(profile: Profile) -> str:
    """Twelve digits that stand for a configuration: the same settings under another name or note are the same."""
    settings = profile.model_dump(mode="json", exclude={"name", "note", *profile.undeciding})
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def settings(profile: Profile) -> dict[str, Any]:
    """A configuration for the report's comparison, its environment masked."""
    from helpers.serving.argv import masked_profile

    shown = masked_profile(profile)
    found: dict[str, Any] = shown.model_dump(mode="json", exclude={"name", "note", *profile.undeciding})
    return {**found, "extra_args": " ".join(shown.extra_args)}


@reader("helpers.serving.profile.Profile")
def profile(result: Profile) -> Summary:
    """A configuration."""
    return Summary(
        source="profile",
        title=f"profile {result.name}",
        summary=result.note or f"{result.engine}, tp {result.tp}, ids {result.aux_layer_ids}",
        values=settings(result),
        profile=result.name,
        profile_hash=profile_hash(result),
        config={result.name: settings(result)},
        places={"PROFILE": shlex.quote(result.name)},
    )


@reader("helpers.serving.records.RunRecord")
def record(result: RunRecord) -> Summary:
    """One start of a server."""
    return Summary(
        source="run",
        title=f"run of profile {result.profile.name}",
        summary=f"{result.id}, {result.engine.name} {result.engine.version or '?'}"
        + (f" (by its profile's word as {result.engine.base})" if result.engine.base else "")
        + f", tp {result.profile.tp}, started "
        f"{result.started}",
        values={"argv": list(result.argv), "env": result.env, "port": result.port, "started": result.started},
        run=result.id,
        profile=result.profile.name,
        profile_hash=profile_hash(result.profile),
        patches=tuple(map(str, result.patches)),
        versions={result.engine.name: result.engine.version or "unknown"},
        # What was in the source, not what the profile asks for: somebody may have left a patch there.
        config={
            result.profile.name: settings(result.profile)
            | {"patches": names_of(patch.name for patch in result.patches)}
        },
    )


@reader("helpers.serving.run.Run")
def run(result: Run) -> Summary:
    """As its record, and how to start it again."""
    from dataclasses import replace

    name = result.box.name
    return replace(record(result.record), command=f"workbook serve {name} {result.profile.name}", places={"BOX": name})


@reader("helpers.serving.session.Served")
def served(result: Served) -> Summary:
    """As its run."""
    return run(result.run)


@reader("helpers.serving.records.StopReport")
def stop(result: StopReport) -> Summary:
    """A server's end."""
    left = len(result.left) + len(result.orphans)
    return Summary(
        source="stop",
        title="the server was stopped",
        summary=f"{result.run}: {len(result.signalled)} processes ended, {left} left, "
        f"port {'closed' if result.port_closed else 'OPEN'}, {result.seconds:.1f} s",
        values=result.model_dump(mode="json"),
        run=result.run,
    )


@reader("helpers.serving.preflight.report.Preflight")
def preflight(result: Preflight) -> Summary:
    """What was found about a launch before it was made."""
    codes = [f"{finding.code} ({finding.severity})" for finding in result.findings]
    values = result.record()
    return Summary(
        source="preflight",
        title=f"preflight of {result.profile}",
        summary=", ".join(codes) or "nothing found",
        values={"good": result.good, "findings": values["findings"], "unread": result.unread},
        keep=(saved("preflight.json", values),),
        profile=result.profile,
        versions={"sglang": result.version} if result.version else {},
        command=f"workbook preflight BOX --profile PROFILES --name {shlex.quote(result.profile)}",
        places={"PROFILE": shlex.quote(result.profile)},
    )


#: What the source says, all of it: of which profile only the launch knows that it was read for.
_READ = "workbook preflight BOX --profile PROFILES --name PROFILE --wiring"


@reader("helpers.source.reading.report.WiringReport")
def reading(result: WiringReport) -> Summary:
    """What the source says about a launch."""
    values = jsonable(result.record())
    return Summary(
        source="source",
        title=f"what the source says about {result.architecture}",
        summary=f"{len(result.statements)} statements about {result.architecture} in {result.source}",
        values=values,
        versions={"sglang": result.version} if result.version else {},
        command=_READ,
    )


@reader("helpers.source.reading.statement.Statement")
def statement(result: Statement) -> Summary:
    """What the source says about one topic, with its lines."""
    values = jsonable(result.record())
    return Summary(source="statement", title=result.topic, summary=result.summary, values=values, command=_READ)
