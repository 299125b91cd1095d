"""`workbook ledger verify|show|list`: what an investigation's ledger says, and whether it is what was written."""

from __future__ import annotations

from typing import Annotated

import typer

from helpers.commands.output import AsJson, emit

app = typer.Typer(help="The ledger of an investigation: hypotheses, evidence, verdicts; append-only and hash-chained.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The investigation, a folder of data/investigations.")]


@app.command()
def verify(name: Name, as_json: AsJson = False) -> int:
    """Reads every line and every file of evidence again; exit 1 naming the entry and the file that changed."""
    from helpers.ledger import ledgers
    from helpers.ledger.book import folder_of
    from helpers.ledger.check import verify as check
    from helpers.ledger.refusals import missing
    from helpers.ledger.writing import FILE

    folder = folder_of(name)
    if not (folder / FILE).exists():
        raise missing(folder, ledgers())
    found = check(folder)
    emit(found.to_json(), as_json=as_json, text=str(found))
    return 0 if found.good else 1


@app.command()
def show(
    name: Name,
    replaced: Annotated[bool, typer.Option("--all", help="Also evidence that a later run took the place of.")] = False,
    as_json: AsJson = False,
) -> int:
    """Shows hypotheses with their evidence and verdicts; --json: all entries as they stand in the file."""
    from helpers.ledger import read_ledger

    ledger = read_ledger(name)
    text = repr(ledger)
    if replaced:
        older = [e for e in ledger.evidence_on(replaced=True) if not ledger.state.holds(e)]
        text += "".join(f"\n   {e.id} (replaced by {ledger.state.now(e.id)}): {e.title}: {e.summary}" for e in older)
    entries = [entry.model_dump(mode="json", by_alias=True) for entry in ledger.entries]
    emit({"ledger": name, "title": ledger.title, "head": ledger.head, "entries": entries}, as_json=as_json, text=text)
    return 0


def report(
    name: Name,
    hide: Annotated[list[str] | None, typer.Option(metavar="WORD", help="Also hide this name; repeatable.")] = None,
    as_json: AsJson = False,
) -> int:
    """Builds the report of an investigation from its ledger: an offline HTML file, report.json and report.md."""
    from helpers.ledger import read_ledger

    ledger = read_ledger(name)
    paths = ledger.report(hosts=tuple(hide or ()))
    stale = [e.id for e in ledger.evidence_on() if ledger.stale(e, thorough=True)]
    result = {"html": str(paths.html), "json": str(paths.json), "markdown": str(paths.markdown), "stale": stale}
    text = f"{paths.html}\n{paths.json}\n{paths.markdown}"
    emit(result, as_json=as_json, text=text + (f"\nstale evidence: {', '.join(stale)}" if stale else ""))
    return 1 if stale else 0


@app.command(name="list")
def list_(as_json: AsJson = False) -> int:
    """Names the investigations that have a ledger."""
    from helpers.ledger import ledgers

    emit(ledgers(), as_json=as_json, text="\n".join(ledgers()) or "no ledger yet")
    return 0
