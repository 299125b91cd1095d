"""Whether CUDA graphs are captured with the default taps, because the configured ids are set only afterwards."""

from __future__ import annotations

import ast

from helpers.source.excerpts import Line
from helpers.source.reading.modules import Module, calls, functions
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
        return Statement("graphs", False, said, _set_at(tree, runner))
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


def _set_at(tree: SourceTree, runner: Module) -> tuple[Line, ...]:
    """Where the ids are set: in the runner itself, or in a function of a module that it imports."""
    own = tuple(runner.line(call) for call in calls(runner.tree, _SETTER))
    if own:
        return own
    for name, (path, original) in runner.imports.items():
        module = Module.read(tree, path) if calls(runner.tree, name) else None
        work = [f for f in functions(module.tree.body) if f.name == original] if module is not None else []
        found = [call for function in work for call in calls(function, _SETTER)]
        if module is not None and found:
            return (runner.line(calls(runner.tree, name)[0]), *(module.line(call) for call in found))
    return ()
