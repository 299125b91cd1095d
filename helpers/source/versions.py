"""Versions of the engine as a checkout tells them, and the release that one belongs to.

A wheel of a release says ``0.5.9``. A checkout of git says what setuptools-scm makes of it: ``0.5.10.dev3+g1a2b3c`` is
three commits after some release before 0.5.10, so which release's rules hold for it is not told. One that was never
installed says nothing, or ``0.0.0.dev0``.

>>> release_of("0.5.9"), release_of("0.5.9+cu128"), release_of("0.5.10.dev3+g1a2b3c"), release_of(None)
('0.5.9', '0.5.9', None, None)
>>> nearest_release("0.5.10.dev3+g1a2b3c", ["0.5.9", "0.5.23"]), nearest_release("0.0.0.dev0", ["0.5.9", "0.5.23"])
('0.5.9', '0.5.23')
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: A version as profiles may name it.
VERSION = r"[0-9][0-9A-Za-z.+_!-]*"
RELEASE = r"[0-9]+(?:\.[0-9]+)+(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?"


def release_of(version: str | None) -> str | None:
    """The release that a version is: without a build's label (``+cu128``); None where it is none that is known."""
    release = (version or "").partition("+")[0]
    return release if re.fullmatch(RELEASE, release) else None


def nearest_release(version: str | None, releases: Iterable[str]) -> str | None:
    """Of some releases that of a version; for one between releases, or untold, the newest that is not later.

    A released version that is not among them has none: what holds for another release is not guessed to hold for it.
    """
    known = sorted(releases, key=_numbers)
    exact = release_of(version)
    if exact is not None:
        return exact if exact in known else None
    earlier = [each for each in known if _numbers(each) <= _numbers(version or "")] or known
    return earlier[-1] if earlier else None


def is_before(version: str, release: tuple[int, ...]) -> bool:
    """Whether a version lies before a release: ``0.5.23.dev4`` and ``0.5.23rc1`` before (0, 5, 23).

    >>> is_before("0.5.23.dev4", (0, 5, 23)), is_before("0.5.23.post1", (0, 5, 23)), is_before("0.5.9", (0, 5, 23))
    (True, False, True)
    """
    numbers = _numbers(version)
    early = re.match(r"[0-9.]*?(?:\.dev|a|b|rc)[0-9]", version.partition("+")[0]) is not None
    return numbers < release or (numbers == release and early)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
