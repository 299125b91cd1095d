"""~/.ssh/config where no ssh can be asked: paramiko's parser, plus Include, less the Match lines that it takes wrongly.

`helpers.box.sshasked` asks ssh itself; this one reads neither /etc/ssh/ssh_config nor what only ssh can decide.
"""

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
_CRITERIA = {"all", "canonical", "final", "host", "originalhost", "user", "localuser", "exec"}


class _Parser(paramiko.SSHConfig):
    """paramiko's, which takes a criterion that it does not know, and one in capitals, as met."""

    def _get_matches(self, match: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super()._get_matches(match)  # type: ignore[misc]
        for one in found:
            one["type"] = one["type"].lower()
        return found

    def _does_match(self, matches: list[dict[str, Any]], *others: Any) -> Any:
        known = [one for one in matches if one["type"] in _CRITERIA]
        unknown = [one["type"] for one in matches if one["type"] not in _CRITERIA]
        met = super()._does_match(known, *others) if known or not unknown else True  # type: ignore[misc]
        if met and unknown:
            raise paramiko.SSHException(f"only ssh itself can tell whether its line Match {unknown[0]} holds")
        return met


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
    text = "\n".join(flattened(config))
    try:
        with _named():
            found = _Parser.from_text(text).lookup(host)
    except paramiko.SSHException as error:
        raise config_error(host, f"{config}: {error}") from error
    options: dict[str, Any] = dict(found)  # a list for what may be given several times, None for "none"
    single = {key: value for key, value in options.items() if isinstance(value, str)}
    several = {key: list(value) for key, value in options.items() if isinstance(value, list)}
    return Options(single, several)


def flattened(config: Path) -> list[str]:
    """The lines of ``config`` and of what it includes; none where there is no such file.

    Raises:
        UsageError: WB-SSH-CONFIG.
    """
    if not config.is_file():
        return []
    try:
        return _lines(config, config.parent, 0)
    except (OSError, UnicodeDecodeError) as error:
        raise config_error("HOST", f"{config}: {error}") from error


def config_error(host: str, why: str) -> UsageError:
    """The error for a configuration that cannot be used."""
    return UsageError(
        "WB-SSH-CONFIG",
        f"the ssh configuration cannot be used: {why}",
        expected="a configuration that OpenSSH reads too",
        next=f"ssh -G {as_typed(host)}",
    )


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
