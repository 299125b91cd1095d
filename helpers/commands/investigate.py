"""`workbook investigate BOX RUN --train DUMP`: from "acceptance is bad" to cause, fix and report, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from helpers.commands.output import AsJson, emit
from helpers.defaults import SAMPLES
from helpers.screen import as_typed


def investigate(
    box: Annotated[str, typer.Argument(metavar="BOX", help="lab, an alias of ~/.ssh/config, or user@host")],
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A living run with the capture hook, or a profile to start with it.")
    ],
    train: Annotated[Path, typer.Option(metavar="DUMP", help="What the drafter was trained on.")],
    draft: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The drafter's folder here; with --target the fix is replayed.")
    ] = None,
    target: Annotated[Path | None, typer.Option(metavar="DIR", help="The target's folder here.")] = None,
    name: Annotated[str | None, typer.Option(help="The investigation; default investigate-<profile>.")] = None,
    profiles: Annotated[
        Path | None, typer.Option(metavar="F", help="TOML file with profiles; default the lab's")
    ] = None,
    format: Annotated[str | None, typer.Option(help="What the dump is, where its files leave it open.")] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Of the dump, at most; sent whole, and cut for the replay.")
    ] = SAMPLES,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Per text; those after cut ones are replayed.")] = 40,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Copy the report's files there, too.")] = None,
    as_json: AsJson = False,
) -> int:
    """Runs the whole chain unattended: facts, preflight, capture, diagnosis, replay of the fix, ledger, report.

    The dump's texts are sent whole, to be held against it. With --draft and --target they are sent again, cut where the
    drafter's training begins to count (the loss mask; else after three quarters): the fix is replayed over what the
    target itself writes from there on, up to its end-of-text.

    On the lab, --draft and --target are its own where they are not given. Exit 0 where the drafter is fed what training
    captured, 1 where it is not, or where nothing could be decided.
    """
    import shutil

    from helpers.box import connect
    from helpers.investigate import investigate as run_chain
    from helpers.paths import DATA

    if box == "lab":
        draft, target = draft or DATA / "lab" / "drafter", target or DATA / "lab" / "target"
    with connect(box) as there:
        try:
            done = run_chain(
                there,
                run,
                train=train,
                draft=draft,
                target=target,
                name=name,
                profiles=profiles,
                format=format,
                samples=samples,
                max_new_tokens=max_new_tokens,
            )
        except KeyboardInterrupt as cut:
            kept = f"workbook ledger show {as_typed(name)}" if name else "workbook ledger list"
            cut.add_note(
                f"  what was found until then: {kept}\n  next: the same command begins anew, in the same ledger"
            )
            raise
    files = [done.report.html, done.report.json, done.report.markdown]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        files = [Path(shutil.copy2(file, out / file.name)) for file in files if file is not None]
    said = done.diagnosis
    result = {
        "verdict": said.verdict,
        "findings": [finding.model_dump(mode="json") for finding in said.findings],
        "fix": said.fix.model_dump(mode="json") if said.fix is not None else None,
        "run": done.run,
        "started": done.started,
        "capture": str(done.capture),
        "ledger": done.ledger.name,
        "report": str(files[0]),
        "files": [str(file) for file in files],
        "summary": list(done.summary),
    }
    codes = "\n".join(f"{f.severity:<7} {f.code}: {f.summary}" for f in said.findings)
    fix = f"\nfix: {said.fix.note}" if said.fix is not None else ""
    told = "\n".join(f"* {line}" for line in done.summary)
    text = f"{said.verdict}, from {said.aligned_tokens} aligned tokens\n{codes}{fix}\n\n{told}\n\nreport: {files[0]}"
    emit(result, as_json=as_json, text=text)
    return done.exit_code
