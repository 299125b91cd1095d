"""What to say of a model file that is not there: the nearest names, of files that can be asked for their taps."""

from __future__ import annotations

from itertools import islice

from helpers.errors import UsageError
from helpers.nearest import by_likeness, did_you_mean
from helpers.source.setter.outcome import SETTER
from helpers.source.setter.reading import resolve
from helpers.source.setter.tree import MODELS, SourceTree

SHOWN = 5
SOME = (2, 12)  # an id, and a number of layers that it lies within


def no_model(tree: SourceTree, stem: str) -> UsageError:
    """``WB-SETTER-NO-MODEL``, with the likely names."""
    near = list(islice((name for name in by_likeness(stem, tree.model_names) if captures(tree, name)), SHOWN))
    return UsageError(
        "WB-SETTER-NO-MODEL",
        f"there is no model file {stem!r} in {tree.root.name}/sglang/{MODELS}",
        expected=f"the stem of a model's file with {SETTER}" + (f", such as {', '.join(near)}" if near else ""),
        next=did_you_mean(stem, near or tree.model_names, "look up which file holds the architecture of config.json"),
    )


def captures(tree: SourceTree, stem: str) -> bool:
    """Whether ids tap anything in that file's model: a drafter inherits a setter and has nothing to tap."""
    try:
        return bool(resolve(tree, stem, SOME[:1], SOME[1]).boundaries)
    except UsageError:
        return False
