"""The records of capture.json, schema ``workbook.capture/1``: who served what, which requests, which files."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

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
    """What served."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    version: str


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
