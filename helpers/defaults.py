"""Numbers that hold wherever nobody says another; no imports, so that commands can name them in their help."""

from __future__ import annotations

#: Samples of a dump that are sent to a server: what a diagnosis needs, and no terabyte of taps.
SAMPLES = 24
