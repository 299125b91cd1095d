"""What a figure shows and how it is read, a sentence each: for a report's reader, who has no notebook around it."""

from __future__ import annotations

#: By the beginning of the figure's title (helpers/figures).
LEGENDS = {
    "Feature norms per slot": (
        "The lengths of the feature vectors, a box a slot. Where a slot's two boxes do not lie on top of each "
        "other, serving feeds it something of another scale than training had."
    ),
    "Slot matrix": (
        "A row a served slot, a column a trained one; 1 means the same direction. A right wiring has its ones on "
        "the diagonal; a one beside it is a slot that is fed what training had in another."
    ),
    "Which boundary is each slot?": (
        "Each slot is compared with the taps at all boundaries of the target; it is the boundary at its peak. "
        "Where dot (served) and ring (trained) stand apart, the slot is fed another tap than trained."
    ),
    "What each slot costs": (
        "One slot is given another tap, the others stay as served, and the drafter is replayed; a bar is the "
        "accept rate after the change minus before, with its paired interval. zeros: nothing at all; right: what "
        "training had in this slot; embedding: boundary 0; earlier, later: the boundary before, and after, the "
        "served one. A bar of no length is a change that made no difference."
    ),
    "Acceptance survival S(k)": ("S(k) is the share of verify steps in which at least k drafts were accepted."),
    "Accept rate per configuration": ("Correct drafts / proposed drafts, with an interval over requests."),
    "Accept length by prompt": (
        "A point a prompt: its accept length with the one configuration and with the other. On the diagonal they "
        "are equal."
    ),
    "Accept length against draft steps": ("How many tokens a verify step brings, by how many drafts are made for it."),
    "Acceptance against position in the answer": ("Whether drafts are accepted less the further an answer goes."),
    "Accept length over time": ("As the server's own log tells it."),
    "Speed against accept length": ("A point a configuration. Above the black line it is faster than no speculation."),
    "Predicted speed against draft steps": (
        "What a model of the speed predicts, by how many drafts are made in a verify step; no measurement but "
        "where a point says so. The black line is the measured speed without speculation: below it speculation "
        "does not pay."
    ),
}


def legend(title: str) -> str:
    """How the figure of this title is read; nothing where the title is not one of the workbook's own."""
    return next((text for start, text in LEGENDS.items() if title.startswith(start)), "")
