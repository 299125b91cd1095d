"""Layer ids of a stack <-> boundaries, the one unit in which stacks are compared.

A `Convention` is how one stack reads ids. Where the engine's source is at hand, `convention_from_source` reads the rule
there for any model; the named ones below were read in the sources that they name. An engine or a model for which there
is neither is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from helpers.errors import UsageError
from helpers.source.convention import KNOWN, SGLANG_059_DEEPSEEK, Convention
from helpers.source.setter import SourceTree, resolve
from helpers.source.setter.back import ids_for
from helpers.source.setter.outcome import SETTER
from helpers.source.setter.tree import find_model, version_of
from helpers.source.wheels import cached_wheel

if TYPE_CHECKING:
    from helpers.tensors.capture_info import Info

__all__ = [
    "KNOWN",
    "SGLANG_059_DEEPSEEK",
    "SPECFORGE_HF",
    "VLLM",
    "Convention",
    "Rule",
    "SourceConvention",
    "convention_for",
    "convention_from_source",
    "convention_of",
    "default_boundaries",
    "read_convention",
]


@runtime_checkable
class Rule(Protocol):
    """What a diagnosis needs of a convention, whether it was written down or is read from the source."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def embedding_id(self) -> int | None: ...
    @property
    def embedding_patch(self) -> str | None: ...
    def boundaries(self, ids: Iterable[int], num_layers: int) -> list[int]: ...
    def ids(self, boundaries: Iterable[int], num_layers: int) -> list[int] | None: ...


@dataclass(frozen=True)
class SourceConvention:
    """How the source at hand reads ids for one model; each question is answered by reading it.

    ``architecture`` picks the class where a file serves several with rules that differ.
    """

    tree: SourceTree
    model: str
    name: str
    source: str
    architecture: str | None = None
    embedding_id: int | None = None
    embedding_patch: str | None = None

    def boundaries(self, ids: Iterable[int], num_layers: int) -> list[int]:
        """Boundaries in tap order.

        Raises:
            UsageError: ``WB-SETTER-UNREAD`` where it depends on more than these ids.
        """
        return list(resolve(self.tree, self.model, list(ids), num_layers, architecture=self.architecture).boundaries)

    def ids(self, boundaries: Iterable[int], num_layers: int) -> list[int] | None:
        """The ids that tap these boundaries in this order; None where none were found."""
        found = ids_for(self.tree, self.model, list(boundaries), num_layers, architecture=self.architecture)
        return list(found.ids) if found is not None else None


def convention_from_source(
    root: Path, model: str | None = None, *, architecture: str | None = None, version: str | None = None
) -> SourceConvention:
    """The convention of a model in an engine's source, read to see that it can be.

    Args:
        root: a wheel, or the folder that holds the package ``sglang``.
        model: the model file's stem; looked up by the architecture where it is not given.
        architecture: the class of the target's config.json.
        version: what the source is called; else what it says itself.

    Raises:
        UsageError: ``WB-SETTER-MISSING``, ``WB-SETTER-UNREAD``, ``WB-SETTER-NO-MODEL``, ``WB-SOURCE-NO-SGLANG``.
    """
    tree = SourceTree(root)
    if model is None and architecture is None:
        raise UsageError(
            "WB-USAGE", "no model is named", expected="a model file's stem, or an architecture", next="--model"
        )
    stem = model or find_model(tree, architecture or "")
    name = f"sglang {version or version_of(tree) or 'source'}, {stem}"
    return read_convention(tree, stem, name, architecture)


def read_convention(tree: SourceTree, model: str, name: str, architecture: str | None = None) -> SourceConvention:
    """The convention of a model file, called `name`.

    Raises:
        UsageError: ``WB-SETTER-MISSING``, ``WB-SETTER-UNREAD``, ``WB-SETTER-NO-MODEL``.
    """
    read = resolve(tree, model, None, 32, architecture=architecture)
    place = next((p for p in read.evidence if SETTER in p.text), read.evidence[0])
    return SourceConvention(tree, model, name, str(place), architecture)


VLLM = Convention(
    name="vLLM",
    source="vllm/model_executor/models/llama.py: `if idx in self.aux_hidden_state_layers`, ahead of layer idx",
    offset=0,
    last=True,
)
SPECFORGE_HF = Convention(
    name="SpecForge, Hugging Face target",
    source="specforge/modeling/target/eagle3_target_model.py: forward hooks, so an id is a layer's output",
    offset=1,
    last=True,
)


def default_boundaries(num_layers: int) -> list[int]:
    """What SGLang taps when no ids are given."""
    return [2, num_layers // 2, num_layers - 3]


def convention_for(engine: str, version: str, architecture: str, *, source: Path | None = None) -> Rule:
    """The convention of a served model: a known one, else as the source says, where that is given.

    Args:
        source: the engine's wheel, or the folder that holds its package.

    Raises:
        UsageError: ``WB-BOUNDARIES-UNREAD`` where nobody has read the rule yet and no source is given; with a source,
            ``WB-SETTER-MISSING`` or ``WB-SETTER-UNREAD``.
    """
    found = KNOWN.get((engine, version, architecture))
    if found is None and source is not None and engine == "sglang":
        return convention_from_source(source, architecture=architecture, version=version)
    if found is None:
        raise UsageError(
            "WB-BOUNDARIES-UNREAD",
            f"how {engine} {version} reads layer ids for {architecture} has not been read from its source",
            expected="one of: " + ", ".join(f"{e} {v} {a}" for e, v, a in KNOWN),
            next=f"workbook boundaries --engine {engine}=={version} --model MODEL --layers N",
        )
    return found


def convention_of(info: Info) -> Rule | None:
    """How the engine of a capture reads ids; None where that cannot be read, and then no ids are named.

    A rule that is not known by name is read from the release's wheel, where that lies in the cache.
    """
    engine, version = info.engine.name, info.engine.release
    try:
        wheel = cached_wheel(f"{engine}=={version}")
        return convention_for(engine, version, info.model.architecture, source=wheel)
    except UsageError:
        return None
