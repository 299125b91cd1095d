"""The records of capture.json, schema ``workbook.capture/1``: who served what, which requests, which files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from helpers.errors import UsageError
from helpers.library_errors import problem_said, why
from helpers.source.versions import release_of
from helpers.tensors.places import met, way_out

SCHEMA = "workbook.capture/1"


class Model(BaseModel):
    """The captured target."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    architecture: str
    num_layers: int = Field(gt=0)
    hidden_size: int = Field(gt=0)


class Request(BaseModel):
    """One request: its rows are ``start`` to ``start + length`` of each rank; its text began with a prompt."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    start: int = Field(ge=0)
    length: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)


class File(BaseModel):
    """One rank's tensors."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    rank: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: str


class Engine(BaseModel):
    """What served. ``base``: the release whose rules hold for it, by the word of who served it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    version: str
    base: str | None = None

    @property
    def release(self) -> str:
        """The release whose rules hold; the version itself where it is none, and nobody said."""
        return self.base or release_of(self.version) or self.version


class Info(BaseModel):
    """capture.json; unknown keys are ignored.

    ``profile``, ``patches`` and ``sampling`` are the workbook's own additions, and ``without_capture``: what the same
    profile launches otherwise, when it is not to capture.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_: str = Field(alias="schema")
    run: str
    engine: Engine
    model: Model
    tp_size: int = Field(gt=0)
    aux_layer_ids: list[int] | None = None
    launch: dict[str, Any] = Field(default_factory=dict)
    profile: str | None = None
    patches: list[str] = Field(default_factory=list)
    sampling: dict[str, Any] = Field(default_factory=dict)
    without_capture: dict[str, Any] = Field(default_factory=dict)
    requests: list[Request]
    files: list[File]


def read_info(path: Path) -> Info:
    file = path / "capture.json"
    try:
        return parse_info(file, file.read_text())
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise bad_schema(file, why(error)) from error


def parse_info(file: Path, text: str) -> Info:
    """What capture.json says; ``file`` is where it was read."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise bad_schema(file, str(error)) from error
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise bad_schema(file, f"schema {raw.get('schema') if isinstance(raw, dict) else type(raw).__name__!r}")
    try:
        return Info.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise bad_schema(file, f"{'.'.join(map(str, first['loc']))}: {problem_said(first)}") from error


def missing(path: Path, *, here: bool = True) -> UsageError:
    """There is no capture at ``path``, which is on this machine or on a box."""
    again = "workbook capture BOX RUN --prompts FILE"
    return UsageError(
        "WB-CAPTURE-MISSING",
        met(path, "capture", "no capture.json") if here else f"{path} holds no capture.json on its box",
        expected="a capture directory; capture.json is written last, so an unfinished capture has none",
        next=way_out(path, "capture", again) if here else again,
    )


def bad_schema(file: Path, why: str) -> UsageError:
    return UsageError(
        "WB-CAPTURE-SCHEMA",
        f"{file} is not readable as a capture: {why}",
        expected=f"schema {SCHEMA} with the keys run, engine, model, tp_size, requests, files",
        next="capture again with this version of the workbook",
    )
