"""Replay of one wiring over all requests of a capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from helpers.errors import UsageError
from helpers.wiring.drafter import Drafter, Target, chain
from helpers.wiring.replay.judge import FIRST, Judge, cross_entropy
from helpers.wiring.replay.result import Replay, RequestScore, Versus, rate_difference, rated, summarise
from helpers.wiring.replay.rounds import follow
from helpers.wiring.replay.taps import Source, Text, Wiring

# Rows of padded texts that are drafted from at a time.
BATCH_ROWS = 4096


def replay(
    drafter: Drafter,
    target: Target,
    source: Source,
    wiring: Wiring,
    *,
    steps: int = 3,
    new_tokens: int | None = None,
) -> Replay:
    """Acceptance of one wiring, greedy, one draft per step, as the captured server would have had it.

    A chain: of a server with topk > 1 it is what one branch would give, and a note says so (`served_a_tree`).
    Exact for a server that ran in the capture's dtype, one request at a time, without chunked prefill: the drafter is
    then given another token at a chunk's edge (its server pairs a chunk's last state with what the target guessed).

    Args:
        wiring: the source of each slot, in slot order (`Source.served`, `boundaries`).
        steps: drafts per round.
        new_tokens: count as for requests that ended after so many new tokens; see `rounds.follow`.

    Raises:
        UsageError: ``WB-REPLAY-...``.
    """
    scores = score(drafter, target, source, wiring, steps=steps, new_tokens=new_tokens)
    if not any(s.decided for s in scores):
        raise UsageError(
            "WB-REPLAY-SHORT",
            f"no round of {steps} drafts is decided by the {len(scores)} captured texts",
            expected=f"more than {steps + 1} new tokens a request",
            next="workbook capture BOX RUN --prompts FILE --max-new-tokens 72",
        )
    notes = [*drafter.notes, *served_a_tree(source)]
    return summarise(say(wiring), steps, scores, notes).model_copy(update={"new_tokens": new_tokens})


def versus(
    drafter: Drafter,
    target: Target,
    source: Source,
    wiring: Wiring,
    other: Wiring,
    *,
    steps: int = 3,
    new_tokens: int | None = None,
) -> Versus:
    """A wiring against another one, such as what was served."""
    one, two = (score(drafter, target, source, taps, steps=steps, new_tokens=new_tokens) for taps in (wiring, other))
    difference, interval = rate_difference(one, two)
    return Versus(
        **rated(summarise(say(other), steps, two)).model_dump(),
        replayed=rated(summarise(say(wiring), steps, one)),
        requests=sum(a.decided or b.decided for a, b in zip(one, two, strict=True)),
        difference=difference,
        difference_ci95=interval,
        new_tokens=new_tokens,
    )


def served_a_tree(source: Source) -> list[str]:
    """What has to be said where the captured server drafted a tree; nothing of a chain, or where it is not known."""
    launch = source.capture.info.launch
    topk, tokens = launch.get("speculative_eagle_topk"), launch.get("speculative_num_draft_tokens")
    if not isinstance(topk, int) or topk < 2:
        return []
    size = f", {tokens - 1} drafts a verify step" if isinstance(tokens, int) else ""
    return [
        f"the captured server drafted a tree (topk {topk}{size}), and a replay follows a chain: accept length and "
        "survival are lower than the server's, and accept rates are not comparable; wirings compare among themselves"
    ]


def say(wiring: Wiring) -> list[int | str]:
    """A wiring as results hold it: boundaries as numbers, all else by name."""
    return [tap.index if tap.kind == "boundary" else str(tap) for tap in wiring]


def score(
    drafter: Drafter,
    target: Target,
    source: Source,
    wiring: Wiring,
    *,
    steps: int = 3,
    new_tokens: int | None = None,
    judge: Judge | None = None,
) -> list[RequestScore]:
    """What `replay` pools, request by request, in the capture's order. ``judge``: one that keeps its answers."""
    source.check(wiring, drafter)
    judge = Judge(source, target, drafter.to_target) if judge is None else judge
    scores = []
    for batch in batches(source.texts):
        lengths = [source.usable(text, wiring) for text in batch]
        state = drafter.fuse(pad_sequence([source.taps(text, wiring) for text in batch], batch_first=True))
        # The last row's next token is not known (it may not even have been captured): no chain starts there.
        tokens = pad_sequence([text.tokens for text in batch], batch_first=True)[:, : state.shape[1] + 1]
        tokens = torch.nn.functional.pad(tokens, (0, max(0, state.shape[1] + 1 - tokens.shape[1])))
        agrees: list[Tensor] = []
        first_logits: Tensor | None = None
        for number, step in enumerate(chain(drafter, tokens[:, 1:], state, steps)):
            first_logits = step.logits if number == 0 else first_logits
            ahead = torch.nn.functional.pad(tokens[:, 2 + number :], (0, 1 + number), value=-1)
            agrees.append(step.tokens == ahead)
        assert first_logits is not None
        for place, (text, length) in enumerate(zip(batch, lengths, strict=True)):
            rounds = follow(
                [agree[place].tolist() for agree in agrees],
                prompt_tokens=text.prompt_tokens,
                last=min(len(text) - 1, length),
                new_tokens=new_tokens,
                request=text.id,
            )
            usable = min(length, len(text) - 1)
            entropy = None
            if judge.able:
                entropy = cross_entropy(judge.wanted(text, usable + 1), first_logits[place, FIRST:usable])
            scores.append(RequestScore(text.id, rounds.histogram, rounds.left_out, entropy, max(usable - FIRST, 0)))
    return scores


def batches(texts: Sequence[Text]) -> Iterator[list[Text]]:
    """Neighbouring texts together, up to BATCH_ROWS rows once padded."""
    batch: list[Text] = []
    for text in texts:
        longest = max([len(text), *map(len, batch)])
        if batch and longest * (len(batch) + 1) > BATCH_ROWS:
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch
