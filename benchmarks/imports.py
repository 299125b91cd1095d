"""What the first line of a notebook costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from benchmarks.rows import Row, by_turns

NAMES = ("import_vs_pandas",)


def rows(names: Sequence[str] = NAMES) -> Iterator[Row]:
    """`import helpers` against `import pandas`, each in a fresh interpreter."""

    def run(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    # What the notebooks use of it, so that nothing is won by putting the cost off to the next line.
    times = by_turns(lambda: run("import helpers; helpers.connect"), lambda: run("import pandas"), times=11)
    detail = f"import helpers and helpers.connect; peer: import pandas; fresh interpreters; {times}"
    yield Row("import_vs_pandas", times.share, "of the peer's time", detail)
