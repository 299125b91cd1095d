"""`workbook boundaries`: layer ids to boundaries and back, by reading the engine's source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.commands.output import AsJson, emit
from helpers.errors import UsageError

if TYPE_CHECKING:
    from helpers.source.setter import Resolution, SourceTree, Trap


def boundaries(
    layers: Annotated[int, typer.Option(metavar="N", min=1, help="The target's num_hidden_layers.")],
    model: Annotated[str, typer.Option(metavar="STEM", help="The model file's stem, such as deepseek_v2.")],
    ids: Annotated[str | None, typer.Option(metavar="LIST", help="--ids=2,30,58; without: the engine's own.")] = None,
    engine: Annotated[str | None, typer.Option(metavar="SPEC", help="sglang==0.5.9: that release's wheel.")] = None,
    source: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder that holds package sglang.")] = None,
    wanted: Annotated[
        str | None, typer.Option("--boundaries", metavar="LIST", help="The way back: which ids tap these.")
    ] = None,
    draft: Annotated[Path | None, typer.Option(metavar="DIR", help="A drafter's folder: its config's ids.")] = None,
    architecture: Annotated[str | None, typer.Option(help="The class, where one file serves several rules.")] = None,
    as_json: AsJson = False,
) -> int:
    """Which boundaries layer ids tap, in tap order, with the lines of the source that prove it; and the way back.

    Give --engine or --source: where the source comes from.

    Exit 1 where ids never fire, are out of reach, fall together or are reordered; 2 where the model has no setter.
    """
    from helpers.wiring.draft_ids import read_draft_ids

    if sum(given is not None for given in (ids, wanted, draft)) > 1:
        raise usage("--ids, --boundaries and --draft are three ways to ask", "one of them")
    name, tree = open_source(engine, source)
    extra: tuple[Trap, ...] = ()
    asked = parse_numbers("--ids", ids) if ids is not None else None
    if draft is not None:
        found = read_draft_ids(draft, tree)
        asked = list(found.served) if found.served is not None else None
        extra = found.traps
    if wanted is not None:
        result = way_back(name, tree, model, parse_numbers("--boundaries", wanted), layers, architecture)
    else:
        result = way_there(name, tree, model, asked, layers, architecture, extra)
    emit(result, as_json=as_json, text=describe(result))
    return 1 if result["traps"] or result["ids"] is None else 0


def way_there(
    name: str,
    tree: SourceTree,
    model: str,
    ids: list[int] | None,
    layers: int,
    architecture: str | None,
    extra: tuple[Trap, ...],
) -> dict[str, Any]:
    """Ids to boundaries."""
    from helpers.source.setter import resolve
    from helpers.wiring.same_taps import same_taps

    read = resolve(tree, model, ids, layers, architecture=architecture)
    taps = same_taps(read.boundaries, layers, model=model, architecture=architecture, here=(name, tree))
    return as_result(name, read, extra, taps)


def way_back(
    name: str, tree: SourceTree, model: str, wanted: list[int], layers: int, architecture: str | None
) -> dict[str, Any]:
    """Boundaries to ids; `ids` is null, with the trap `no-ids`, where none tap them in this order."""
    from helpers.source.setter import Trap, resolve
    from helpers.source.setter.back import ids_for
    from helpers.wiring.same_taps import same_taps

    read = ids_for(tree, model, wanted, layers, architecture=architecture)
    taps = same_taps(wanted, layers, model=model, architecture=architecture, here=(name, tree))
    if read is not None:
        return as_result(name, read, (), taps)
    near = resolve(tree, model, wanted, layers, architecture=architecture)
    trap = Trap("no-ids", f"no ids of {name} were found that tap the boundaries {wanted} in this order")
    result = as_result(name, near, (), taps)
    return result | {"ids": None, "boundaries": wanted, "rule": trap.summary, "traps": [trap.to_json()]}


def as_result(name: str, read: Resolution, extra: tuple[Trap, ...], taps: list[dict[str, Any]]) -> dict[str, Any]:
    """The object of design.md."""
    return {
        "engine": name,
        "model": read.model,
        "architecture": read.architecture,
        "layers": read.num_layers,
        "ids": list(read.ids),
        "defaults": read.defaults,
        "boundaries": list(read.boundaries),
        "rule": read.rule,
        "evidence": [{"file": p.file, "line": p.line, "text": p.text} for p in read.evidence],
        "traps": [t.to_json() for t in (*extra, *read.traps)],
        "assumes": list(read.assumes),
        "differing": list(read.differing),
        "same_taps": taps,
    }


def open_source(engine: str | None, source: Path | None) -> tuple[str, SourceTree]:
    """The source to read and what it is called."""
    from helpers.source.setter import SourceTree
    from helpers.source.setter.tree import version_of
    from helpers.source.wheels import fetch_wheel

    if (engine is None) == (source is None):
        raise usage("boundaries reads --engine or --source, one of them", "--engine sglang==0.5.9, or --source DIR")
    if engine is not None:
        return engine, SourceTree(fetch_wheel(engine))
    assert source is not None
    tree = SourceTree(source)
    return f"sglang {version_of(tree) or ''} in {source}".replace("  ", " "), tree


def parse_numbers(option: str, text: str) -> list[int]:
    """`-1,2,30` as numbers; brackets may be around them."""
    try:
        return [int(part) for part in text.strip().removeprefix("[").removesuffix("]").split(",")]
    except ValueError as error:
        raise usage(f"{option} {text!r} is no list of numbers", f"{option}=2,30,58") from error


def usage(message: str, expected: str) -> UsageError:
    return UsageError("WB-USAGE", message, expected=expected, next="workbook boundaries --help")


def describe(result: dict[str, Any]) -> str:
    """The result for people."""
    what = "no ids: the engine's own boundaries" if result["defaults"] else f"ids {result['ids']}"
    lines = [f"{result['engine']}, {result['model']} ({result['architecture']}), {result['layers']} layers"]
    lines.append(f"{what} -> boundaries {result['boundaries']}   ({result['rule']})")
    lines += [f"  trap {t['code']}: {t['summary']}" for t in result["traps"]]
    if result["differing"]:
        lines.append(f"  other rules in this file: --architecture {', '.join(result['differing'])}")
    lines += ["", "read in"]
    lines += [f"  {e['file']}:{e['line']}  {e['text'][:100]}" for e in result["evidence"]]
    if result["assumes"]:
        lines.append(f"  taken for granted: {', '.join(result['assumes'])}")
    if result["same_taps"]:
        width = max(len(t["convention"]) for t in result["same_taps"])
        lines += ["", "the same taps are"]
        for tap in result["same_taps"]:
            note = f"   {tap['note']}" if tap.get("note") else ""
            ids = tap["ids"] if tap["ids"] is not None else "no ids"
            lines.append(f"  {tap['convention']:<{width}}  {ids}{note}")
    return "\n".join(lines)
