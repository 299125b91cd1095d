"""Which SGLang a profile's server would import: its own interpreter is asked, in its own environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.serving.argv import server_environment
from helpers.source.checkout import Checkout, find_checkout

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.serving.profile import Profile


def checkout_of(box: Box, profile: Profile) -> Checkout:
    """The checkout that a server of this profile would be started from.

    Raises:
        RemoteFailed: as `find_checkout`.

    >>> checkout_of(box, get_profile("right")).root     # doctest: +SKIP
    '/home/me/sglang/python'
    """
    return find_checkout(box, profile.python, server_environment(profile, home=box.home))
