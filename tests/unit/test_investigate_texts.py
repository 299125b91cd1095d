"""What an investigation asks a server to go on with, and what it says of it: the end of a sample is no place to begin.

.venv/bin/python -m pytest tests/unit/test_investigate_texts.py
"""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
import streams
import torch

from helpers.acceptance import Prompt
from helpers.errors import UsageError
from helpers.investigate.texts import LEAST, Text, choose, continued, different, place_to_cut, starts
from helpers.paths import DATA
from helpers.serving import get_profile
from helpers.serving.asking import ask
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import read_dump

PROFILE = get_profile("right")
END = 1


def mask(length: int, *spans: tuple[int, int]) -> list[bool]:
    return [any(start <= i < stop for start, stop in spans) for i in range(length)]


@pytest.mark.parametrize(
    ("length", "spans", "wanted", "found"),
    [
        (100, [(60, 100)], 40, (60, "mask")),
        (100, [(20, 60), (70, 100)], 20, (70, "mask")),  # the last turn
        (100, [(20, 60), (95, 100)], 20, (20, "mask")),  # whose few tokens end soon: the last that is long enough
        (100, [(20, 30), (50, 58), (95, 100)], 20, (20, "mask")),  # none is: the longest
        (100, [(0, 100)], 20, (75, "share")),  # a text without a prompt
        (100, [(LEAST - 1, 100)], 20, (75, "share")),
        (100, [(LEAST, 100)], 20, (LEAST, "mask")),
        (100, [(0, 5), (40, 80)], 20, (40, "mask")),
        (100, [], 20, (75, "share")),
        (10, [(0, 10)], 20, (10, "whole")),
        (11, [], 20, (8, "share")),
    ],
)
def test_a_text_is_cut_where_learning_begins(
    length: int, spans: list[tuple[int, int]], wanted: int, found: tuple[int, str]
) -> None:
    assert place_to_cut(length, mask(length, *spans), wanted) == found


def test_without_a_mask_a_quarter_is_left() -> None:
    assert place_to_cut(100, None, 20) == (75, "share")
    assert place_to_cut(4, None, 20) == (4, "whole")


def test_the_starts_of_a_dump(tmp_path: Path) -> None:
    dump = read_dump(chats(tmp_path / "dump"))
    cut = choose(dump, PROFILE, len(dump), 6)
    found = starts(dump, 2, 6)
    assert [p.input_ids for p in found] == [text.cut.input_ids for text in cut[:2]]
    assert len(starts(dump, len(dump), 6)) == len({text.cut.input_ids for text in cut})
    lab = starts(read_dump(DATA / "lab" / "dump"), 3, 64)
    assert {len(prompt.input_ids) for prompt in lab} == {96}
    assert all(prompt.source is not None for prompt in lab), "whose texts they are, or another model is sent them"


def chats(path: Path) -> Path:
    """Three samples that end as a chat does; the last begins as the first, and goes on otherwise."""
    first, second = streams.texts(2, length=40)
    first[-1] = second[-1] = END
    third = torch.cat([first[:24], torch.tensor([9, 8, 7, END])])
    streams.write_dump(path, [first, second, third])
    for i, start in enumerate((24, 30, 24)):
        sample = torch.load(path / f"data_{i}.pt", weights_only=True)
        sample["loss_mask"] = (torch.arange(len(sample["input_ids"])) >= start).long()
        torch.save(sample, path / f"data_{i}.pt")
    return path


def test_whole_texts_and_cut_ones(tmp_path: Path) -> None:
    dump = read_dump(chats(tmp_path / "dump"))
    texts = choose(dump, PROFILE, 24, 4)
    assert [(t.whole.id, t.cut.id, len(t.whole.input_ids), len(t.cut.input_ids), t.by) for t in texts] == [
        ("s0", "c0", 40, 24, "mask"),
        ("s1", "c1", 43, 30, "mask"),
        ("s2", "c2", 28, 24, "mask"),
    ]
    for text in texts:
        assert (*text.cut.input_ids, *text.rest) == text.whole.input_ids
        assert END not in text.cut.input_ids
    assert [text.cut.id for text in different(texts)] == ["c0", "c1"]
    assert len(choose(dump, PROFILE, 2, 4)) == 2
    small = PROFILE.model_copy(update={"context_length": 54})
    assert [text.whole.id for text in choose(dump, small, 24, 4)] == ["s0", "s2"]
    with pytest.raises(UsageError, match="WB-INVESTIGATE-PROMPTS: none of the 3 samples"):
        choose(dump, small, 24, 50)


def captured(path: Path, texts: list[Text], new: list[list[int]]) -> Capture:
    """The cut prompts, and what a server wrote after each."""
    whole = [torch.tensor([*text.cut.input_ids, *tokens]) for text, tokens in zip(texts, new, strict=True)]
    made = streams.served(whole)
    for request, text in zip(made.info["requests"], texts, strict=True):
        request |= {"id": text.cut.id, "prompt_tokens": len(text.cut.input_ids)}
    return read_capture(made.write(path))


def text(number: int, length: int, at: int, by: str) -> Text:
    tokens = tuple(range(10 * number, 10 * number + length))
    whole, cut = Prompt(f"s{number}", tokens), Prompt(f"c{number}", tokens[:at])
    return Text(whole, cut, tokens[at:], by)  # type: ignore[arg-type]


def test_it_is_said_who_wrote_what_is_scored(tmp_path: Path) -> None:
    texts = [text(0, 20, 12, "mask"), text(5, 20, 16, "mask"), text(9, 20, 15, "share")]
    own = [list(t.rest) for t in texts]
    # One goes on as the dump does and beyond its end, one parts from it, one ended at once.
    taken = captured(tmp_path / "a", texts, [[*own[0], 3, 3], [own[1][0], 999, own[1][2]], []])
    assert continued(texts, taken, 40) == (
        "The prompts are 3 texts of the dump, of each up to where a span of training's loss mask begins (2); three "
        "quarters of it, where no loss mask says more (1). Scored is what the target itself, greedily, writes after "
        "them: up to 40 tokens of each, and none after an end-of-text at which the server ends an answer. 9 of these "
        "13 tokens are the dump's own after the same text: if the drafter was trained on them, both rates are "
        "flattered."
    )


def test_a_text_that_was_not_cut_is_said_to_go_on_beyond_its_end(tmp_path: Path) -> None:
    texts = [text(0, 9, 9, "whole")]
    said = continued(texts, captured(tmp_path / "a", texts, [[3, 3, 3]]), 40)
    assert "all of it, too short to be cut, so that what follows lies beyond its end (1)" in said
    assert said.endswith("None of these 3 tokens is the dump's own; the prompts are.")
    assert "flattered" not in said


@pytest.mark.parametrize("natural_end", [True, False])
def test_an_answer_may_end_where_the_model_ends_it(natural_end: bool) -> None:
    sent: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content)["sampling_params"])
        return httpx.Response(200, json={"output_ids": [5, END]})

    with httpx.Client(base_url="http://here", transport=httpx.MockTransport(answer)) as client:
        told = ask(client, Prompt("c0", (1, 2)), "x", 40, natural_end)
    assert told["output_ids"] == [5, END]
    assert sent == [{"temperature": 0, "max_new_tokens": 40, "ignore_eos": not natural_end}]
