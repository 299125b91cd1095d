"""What a model's config.json says, and which texts are those of another model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.acceptance import Prompt, dump_prompts, read_prompts
from helpers.errors import RemoteFailed, UsageError
from helpers.paths import DATA
from helpers.serving import Profile, check_prompts
from helpers.serving.model import check_tokens, facts_of
from helpers.tensors.dumps import read_dump

#: As Kimi-K2.5's: the language model is a part, and the class around it is the wrapper's.
INNER = {"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840}
WRAPPED = {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": INNER}
LAB_PROMPTS = DATA / "prompts" / "lab-heldout.jsonl"


@pytest.mark.parametrize("config", [INNER, WRAPPED], ids=["plain", "wrapped"])
def test_the_language_model_is_found_inside_its_wrapper(config: dict[str, Any]) -> None:
    found = facts_of(config)
    assert (found.num_layers, found.hidden_size, found.vocab_size) == (61, 7168, 163840)
    assert found.architecture == "DeepseekV3ForCausalLM", "the class whose setter reads the ids"


class Box:
    """A box with one model, whose config.json is this."""

    home = "/home/me"

    def __init__(self, config: object) -> None:
        self.config = config

    def read_text(self, path: str) -> str:
        if path != "/home/me/models/target/config.json" or self.config is None:
            raise RemoteFailed("WB-FILE-MISSING", path, expected="", next="")
        return json.dumps(self.config)


def told(config: object, prompts: list[Prompt], model: str = "~/models/target") -> str:
    box: Any = Box(config)
    try:
        check_prompts(box, Profile(name="mine", engine="sglang==0.5.9", model=model), prompts)
    except UsageError as error:
        return error.code
    return ""


LABS = json.loads((DATA / "lab/target/config.json").read_text())


def test_the_labs_texts_are_for_the_labs_model_alone() -> None:
    """Its ids are valid in every larger vocabulary: a false "accepted too rarely" went into the ledger."""
    for prompts in (read_prompts(LAB_PROMPTS, limit=2), dump_prompts(read_dump(DATA / "lab/dump"), limit=2)):
        assert told(WRAPPED, prompts) == "WB-PROMPTS-LAB"
        assert told(WRAPPED, prompts, "moonshotai/Kimi-K2.5") == "WB-PROMPTS-LAB", "a hub name is not the lab's either"
        assert told(LABS, prompts) == ""
        assert told(None, prompts) == "", "there is no such model: the start says so"


def test_texts_of_ones_own_go_everywhere(tmp_path: Path) -> None:
    own = tmp_path / "lab-mine.jsonl"
    own.write_text('{"id": "a", "input_ids": [1, 2]}\n')
    assert told(WRAPPED, read_prompts(own)) == told(WRAPPED, [Prompt("a", (1, 2))]) == ""
    assert told(LABS, [Prompt("a", (1, 5000))]) == "WB-PROMPTS-VOCABULARY"


def test_the_refusal_names_file_and_what_else_to_change() -> None:
    with pytest.raises(UsageError) as caught:
        check_tokens(read_prompts(LAB_PROMPTS, limit=1), 163840, "the model of mine")
    assert str(LAB_PROMPTS) in caught.value.message
    assert "PROMISED" in caught.value.next


def test_no_sample_beyond_those_that_are_sent_is_opened() -> None:
    dump, opened = read_dump(DATA / "lab/dump"), []

    def opener(index: int) -> Any:
        opened.append(index)
        return inner(index)

    inner = dump.opener
    object.__setattr__(dump, "opener", opener)
    assert [p.id for p in dump_prompts(dump, limit=3)] == ["s0", "s1", "s2"]
    assert opened == [0, 1, 2]
    assert len(dump_prompts(dump, limit=None)) == len(dump)
