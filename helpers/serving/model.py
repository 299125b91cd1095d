"""What a served model's config.json says of the ids that may be sent to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.errors import UsageError
from helpers.serving.argv import expand
from helpers.serving.asking import Prompt

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.serving.profile import Profile


@dataclass(frozen=True)
class ModelFacts:
    """``num_layers`` n: the boundaries are 0..n. ``vocab_size``: token ids are below it; None where it is not said."""

    num_layers: int
    vocab_size: int | None


def model_facts(box: Box, profile: Profile) -> ModelFacts:
    """Of a profile whose model is a folder on the box, as that of every capture is."""
    config = json.loads(box.read_text(f"{expand(profile.model, box.home)}/config.json"))
    inner = config.get("text_config") or config
    vocab = inner.get("vocab_size")
    return ModelFacts(int(inner["num_hidden_layers"]), None if vocab is None else int(vocab))


def check_tokens(prompts: Sequence[Prompt], vocab_size: int, what: str) -> None:
    """Refuse ids that the model has no embedding for: SGLang does not look, and its scheduler dies of them.

    Raises:
        UsageError: WB-PROMPTS-VOCABULARY, with the first such prompt, position and id.
    """
    for prompt in prompts:
        for position, token in enumerate(prompt.input_ids):
            if not 0 <= token < vocab_size:
                raise UsageError(
                    "WB-PROMPTS-VOCABULARY",
                    f"token {position} of {prompt.id} is {token}, and {what} has ids 0 to {vocab_size - 1}",
                    expected="token ids of that model's own tokenizer",
                    next="take prompts or a dump that were made with the served model's tokenizer",
                )
