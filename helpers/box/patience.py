"""How long a box may take until it answers: what was asked for, else WORKBOOK_CONNECT_TIMEOUT, else ConnectTimeout."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from helpers.box.targets import Target
from helpers.errors import UsageError

VARIABLE = "WORKBOOK_CONNECT_TIMEOUT"
DEFAULT = 15.0
GREETING = 60.0
"""Seconds for the first command: a login shell may load modules, conda or a home that has to be mounted first."""

MORE = f"{VARIABLE}=60 in the environment waits longer, as does ConnectTimeout in ~/.ssh/config"


@dataclass(frozen=True)
class Patience:
    """reach: seconds until the address answers. whole: until the login is done, that included."""

    reach: float
    whole: float


def patience(target: Target, given: float | None = None) -> Patience:
    """How long to wait for ``target``, each hop before it for itself.

    A ConnectTimeout below the usual time is for the address alone, as with ssh: a login is not cut short by it.

    Raises:
        UsageError: WB-USAGE, WORKBOOK_CONNECT_TIMEOUT is no time.
    """
    asked = given if given is not None else _variable()
    if asked is not None:
        return Patience(asked, asked)
    own = target.connect_timeout or DEFAULT
    return Patience(own, max(own, DEFAULT))


def _variable() -> float | None:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 86400:
        raise UsageError(
            "WB-USAGE",
            f"{VARIABLE} is {text!r}",
            expected="a number of seconds above 0, such as 60",
            next=f"export {VARIABLE}=60",
        )
    return seconds
