"""What a capture profile adds to a server's start: the specs of SGLang's ``--forward-hooks``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

FACTORY = "remote.taps:make_hook"


def hook_specs(
    num_layers: int, arm_file: str, *, prefix: str = "", boundaries: Iterable[int] | None = None, drafter: str = "model"
) -> list[dict[str, Any]]:
    """The value of ``--forward-hooks`` for a capture profile.

    Args:
        num_layers: layers n of the target; its boundaries are 0..n.
        arm_file: path on the box; the capture is armed while this file exists.
        prefix: what stands before ``model.`` in the target's module names (``language_model.`` in wrapped models).
        boundaries: those to hook; all if None. Boundary 0 is the embedding's output, b is layer b-1's output.
        drafter: the drafter's root module.

    Layers are named one by one: the engine's patterns are fnmatch, where ``*`` also spans dots and would hook every
    submodule. Names that a runner lacks are passed over, so one spec serves target and drafter.
    """
    root = f"{prefix}model"
    wanted = sorted(set(range(num_layers + 1) if boundaries is None else boundaries))
    unknown = [b for b in wanted if not 0 <= b <= num_layers]
    if unknown:
        raise ValueError(f"boundaries {unknown} are outside 0..{num_layers}")
    modules = [f"{root}.embed_tokens" if b == 0 else f"{root}.layers.{b - 1}" for b in wanted]
    modules += [f"{root}.norm", root]
    modules += [m for m in (f"{drafter}.fc", drafter) if m not in modules]
    return [{"name": "workbook", "target_modules": modules, "hook_factory": FACTORY, "config": {"arm": arm_file}}]
