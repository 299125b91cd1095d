"""How a command line starts SGLang: which interpreter, with what flags, which arguments. Pure.

>>> launched(["python3", "-m", "sglang.launch_server", "--model-path", "m", "--tp=8"]).tp
8
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from helpers.box.facts.answer import Fact

MODULES = ("sglang.launch_server",)
HOST, PORT = "127.0.0.1", 30000  # SGLang's defaults (srt/server_args.py)

_ALONE = frozenset("bBdEhiIOPqsSuvx?")  # flags of Python that take nothing
_WITH = ("-W", "-X", "--check-hash-based-pycs")
_NAMES = {
    "model": ("--model-path", "--model"),
    "draft": ("--speculative-draft-model-path", "--speculative-draft-model"),
    "host": ("--host",),
    "port": ("--port",),
    "tp": ("--tensor-parallel-size", "--tp-size", "--tp"),
}


class Launched(Fact):
    """What a command line says.

    Attributes:
        flags: of the interpreter. script: the file that it runs; None for a module (-m).
        model, draft, host, port, tp: from the arguments; the default where there is none.
    """

    flags: tuple[str, ...] = ()
    script: str | None = None
    model: str | None = None
    draft: str | None = None
    host: str = HOST
    port: int = PORT
    tp: int = 1

    def first(self, cwd: str | None) -> tuple[str, ...]:
        """What the interpreter puts before its search path: the script's folder, or for a module the working folder."""
        if any(flag in ("-I", "-P") for flag in self.flags):
            return ()
        if self.script is None:
            return (cwd,) if cwd else ()
        folder = posixpath.dirname(self.script)
        return (posixpath.normpath(posixpath.join(cwd or "/", folder)),)


def launched(argv: Sequence[str]) -> Launched | None:
    """The launch of a server that ``argv`` is, or None: a worker, a shell, an editor."""
    if not argv or not posixpath.basename(argv[0]).lower().startswith(("python", "pypy", "sglang")):
        return None
    if posixpath.basename(argv[0]) == "sglang":  # a console script that names no interpreter
        return _of((), argv[0], argv[2:]) if argv[1:2] == ["serve"] else None
    words = list(argv[1:])
    flags: list[str] = []
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        flag = words.pop(0)
        if flag in _WITH and words:
            flags += [flag, words.pop(0)]
        elif flag.startswith(("-W", "-X", "--")) or set(flag[1:]) <= _ALONE:
            flags += [flag] if flag.startswith(("-W", "-X", "--")) else [f"-{letter}" for letter in flag[1:]]
        elif flag.endswith("m") and set(flag[1:-1]) <= _ALONE:  # -um
            flags += [f"-{letter}" for letter in flag[1:-1]]
            words.insert(0, "-m")
        else:
            return None
    if words[:1] == ["-m"]:
        return _of(flags, None, words[2:]) if words[1:2] and words[1] in MODULES else None
    if not words or words[0] in ("-c", "-"):
        return None
    script = words[0]
    if posixpath.basename(script) == "sglang" and words[1:2] == ["serve"]:
        return _of(flags, script, words[2:])
    return _of(flags, script, words[1:]) if script.endswith("sglang/launch_server.py") else None


def _of(flags: Sequence[str], script: str | None, words: Sequence[str]) -> Launched:
    given = {key: value for key, names in _NAMES.items() if (value := _value(words, names)) is not None}
    port, tp = given.get("port", ""), given.get("tp", "")
    return Launched(
        flags=tuple(flags),
        script=script,
        model=given.get("model"),
        draft=given.get("draft"),
        host=given.get("host", HOST),
        port=int(port) if port.isdigit() else PORT,
        tp=int(tp) if tp.isdigit() else 1,
    )


def _value(words: Sequence[str], names: Sequence[str]) -> str | None:
    """The last value that is given under any of the names, as ``--name value`` or ``--name=value``."""
    found: str | None = None
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else words[at + 1] if at + 1 < len(words) else None
    return found
