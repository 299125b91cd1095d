"""A server that wants a key for each request: refused before it starts, since no request of ours carries one."""

from __future__ import annotations

from helpers.errors import UsageError
from helpers.serving.profile import Profile

OPTION = "--api-key"


def check_keys(profile: Profile) -> None:
    """Refuse a profile whose server would answer /health, and every capture and load with 401.

    A key is masked wherever it is kept, so a later command could not take it from the run's record.

    Raises:
        UsageError: WB-PROFILE-INVALID.
    """
    # argparse takes a beginning of an option for the option.
    if any(word.partition("=")[0] in (OPTION, OPTION[:-1], OPTION[:-2]) for word in profile.extra_args):
        raise UsageError(
            "WB-PROFILE-INVALID",
            f"profile {profile.name!r} gives {OPTION} in extra_args, and captures and load runs send no key: their "
            "requests would all be answered with 401",
            expected=f"a server without {OPTION}: it is reached through SSH, and listens on the box's loopback unless "
            "the profile's host says otherwise",
            next=f"take {OPTION} and its value out of extra_args in profile {profile.name}",
        )
