"""The dump's texts as prompts: whole, to be held against the dump, and cut, for the server to go on with itself.

What a replay scores is what the server writes after a prompt. After the end of a sample that is an invented turn, or a
loop: nothing that the drafter was trained to draft. So a replay's prompts end where the drafter's learning begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Literal

from helpers.errors import UsageError

if TYPE_CHECKING:
    from helpers.acceptance import Prompt
    from helpers.serving.profile import Profile
    from helpers.tensors.capture import Capture
    from helpers.tensors.dumps import Dump

LEAST = 8
"""Tokens that a cut prompt has at least: a drafter that has seen less guesses from next to nothing."""

By = Literal["mask", "share", "whole"]


@dataclass(frozen=True)
class Text:
    """One sample of the dump.

    Attributes:
        whole: all its tokens. cut: those before ``rest``; the dump goes on with ``rest``.
        by: what it was cut by: its loss mask, a share of its length where no span of the mask will do, or nothing
            where it is too short.
    """

    whole: Prompt
    cut: Prompt
    rest: tuple[int, ...]
    by: By


def choose(dump: Dump, profile: Profile, samples: int, max_new_tokens: int) -> list[Text]:
    """The dump's first texts, at most so many, that fit the server's context.

    Raises:
        UsageError: ``WB-INVESTIGATE-PROMPTS`` where none fits.
    """
    room = (profile.context_length or 1 << 30) - max_new_tokens - 8
    fitting = (text for text in cut_texts(dump, max_new_tokens) if len(text.whole.input_ids) <= room)
    chosen = list(islice(fitting, samples))
    if not chosen:
        raise UsageError(
            "WB-INVESTIGATE-PROMPTS",
            f"none of the {len(dump)} samples of {dump.path} fits into {profile.context_length} tokens of context",
            expected=f"a sample of at most {room} tokens",
            next="raise the profile's context_length, or take a dump of shorter texts",
        )
    return chosen


def starts(dump: Dump, limit: int, wanted: int) -> list[Prompt]:
    """The cut prompts of a dump's first samples, at most so many, each of them once; no other sample is opened."""
    return [text.cut for text in different(list(islice(cut_texts(dump, wanted), limit)))]


def cut_texts(dump: Dump, wanted: int) -> Iterator[Text]:
    """The dump's texts, in its order; ``wanted`` are the new tokens of each that are to be scored."""
    from helpers.acceptance import Prompt

    for number in range(len(dump)):
        sample = dump[number]
        tokens = tuple(sample.token_ids.tolist())
        mask = None if sample.loss_mask is None else sample.loss_mask.tolist()
        at, by = place_to_cut(len(tokens), mask, wanted)
        whole = Prompt(f"s{number}", tokens, source=sample.source)
        yield Text(whole, Prompt(f"c{number}", tokens[:at], source=sample.source), tokens[at:], by)


def place_to_cut(length: int, mask: Sequence[bool] | None, wanted: int) -> tuple[int, By]:
    """How many of a sample's tokens are the prompt, and what says so.

    Args:
        mask: of the training loss, a value a token. wanted: new tokens that are to be scored.

    The prompt ends where the last span of the mask begins that is as long as what is wanted, else the longest one: a
    short last answer ("You are welcome.") is soon at its end. Without such a span a quarter of the text is left.

    >>> place_to_cut(100, [False] * 60 + [True] * 40, 16)
    (60, 'mask')
    >>> place_to_cut(100, [True] * 100, 16), place_to_cut(100, None, 16), place_to_cut(9, None, 16)
    ((75, 'share'), (75, 'share'), (9, 'whole'))
    """
    edges = [i for i, (a, b) in enumerate(pairwise([False, *map(bool, mask or ()), False])) if a != b]
    spans = [(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True) if start >= LEAST]
    if spans:
        return max(spans, key=lambda span: (min(span[1] - span[0], wanted), span[0]))[0], "mask"
    share = length * 3 // 4
    return (share, "share") if share >= LEAST else (length, "whole")


def different(texts: Sequence[Text]) -> list[Text]:
    """Texts whose cut prompts differ: of two that begin alike the greedy continuation is one and the same."""
    found: dict[tuple[int, ...], Text] = {}
    for text in texts:
        found.setdefault(text.cut.input_ids, text)
    return list(found.values())


def continued(texts: Sequence[Text], captured: Capture, max_new_tokens: int) -> str:
    """What a capture of cut texts holds, in sentences: how they were cut, who wrote what is scored, whose tokens it is.

    Args:
        captured: of the cut prompts, its requests named as these are.
    """
    tokens, rests = captured.ranks[0].token_ids, {text.cut.id: text.rest for text in texts}
    written = own = 0
    for request in captured.info.requests:
        new = tokens[request.start + request.prompt_tokens : request.start + request.length].tolist()
        same = [a == b for a, b in zip(new, rests[request.id], strict=False)]
        written += len(new)
        own += same.index(False) if False in same else len(same)
    return f"{_cuts(texts)} Scored is what the target itself, greedily, writes after them: up to {max_new_tokens} " + (
        f"tokens of each, and none after an end-of-text at which the server ends an answer. {_whose(own, written)}"
    )


def _cuts(texts: Sequence[Text]) -> str:
    how = {
        "mask": "up to where a span of training's loss mask begins",
        "share": "three quarters of it, where no loss mask says more",
        "whole": "all of it, too short to be cut, so that what follows lies beyond its end",
    }
    counts = {by: sum(text.by == by for text in texts) for by in how}
    said = "; ".join(f"{words} ({counts[by]})" for by, words in how.items() if counts[by])
    return f"The prompts are {len(texts)} texts of the dump, of each {said}."


def _whose(own: int, written: int) -> str:
    if not own:
        return f"None of these {written} tokens is the dump's own; the prompts are."
    return (
        f"{own} of these {written} tokens are the dump's own after the same text: if the drafter was trained on them, "
        "both rates are flattered."
    )
