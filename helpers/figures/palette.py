"""One colour for one meaning, in every figure: configurations, sides, slots and what a slot is given.

Colours are Okabe and Ito's where those last, and Tol's muted ones for slots, which stand beside sides and
configurations in the same notebook: told apart with any common colour blindness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY, WINE = "#E69F00", "#56B4E9", "#000000", "#777777", "#882255"
# For what has no meaning here, in this order.
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")

# As training had it is blue and as it was served wrongly is vermilion, whether a server, a side or one slot is meant.
TRAINED, SERVED = BLUE, VERMILION
CONFIGURATIONS = {"right": BLUE, "miswired": VERMILION, "mended": GREEN, "off-by-one": PURPLE, "baseline": BLACK}
# Other configurations take these first: blue and vermilion would claim something of them.
_FREE = (ORANGE, SKY, PURPLE, GREEN, BLUE, VERMILION, BLACK)
SIDES = {"trained": TRAINED, "served": SERVED}
CHANGES = {"right": BLUE, "zeros": GREY, "embedding": ORANGE, "earlier": SKY, "later": WINE}
SLOTS = ("#332288", "#999933", "#CC6677", "#44AA99", "#117733", "#AA4499")


@dataclass(frozen=True)
class Style:
    """How a configuration is drawn: colour (``#rrggbb``), dash of its line, symbol of its points."""

    colour: str
    dash: str
    marker: str


def configurations(names: Iterable[object]) -> dict[str, Style]:
    """The style of each configuration, the same in every figure that shows these configurations, whatever their order.

    The names of the workbook's own profiles have a colour each; others take what is left, in alphabetical order.

    >>> configurations(["mended", "miswired"])["miswired"].colour == CONFIGURATIONS["miswired"]
    True
    """
    given = sorted({str(name) for name in names})
    known = {name: CONFIGURATIONS[name] for name in given if name in CONFIGURATIONS}
    free = [colour for colour in _FREE if colour not in known.values()] or list(_FREE)
    others = [name for name in given if name not in known]
    colours = known | {name: free[i % len(free)] for i, name in enumerate(others)}
    # By colour, so that the symbol tells the same in grey; beyond the palette, the order takes over.
    rank = {
        name: (COLOURS.index(c) + len(COLOURS) * (others.index(name) // len(free) if name in others else 0))
        for name, c in colours.items()
    }
    return {
        name: Style(
            colour,
            DASHES[rank[name] % len(DASHES)],
            MARKERS[(rank[name] + rank[name] // len(MARKERS)) % len(MARKERS)],
        )
        for name, colour in colours.items()
    }


def slot_colour(slot: int) -> str:
    """The colour of one slot of the drafter's input, ``#rrggbb``."""
    return SLOTS[slot % len(SLOTS)]


def change_colour(change: str) -> str:
    """The colour of what a slot is given in place of its tap, ``#rrggbb``."""
    return CHANGES.get(change, GREEN)
