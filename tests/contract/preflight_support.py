"""A launch made for preflight: a sound one on a small target, with one thing changed; and what was found in it."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from model_folders import LLAMA3, drafter_of, profile_of, shapes_of, write_model

from helpers.serving import Profile
from helpers.serving.preflight import Finding, Preflight, examine, gathered_here

WHEEL = Path(str(metadata.distribution("sglang").locate_file("")))


def look(profile: Profile, *, gpu: str | None = "sm80", source: Path = WHEEL, **folders: Path) -> Preflight:
    with gathered_here(profile, source, gpu=gpu, **folders) as facts:
        return examine(facts)


def codes(report: Preflight) -> list[str]:
    return [finding.code for finding in report.findings]


def only(report: Preflight, code: str) -> Finding:
    """The finding ``code``; no other error or warning beside it."""
    assert codes(report) == [code]
    return report.findings[0]


def places(finding: Finding) -> list[str]:
    return [f"{line['file'].rpartition('/')[2]}:{line['line']}" for line in finding.evidence["lines"]]


class Made:
    """A sound launch on a small target, with one thing changed."""

    def __init__(self, folder: Path, target: dict[str, Any] = LLAMA3, ids: list[int] | None = None) -> None:
        self.folder, self.target, self.ids = folder, target, ids
        self.config = drafter_of(target, ids)
        self.shapes = shapes_of(self.config)
        self.tables: dict[str, Any] = {}
        self.profile: dict[str, Any] = {}

    def look(self, **how: Any) -> Preflight:
        target = write_model(self.folder / "target", self.target)
        draft = write_model(self.folder / "draft", self.config, self.shapes, **self.tables)
        return look(profile_of(target, draft, **self.profile), **how)


def copied(root: Path) -> Path:
    """The parts of the wheel that preflight reads, to be edited."""
    for name in ("models", "layers/communicator.py", "layers/logits_processor.py", "model_executor", "server_args.py"):
        here, there = WHEEL / "sglang/srt" / name, root / "sglang/srt" / name
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(here, there) if here.is_dir() else shutil.copy(here, there)
    shutil.copy(WHEEL / "sglang/_version.py", root / "sglang/_version.py")
    return root
