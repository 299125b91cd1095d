"""The words of a report, for a reader who was not there."""

from __future__ import annotations

from helpers.ledger.report import GLOSSARY, Section

WORDS = {
    "drafter, target": "the small model that proposes tokens, and the large one whose text is served",
    "layer ids": "the setting that says which of the target's layers the drafter is fed. What an id taps depends on "
    "the engine and its version: in SGLang 0.5.9 the id i of most models taps boundary i + 1",
    "boundary b": "the hidden states that enter layer b of the target; 0 is the output of the embedding, n (the number "
    "of layers) what leaves the last layer",
    "tap": "the tensor at a boundary, a row a token. A trained tap is what training captured there",
    "ladder": "the taps at all boundaries, on the same tokens",
    "slot": "one of the blocks, in order, that are put side by side as the drafter's input",
    "feed": "what the drafter's first matrix (fc) really received while serving",
    "capture, dump": "tensors recorded from a running server; tensors recorded when the drafter was trained",
    "centred cosine": "how alike two sets of vectors are, 1 for the same direction, the mean over tokens taken off",
    "verify step": "one pass of the target that checks a round of drafts and adds a token of its own; the n of rates",
    "accept rate": "correct drafts / proposed drafts",
    "accept length": "1 + correct drafts / verify steps: tokens that a verify step brings",
    "[low, high]": "a 95% interval, by drawing requests again (bootstrap); a paired one compares request by request",
    "run, profile": "one start of a server; the named configuration that it was started with",
    "zeros, right, embedding, earlier, later": "what one slot is given in a replay that asks what it costs: nothing; "
    "the tap that training had; boundary 0; the boundary before the served one; the one after it",
    "replay": "the drafter run again over captured texts, without a server: what another wiring would have given",
}


def glossary() -> Section:
    """What the words mean."""
    return Section(GLOSSARY, [], [{"word": word, "means": means} for word, means in WORDS.items()])
