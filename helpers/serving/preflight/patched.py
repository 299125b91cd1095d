"""The profile's patches: whether they go into the source, and how the checkout differs now from what is judged."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.serving.preflight.facts import Facts
from helpers.serving.preflight.finding import Finding, found
from helpers.source.whose import options


def check(facts: Facts) -> Iterator[Finding]:
    """Findings on the patches."""
    how = facts.served
    whose = options(facts.profile.python, facts.profile.env)
    for conflict in how.conflicts:
        yield found(
            "patch-does-not-apply",
            "error",
            f"the profile's patch {conflict.patch} does not go into this source: {conflict.problem}; all else here is "
            "judged without it",
            patch=conflict.patch,
            hunk=list(conflict.lines),
            fix=f"workbook patch BOX plan {conflict.patch} {whose} shows it; make the patch anew for this source",
        )
    if how.differs:
        words = []
        if how.absent:
            words.append(f"{', '.join(how.absent)} {_is(how.absent)} not in it, and a start waits for that")
        if how.extra:
            words.append(f"{', '.join(how.extra)} {_is(how.extra)} in it, and this profile does not name that")
        yield found(
            "source-differs-now",
            "info",
            f"the checkout is another now than what is judged here: {'; '.join(words)}",
            judged_with=list(how.patches),
            absent=list(how.absent),
            extra=list(how.extra),
            fix="; ".join(
                [
                    *(f"workbook patch BOX apply {name} {whose}" for name in how.absent),
                    *(f"workbook patch BOX revert {name} {whose}, or name it in the profile" for name in how.extra),
                ]
            ),
        )


def _is(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"
