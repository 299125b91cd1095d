"""What the box's home holds: its own checkout of SGLang, links to the target and the drafter, a profile for logins."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from remote.lab.errors import USAGE, WORKBOOK, LabError
from remote.lab.session_env import BIN
from remote.lab.state import CHECKOUT, Paths, write_atomically

ENGINES = ("0.5.9",)
"""Versions of SGLang that remote/lab/engine can run on a CPU."""

MODELS = CHECKOUT / "data" / "lab"


def check_engine(engine: str | None) -> None:
    """Refuses an engine that the lab cannot run, or that is not installed beside it. None: a box without SGLang."""
    if engine is None:
        return
    if engine not in ENGINES:
        raise LabError(
            "WB-LAB-ENGINE-UNKNOWN",
            f"the lab has no CPU engine for SGLang {engine!r}",
            expected=f"one of {', '.join(ENGINES)}, or none for a box without SGLang",
            next=f"{WORKBOOK} lab up --engine {ENGINES[0]}",
            exit_code=USAGE,
        )
    try:
        installed = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        installed = None
    if installed != engine:
        raise LabError(
            "WB-LAB-NO-SGLANG",
            f"sglang is {installed or 'not installed'} in {sys.prefix}",
            expected=f"sglang {engine}, whose files the box's checkout is copied from",
            next="make setup",
            exit_code=USAGE,
        )


def check_tp(tp: int) -> list[str]:
    """Refuses a tensor parallel size that the target cannot be split by; returns warnings about the drafter."""
    target, drafter = _config("target"), _config("drafter")
    heads, experts = int(target["num_attention_heads"]), int(target["n_routed_experts"])
    allowed = [n for n in range(1, heads + 1) if heads % n == 0 and experts % n == 0]
    if tp not in allowed:
        raise LabError(
            "WB-LAB-TP",
            f"the target cannot be split {tp} ways: it has {heads} attention heads and {experts} experts",
            expected=f"one of {', '.join(map(str, allowed))}",
            next=f"{WORKBOOK} lab up --tp {allowed[-1]}",
            exit_code=USAGE,
        )
    if int(drafter["num_attention_heads"]) % tp:
        return [f"the drafter's {drafter['num_attention_heads']} heads do not divide by {tp}: only without speculation"]
    return []


def fill_home(paths: Paths, engine: str | None, say: Callable[[str], None]) -> None:
    """Puts into the box's home what is missing there; what is there already, patches included, stays."""
    paths.home.mkdir(mode=0o755, exist_ok=True)
    profile = paths.home / ".profile"
    if not profile.exists():
        write_atomically(profile, f'export PATH="${BIN}:$PATH"\n', 0o644)
    models = paths.home / "models"
    models.mkdir(exist_ok=True)
    for name in ("target", "drafter"):
        link = models / name
        if link.is_symlink() and not link.exists():
            link.unlink()  # the checkout was moved
        if not link.exists():
            link.symlink_to(MODELS / name)
    if engine is not None:
        _copy_sglang(paths.home / "sglang" / "python", engine, say)


def _copy_sglang(parent: Path, engine: str, say: Callable[[str], None]) -> None:
    """Copies the installed package, complete under its name or not there at all."""
    for unfinished in parent.glob(".sglang.*"):
        shutil.rmtree(unfinished)
    final = parent / "sglang"
    if final.exists():
        return
    say(f"copying SGLang {engine} to {final}")
    parent.mkdir(parents=True, exist_ok=True)
    temporary = parent / ".sglang.unfinished"
    installed = Path(str(metadata.distribution("sglang").locate_file("sglang")))
    try:
        shutil.copytree(installed, temporary, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
        temporary.rename(final)
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(temporary)


def _config(name: str) -> dict[str, Any]:
    path = MODELS / name / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            "WB-LAB-NO-MODEL",
            f"the lab's {name} cannot be read: {error}",
            expected=f"a checkpoint with config.json in {path.parent}",
            next=f"git checkout -- {path.parent.relative_to(CHECKOUT)}",
            exit_code=USAGE,
        ) from None
    return config
