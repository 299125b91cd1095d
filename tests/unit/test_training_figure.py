"""The curves of a training. .venv/bin/python -m pytest tests/unit/test_training_figure.py"""

from __future__ import annotations

import pandas as pd

from helpers.figures.training import training_curves


def test_a_line_for_each_stage_and_column_from_its_own_points() -> None:
    rows = pd.DataFrame(
        [
            {"stage": "target", "step": 25, "train": 5.0},
            {"stage": "target", "step": 50, "train": 4.0, "held": 4.5},
            {"stage": "drafter", "step": 25, "train": 9.0},
        ]
    )
    figure = training_curves(
        rows, stages=["target"], columns=["train", "held"], title="t", y="nats a token", caption="c"
    )
    lines = {line.name: (list(line.x), list(line.y)) for line in figure.data}
    assert lines == {"train": ([25, 50], [5.0, 4.0]), "held": ([50], [4.5])}
    both = training_curves(rows, stages=["target", "drafter"], columns=["train", "held"], title="t", y="n", caption="c")
    assert [line.name for line in both.data] == ["target, train", "target, held", "drafter, train"]
    assert len({line.line.color for line in both.data}) == 2
