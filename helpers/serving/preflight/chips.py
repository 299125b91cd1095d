"""Which GPU: by compute capability (``sm90``, ``9.0``) or by name (``H100``)."""

from __future__ import annotations

import re

from helpers.errors import UsageError
from helpers.nearest import did_you_mean
from helpers.source.reading.allreduce import Chip

_NAMES = {
    (10, 3): ("B300", "GB300"),
    (10, 0): ("B200", "GB200", "B100"),
    (9, 0): ("H20", "H100", "H200", "H800", "GH200"),
    (8, 0): ("A100", "A800", "A30"),
    (8, 6): ("A10", "A40", "A6000", "3090"),
    (8, 9): ("L4", "L20", "L40", "L40S", "4090"),
    (12, 0): ("5090", "PRO6000"),
}


def parse_chip(text: str) -> Chip:
    """The chip that ``text`` names.

    Raises:
        UsageError: WB-GPU-UNKNOWN.

    >>> parse_chip("sm90"), parse_chip("H20").name
    (Chip(major=9, minor=0, name=None), 'H20')
    """
    plain = text.strip().upper().replace(" ", "").removeprefix("NVIDIA")
    if capability := re.fullmatch(r"(?:SM_?)?(\d{1,2})\.?(\d)A?", plain):
        return Chip(int(capability[1]), int(capability[2]))
    for (major, minor), names in _NAMES.items():
        if plain in names or any(re.match(rf"{name}(?![0-9])", plain) for name in names):
            return Chip(major, minor, plain)
    raise UsageError(
        "WB-GPU-UNKNOWN",
        f"{text!r} is no GPU that is known here",
        expected="a compute capability (sm80, sm90, sm100), or one of "
        + ", ".join(name for names in _NAMES.values() for name in names),
        next=did_you_mean(
            plain,
            [name for names in _NAMES.values() for name in names],
            "nvidia-smi --query-gpu=compute_cap --format=csv tells it",
        ),
    )
