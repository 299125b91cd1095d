"""Server profiles: a named configuration, read from TOML, from which the exact command line follows.

A file has ``[defaults]``, which hold for all its profiles, and ``[profiles.NAME]`` with what differs. Paths are on the
box; a leading ``~/`` is its home. data/profiles/lab.toml is an example.

>>> Profile(name="base", engine="sglang==0.5.9", model="~/models/target").tp
1
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from helpers.errors import UsageError
from helpers.library_errors import problem_said, why
from helpers.nearest import did_you_mean
from helpers.paths import DATA
from helpers.source.versions import RELEASE, VERSION, release_of

#: The profiles that the lab serves.
LAB_PROFILES = DATA / "profiles" / "lab.toml"

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, Field(pattern=_NAME, max_length=60)]


class Strict(BaseModel):
    """A record that is never changed and takes no key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Speculation(Strict):
    """EAGLE-3's three numbers: draft steps, branches per step, and tokens (root included) that one pass verifies."""

    num_steps: int = Field(ge=1)
    topk: int = Field(default=1, ge=1)
    num_draft_tokens: int = Field(ge=2)

    @model_validator(mode="after")
    def _a_chain_verifies_its_steps_and_the_root(self) -> Speculation:
        if self.topk == 1 and self.num_draft_tokens != self.num_steps + 1:
            raise ValueError(
                f"with topk = 1 num_draft_tokens is num_steps + 1 = {self.num_steps + 1}, not {self.num_draft_tokens}"
            )
        return self


class Profile(Strict):
    """A named server configuration.

    Attributes:
        engine: name and version that the box should have, as ``sglang==0.5.9``.
        engine_base: the release whose rules hold for an engine that is none, such as a checkout of git: the user's own
            word, and kept as such.
        model: folder of the target on the box, or a hub name.
        draft: the same for the drafter; needs ``speculation``.
        tp: tensor-parallel size.
        dtype: SGLang's ``--dtype``.
        speculation: EAGLE-3's numbers, or None for plain decoding.
        aux_layer_ids: ids to feed the drafter instead of those in its config.json (a run gets a copy of the draft's
            folder for it); None takes the draft's own.
        env: environment of the server beside the box's own; run.json and what is shown have in clear only the values of
            variables that are known to be harmless (helpers/serving/argv.py).
        env_prepend: folders to put in front of path-like variables of the box's own environment, colons between them.
        python: the interpreter on the box; its folder is put on the server's PATH, as an activated environment has it.
        extra_args: further arguments, put at the end as they are.
        context_length: SGLang's ``--context-length``; None takes the model's.
        host, port: where it listens; no port means a free one.
        start_timeout: seconds that a start waits until the server answers, where nothing else is said.
        patches: names under remote/patches/ that must be applied on the box.
        capture: boundaries that the capture hook can write: True for all, a list, or False for no hook at all.
        note: why this profile is there.
    """

    name: Name
    engine: str = Field(pattern=rf"^sglang=={VERSION}$")
    engine_base: str | None = Field(default=None, pattern=rf"^{RELEASE}$")
    model: str = Field(min_length=1)
    draft: str | None = None
    tp: int = Field(default=1, ge=1)
    dtype: str = "auto"
    speculation: Speculation | None = None
    aux_layer_ids: tuple[int, ...] | None = Field(default=None, min_length=1)
    env: dict[str, str] = {}
    env_prepend: dict[str, str] = {}
    python: str = "python3"
    extra_args: tuple[str, ...] = ()
    context_length: int | None = Field(default=None, ge=1)
    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=1, le=65535)
    start_timeout: float = Field(default=1800.0, gt=0, allow_inf_nan=False)
    patches: tuple[str, ...] = ()
    capture: bool | tuple[int, ...] = False
    note: str = ""

    @model_validator(mode="after")
    def _the_drafter_and_its_numbers_come_together(self) -> Profile:
        if (self.draft is None) != (self.speculation is None):
            raise ValueError("draft and speculation go together: give both or neither")
        if self.aux_layer_ids is not None and self.draft is None:
            raise ValueError("aux_layer_ids are the drafter's: they need a draft")
        if self.aux_layer_ids is not None and not is_folder(self.draft or ""):
            raise ValueError(f"aux_layer_ids need the draft as a folder on the box, not the hub name {self.draft!r}")
        return self

    @model_validator(mode="after")
    def _which_engine_is_served_is_told_whole(self) -> Profile:
        if "PYTHONPATH" in self.env_prepend:  # checkout and patches are looked up by it before the start
            raise ValueError("env_prepend cannot have PYTHONPATH, which decides which SGLang is served: set it in env")
        return self

    @property
    def unused(self) -> set[str]:
        """Keys that came later and say nothing here: left out of what is kept, an older workbook reads it as well."""
        later = ("engine_base", "env_prepend", "start_timeout")
        return {name for name in later if getattr(self, name) == type(self).model_fields[name].default}

    @property
    def undeciding(self) -> set[str]:
        """Keys that decide nothing of what is computed: hashes and settings that were kept before still hold."""
        return {"start_timeout", *self.unused}

    @property
    def engine_version(self) -> str:
        """``0.5.9`` of ``sglang==0.5.9``."""
        return self.engine.partition("==")[2]

    @property
    def engine_release(self) -> str:
        """The release whose rules hold: ``engine_base``, else that of the version, else the version itself."""
        return self.engine_base or release_of(self.engine_version) or self.engine_version


def is_folder(path: str) -> bool:
    """Whether a model is named as a folder on the box (else it is a hub name, which only the server can look up)."""
    return path.startswith(("/", "~", "."))


def load_profiles(path: Path | None = None) -> dict[str, Profile]:
    """All profiles of a TOML file, by name; the lab's own where no file is given.

    Raises:
        UsageError: WB-PROFILE-FILE (no such file, or no TOML), WB-PROFILE-INVALID (a key or a value that is none).
    """
    path = LAB_PROFILES if path is None else path
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            "WB-PROFILE-FILE",
            f"profiles cannot be read from {path}: {why(error)}",
            expected="a TOML file with [defaults] and [profiles.NAME] tables",
            next=f"compare with {LAB_PROFILES}",
        ) from error
    unknown = sorted(set(content) - {"defaults", "profiles"})
    tables, defaults = content.get("profiles", {}), content.get("defaults", {})
    if unknown or not isinstance(tables, dict) or not tables or not isinstance(defaults, dict):
        met = f"unknown table {unknown[0]!r}" if unknown else "no [profiles.NAME] table"
        raise _invalid(path, met)
    return {name: _profile(path, name, defaults, table) for name, table in tables.items()}


def get_profile(name: str, path: Path | None = None) -> Profile:
    """One profile by its name.

    Raises:
        UsageError: WB-PROFILE-UNKNOWN, with the known names and the nearest; else as ``load_profiles``.
    """
    profiles = load_profiles(path)
    if name in profiles:
        return profiles[name]
    source = LAB_PROFILES if path is None else path
    raise UsageError(
        "WB-PROFILE-UNKNOWN",
        f"there is no profile {name!r} in {source}",
        expected="one of " + ", ".join(sorted(profiles)),
        next=did_you_mean(name, profiles, _added(name, source)),
    )


def _added(name: str, source: Path) -> str:
    if re.fullmatch(_NAME, name) is None:
        return "a profile's name is of letters, digits, dots, dashes and underscores"
    key = f'"{name}"' if "." in name else name
    return f"add [profiles.{key}] to {source}"


def _profile(path: Path, name: str, defaults: dict[str, Any], table: object) -> Profile:
    if not isinstance(table, dict):
        raise _invalid(path, f"profiles.{name} is no table")
    try:
        return Profile(**{**defaults, **table, "name": name})
    except ValidationError as error:
        problems = "; ".join(
            ".".join(["profiles", name, *map(str, problem["loc"])]) + f": {_words(problem)}"
            for problem in error.errors(include_url=False)
        )
        raise _invalid(path, problems) from error


def _words(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return f"no such key, {did_you_mean(str(problem['loc'][-1]), Profile.model_fields)}".removesuffix(", ")
    if problem["type"] == "missing":
        return "is missing"
    met = "" if isinstance(problem["input"], dict) else f" (met {problem['input']!r})"
    return problem_said(problem) + met


def _invalid(path: Path, met: str) -> UsageError:
    return UsageError(
        "WB-PROFILE-INVALID",
        f"{path}: {met}",
        expected="the keys of docs/profiles.md: " + ", ".join(k for k in Profile.model_fields if k != "name"),
        next=f"mend {path}",
    )
