"""Whether layers leave their all-reduce to the next one (fused), so that a tap holds one rank's part of the sum."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.source.reading import resolved
from helpers.source.reading.conditions import UNKNOWN, evaluate, unknown_terms
from helpers.source.reading.modules import ClassAt, Module, functions
from helpers.source.reading.statement import Statement, unread
from helpers.source.reading.taps import read_taps
from helpers.source.tree import SourceTree

SERVER_ARGS = "sglang/srt/server_args.py"
COMMUNICATOR = "sglang/srt/layers/communicator.py"
_SWITCH = "enable_flashinfer_allreduce_fusion"
_APPLY = "apply_flashinfer_allreduce_fusion"
_MARK = "_sglang_needs_allreduce_fusion"


@dataclass(frozen=True)
class Chip:
    """A kind of GPU: its compute capability's major and minor number (9, 0), and the device's name if known."""

    major: int
    minor: int
    name: str | None = None


def statement(
    tree: SourceTree,
    classes: list[ClassAt],
    architecture: str,
    settings: Mapping[str, Any],
    chip: Chip | None,
) -> Statement:
    """Whether fusion is on for a launch: the switch, the run-time test, the tensor left unreduced, the tap.

    Args:
        settings: server arguments by SGLang's own names, defaults filled in.
        chip: None where it is not known; the answer may then be None too.
    """
    arguments, communicator = Module.read(tree, SERVER_ARGS), Module.read(tree, COMMUNICATOR)
    if communicator is None and tree.read(resolved.OVERRIDES) is not None:
        on_gpu = settings.get("device") in (None, "cuda")
        kind = (chip.major, chip.minor) if chip is not None and on_gpu else None if on_gpu else (0, 0)
        return resolved.statement(tree, classes, architecture, settings, kind)
    if arguments is None or communicator is None:
        missing = SERVER_ARGS if arguments is None else COMMUNICATOR
        return unread("fusion", f"{missing} is missing or no Python")
    switch = _switch(arguments)
    applied = _applied(communicator)
    if switch is None or applied is None:
        stop = (arguments, _SWITCH) if switch is None else (communicator, _APPLY)
        place = next((stop[0].line(n) for n, t in enumerate(stop[0].text.split("\n"), 1) if stop[1] in t), None)
        return unread("fusion", f"{stop[0].path} does not decide it in a known form", *([place] if place else []))
    marks = [c.module.line(node) for c in classes for node in ast.walk(c.module.tree) if _marks(node)]
    if not marks:
        return Statement("fusion", False, f"no layer of {architecture} leaves its all-reduce to the next one")
    known = _known(architecture, settings, chip)
    test, assign = switch
    enabled = True if settings.get(_SWITCH) else evaluate(test, known)
    on = _all([enabled, settings.get("tp_size", 1) > 1, evaluate(applied, _at_run(communicator, known, enabled))])
    lines = [arguments.line(test), arguments.line(assign), communicator.line(applied), marks[0]]
    taps = [tap for tap in read_taps(tree, classes).taps if tap.gathered is None and tap.condition]
    early = [tap for tap in taps if tap.before_reduce]
    lines += [tap.line for tap in early or taps][:1]
    limit = _constant(communicator, "FUSE_ALLREDUCE_MAX_BATCH_SIZE")
    size = f" in passes of up to {limit} tokens" if limit else ""
    spoils = bool(early) if taps else None
    details = (("max_tokens", limit), ("architecture", architecture), ("spoils_taps", spoils))
    if on is UNKNOWN:
        terms = unknown_terms(test, known) if enabled is UNKNOWN else [ast.unparse(applied)]
        why = "it depends on " + ", ".join(f"`{term}`" for term in terms)
        return Statement("fusion", None, f"fused all-reduce may be on{size}: {why}", tuple(lines), details, why)
    if not on:
        return Statement("fusion", False, "all-reduce fusion is off for this launch", tuple(lines[:2]), details)
    where = {True: "before it: one rank's part", False: "after it: whole", None: "at a place that is not read"}[spoils]
    summary = f"the all-reduce is fused into the next layer{size}, and the tap is taken {where}"
    return Statement("fusion", True, summary, tuple(lines), details)


def _known(architecture: str, settings: Mapping[str, Any], chip: Chip | None) -> dict[str, Any]:
    known: dict[str, Any] = {f"self.{name}": value for name, value in settings.items()}
    known["model_arch"] = architecture
    on_gpu = settings.get("device") in (None, "cuda")
    if chip is not None or not on_gpu:
        major = chip.major if chip is not None and on_gpu else 0
        for prefix in ("", "_"):
            suffix = "" if prefix else "()"
            known[f"{prefix}is_sm90_supported{suffix}"] = major == 9
            known[f"{prefix}is_sm100_supported{suffix}"] = major == 10
        # As server_args.py tells an H20 by its name. A chip given by its capability alone is taken for none.
        name = (chip.name if chip is not None else None) or ""
        known["is_h20_device"] = "H20" in name and "H200" not in name
    return known


def _at_run(communicator: Module, known: Mapping[str, Any], enabled: Any) -> dict[str, Any]:
    """What the run-time test asks: on one small batch, with flashinfer there (a CUDA box without it is none)."""
    attention = bool(known.get("self.enable_dp_attention")) and int(known.get("self.dp_size", 1)) > 1
    served = {f"get_global_server_args().{k[len('self.') :]}": v for k, v in known.items() if k.startswith("self.")}
    return {
        **known,
        **served,
        "is_flashinfer_allreduce_unavailable()": False,
        "_is_flashinfer_available": True,
        "batch_size": 1,
        "FUSE_ALLREDUCE_MAX_BATCH_SIZE": _constant(communicator, "FUSE_ALLREDUCE_MAX_BATCH_SIZE") or 1,
        "is_dp_attention_enabled()": attention,
        f"get_global_server_args().{_SWITCH}": enabled,
    }


def _switch(module: Module) -> tuple[ast.expr, ast.Assign] | None:
    """The condition under which the engine switches fusion on by itself, and that line."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.If):
            for inner in node.body:
                if isinstance(inner, ast.Assign) and ast.unparse(inner) == f"self.{_SWITCH} = True":
                    return node.test, inner
    return None


def _applied(module: Module) -> ast.expr | None:
    """What the run-time test returns."""
    function = next((node for node in functions(module.tree.body) if node.name == _APPLY), None)
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)] if function is not None else []
    return returns[0].value if len(returns) == 1 else None


def _marks(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and node.targets[0].attr == _MARK


def _constant(module: Module, name: str) -> int | None:
    for node in module.tree.body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == name
            and isinstance(node.value, ast.Constant)
        ):
            return int(str(node.value.value))
    return None


def _all(values: list[Any]) -> Any:
    if any(value is not UNKNOWN and not value for value in values):
        return False
    return UNKNOWN if any(value is UNKNOWN for value in values) else True
