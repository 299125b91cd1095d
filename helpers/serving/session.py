"""A server for the length of a `with` block: patched, started, ready, reached; then stopped and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.progress import Progress
from helpers.serving.argv import expand, server_environment
from helpers.serving.launch import launch
from helpers.serving.profile import Profile
from helpers.serving.run import Run
from helpers.source import patches

if TYPE_CHECKING:
    from helpers.box import Box


@dataclass(frozen=True)
class Served:
    """A server that answers, and the local address that leads to it."""

    run: Run
    url: str


@contextmanager
def serving(box: Box, profile: Profile, *, timeout: float | None = None, progress: bool = True) -> Iterator[Served]:
    """Serve a profile inside the block. Leaves the box as it was, also on an error or Ctrl-C.

    A server that does not answer within ``timeout`` seconds (by default the profile's ``start_timeout``) is stopped as
    well. The profile's patches are applied first; those that were not in before are reverted at the end, but for one
    that somebody else's server was started with meanwhile: that stays in, and it is said.

    >>> with serving(box, get_profile("right")) as served:      # doctest: +SKIP
    ...     run_load(served.url, prompts)

    Raises:
        As `helpers.serving.launch`, `Run.wait_ready`, `Run.stop` and `helpers.source.patches.apply`.
    """
    with patched(box, profile, progress=progress):
        run = launch(box, profile, progress=progress)
        try:
            run.wait_ready(timeout, progress=progress, on_timeout="stop")
            with run.tunnel() as tunnel:
                yield Served(run, tunnel.url)
        finally:
            if run.state == "alive":
                bar = Progress(f"stop {run.id}", enabled=progress)
                run.stop()
                bar.done("stopped")


@contextmanager
def patched(box: Box, profile: Profile, *, progress: bool = True) -> Iterator[None]:
    """The profile's patches in the box's checkout for the length of the block; what was in before stays in, and what
    somebody else's server came to rely on."""
    python, env = expand(profile.python, box.home), server_environment(profile, home=box.home)
    mine: list[str] = []
    try:
        for name in profile.patches:
            report = patches.apply(box, name, python=python, env=env)
            if report.changed:
                mine.append(name)
                Progress(f"patch {name}", enabled=progress).done("applied")
        yield
    finally:
        for name in reversed(mine):
            needed = patches.take_back(box, name, python=python, env=env)
            Progress(f"patch {name}", enabled=progress).done("reverted" if needed is None else f"left in: {needed}")
