"""The whole chain without a box: the diagnosis gets whole samples, the replay of the fix what follows the cut ones.

.venv/bin/python -m pytest tests/unit/test_investigate_chain.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streams
import torch
from replay_world import World, write_text

from helpers.acceptance import Prompt
from helpers.errors import RemoteFailed, UsageError
from helpers.investigate import Investigation, chain, investigate
from helpers.ledger.results.base import Summary
from helpers.ledger.state import State
from helpers.serving import capture as capturing
from helpers.serving import get_profile, model, overview, room

START, END, NEW = 10, 1, 18  # where the mask begins, end-of-text, and new tokens asked for


@dataclass
class Server:
    """A server that goes on as the dump does, and after a whole sample with one token for ever."""

    texts: list[torch.Tensor]
    feed: tuple[int, ...] = (0, 2, 5)
    id: str = "run1"
    asked: list[SimpleNamespace] = field(default_factory=list)

    def __evidence__(self) -> Summary:
        return Summary("run", "run", "a server", run=self.id)

    def capture(
        self,
        box: object,
        run: object,
        prompts: Sequence[Prompt],
        *,
        out: Path,
        max_new_tokens: int,
        boundaries: Any = "all",
        natural_end: bool = False,
        progress: bool = True,
    ) -> Path:
        self.asked.append(SimpleNamespace(prompts=list(prompts), boundaries=boundaries, natural_end=natural_end))
        written = [torch.tensor([*p.input_ids, *self.go_on(p)[:max_new_tokens]]) for p in prompts]
        made = streams.served(written, self.feed)
        for request, prompt in zip(made.info["requests"], prompts, strict=True):
            request |= {"id": prompt.id, "prompt_tokens": len(prompt.input_ids)}
        if boundaries != "all":
            gone = {f"boundary.{b:03d}" for b in range(streams.LAYERS + 1)} - {f"boundary.{b:03d}" for b in boundaries}
            made.ranks = [{name: t for name, t in rank.items() if name not in gone} for rank in made.ranks]
        return made.write(out)

    def go_on(self, prompt: Prompt) -> list[int]:
        start = list(prompt.input_ids)
        longer = [text.tolist() for text in self.texts if text.tolist()[: len(start)] == start]
        return longer[0][len(start) :] or [7] * NEW


@pytest.fixture(scope="module")
def texts(written: World) -> list[torch.Tensor]:
    """Samples as a chat has them: each ends in end-of-text, which is no guess of the drafter's."""
    found = [write_text(written.naive, seed) for seed in range(1, 10)]
    return [torch.cat([text[:-1], torch.tensor([END])]) for text in found]


Run = Callable[[Server], Investigation]


@pytest.fixture
def run(written: World, texts: list[torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`investigate` with a dump of these texts, and the box's part of it played by a `Server`."""
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path / "investigations"))
    dump = streams.write_dump(tmp_path / "dump", texts)
    for file in dump.iterdir():
        sample = torch.load(file, weights_only=True)
        sample["loss_mask"] = (torch.arange(len(sample["input_ids"])) >= START).long()
        torch.save(sample, file)

    def whole(server: Server) -> Investigation:
        @contextmanager
        def up(*_: object) -> Iterator[Server]:
            yield server

        monkeypatch.setattr(chain, "_living", lambda *_: None)
        monkeypatch.setattr(chain, "_profile", lambda *_: get_profile("miswired"))
        monkeypatch.setattr(chain, "_preflight", lambda *_: None)
        monkeypatch.setattr(chain, "_server", up)
        monkeypatch.setattr(model, "check_prompts", lambda *_: None)  # both ask a box
        monkeypatch.setattr(room, "check_room", lambda *_: None)
        monkeypatch.setattr(overview, "overview", lambda *_, **__: {"summary": "a box"})
        monkeypatch.setattr(capturing, "capture", server.capture)
        models = {name: written.folder / name for name in ("draft", "target")}
        box: Any = SimpleNamespace(name="lab", home="/home/nobody")
        return investigate(box, "miswired", train=dump, **models, max_new_tokens=NEW, name="case", progress=False)

    return whole


def limits(state: State) -> list[str]:
    return [note.text for note in state.notes("limit")]


def conclusion(done: Investigation) -> str:
    (note,) = done.ledger.state.notes("conclusion")
    return note.text


def test_what_is_scored_is_what_the_drafter_learned_to_draft(run: Run, texts: list[torch.Tensor]) -> None:
    server = Server(texts)
    done = run(server)
    whole, cut = server.asked
    assert [p.input_ids for p in whole.prompts] == [tuple(text.tolist()) for text in texts]
    assert (whole.boundaries, whole.natural_end) == ("all", False)
    assert [p.input_ids for p in cut.prompts] == [tuple(text[:START].tolist()) for text in texts]
    assert (cut.boundaries, cut.natural_end) == ([0, 2, 5, 9, 10], True)

    assert done.diagnosis.verdict == "mismatch"
    assert done.diagnosis.aligned_tokens == sum(len(text) - 1 for text in texts), "all but each first row"
    state = done.ledger.state
    assert state.standing(done.ledger.get("fix").id) == "confirmed"
    served = next(e for e in state.evidence() if e.title == "replay as served")
    steps = served.values["verify_steps"]
    rows = len(texts) * (len(texts[0]) - START)
    assert 0 < steps <= rows, "rounds of the rows after the cut"
    assert {r["id"] for r in served.values["requests"]} == {f"c{i}" for i in range(len(texts))}
    said = (
        "The prompts are 9 texts of the dump, of each up to where a span of training's loss mask begins (9). Scored is "
        "what the target itself, greedily, writes after them: up to 18 tokens of each, and none after an end-of-text "
        "at which the server ends an answer. 162 of these 162 tokens are the dump's own after the same text: if the "
        "drafter was trained on them, both rates are flattered."
    )
    assert f"Of the replay of the fix: {said}" in limits(state)
    both = next(line for line in done.summary if line.startswith("As trained (taps 2, 5, 9) against as served"))
    assert said in both
    assert "The texts are the dump's own" not in "\n".join([*done.summary, *limits(state)])
    captures = [e for e in state.evidence() if e.source == "capture"]
    assert [(e.title, e.note) for e in captures] == [
        ("capture of miswired", ""),
        ("capture of answers of miswired", said),
    ]
    assert str(done.capture.with_name(f"{done.capture.name}-answers")) in str(served.command)


def test_a_capture_of_answers_that_fails_leaves_the_diagnosis(
    run: Run, texts: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(Server):
        def capture(self, *given: Any, natural_end: bool = False, **more: Any) -> Path:
            if natural_end:
                raise RemoteFailed("WB-CAPTURE-REQUEST", "it is dead", expected="an answer", next="see its log")
            return super().capture(*given, natural_end=natural_end, **more)

    done = run(Gone(texts))
    assert done.diagnosis.verdict == "mismatch"
    assert "The fix was not replayed: it is dead (WB-CAPTURE-REQUEST)." in limits(done.ledger.state)
    with pytest.raises(UsageError):
        done.ledger.get("fix")


def test_where_prompts_match_the_answers_are_diagnosed_as_well(run: Run, texts: list[torch.Tensor]) -> None:
    done = run(Server(texts, feed=streams.TAPS))
    assert done.diagnosis.verdict == "match"
    state = done.ledger.state
    second = next(e for e in state.evidence() if e.title == "diagnosis of answers")
    rows = second.values["aligned"]["answer_rows"]
    assert rows > 0
    assert conclusion(done).endswith(f"That is known of prompts, and of {rows} rows of answers.")
    assert "no row of an answer was compared" not in conclusion(done)


def test_answers_that_are_fed_otherwise_than_prompts(run: Run, texts: list[torch.Tensor]) -> None:
    """As where a path for few tokens is at fault: prefill passes are right."""

    class Torn(Server):
        answers: tuple[int, ...] = (9, 5, 2)

        def capture(self, *given: Any, natural_end: bool = False, **more: Any) -> Path:
            self.feed = self.answers if natural_end else streams.TAPS
            return super().capture(*given, natural_end=natural_end, **more)

    done = run(Torn(texts))
    assert done.diagnosis.codes() == ["slot-permuted"]
    assert conclusion(done).startswith("Prompts are fed as training had them, answers are not. ")
    assert done.ledger.state.standing(done.ledger.get("order").id) == "confirmed"


def test_answers_that_cannot_be_judged_are_said_to_be_that(run: Run, texts: list[torch.Tensor]) -> None:
    """Their taps are none of the boundaries that were captured."""

    class Torn(Server):
        def capture(self, *given: Any, natural_end: bool = False, **more: Any) -> Path:
            self.feed = (1, 4, 8) if natural_end else streams.TAPS
            return super().capture(*given, natural_end=natural_end, **more)

    done = run(Torn(texts))
    assert done.diagnosis.verdict == "match"
    assert conclusion(done).endswith("answers were captured, and what they are fed could not be judged.")


def test_a_server_without_a_feed_is_not_asked_twice(run: Run, texts: list[torch.Tensor]) -> None:
    class Plain(Server):
        def capture(self, *given: Any, **more: Any) -> Path:
            out = super().capture(*given, **more)
            made = streams.served(self.texts)
            for request, text in zip(made.info["requests"], self.texts, strict=True):
                request["prompt_tokens"] = len(text)
            made.ranks = [{n: t for n, t in rank.items() if not n.startswith("feed")} for rank in made.ranks]
            return made.write(out)

    server = Plain(texts)
    done = run(server)
    assert len(server.asked) == 1
    assert any(text.startswith("The fix was not replayed: what the server feeds") for text in limits(done.ledger.state))
