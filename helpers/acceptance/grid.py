"""A grid of configurations, read from TOML or JSON: which points a sweep measures, and in which order.

``base`` names a profile, ``[axes]`` what varies (all combinations), ``[[points]]`` single points beside them.
data/grids/lab-steps.toml is an example.

>>> Grid(base="right", axes=Axes(num_steps=(1, 2))).axes.num_steps
(1, 2)
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from helpers.acceptance.load_settings import LoadSettings, problem_words
from helpers.errors import UsageError
from helpers.library_errors import why
from helpers.paths import DATA
from helpers.serving.profile import Name, Strict

#: Measured when no grid is given.
LAB_GRID = DATA / "grids" / "lab-steps.toml"


class Wiring(Strict):
    """Layer ids with a name, and the patches that they need beside the profile's own."""

    name: Name
    ids: tuple[int, ...] = Field(min_length=1)
    patches: tuple[str, ...] = ()


class Axes(Strict):
    """What varies; an axis that is left empty stays as the profile has it.

    Attributes:
        profile: names in the profile file. num_steps: draft steps. topk: branches a step.
        num_draft_tokens: tokens that one pass verifies, root included; with topk = 1 it follows from num_steps.
        ids: layer ids for the drafter, plain or with a name and patches. draft: drafters' folders on the box.
        backend: SGLang's ``--attention-backend``. batch_size: requests kept in flight; needs no start of its own.
    """

    profile: tuple[str, ...] = ()
    num_steps: tuple[int, ...] = ()
    topk: tuple[int, ...] = ()
    num_draft_tokens: tuple[int, ...] = ()
    ids: tuple[tuple[int, ...] | Wiring, ...] = ()
    draft: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()
    batch_size: tuple[int, ...] = ()


class Spec(Strict):
    """One point as a file gives it; what is left out stays as the profile has it."""

    profile: str | None = None
    num_steps: int | None = Field(default=None, ge=1)
    topk: int | None = Field(default=None, ge=1)
    num_draft_tokens: int | None = Field(default=None, ge=2)
    ids: tuple[int, ...] | Wiring | None = None
    draft: str | None = None
    backend: str | None = None
    batch_size: int = Field(default=1, ge=1, le=64)


class Grid(Strict):
    """What a sweep measures.

    Attributes:
        base: the profile that axes and points change; not needed where they name profiles themselves.
        baseline: a profile without speculation that every batch size is also measured with: what texts and speeds are
            held against.
        profiles, prompts: files, relative to the grid's own. limit: only so many prompts.
        load: settings of the load; its concurrency is the batch size.
        preflight: hold each server's profile against the engine's source before it is started, and skip the point where
            that finds an error.
        timeout: seconds to wait for a server; by default its profile's ``start_timeout``.
    """

    base: str | None = None
    baseline: str | None = None
    profiles: Path | None = None
    prompts: Path | None = None
    limit: int | None = Field(default=None, ge=1)
    load: LoadSettings = LoadSettings()
    preflight: bool = True
    timeout: float | None = Field(default=None, gt=0)
    axes: Axes | None = None
    points: tuple[Spec, ...] = ()

    @model_validator(mode="after")
    def _there_is_something_to_measure(self) -> Grid:
        if self.axes is None and not self.points:
            raise ValueError("neither [axes] nor [[points]]: there is nothing to measure")
        if self.load.concurrency != 1:
            raise ValueError("load.concurrency is the axis batch_size: give it there")
        return self

    def specs(self) -> list[Spec]:
        """All combinations of the axes, then the single points."""
        found: list[dict[str, Any]] = [{}] if self.axes is not None else []
        for name in Axes.model_fields:
            values = getattr(self.axes, name, ())
            if values:
                found = [{**spec, name: value} for spec in found for value in values]
        return [*(Spec(**spec) for spec in found), *self.points]


def read_grid(path: Path | None = None) -> Grid:
    """A grid's file, TOML or (``.json``) JSON; the lab's own where none is given.

    Raises:
        UsageError: WB-GRID-FILE (no such file, or not to be read), WB-GRID-INVALID (a key or a value that is none).
    """
    path = LAB_GRID if path is None else path
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(
            "WB-GRID-FILE",
            f"no grid can be read from {path}: {why(error)}",
            expected="a TOML file, or JSON in a file named .json",
            next=f"compare with {LAB_GRID}",
        ) from error
    try:
        grid = Grid.model_validate(content)
        grid.specs()
    except ValidationError as error:
        problems = "; ".join(problem_words(problem) for problem in error.errors(include_url=False))
        raise invalid(f"{path}: {problems}") from error
    beside = {
        name: (path.parent / file).resolve()
        for name, file in (("profiles", grid.profiles), ("prompts", grid.prompts))
        if file is not None
    }
    return grid.model_copy(update=beside)


def invalid(met: str, hint: str = "") -> UsageError:
    return UsageError(
        "WB-GRID-INVALID",
        met,
        expected="a grid as helpers/acceptance/grid.py describes it",
        next=hint or f"compare with {LAB_GRID}",
    )
