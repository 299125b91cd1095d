"""A finding: one coded fact about a launch that was not made yet."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from helpers.source.excerpts import Line

Severity = Literal["error", "warning", "info"]


class Finding(BaseModel):
    """One finding; docs/errors/findings/<code>.md explains each code.

    Attributes:
        severity: ``error`` (the server fails, or the drafter is fed wrongly), ``warning`` (likely wrong), ``info``.
        evidence: values that decided it; ``lines`` are the source's, as ``[{file, line, text}]``.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    severity: Severity
    summary: str
    evidence: dict[str, Any] = {}


def found(code: str, severity: Severity, summary: str, *lines: Line | None, **evidence: Any) -> Finding:
    """A finding with source lines (None is left out) and values."""
    records = [line.record() for line in lines if line is not None]
    return Finding(
        code=code, severity=severity, summary=summary, evidence={**evidence, **({"lines": records} if records else {})}
    )
