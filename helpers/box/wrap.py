"""The small shell text around each command: its process group is known, so that it can be ended from another channel.

The box first says ``<SOH>wb NONCE PID GROUP`` on stderr and ``<SOH>wb NONCE`` on stdout. What a login shell printed
before (a greeting in ~/.bashrc) is no output of the command, and is dropped. OpenSSH starts every command as the
leader of a session of its own; where a server does not, ``setsid`` does it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from helpers.box.quoting import Raw, exports, join, octal, quote

_GROUP = "{ read -r _ _ _ _ _wb_g _ </proc/$$/stat; } 2>/dev/null"
POSIX_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash"})


@dataclass(frozen=True)
class Wrapped:
    """A command ready to be sent: ``text`` for the exec request, ``preamble`` for the first bytes of its stdin."""

    text: bytes
    preamble: bytes
    nonce: str


def wrap(
    argv: Sequence[str | Raw],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    login_shell: str = "sh",
) -> Wrapped:
    """Shell text that runs ``argv`` as the leader of a process group.

    The environment travels on stdin, not in the command, so that ``ps`` shows no token to others on the box.
    """
    nonce = secrets.token_hex(8)
    command = join(argv)
    steps = [f"printf '\\001wb {nonce} %s %s\\n' $$ \"$_wb_g\" >&2", f"printf '\\001wb {nonce}\\n'"]
    if cwd is not None:
        steps.append(f"cd {quote(cwd)} || exit")
    if env:
        steps.append('IFS= read -r _wb_e && eval "$_wb_e"')
    steps.append(command if any(isinstance(item, Raw) for item in argv) else f"exec {command}")
    # A group leader goes on in this very shell (one process fewer); else a new session is made first.
    text = (
        f"_wb_s={quote('; '.join(steps))}; {_GROUP}; "
        'if [ "$_wb_g" = $$ ] || ! command -v setsid >/dev/null; then eval "$_wb_s"; '
        f'else exec setsid /bin/sh -c {quote(_GROUP)}"; $_wb_s"; fi'
    )
    if login_shell not in POSIX_SHELLS or _wild(text):
        # fish and csh read quotes and newlines in their own ways, and some servers take no command that is not UTF-8:
        # only harmless characters reach them.
        text = f'exec /bin/sh -c \'eval "$(printf %b "{octal(text)}")"\''
    preamble = (exports(env) + "\n").encode("utf-8", "surrogateescape") if env else b""
    return Wrapped(text.encode("utf-8", "surrogateescape"), preamble, nonce)


def _wild(text: str) -> bool:
    """Whether ``text`` stands for bytes that are no UTF-8."""
    return any("\udc80" <= sign <= "\udcff" for sign in text)


@dataclass
class Marker:
    """Takes the marker out of the beginning of one stream. After it, bytes pass through untouched.

    Attributes:
        seen: the marker has come.
        pid, group: what it said (stderr only); group is None where the command leads none.
        noise: what came before it, at most the last 64 KiB.
    """

    nonce: str
    seen: bool = False
    pid: int | None = None
    group: int | None = None
    noise: bytes = b""
    _pattern: re.Pattern[bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pattern = re.compile(rb"\x01wb " + self.nonce.encode() + rb"(?: (\d+) (\d*))?\n")

    def feed(self, data: bytes) -> bytes:
        """The command's own bytes within ``data``, the next block of the stream."""
        if self.seen:
            return data
        self.noise = (self.noise + data)[-65536 - len(data) :]
        found = self._pattern.search(self.noise)
        if found is None:
            return b""
        self.seen = True
        if found.group(1):
            self.pid = int(found.group(1))
            # Another process's group is not ours to signal: without setsid on the box, only the pid is known.
            self.group = self.pid if found.group(2) == found.group(1) else None
        rest, self.noise = self.noise[found.end() :], self.noise[: found.start()]
        return rest
