"""Commands on a box, its facts, and its source as evidence."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.box.quoting import join
from helpers.box.result import printable
from helpers.ledger.results.base import Summary, jsonable, reader, saved, saved_text

if TYPE_CHECKING:
    from helpers.box.facts import Facts
    from helpers.box.result import CommandResult
    from helpers.serving.overview import Overview
    from helpers.source.archaeology import Site, Sites
    from helpers.source.excerpts import Excerpt
    from helpers.source.patch_report import PatchReport

TAIL = 20  # lines of a command's output that the ledger itself shows; the file has all


@reader("helpers.box.result.CommandResult")
def command(result: CommandResult) -> Summary:
    """A finished command: its record, and its output as a file."""
    record = result.record()
    text = result.stdout + (f"\n--- stderr\n{result.stderr}" if result.stderr else "")
    lines = printable(text).splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    return Summary(
        source="command",
        title=f"$ {record['command']}"[:120],
        summary=f"exit status {result.exit_status} on {result.box} after {result.seconds:.1f} s, last: {last[:160]}",
        values={**record, "lines": len(lines), "tail": lines[-TAIL:]},
        keep=(saved_text("output.txt", text),),
        command=f"workbook run {result.box} -- {join(record['argv'])}",
    )


@reader("helpers.source.excerpts.Excerpt")
def excerpt(result: Excerpt) -> Summary:
    """Lines of a file on the box."""
    record = result.record()
    first, last = (result.numbers[0], result.numbers[-1]) if len(result) else (0, 0)
    return Summary(
        source="source",
        title=f"{printable(result.file)} lines {first} to {last}" if len(result) else f"{record['command']}: no line",
        summary=result.permalink if len(result) else f"no line of {result.permalink}",
        values=record,
        versions={"sglang": result.version} if result.version else {},
        n=len(result),
        unit="lines",
        command=record["command"],
    )


@reader("helpers.source.archaeology.Sites")
def sites(result: Sites) -> Summary:
    """Where a name is defined."""
    return Summary(
        source="source",
        title=f"where {result.name} is defined",
        summary=", ".join(f"{s.file}:{s.line}" for s in result.sites[:4]) or f"in none of {result.searched} files",
        values=jsonable(result.record()),
        versions={"sglang": result.version} if result.version else {},
        command=" && ".join(shlex.join(_shown(result.box, site)) for site in result.sites[:4]) or None,
    )


def _shown(box: str, site: Site) -> list[str]:
    """The call that shows a definition: the look-up itself has none."""
    first = ["--"] if site.file.startswith("-") else []
    return ["workbook", "show", box, *first, site.file, f"{site.line}:{site.end}"]


@reader("helpers.source.patch_report.PatchReport")
def patch(result: PatchReport) -> Summary:
    """A patch's state."""
    files = ", ".join(f"{file.path} {(file.sha256 or '-')[:12]}" for file in result.files)
    return Summary(
        source="patch",
        title=f"patch {result.name}: {result.action}",
        summary=f"{result.state}{' (changed just now)' if result.changed else ''}: {files}",
        values=result.model_dump(mode="json", exclude={"diff"}),
        patches=(result.name,) if result.state == "applied" else (),
        versions={"sglang": result.version} if result.version else {},
        command=f"workbook patch BOX {result.action} {result.name}",
    )


@reader("helpers.box.facts.gather.Facts")
def facts(result: Facts) -> Summary:
    """A box at one moment."""
    values = result.model_dump(mode="json", exclude={"commands"})
    return Summary(
        source="facts",
        title=f"facts of {result.box}",
        summary=f"{_gpus(values)}, {_python(values)}",
        values={key: values[key] for key in ("box", "host", "user", "gpus", "cpu", "memory", "python")},
        keep=(saved("facts.json", values),),
        command=f"workbook facts {result.box}",
    )


@reader("helpers.serving.overview.Overview")
def overview(result: Overview) -> Summary:
    """A box, its servers, and how the laptop compares."""
    values = result.to_json()
    critical = [row.name for row in result.rows if row.state == "critical"]
    said = f"laptop and box differ in {', '.join(critical)}" if critical else "laptop and box agree where it matters"
    return Summary(
        source="facts",
        title=f"facts of {result.facts.box}",
        summary=f"{_gpus(values)}, {_python(values)}, servers: {len(result.servers)}; {said}",
        values={
            "box": result.facts.box,
            "host": result.facts.host,
            "user": result.facts.user,
            "good": result.good,
            "critical": critical,
            "engine": values["engine"],
        },
        keep=(saved("facts.json", values),),
        versions=_engine(values["engine"]),
        command=f"workbook facts {result.facts.box}",
    )


@reader("pathlib.Path", "pathlib._local.Path")
def path(result: Path) -> Summary:
    """A file as it is; a folder that holds a capture is that capture."""
    if (result / "capture.json").is_file():
        from helpers.ledger.results.wiring import capture_folder

        return capture_folder(result)
    if result.is_dir():
        files = tuple((each, None) for each in sorted(result.rglob("*")) if each.is_file())
        return Summary("files", f"folder {result.name}", f"{len(files)} files of {result.name}", files=files)
    size = result.stat().st_size
    return Summary(
        "file", result.name, f"{result.name}, {size:,} bytes", values={"bytes": size}, files=((result, None),)
    )


@reader("builtins.str")
def text(result: str) -> Summary:
    """Words: what somebody saw. Long ones become a file."""
    first = next((line.strip() for line in result.splitlines() if line.strip()), "")
    if len(result) <= 400:
        return Summary("text", first[:80] or "text", result.strip())
    return Summary("text", first[:80], f"{first[:200]} ...", keep=(saved_text("text.txt", result),))


def _gpus(values: dict[str, Any]) -> str:
    found = (values.get("gpus") or {}).get("gpus")
    if not found:
        return "no GPU"
    names = sorted({str(gpu.get("name")) for gpu in found})
    return f"{len(found)} x {', '.join(names)}"


def _python(values: dict[str, Any]) -> str:
    found = values.get("python") or {}
    return f"Python {found['version']}" if "version" in found else "Python not known"


def _engine(engine: Any) -> dict[str, str]:
    version = engine.get("version") if isinstance(engine, dict) else None
    return {"sglang": version} if version else {}
