"""`workbook diagnose` and `inspect`: thin, each a call into the rooms and its result as text or JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError
from helpers.paths import finding_page

if TYPE_CHECKING:
    from helpers.tensors.capture import Capture
    from helpers.wiring.diagnosis import Diagnosis

FORMAT_HELP = "What the dump is, where its files leave it open: speculators, vllm, specforge, ..."


def diagnose(
    served: Annotated[str, typer.Option(metavar="PATH", help="A capture here; with --near BOX:PATH, on its box.")],
    train: Annotated[Path, typer.Option(metavar="PATH", help="A training dump, here.")],
    draft: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The drafter's folder, here: not the box's.")
    ] = None,
    target: Annotated[Path | None, typer.Option(metavar="DIR", help="The target's folder, here.")] = None,
    run_graphs: Annotated[
        bool | None,
        typer.Option(
            "--run-graphs/--no-run-graphs",
            help="Whether the run in question uses CUDA graphs, which a capture cannot; else as its profile says.",
        ),
    ] = None,
    format: Annotated[str | None, typer.Option(help=FORMAT_HELP)] = None,
    near: Annotated[bool, typer.Option("--near", help="Leave the capture on its box: sketches of it travel.")] = False,
    python: Annotated[str | None, typer.Option(help="With --near: an interpreter on the box with torch.")] = None,
    as_json: AsJson = False,
) -> int:
    """Says what the drafter was trained on, what it is fed, how the two differ, and which ids mend it.

    With --draft also which of the two sides is as the drafter's config asks; with --draft and --target also whether fc
    wants its blocks in the order that they are fed.
    """
    from helpers.progress import progress
    from helpers.tensors.capture import read_capture

    if near:
        from helpers.box import connect
        from helpers.wiring.near import open_on

        name, path = on_box(served)
        with connect(name) as box:
            with progress("hashing on the box", done="hashed"):
                there = open_on(box, path, python=python)
            return tell(there, train, draft, target, run_graphs, format, as_json)
    return tell(read_capture(Path(served), verify=True), train, draft, target, run_graphs, format, as_json)


def tell(
    taken: Capture,
    train: Path,
    draft: Path | None,
    target: Path | None,
    run_graphs: bool | None,
    format: str | None,
    as_json: bool,
) -> int:
    """The diagnosis of a capture, here or on its box, as text or JSON; returns the exit status."""
    from helpers.progress import progress
    from helpers.tensors.dumps import read_dump
    from helpers.tensors.near import NearCapture
    from helpers.wiring.boundaries import convention_of
    from helpers.wiring.diagnosis import diagnose as examine

    dump = read_dump(train, format=format, slots=slots_of(taken, draft))
    with progress("diagnosis", done="diagnosed"):
        diagnosis = examine(
            taken,
            dump,
            convention=convention_of(taken.info),
            draft=draft,
            target=target,
            run_graphs=run_graphs,
            flags=flags_of(taken.info),
        )
    result, text = diagnosis.to_json(), describe(diagnosis)
    if isinstance(taken, NearCapture):
        moved = taken.traffic
        result["near"] = moved
        text += f"\n\n{moved['bytes']} bytes travelled, {moved['share']:.2%} of the capture's {moved['of']}"
    emit(result, as_json=as_json, text=text)
    return diagnosis.exit_code


def on_box(served: str) -> tuple[str, str]:
    """BOX:PATH in its two parts; the path starts with / or ~."""
    found = re.fullmatch(r"(.+?):([~/].*)", served)
    if found is None:
        raise UsageError(
            "WB-USAGE",
            f"--served {served!r} is no place on a box",
            expected="BOX:PATH with --near, such as lab:~/.workbook/runs/RUN/taps/CAPTURE",
            next="workbook diagnose --help",
        )
    return found[1], found[2]


def inspect(
    path: Annotated[Path, typer.Argument(metavar="PATH")],
    format: Annotated[str | None, typer.Option(help=FORMAT_HELP)] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A dump or capture of the same texts to hold it against.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Says what a folder or file of tensors is: format, samples, tokens, slots, width, dtype, layer ids.

    With --against: which slot of the other each slot is most like, and at which token, norms, what is broken. For a
    dump that was converted or made again; causes are for workbook diagnose. Exit 1 where the slots do not stand in the
    same places.
    """
    from helpers.tensors.inspect import inspect as look

    result = look(path, format=format)
    if against is None:
        emit(result, as_json=as_json, text=lines(result))
        return 0
    from helpers.tensors.against import hold_against
    from helpers.tensors.dumps import read_dump

    found = hold_against(read_dump(path, format=format), read_dump(against))
    text = "\n".join([lines(result), "", f"against {against}", *found.lines()])
    emit({**result, "against": {"path": str(against), **found.record()}}, as_json=as_json, text=text)
    return 0 if found.in_place else 1


def slots_of(taken: Capture, draft: Path | None) -> int | None:
    """K, as the served side has it: of the feed, or of the drafter's fc."""
    from helpers.wiring.drafts import fc_width

    if taken.slots is not None or draft is None:
        return taken.slots
    width, hidden = fc_width(draft), taken.info.model.hidden_size
    return width // hidden if width % hidden == 0 else None


def flags_of(info: Any) -> frozenset[str] | None:
    """The arguments of the captured engine, or of the release that it is held to be; None without its wheel."""
    from helpers.source.flags import launch_flags
    from helpers.source.wheels import cached_wheel

    try:
        wheel = cached_wheel(f"{info.engine.name}=={info.engine.release}")
    except UsageError:  # no release that a wheel could be of
        return None
    return None if wheel is None else launch_flags(wheel)


def lines(result: dict[str, Any]) -> str:
    """A flat result, a line a key; of what is not there, and of texts of which there are none, nothing is said."""
    width = max(map(len, result))
    texts = {key: _text(value) for key, value in result.items() if value is not None}
    return "\n".join(f"{key:<{width}}  {text}" for key, text in texts.items() if text)


def _text(value: Any) -> str:
    """A value as people write it: numbers with commas, texts one after the other."""
    if not isinstance(value, list):
        return str(value)
    return ("; " if any(isinstance(one, str) for one in value) else ", ").join(map(str, value))


def describe(diagnosis: Diagnosis) -> str:
    """A diagnosis for people: the verdict, the slots, the findings, the fix."""
    covered = f": {diagnosis.aligned}" if diagnosis.aligned is not None else ""
    found = [f"{diagnosis.verdict}, from {diagnosis.aligned_tokens} aligned tokens{covered}", ""]
    for slot in diagnosis.slots:
        sides = (
            f"{name} {'unknown' if side.boundary is None else f'boundary {side.boundary}'}"
            + (f" ({side.score:.4f})" if side.score is not None else "")
            for name, side in (("trained on", slot.trained), ("fed", slot.served))
        )
        found.append(f"slot {slot.slot}: {', '.join(sides)}")
    found += ["", *(f"{f.severity:<7} {f.code}: {f.summary}" for f in diagnosis.findings)]
    found += [f"open    {one.code}: {one.why}" for one in diagnosis.undecided]
    codes = dict.fromkeys(f.code for f in diagnosis.findings if f.severity != "info")
    found += ["", *(f"page: {finding_page(code)}" for code in codes)] if codes else []
    if diagnosis.draft_config is not None:
        found += ["", f"config: {diagnosis.draft_config.note}"]
    if diagnosis.fix is not None:
        found += ["", f"fix: {diagnosis.fix.note}"]
        found += [f"arguments: {' '.join(diagnosis.fix.launch)}"] if diagnosis.fix.launch else []
    return "\n".join(found)
