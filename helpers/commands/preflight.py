"""`workbook preflight`: what is wrong with a launch, before it is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.serving import Profile
    from helpers.serving.preflight import Preflight


def preflight(
    box: Annotated[str | None, typer.Argument(metavar="[BOX]", help="lab, an alias, or user@host; or --source")] = None,
    profile: Annotated[
        str | None, typer.Argument(metavar="[PROFILE]", help="One profile's name; default all of the file")
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option("--profiles", "--profile", metavar="F", help="TOML file with profiles; default the lab's"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The same as PROFILE; with --source the only way")] = None,
    source: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder that holds the package sglang")] = None,
    target: Annotated[Path | None, typer.Option(metavar="DIR", help="The target's folder here")] = None,
    draft: Annotated[Path | None, typer.Option(metavar="DIR", help="The drafter's folder here")] = None,
    gpu: Annotated[str | None, typer.Option(help="sm90, H100, ...; on a box its own is asked")] = None,
    wiring: Annotated[bool, typer.Option("--wiring", help="Also show what the source says, with its lines.")] = False,
    as_json: AsJson = False,
) -> None:
    """Holds a profile, the engine's source, the target and the drafter against each other. Nothing is started.

    Exit 1 where an error or a warning is found.
    """
    from helpers.serving import get_profile, load_profiles

    if (box is None) == (source is None):
        raise UsageError(
            "WB-USAGE",
            "a BOX, or a folder of the source",
            expected="one of BOX and --source DIR",
            next="workbook preflight lab PROFILE --profiles F",
        )
    if profile is not None and name not in (None, profile):
        raise UsageError(
            "WB-USAGE",
            f"two profiles: {profile!r}, and --name {name!r}",
            expected="one of them, or none for all",
            next=f"workbook preflight {as_typed(box or '')} {as_typed(profile)}",
        )
    one = profile or name
    looked = [get_profile(one, profiles)] if one else list(load_profiles(profiles).values())
    reports = _on_box(box, looked, target, draft, gpu) if box else _here(source, looked, target, draft, gpu)
    text = "\n\n".join(str(one) + (f"\n{one.wiring}" if wiring and one.wiring else "") for one in reports)
    emit(_joined(reports), as_json=as_json, text=text)
    if not all(one.good for one in reports):
        raise typer.Exit(1)


def _here(
    source: Path | None, profiles: list[Profile], target: Path | None, draft: Path | None, gpu: str | None
) -> list[Preflight]:
    from helpers.serving.preflight import examine, gathered_here

    assert source is not None
    found = []
    for one in profiles:
        with gathered_here(one, source, target=target, draft=draft, gpu=gpu) as facts:
            found.append(examine(facts))
    return found


def _on_box(
    box: str, profiles: list[Profile], target: Path | None, draft: Path | None, gpu: str | None
) -> list[Preflight]:
    from helpers.box import connect
    from helpers.serving.preflight import examine, gathered_there

    found = []
    with connect(box) as there:
        for one in profiles:
            with gathered_there(one, there, target=target, draft=draft, gpu=gpu) as facts:
                found.append(examine(facts))
    return found


def _joined(reports: list[Preflight]) -> dict[str, object]:
    """One report as it is; of several, each finding says whose it is."""
    if len(reports) == 1:
        return reports[0].record()
    findings = [{**f.model_dump(mode="json"), "profile": one.profile} for one in reports for f in one.findings]
    return {"findings": findings, "profiles": [one.record() for one in reports]}
