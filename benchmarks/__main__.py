"""`make bench`: measures every row, writes benchmarks/results.json. With names: the rows of those modules only."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

MODULES = ("transport", "imports", "comparison", "sketches", "hook")
RESULTS = Path(__file__).with_name("results.json")


def main(names: list[str]) -> None:
    """Rows come from the ``rows()`` of each module; a new one is named in MODULES."""
    results = []
    for name in names or MODULES:
        if name not in MODULES:
            raise SystemExit(f"benchmarks: there is no {name!r}; there are {', '.join(MODULES)}")
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            results.append(asdict(row))
            print(f"{row.name:28} {row.value:8.2f} {row.unit}\n    {row.detail}", flush=True)
    RESULTS.write_text(json.dumps({"rows": results}, indent=1) + "\n")
    print(f"{len(results)} rows in {RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
