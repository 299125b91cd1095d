"""Whether a box's SGLang is the one that a profile is for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from helpers.box.result import printable
from helpers.errors import RemoteFailed
from helpers.screen import as_typed
from helpers.serving.profile import Profile
from helpers.source.checkout import Checkout
from helpers.source.versions import VERSION, release_of

if TYPE_CHECKING:
    from helpers.box import Box


def _told(version: str | None) -> bool:
    """Whether a checkout says a version that a profile could name."""
    return version is not None and re.fullmatch(VERSION, version) is not None


def check_version(box: Box, profile: Profile, checkout: Checkout) -> None:
    """Refuse an engine that is not the profile's; one that tells no version goes by the profile's ``engine_base``.

    Raises:
        RemoteFailed: WB-SERVE-ENGINE-VERSION.
    """
    vouched = not _told(checkout.version) and profile.engine_base is not None
    if checkout.version != profile.engine_version and not vouched:
        raise _other_version(box, profile, checkout)


def _other_version(box: Box, profile: Profile, checkout: Checkout) -> RemoteFailed:
    version = checkout.version
    there = f"sglang {printable(version)}" if version else "a sglang that does not tell its version"
    look = f"workbook preflight {as_typed(box.name)} {as_typed(profile.name)} --profiles FILE"
    ids = f"once its ids are right for it ({look} reads its source)"
    if not _told(version):
        step = (
            "install the checkout (pip install -e writes sglang/_version.py), or vouch for it in the profile with "
            f'engine_base = "RELEASE", the release that it was made from, {ids}'
        )
    elif release_of(version) is None:
        step = (
            f'set engine = "sglang=={version}" in the profile, and engine_base = "RELEASE", the release that this '
            f"checkout was made from, {ids}"
        )
    else:
        step = f'set engine = "sglang=={version}" in the profile {ids}'
    return RemoteFailed(
        "WB-SERVE-ENGINE-VERSION",
        f"{box.name} has {there} in {checkout.root}; {profile.name!r} is for {profile.engine}",
        expected=f"{profile.engine}: the same layer ids mean other boundaries in another version",
        next=step,
    )
