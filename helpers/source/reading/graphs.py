"""Whether CUDA graphs are captured with the default taps, because the configured ids are set only afterwards."""

from __future__ import annotations

import ast

from helpers.source.reading.modules import Module, calls
from helpers.source.reading.statement import Statement, unread
from helpers.source.tree import SourceTree

GRAPHS = "sglang/srt/model_executor/cuda_graph_runner.py"
RUNNER = "sglang/srt/model_executor/model_runner.py"
_SETTER = "set_eagle3_layers_to_capture"
_CAPTURE = "init_device_graphs"


def statement(tree: SourceTree) -> Statement:
    """``holds``: graphs tap the model's default boundaries whatever ids are configured."""
    runner = Module.read(tree, RUNNER)
    if runner is None:
        return unread("graphs", f"{RUNNER} is missing or no Python")
    graphs = Module.read(tree, GRAPHS)
    bare = [call for call in calls(graphs.tree, _SETTER) if not call.args and not call.keywords] if graphs else []
    if not bare:
        said = "graphs are captured without a call of the setter: they tap what was set before"
        where = (runner.line(call) for call in calls(runner.tree, _SETTER))
        return Statement("graphs", False, said, tuple(where))
    assert graphs is not None
    for function in ast.walk(runner.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = [call for call in calls(function, _SETTER) if call.args or call.keywords]
        captured = calls(function, _CAPTURE)
        if given and captured:
            before = [call for call in captured if call.lineno < given[0].lineno]
            lines = (*(runner.line(call) for call in before[:1]), graphs.line(bare[0]), runner.line(given[0]))
            if before:
                said = "graphs are captured before the configured ids are set, with a call of the setter without ids"
                return Statement("graphs", True, f"{said}: graphs tap the model's defaults", lines)
            return Statement("graphs", False, "the configured ids are set before graphs are captured", lines)
    return unread("graphs", f"{RUNNER} does not set ids and capture graphs in one function", graphs.line(bare[0]))
