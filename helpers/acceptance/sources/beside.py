"""A server's own accept rate beside that of the answers it gave: which is lower, and what that may come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.acceptance.sources.result import Counters

if TYPE_CHECKING:
    from helpers.acceptance.measurement import Measurement


def beside(read: Counters | str, answers: Measurement) -> str:
    """One sentence with both figures. Drafts beyond an answer's end only lower a server's own rate, and only so far.

    Args:
        read: of the log, /metrics or /server_info of the server that gave ``answers``, whose counters have all drafts.
            Words instead of figures (`figures_of`) are given back: there is nothing to hold beside.
    """
    if isinstance(read, str):
        return f"nothing of {answers.name} to compare: {read}"
    if read.accept_rate is None or answers.accept_rate is None or not answers.survival or not answers.verify_steps:
        return f"{read.source} and the answers of {answers.name} cannot be compared: one of them tells no accept rate"
    both = f"accept rate {read.accept_rate:.3f} by {read.source}, {answers.accept_rate:.3f} by the answers"
    # At most all drafts of each answer's last step were beyond its end.
    most = answers.requests / answers.verify_steps
    apart = answers.accept_rate - read.accept_rate
    other = "it is of other verify steps, the last log interval's"
    if read.source == "sglang-log":
        other = "it is of other verify steps (its warm-up line is left out, what came after its last line is not in it)"
    if abs(apart) < 0.0005:
        return f"{both}: equal"
    if apart < 0:
        return f"{both}: the higher of the two, which drafts beyond an answer's end cannot make it; {other}"
    if apart > most:
        return f"{both}: lower by more than drafts beyond an answer's end can make it (at most {most:.3f}); {other}"
    return f"{both}: the lower of the two, by no more than drafts beyond an answer's end can make it ({most:.3f})"
