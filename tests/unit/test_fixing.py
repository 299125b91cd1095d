"""Arguments that mend, and those that none knows to. .venv/bin/python -m pytest tests/unit/test_fixing.py"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faults
import pytest
import streams

from helpers.serving.capture import uses_graphs
from helpers.source.flags import launch_flags
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.boundaries import SGLANG_059_DEEPSEEK
from helpers.wiring.diagnosis import Diagnosis, diagnose
from helpers.wiring.fixing import FUSION, NO_FUSION, NO_GRAPHS

OLD, NEW = frozenset({FUSION, NO_GRAPHS}), frozenset({FUSION, NO_FUSION, NO_GRAPHS})


def partial(tmp_path: Path, **launch: Any) -> tuple[Capture, Path]:
    world = faults.synthetic(3).fresh()
    faults.partial_sum(world)
    world.served.info["launch"] = launch
    return read_capture(world.write(tmp_path / "c")), world.dump(tmp_path / "d")


@pytest.mark.parametrize(
    ("fused", "flags", "launch", "said"),
    [
        (True, NEW, [NO_FUSION], "switches it off"),
        (True, OLD, [], "no argument"),
        (True, None, [], "not known here"),
        (False, NEW, [], "did not say"),
    ],
)
def test_partial_sums(tmp_path: Path, fused: bool, flags: frozenset[str] | None, launch: list[str], said: str) -> None:
    capture, dump = partial(tmp_path, enable_flashinfer_allreduce_fusion=fused)
    found = diagnose(capture, read_dump(dump), convention=SGLANG_059_DEEPSEEK, flags=flags)
    assert found.codes() == ["rank-partial-sum"]
    assert found.fix is not None
    assert (found.fix.aux_layer_ids, found.fix.launch) == (None, launch)
    assert said in found.fix.note


def served(tmp_path: Path, feed: tuple[int, ...] = streams.TAPS, **info: Any) -> tuple[Capture, Path]:
    texts = streams.texts()
    made = streams.served(texts, feed)
    made.info |= info
    return read_capture(made.write(tmp_path / "c")), streams.write_dump(tmp_path / "d", texts)


GRAPHS, NO_WORD = {"cuda_graph": True}, {"cuda_graph": None}


@pytest.mark.parametrize(
    ("launch", "without_capture", "said", "expected"),
    [
        ({"cuda_graph": False}, GRAPHS, None, True),  # its profile, had it not been to capture
        ({"cuda_graph": False}, GRAPHS, False, False),
        ({"cuda_graph": False}, {}, True, True),
        ({"cuda_graph": False}, {"cuda_graph": False}, None, False),
        ({"cuda_graph": False}, NO_WORD, None, None),
        ({"cuda_graph": False}, {}, None, None),
        (GRAPHS, {}, None, True),
        (GRAPHS, {}, False, True),  # whatever the run does: this capture did not see what its server tapped
    ],
)
def test_graphs_of_the_run_in_question(
    tmp_path: Path, launch: dict[str, Any], without_capture: dict[str, Any], said: bool | None, expected: bool | None
) -> None:
    capture, dump = served(tmp_path, launch=launch, without_capture=without_capture)
    found: Diagnosis = diagnose(capture, read_dump(dump), run_graphs=said, flags=OLD)
    warnings = [f for f in found.findings if f.code == "captured-without-graphs"]
    assert len(warnings) == (expected is True)
    assert ("captured-without-graphs" in {one.code for one in found.undecided}) == (expected is None)
    assert (found.verdict, found.captured_with) == ("match", launch)
    assert (found.fix.launch if found.fix else None) == ([NO_GRAPHS] if expected else None)
    if warnings:
        assert warnings[0].severity == "warning"
        assert set(warnings[0].evidence) == {"captured_with_graphs", "run_uses_graphs"}


def test_ids_and_the_check_stand_side_by_side(tmp_path: Path) -> None:
    capture, dump = served(tmp_path, (1, 4, 8))
    found = diagnose(capture, read_dump(dump), convention=SGLANG_059_DEEPSEEK, run_graphs=True, flags=OLD)
    assert found.codes() == ["captured-without-graphs", "slot-offset"]
    assert found.fix is not None
    assert (found.fix.aux_layer_ids, found.fix.launch) == ([1, 4, 8], [NO_GRAPHS])
    other = diagnose(capture, read_dump(dump), convention=SGLANG_059_DEEPSEEK, run_graphs=True, flags=frozenset())
    assert other.fix is not None
    assert other.fix.launch == [], "an engine without that argument is given none"


def test_what_a_profile_says_of_graphs() -> None:
    assert uses_graphs(["--tp", "8"]) is True
    assert uses_graphs(["--device=cpu", "--disable-cuda-graph"]) is False
    assert uses_graphs(["--disable-cuda-graph"]) is None


SPREAD = """
class Fields:
    enforce_disable_flashinfer_allreduce_fusion: A[
        bool,
        "Never.",
    ] = False
    disable_cuda_graph: A[bool, Arg(no_cli=True)] = False
    unrelated: bool = False
"""


def test_arguments_are_read_where_they_are_declared(tmp_path: Path) -> None:
    folder = tmp_path / "sglang" / "srt"
    (folder / "models").mkdir(parents=True)
    assert launch_flags(tmp_path) is None
    (folder / "server_args.py").write_text('parser.add_argument("--enable-x", help="see --not-this one")\n')
    assert launch_flags(tmp_path) == {"--enable-x"}
    (folder / "arg_groups" / "fields").mkdir(parents=True)
    (folder / "arg_groups" / "fields" / "exec_.py").write_text(SPREAD)
    assert launch_flags(tmp_path) == {"--enable-x", NO_FUSION}
    (folder / "server_args.py").write_text("def broken(:\n")
    assert launch_flags(tmp_path) is None
