"""The points of a grid: each a profile ready to serve and a batch size, in the order that needs fewest starts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from helpers.acceptance.arms import deciding
from helpers.acceptance.grid import Grid, Spec, Wiring, invalid
from helpers.acceptance.load_settings import problem_words
from helpers.nearest import did_you_mean
from helpers.serving.profile import Profile, Speculation

BACKEND = "--attention-backend"
LONGEST = 60  # of a profile's name


@dataclass(frozen=True)
class Point:
    """One measurement of a sweep.

    Attributes:
        id: tells what is special about it. server: the same for all points that one start serves.
        profile: ready to serve; its name is the server's.
        axes: profile, num_steps, topk, num_draft_tokens, ids, wiring, draft, backend and batch_size as they are in
            force; None where the configuration has no such thing.
        baseline: it is measured for the others to be held against.
    """

    id: str
    server: str
    profile: Profile
    batch_size: int
    axes: Mapping[str, Any]
    baseline: bool = False


def points(grid: Grid, profiles: Mapping[str, Profile]) -> list[Point]:
    """All points of a grid, each once, in the order of measurement.

    The baseline comes first; servers that need the same patches follow each other, and the batch sizes of one server.

    Raises:
        UsageError: WB-GRID-INVALID, with the point that cannot be.
    """
    specs = grid.specs()
    found: dict[tuple[str, int], Point] = {}
    if grid.baseline is not None:
        if _profile(grid, profiles, grid.baseline).speculation is not None:
            raise invalid(f"the baseline {grid.baseline!r} speculates itself", "name a profile without a draft")
        for backend in dict.fromkeys(spec.backend for spec in specs):
            for size in dict.fromkeys(spec.batch_size for spec in specs):
                only = Spec(profile=grid.baseline, backend=backend, batch_size=size)
                _add(found, _point(grid, profiles, only, baseline=True))
    for spec in specs:
        _add(found, _point(grid, profiles, spec))
    return _ordered(list(found.values()))


def _add(found: dict[tuple[str, int], Point], point: Point) -> None:
    """Each configuration once: axes that a profile has no use for lead to the same point several times."""
    content = json.dumps(deciding(point.profile), sort_keys=True)
    key = (content, point.batch_size)
    if key in found:
        return
    if any(other.id == point.id for other in found.values()):
        raise invalid(f"two different points are both named {point.id!r}", "give the ids names: {name, ids}")
    found[key] = point


def _ordered(every: list[Point]) -> list[Point]:
    place = {server: number for number, server in enumerate(dict.fromkeys(point.server for point in every))}
    return sorted(
        every,
        key=lambda point: (not point.baseline, point.profile.patches, place[point.server], point.batch_size),
    )


def _profile(grid: Grid, profiles: Mapping[str, Profile], name: str | None) -> Profile:
    name = name or grid.base
    if name is None:
        raise invalid("a point names no profile, and the grid has no base", 'base = "right"')
    if name not in profiles:
        meant = did_you_mean(name, profiles)
        raise invalid(
            f"there is no profile {name!r}" + (f", {meant}" if meant else ""), "one of " + ", ".join(sorted(profiles))
        )
    return profiles[name]


def _point(grid: Grid, profiles: Mapping[str, Profile], spec: Spec, *, baseline: bool = False) -> Point:
    base = _profile(grid, profiles, spec.profile)
    draft = base.draft if spec.draft is None or baseline else spec.draft
    changes: dict[str, Any] = {"draft": draft, "port": None}
    parts = [base.name]
    wiring = None
    if draft is not None:
        speculation = _speculation(base, spec)
        changes["speculation"] = speculation.model_dump()
        parts += [f"steps{speculation.num_steps}"] * (spec.num_steps is not None)
        parts += [f"topk{speculation.topk}"] * (spec.topk is not None)
        parts += [f"tokens{speculation.num_draft_tokens}"] * (spec.num_draft_tokens is not None)
        if spec.ids is not None:
            given = spec.ids
            wiring = given if isinstance(given, Wiring) else Wiring(name="ids" + "_".join(map(str, given)), ids=given)
            changes["aux_layer_ids"] = wiring.ids
            changes["patches"] = tuple(dict.fromkeys((*base.patches, *wiring.patches)))
            parts = [*([base.name] if spec.profile else []), wiring.name, *parts[1:]]
        parts += [draft.rstrip("/").rpartition("/")[2]] * (spec.draft is not None)
    if spec.backend is not None:
        changes["extra_args"] = with_option(base.extra_args, BACKEND, spec.backend)
        parts.append(spec.backend)
    server = named(parts)
    try:
        profile = Profile.model_validate({**base.model_dump(), **changes, "name": server})
    except ValidationError as error:
        raise invalid(f"point {server}: " + "; ".join(map(problem_words, error.errors(include_url=False)))) from error
    point = named([*parts, f"b{spec.batch_size}"]) if spec.batch_size > 1 else server
    return Point(point, server, profile, spec.batch_size, _axes(base, profile, wiring, spec.batch_size), baseline)


def _speculation(base: Profile, spec: Spec) -> Speculation:
    own = base.speculation
    steps = spec.num_steps or (own.num_steps if own else None)
    if steps is None:
        raise invalid(f"profile {base.name!r} has no num_steps, and the grid gives none", "add num_steps to the axes")
    topk = spec.topk or (own.topk if own else 1)
    tokens = spec.num_draft_tokens
    if tokens is None and topk == 1:
        tokens = steps + 1
    if tokens is None and own is not None and own.topk == topk:
        tokens = own.num_draft_tokens
    if tokens is None:
        met = f"profile {base.name!r} with topk {topk} needs num_draft_tokens: a tree can verify many numbers of tokens"
        raise invalid(met, "add num_draft_tokens to the axes or to the point")
    try:
        return Speculation(num_steps=steps, topk=topk, num_draft_tokens=tokens)
    except ValidationError as error:
        problems = "; ".join(map(problem_words, error.errors(include_url=False)))
        raise invalid(f"profile {base.name!r}: {problems}", "leave num_draft_tokens out, or give [[points]]") from error


def _axes(base: Profile, profile: Profile, wiring: Wiring | None, batch_size: int) -> dict[str, Any]:
    speculation = profile.speculation
    return {
        "profile": base.name,
        "num_steps": None if speculation is None else speculation.num_steps,
        "topk": None if speculation is None else speculation.topk,
        "num_draft_tokens": None if speculation is None else speculation.num_draft_tokens,
        "ids": None if profile.aux_layer_ids is None else list(profile.aux_layer_ids),
        "wiring": wiring.name if wiring is not None else None if speculation is None else base.name,
        "draft": profile.draft,
        "backend": option(profile.extra_args, BACKEND),
        "batch_size": batch_size,
    }


def named(parts: list[str]) -> str:
    """A name of the parts that a profile, a run and a folder may have."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(parts)).lstrip("._-")
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def option(words: tuple[str, ...], name: str) -> str | None:
    """The value of a command line's option, the last one given; None where there is none.

    >>> option(("--a", "1", "--b=2"), "--b")
    '2'
    """
    value = None
    for place, word in enumerate(words):
        if word == name and place + 1 < len(words):
            value = words[place + 1]
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value


def with_option(words: tuple[str, ...], name: str, value: str) -> tuple[str, ...]:
    """The command line with this option's value, at the end.

    >>> with_option(("--a", "1", "--c"), "--a", "2")
    ('--c', '--a', '2')
    """
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word.startswith(f"{name}="):
            skip = False
        elif word == name:
            skip = True
        else:
            kept.append(word)
    return (*kept, name, value)
