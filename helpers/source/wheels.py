"""Released wheels of the engine, to read: fetched once by pip, kept in a cache, never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from helpers.errors import UsageError
from helpers.paths import ROOT
from helpers.progress import progress

# A wheel is read, not run: any platform's will do, and the newest ones exist for one only.
PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64", "any")
SPEC = re.compile(r"(?P<name>[A-Za-z][\w.-]*)==(?P<version>[0-9][\w.+!-]*)")
DEADLINE = 600


def cache_dir() -> Path:
    """Where wheels are kept: `.cache/wheels` of the checkout; ``WORKBOOK_CACHE`` moves it."""
    return Path(os.environ.get("WORKBOOK_CACHE") or ROOT / ".cache").expanduser() / "wheels"


def parse_spec(spec: str) -> tuple[str, str]:
    """`sglang==0.5.9` -> ("sglang", "0.5.9").

    Raises:
        UsageError: ``WB-WHEEL-SPEC``.
    """
    found = SPEC.fullmatch(spec.strip())
    if found is None:
        raise UsageError(
            "WB-WHEEL-SPEC", f"--engine {spec!r} names no release", expected="NAME==VERSION", next="sglang==0.5.9"
        )
    return found["name"], found["version"]


def cached_wheel(spec: str) -> Path | None:
    """The wheel of `sglang==0.5.9`, where it is in the cache."""
    name, version = parse_spec(spec)
    stem = re.sub(r"[-_.]+", "_", name).lower()
    found = sorted(cache_dir().glob(f"{stem}-{version}-*.whl"))
    return next((w for w in found if zipfile.is_zipfile(w)), None)


def fetch_wheel(spec: str) -> Path:
    """The wheel of `sglang==0.5.9`: from the cache, else by `pip download --no-deps`.

    It is fetched into a folder of its own and moved into the cache whole, so what lies there is never half a file.

    Raises:
        UsageError: ``WB-WHEEL-SPEC``, ``WB-WHEEL-FETCH``.
    """
    known = cached_wheel(spec)
    if known is not None:
        return known
    home = cache_dir()
    try:
        home.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".fetching-", dir=home))
    except OSError as error:
        raise failed(spec, f"the cache {home} cannot be written: {error}", []) from error
    try:
        with progress(f"wheel {spec}") as bar:
            bar.update("fetching with pip")
            run_pip(spec, scratch)
        wheels = sorted(scratch.glob("*.whl"))
        if not wheels or not zipfile.is_zipfile(wheels[0]):
            raise failed(spec, "pip left no wheel that can be opened", [])
        target = home / wheels[0].name
        wheels[0].replace(target)
        return target
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_pip(spec: str, folder: Path) -> None:
    """`pip download` of one wheel, without its dependencies."""
    platforms = [part for platform in PLATFORMS for part in ("--platform", platform)]
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    argv += [
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "2",
        "--ignore-requires-python",
        "--python-version",
        "3.11",
    ]
    argv += [*platforms, "--dest", str(folder), spec]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE, check=False)
    except subprocess.TimeoutExpired as error:
        raise failed(spec, f"pip took over {DEADLINE} s", []) from error
    except OSError as error:
        raise failed(spec, f"pip cannot be started: {error}", []) from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise failed(spec, f"pip ended with {done.returncode}", lines[-5:])


def failed(spec: str, why: str, lines: list[str]) -> UsageError:
    name, version = parse_spec(spec)
    return UsageError(
        "WB-WHEEL-FETCH",
        f"the wheel of {spec} was not fetched: {why}",
        expected=f"a release of {name} that pip can reach, or its wheel in {cache_dir()}",
        next=f"check the network and `pip index versions {name}`; offline: put {name}-{version}-*.whl there, "
        "or use --source DIR",
        lines=lines,
    )
