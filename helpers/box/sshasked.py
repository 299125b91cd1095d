"""The ssh configuration as OpenSSH itself reads it: ``ssh -G``, which opens no connection, and what it prints.

What no parser of ours can follow comes right this way: Match with every criterion that this ssh has, canonical host
names, /etc/ssh/ssh_config. `read` is pure; `ask` runs the program.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from helpers.box.sshconfig import Options, config_error, flattened
from helpers.errors import UsageError
from helpers.owner import home

TIMEOUT = 15.0
"""Seconds for an answer. It takes 10 ms, but ``Match exec`` and canonical names run commands and ask name servers."""

SYSTEM = Path("/etc/ssh/ssh_config")
_SEVERAL = ("identityfile", "certificatefile")
_NEVER_SAID = re.compile(r"~/\.ssh/id_\w+")
_TILDE = re.compile(r"(?i)^\s*(userknownhostsfile|globalknownhostsfile|identityagent)\b")
_NO_ANSWER = ("option -- G", "No user exists", "You don't exist")


class NoAnswer(Exception):
    """There is no ssh program that could be asked; the text says why."""


def ask(host: str, user: str | None, port: str | None) -> Options:
    """What ``ssh -G`` says about the host, with tokens, variables and ``~`` replaced.

    Raises:
        NoAnswer: this machine has no ssh, or one that cannot tell.
        UsageError: WB-SSH-CONFIG, the configuration is none, or asking took too long; WB-SSH-TARGET: no host's name.
    """
    program = shutil.which("ssh")
    if program is None:
        raise NoAnswer("there is no ssh program here")
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        raise NoAnswer("ssh works for no login without a name") from None
    with _file(Path(entry.pw_dir)) as file:
        argv = [program, "-G", "-T", *(["-F", str(file)] if file else []), *(["-p", port] if port else [])]
        argv += ["--", f"{user}@{host}" if user else host]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, encoding="utf-8", errors="replace"
            )
        except subprocess.TimeoutExpired as error:
            raise config_error(host, f"ssh -G said nothing for {TIMEOUT:g} s: Match exec, or a name server") from error
        except OSError as error:
            raise NoAnswer(f"{program} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise _refused(host, done.stderr.replace(str(file), str(home() / ".ssh/config")) if file else done.stderr)
    tokens = {"d": str(home()), "i": str(os.getuid()), "u": entry.pw_name, "l": socket.gethostname()}
    return read(done.stdout, tokens={**tokens, "n": host}, environment=os.environ)


def _refused(host: str, said: str) -> Exception:
    if any(words in said for words in _NO_ANSWER):
        return NoAnswer(f"ssh -G: {said.strip().splitlines()[0]}")
    if "invalid characters" in said:
        return UsageError(
            "WB-SSH-TARGET",
            f"{host!r} names no box: {said.strip()}",
            expected="lab, user@host, user@host:port, or an alias of ~/.ssh/config",
            next="workbook facts user@host",
        )
    return config_error(host, "; ".join(said.split("\n")).strip("; ") or "ssh -G refuses it without a word")


@contextlib.contextmanager
def _file(login: Path) -> Iterator[Path | None]:
    """What to give as ``-F``; nothing where ssh finds the file by itself.

    ssh looks into the login's own home, whatever HOME says. Where HOME is another folder, the configuration there
    counts (it is ``~/.ssh/config`` to whoever set it), with its ``~`` and its Include lines.
    """
    mine = home()
    if os.path.realpath(mine) == os.path.realpath(login):
        yield None
        return
    lines = flattened(mine / ".ssh/config")
    quoted = str(mine).replace("%", "%%")
    for number, line in enumerate(lines):
        if _TILDE.match(line):
            line = re.sub(r'(?<=[\s"=])~(?=/)', lambda _: quoted, line)
            lines[number] = re.sub(r"(?<!%)%d", lambda _: quoted, line)
    lines += ["Match all", *([f"Include {SYSTEM}", "Match all"] if SYSTEM.is_file() else [])]
    lines.append(f'UserKnownHostsFile "{quoted}/.ssh/known_hosts" "{quoted}/.ssh/known_hosts2"')
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape", suffix=".ssh_config") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        yield Path(file.name)


def read(text: str, *, tokens: Mapping[str, str], environment: Mapping[str, str]) -> Options:
    """The output of ``ssh -G``; pure.

    Args:
        tokens: what ``%d`` (the home, which ``~`` stands for too), ``%i``, ``%l``, ``%n`` and ``%u`` are here.
        environment: for ``${NAME}``.

    Keys that nobody wrote into a configuration are left out where that matters: the list of identity files that ssh
    falls back on, and a ``none``.
    """
    single: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key.lower() in _SEVERAL:
            several.setdefault(key.lower(), []).append(value)
        elif key and value:
            single.setdefault(key.lower(), value)
    identities = several.get("identityfile", [])
    usual = {"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519"}
    if usual <= set(identities) and all(_NEVER_SAID.fullmatch(path) for path in identities):
        del several["identityfile"]
    for key in ("proxycommand", "connecttimeout"):
        if single.get(key, "").lower() == "none":
            del single[key]
    known = {
        **tokens,
        "%": "%",
        "h": single.get("hostname", tokens.get("n", "")),
        "p": single.get("port", "22"),
        "r": single.get("user", tokens.get("u", "")),
        "L": tokens.get("l", "").partition(".")[0],
        "k": single.get("hostkeyalias", tokens.get("n", "")),
    }
    for key, values in several.items():
        several[key] = [expanded(value, known, environment) for value in values]
    if "identityagent" in single:
        single["identityagent"] = expanded(single["identityagent"], known, environment)
    on_the_way = {name: known[name] for name in "%hnpr" if name in known}
    for key in ("proxycommand", "proxyjump"):  # shell text, or hosts: variables and ~ are not ours
        if key in single:
            single[key] = _tokens(single[key], on_the_way)
    return Options(single, several)


def expanded(value: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """A path with its tokens, ``${NAME}`` and leading ``~`` replaced; what is not known stays as it is."""
    value = re.sub(r"\$\{(\w+)\}", lambda found: environment.get(found[1], found[0]), value)
    value = _tokens(value, tokens)
    if value == "~" or value.startswith("~/"):
        return tokens.get("d", "~") + value[1:]
    return os.path.expanduser(value)


def _tokens(value: str, tokens: Mapping[str, str]) -> str:
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), value)


def paths(value: str) -> list[str]:
    """Several paths in a line of ``ssh -G``, which quotes none: one goes on until the next that is absolute.

    >>> paths("/home/me/.ssh/known hosts /dev/null"), paths("none")
    (['/home/me/.ssh/known hosts', '/dev/null'], ['none'])
    """
    return re.split(r"\s+(?=[/~]|none$)", value.strip())
