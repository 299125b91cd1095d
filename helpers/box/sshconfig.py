"""~/.ssh/config as OpenSSH reads it: paramiko's parser, plus Include, which paramiko does not know."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko

from helpers.errors import UsageError
from helpers.owner import user_name
from helpers.screen import as_typed

_LINE = re.compile(r"(?i)^\s*(include|host|match)(?:\s+|\s*=\s*)(.+?)\s*$")
_MAX_DEPTH = 16  # OpenSSH's own bound on nested includes


class Options(dict[str, str]):
    """The options of one host, names in lower case; those that may be given several times come by ``get_all``."""

    def __init__(self, single: dict[str, str], several: dict[str, list[str]]) -> None:
        super().__init__(single)
        self._several = several

    def get_all(self, name: str) -> list[str]:
        return list(self._several.get(name, []))


def lookup(host: str, config: Path) -> Options:
    """What ``config`` says about ``host``; nothing where there is no such file.

    Raises:
        UsageError: the file cannot be read or holds a line that is no option.
    """
    if not config.is_file():
        return Options({}, {})
    try:
        parsed = paramiko.SSHConfig.from_text("\n".join(_lines(config, config.parent, 0)))
        with _named():
            found = parsed.lookup(host)
    except (OSError, UnicodeDecodeError, paramiko.SSHException) as error:
        raise UsageError(
            "WB-SSH-CONFIG",
            f"{config} cannot be used: {error}",
            expected="a configuration that OpenSSH reads too",
            next=f"ssh -G {as_typed(host)}",
        ) from error
    options: dict[str, Any] = dict(found)  # a list for what may be given several times, None for "none"
    single = {key: value for key, value in options.items() if isinstance(value, str)}
    several = {key: list(value) for key, value in options.items() if isinstance(value, list)}
    return Options(single, several)


def aliases(config: Path) -> list[str]:
    """The names that ``config`` has a Host line for, without patterns; none where it cannot be read."""
    try:
        parsed = paramiko.SSHConfig.from_text("\n".join(_lines(config, config.parent, 0)))
    except (OSError, UnicodeDecodeError, paramiko.SSHException):
        return []
    return sorted(name for name in parsed.get_hostnames() if not re.search(r"[*?!]", name))


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """A name for paramiko's ``%u``, which has no answer to a login that nobody entered; LOGNAME is where it looks."""
    name = user_name()
    if name != str(os.getuid()) or "LOGNAME" in os.environ:
        yield
        return
    os.environ["LOGNAME"] = name
    try:
        yield
    finally:
        os.environ.pop("LOGNAME", None)


def _lines(path: Path, base: Path, depth: int) -> list[str]:
    """The file's lines with each Include replaced by what it names; the block around it goes on after it."""
    if depth > _MAX_DEPTH:
        raise OSError(f"Include goes deeper than {_MAX_DEPTH} files, at {path}")
    result: list[str] = []
    block = "Host *"
    for line in path.read_text().splitlines():
        match = _LINE.match(line)
        if match is None or match[1].lower() != "include":
            if match is not None:
                block = line
            result.append(line)
            continue
        for pattern in match[2].split():
            full = Path(pattern.strip('"')).expanduser()
            for name in sorted(glob.glob(str(full if full.is_absolute() else base / full))):
                result += _lines(Path(name), base, depth + 1)
                result.append(block)
    return result
