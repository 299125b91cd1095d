"""Which rows are evidence: texts share starts, and a start that several texts have says nothing of any one of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streams
import torch
from torch import Tensor

from helpers.ledger import story
from helpers.ledger.results import summarise
from helpers.tensors.align import Pairing, align, align_rows, distinct_rows
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import Dump, read_dump
from helpers.tensors.dumps.sample import Sample
from helpers.wiring.diagnosis import Diagnosis, diagnose

HEAD = torch.arange(100, 112)


def opened(tmp_path: Path, sent: list[Tensor], dumped: list[Tensor]) -> tuple[Capture, Dump]:
    capture = read_capture(streams.served(sent).write(tmp_path / "c"))
    return capture, read_dump(streams.write_dump(tmp_path / "d", dumped))


def run(tmp_path: Path, sent: list[Tensor], dumped: list[Tensor]) -> Diagnosis:
    return diagnose(*opened(tmp_path, sent, dumped))


def headed(count: int, seed: int, head: Tensor = HEAD, length: int = 20) -> list[Tensor]:
    return [torch.cat([head, text]) for text in streams.texts(count, length=length, seed=seed)]


def pairs(found: list[Pairing]) -> list[tuple[str, int, int]]:
    return [(p.sample.source.name, p.request, len(p)) for p in found]


def test_the_other_samples_of_a_chat_dump_pair_with_nothing(tmp_path: Path) -> None:
    """Three of twelve samples are replayed; the rest share their system prompt with them, and nothing else."""
    dumped = headed(12, seed=3)
    sent = [dumped[i] for i in (7, 2, 9)]
    found = align(*opened(tmp_path, sent, dumped))
    assert pairs(found) == [(f"data_{i}.pt", r, len(dumped[i])) for i, r in ((2, 1), (7, 0), (9, 2))]
    told = diagnose(*opened(tmp_path / "again", sent, dumped))
    rows = sum(len(text) - 2 for text in sent)  # neither token 0 nor the last, which has no feed
    assert (told.verdict, told.aligned_tokens) == ("match", rows)
    assert told.aligned is not None
    assert told.aligned.model_dump() | {"distinct": rows - 2 * (len(HEAD) - 1)} == told.aligned.model_dump()
    assert (told.aligned.requests, told.aligned.samples, told.aligned.of_samples) == (3, 3, 12)
    assert told.findings[0].evidence["aligned"] == told.aligned.model_dump()


@pytest.mark.parametrize(("requests", "samples"), [(4, 5), (1, 5), (4, 1)])
def test_a_system_prompt_is_no_match(tmp_path: Path, requests: int, samples: int) -> None:
    """Unrelated prompts with the dump's system prompt: eleven rows compare well, and say nothing of the texts."""
    told = run(tmp_path, headed(requests, seed=5), headed(samples, seed=6))
    assert (told.codes(), told.verdict, told.aligned_tokens) == (["tokens-differ"], "mismatch", 0)
    assert told.findings[0].evidence == {"samples": samples, "requests": requests, "shared_start": len(HEAD)}
    assert "a start of 12 tokens, which other texts begin with as well" in told.findings[0].summary


def test_a_few_tokens_that_agree_after_the_system_prompt_are_chance(tmp_path: Path) -> None:
    sent, dumped = headed(2, seed=5), headed(3, seed=6)
    dumped[1][12:15] = sent[0][12:15]
    assert run(tmp_path / "a", sent, dumped).codes() == ["tokens-differ"]
    dumped[1][12:17] = sent[0][12:17]
    told = run(tmp_path / "b", sent, dumped)
    assert (told.verdict, told.codes()) == ("inconclusive", [])
    assert [one.code for one in told.undecided if "5 distinct rows" in one.why] == ["features-match"]
    dumped[1][12:30] = sent[0][12:30]
    assert run(tmp_path / "c", sent, dumped).codes() == ["features-match"]


def test_a_text_that_is_there_as_a_whole_counts_whoever_shares_it(tmp_path: Path) -> None:
    """Several completions of one prompt, and the prompt alone as a request; the same text twice on both sides."""
    prompt = streams.texts(1, length=30)[0]
    completions = [torch.cat([prompt, text]) for text in streams.texts(3, length=9, seed=1)]
    assert run(tmp_path / "a", [prompt], completions).codes() == ["features-match"]
    twice = run(tmp_path / "b", [prompt, prompt], [prompt, prompt])
    assert twice.codes() == ["features-match"]
    assert twice.aligned is not None
    assert (twice.aligned.distinct, twice.aligned.requests, twice.aligned.samples) == (28, 1, 1)
    other = torch.cat([prompt, torch.tensor([1, 2, 3])])
    assert run(tmp_path / "c", [other], [completions[0], completions[0].clone()]).codes() == ["features-match"]
    whole = align(*opened(tmp_path / "d", [other], [completions[0], prompt]))
    assert pairs(whole) == [("data_1.pt", 0, 30)], "of two that share as much, the one that is there as a whole"


def test_rows_of_a_shared_start_count_once(tmp_path: Path) -> None:
    texts = headed(3, seed=2, length=10)
    capture, dump = opened(tmp_path, texts, texts)
    found = align(capture, dump)
    assert distinct_rows(found) == sum(map(len, texts)) - 2 * len(HEAD)
    assert distinct_rows(found[:1]) == len(texts[0])
    assert distinct_rows([]) == 0


class Served:
    """Rows of texts, as a rank has them."""

    def __init__(self, texts: list[Tensor]) -> None:
        self.token_ids = torch.cat(texts)
        self.positions = torch.cat([torch.arange(len(text)) for text in texts])
        self.request = torch.cat([torch.full((len(text),), i) for i, text in enumerate(texts)])


def test_of_a_large_dump_only_what_is_paired_is_kept() -> None:
    """Two thousand samples with one system prompt, of which 24 were replayed: one pass, by token ids alone."""
    head, alive = torch.arange(200), list[weakref.ref[Sample]]()

    def text(number: int) -> Tensor:
        generator = torch.Generator().manual_seed(number)
        return torch.cat([head, torch.randint(0, 1 << 17, (100,), generator=generator)])

    def unread() -> Any:
        raise AssertionError("states were read")

    def samples() -> Iterator[Sample]:
        for number in range(2000):
            one = Sample(text(number), None, None, Path(str(number)), (300, 3, 8), torch.bfloat16, unread)
            alive.append(weakref.ref(one))
            yield one
            assert sum(ref() is not None for ref in alive[:-1]) <= len(wanted)

    wanted = list(range(0, 1920, 80))
    found = align_rows(Served([text(number) for number in wanted]), samples()).pairings
    assert [int(p.sample.source.name) for p in found] == wanted
    assert {len(p) for p in found} == {300}


def test_rows_of_prompts_and_of_answers_are_counted_apart(tmp_path: Path) -> None:
    """What is sent as a whole has no row from a decode or verify pass: the match says so, and stays one."""
    texts = streams.texts(2, length=30)
    made = streams.served(texts)
    dump = read_dump(streams.write_dump(tmp_path / "d", texts))
    half = diagnose(read_capture(made.write(tmp_path / "a")), dump)
    for request in made.info["requests"]:
        request["prompt_tokens"] = request["length"]
    whole = diagnose(read_capture(made.write(tmp_path / "b")), dump)
    assert (half.verdict, whole.verdict, whole.exit_code) == ("match", "match", 0)
    assert [found.findings[0].evidence["aligned"]["answer_rows"] for found in (half, whole)] == [14 + 16, 0]
    assert [found.findings[0].evidence["aligned"]["prompt_rows"] for found in (half, whole)] == [14 + 15, 28 + 31]
    assert "features-match" not in [one.code for one in half.undecided]
    (why,) = [one.why for one in whole.undecided if one.code == "features-match"]
    assert "all 59 rows that were compared are of prompts" in why
    assert "--replay DUMP --starts" in why
    assert "known of prompts alone" in story.cause(whole.to_json())
    assert "prompts alone" not in story.cause(half.to_json())
    assert why in summarise(whole).summary
