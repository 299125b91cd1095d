"""Prompts: one JSON object a line. Token ids rather than text, so that every configuration gets the same tokens; a load
also takes text and chat messages, which the server turns into tokens itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from helpers.defaults import SAMPLES
from helpers.errors import UsageError
from helpers.tensors.places import met, way_out

if TYPE_CHECKING:
    from helpers.tensors.dumps import Dump

Kind = Literal["input_ids", "text", "messages"]
KINDS: tuple[Kind, ...] = ("input_ids", "text", "messages")
EXAMPLES: dict[Kind, str] = {
    "input_ids": '{"id": "p0", "input_ids": [1, 2, 3]}',
    "text": '{"id": "p0", "text": "def f(x):"}',
    "messages": '{"id": "p0", "messages": [{"role": "user", "content": "hello"}]}',
}


@dataclass(frozen=True)
class Prompt:
    """One request's input: an id of the file's own, and one of token ids, text, or chat messages.

    Attributes:
        input_ids: as the server is sent them; empty where the prompt is text or messages.
        source: the file that it was read from.
    """

    id: str
    input_ids: tuple[int, ...] = ()
    text: str | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    source: Path | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> Kind:
        return "text" if self.text is not None else "messages" if self.messages is not None else "input_ids"


def read_prompts(path: Path, *, limit: int | None = None, kinds: Sequence[Kind] = ("input_ids",)) -> list[Prompt]:
    """Reads ``{"id": ..., "input_ids": [...]}`` lines, in order.

    Args:
        kinds: what a line may hold; ``KINDS`` also takes ``{"id", "text"}`` and ``{"id", "messages"}``.

    Raises:
        UsageError: ``WB-PROMPTS-MISSING`` or ``WB-PROMPTS-LINE``, with the line's number and what stood there.
    """
    if not path.is_file():
        raise UsageError(
            "WB-PROMPTS-MISSING",
            met(path, "prompts", "no prompts"),
            expected="a file of JSON lines of {id, input_ids}",
            next=way_out(path, "prompts", "data/prompts/lab-heldout.jsonl is one for the lab"),
        )
    prompts: list[Prompt] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line.strip():
            prompts.append(_parse(line, number, path, kinds))
    if len({p.id for p in prompts}) != len(prompts) or not prompts:
        raise UsageError(
            "WB-PROMPTS-LINE",
            f"{path} has {len(prompts)} prompts with {len({p.id for p in prompts})} different ids",
            expected="at least one prompt, and an id of its own for each",
            next="give every line another id",
        )
    return prompts[:limit]


def dump_prompts(
    dump: Dump, *, limit: int | None = SAMPLES, fits: Callable[[int], bool] = lambda tokens: True
) -> list[Prompt]:
    """A dump's own texts as prompts, in its order; no sample beyond those is opened.

    Args:
        limit: how many at most; None takes the whole dump, which may be terabytes.
        fits: of a sample's number of tokens, whether it may be sent; the others are passed over.
    """
    prompts: list[Prompt] = []
    for number in range(len(dump)):
        if len(prompts) == limit:
            break
        sample = dump[number]
        if fits(len(sample.token_ids)):
            prompts.append(Prompt(f"s{number}", tuple(sample.token_ids.tolist()), source=sample.source))
    return prompts


def texts(
    prompts: Path | None, dump: Path | None, *, format: str | None = None, limit: int | None = None
) -> tuple[list[Prompt], int]:
    """What a capture is to send: the prompts of a file, or the samples of a dump; and how many there would be.

    Args:
        prompts, dump: one of the two. format: of the dump, where its files leave it open.
        limit: at most so many; by default all of a file's, and `SAMPLES` of a dump's.
    """
    if prompts is not None:
        every = read_prompts(prompts)
        return every[:limit], len(every)
    from helpers.tensors.dumps import read_dump

    assert dump is not None
    found = read_dump(dump, format=format)
    return dump_prompts(found, limit=limit or SAMPLES), len(found)


def _parse(line: str, number: int, path: Path, kinds: Sequence[Kind]) -> Prompt:
    try:
        record = json.loads(line)
        given = [kind for kind in KINDS if kind in record]
        if len(given) > 1:
            raise ValueError(f"both {given[0]} and {given[1]}")
        kind = given[0] if given and given[0] in kinds else kinds[0]
        return Prompt(str(record["id"]), **{kind: _content(kind, record[kind])}, source=path)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "WB-PROMPTS-LINE",
            f"{path} line {number} is no prompt ({error}): {line[:80]!r}",
            expected=" or ".join(EXAMPLES[kind] for kind in kinds),
            next=f"mend line {number}",
        ) from error


def _content(kind: Kind, value: Any) -> Any:
    """The value as a prompt holds it, or ValueError."""
    if kind == "input_ids":
        ids = tuple(value)
        if not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
            raise ValueError("input_ids holds no token ids")
        return ids
    if kind == "text":
        if not isinstance(value, str) or not value:
            raise ValueError("text is no text")
        return value
    messages = tuple(value)
    if not messages or not all(isinstance(m, dict) and {"role", "content"} <= set(m) for m in messages):
        raise ValueError("messages holds no {role, content} objects")
    return messages
