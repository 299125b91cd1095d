"""`make bench`: measures every row, writes benchmarks/results.json.

With names, of modules or of rows in them (``python -m benchmarks imports transport:pull_vs_scp``), only those are
measured, and only those change in the file.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.rows import Row

MODULES = ("transport", "imports", "comparison", "sketches", "hook")
RESULTS = Path(__file__).with_name("results.json")


def main(names: list[str]) -> None:
    """Rows come from the ``rows(names)`` of each module, which names them in NAMES; a new module goes into MODULES."""
    measured = [asdict(row) for name in names or MODULES for row in _measure(name)]
    kept = json.loads(RESULTS.read_text())["rows"] if names and RESULTS.exists() else []
    fresh = {row["name"]: row for row in measured}
    rows = [fresh.pop(row["name"], row) for row in kept] + list(fresh.values())
    RESULTS.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    print(f"{len(measured)} rows measured, {len(rows)} in {RESULTS}")


def _measure(name: str) -> Iterator[Row]:
    module, _, only = name.partition(":")
    if module not in MODULES:
        raise SystemExit(f"benchmarks: there is no {module!r}; there are {', '.join(MODULES)}")
    known: tuple[str, ...] = importlib.import_module(f"benchmarks.{module}").NAMES
    if only and only not in known:
        raise SystemExit(f"benchmarks: {module} has no row {only!r}; it has {', '.join(known)}")
    for row in importlib.import_module(f"benchmarks.{module}").rows((only,) if only else known):
        print(f"{row.name:28} {row.value:8.2f} {row.unit}\n    {row.detail}", flush=True)
        yield row


if __name__ == "__main__":
    main(sys.argv[1:])
