"""What a served model's config.json says: its layers and widths, and of the ids that may be sent to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import RemoteFailed, UsageError
from helpers.paths import DATA
from helpers.serving.argv import expand
from helpers.serving.asking import Prompt
from helpers.serving.profile import is_folder

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.serving.profile import Profile

#: Where a config that also describes images keeps the language model.
PARTS = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True)
class ModelFacts:
    """Of the language model, also where that is one part of several (Kimi-K2.5 wraps it for images).

    Attributes:
        num_layers: n; the boundaries are 0..n.
        vocab_size: token ids are below it. hidden_size: the width of a tap. None where the config does not say.
        architecture: the class that the language model is served by; None where the config names none.
    """

    num_layers: int
    vocab_size: int | None
    hidden_size: int | None = None
    architecture: str | None = None


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's part of a config.json, what it does not say itself taken from around it.

    >>> text_config({"architectures": ["Wrapper"], "text_config": {"num_hidden_layers": 61}})["num_hidden_layers"]
    61
    >>> text_config({"num_hidden_layers": 10})
    {'num_hidden_layers': 10}
    """
    for key in PARTS:
        if isinstance(config.get(key), dict):
            return {**config, **config[key]}
    return dict(config)


def facts_of(config: Mapping[str, Any]) -> ModelFacts:
    """The facts of a config.json's content."""
    inner = text_config(config)
    vocab, hidden = inner.get("vocab_size"), inner.get("hidden_size")
    names = inner.get("architectures")
    return ModelFacts(
        int(inner["num_hidden_layers"]),
        None if vocab is None else int(vocab),
        None if hidden is None else int(hidden),
        str(names[0]) if names else None,
    )


def model_facts(box: Box, profile: Profile) -> ModelFacts:
    """Of a profile whose model is a folder on the box, as that of every capture is."""
    return facts_of(json.loads(box.read_text(f"{expand(profile.model, box.home)}/config.json")))


def check_prompts(box: Box, profile: Profile, prompts: Sequence[Prompt]) -> None:
    """Refuse, before a server is started, prompts that are those of another model than the profile's.

    A model whose config.json cannot be read is passed over: the start itself says best what is the matter with it.

    Raises:
        UsageError: as `check_tokens`.
    """
    try:
        vocab = model_facts(box, profile).vocab_size if is_folder(profile.model) else None
    except (RemoteFailed, ValueError, KeyError):
        return
    check_tokens(prompts, vocab, f"the model of {profile.name}")


def check_tokens(prompts: Sequence[Prompt], vocab_size: int | None, what: str) -> None:
    """Refuse ids that the model has no embedding for: SGLang does not look, and its scheduler dies of them. And the
    lab's own texts for any other model: there they are ids of something else, and what is accepted on nonsense says
    nothing.

    Args:
        vocab_size: of the served model, None where it is not known: then only the lab's texts are refused.

    Raises:
        UsageError: WB-PROMPTS-VOCABULARY, with the first such prompt, position and id; WB-PROMPTS-LAB.
    """
    labs = next((source for prompt in prompts if is_labs(source := getattr(prompt, "source", None))), None)
    if labs is not None and vocab_size != (own := lab_vocabulary()):
        has = "is not the lab's" if vocab_size is None else f"has a vocabulary of {vocab_size}"
        raise UsageError(
            "WB-PROMPTS-LAB",
            f"{labs} has texts of the lab's own model, in ids of its tokenizer of {own}, and {what} {has}",
            expected="texts in ids of the served model's own tokenizer",
            next="name your own prompts or dump (in a notebook PROMPTS or DUMP), and with them whatever else of the "
            "parameters is the lab's, such as PROMISED: README.md has the list",
        )
    if vocab_size is None:
        return
    for prompt in prompts:
        for position, token in enumerate(prompt.input_ids):
            if not 0 <= token < vocab_size:
                raise UsageError(
                    "WB-PROMPTS-VOCABULARY",
                    f"token {position} of {prompt.id} is {token}, and {what} has ids 0 to {vocab_size - 1}",
                    expected="token ids of that model's own tokenizer",
                    next="take prompts or a dump that were made with the served model's tokenizer",
                )


def is_labs(source: Path | None) -> bool:
    """Whether a file lies among the texts and dumps of the lab's own model."""
    if source is None:
        return False
    path = source.resolve()
    named = path.parent == (DATA / "prompts").resolve() and path.name.startswith("lab-")
    return named or path.is_relative_to((DATA / "lab").resolve())


def lab_vocabulary() -> int:
    """How many ids the tokenizer of the lab's texts has."""
    return int(json.loads((DATA / "lab" / "target" / "config.json").read_text(encoding="utf-8"))["vocab_size"])
