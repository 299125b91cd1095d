"""The measuring of `make bench`, without its servers."""

from __future__ import annotations

import importlib

import pytest

from benchmarks.__main__ import MODULES, main
from benchmarks.rows import Times, by_turns


def test_ours_and_the_peer_run_by_turns() -> None:
    order: list[str] = []
    times = by_turns(lambda: order.append("ours"), lambda: order.append("peer"), times=3, warm_up=1)
    assert order == ["ours", "peer"] * 4
    assert len(times.ours) == len(times.peer) == 3, "the warm-up does not count"


def test_ratios_are_of_medians() -> None:
    times = Times(ours=(1.0, 2.0, 100.0), peer=(1.0, 6.0, 7.0))
    assert (times.speedup, times.share) == (3.0, pytest.approx(1 / 3))
    assert "3 times each" in str(times)


def test_every_module_has_rows() -> None:
    for name in MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        assert callable(module.rows)
        with pytest.raises(SystemExit, match=f"{name} has no row 'colour'; it has {module.NAMES[0]}"):
            main([f"{name}:colour"])
    with pytest.raises(SystemExit, match="there is no 'colour'"):
        main(["colour"])
