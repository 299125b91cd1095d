"""Arguments become shell text in one place only, and no string given by a user can become a command by accident.

A command is a list of strings. Each is quoted as one word, whatever it holds; `Raw` is the only way past that, and it
has to be written out by the programmer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from helpers.errors import UsageError

# A first character that no shell reads specially (zsh expands a leading "="), then the usual harmless ones.
_PLAIN = re.compile(r"[A-Za-z0-9_./-][A-Za-z0-9_./:@%+,=-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Raw:
    """Shell text that goes into a command unquoted, such as ``Raw("| wc -l")``. Never build one from user input."""

    text: str


def quote(word: str) -> str:
    """One shell word that reads back as exactly ``word`` in sh, bash, dash and zsh.

    >>> print(quote("it's"))
    'it'"'"'s'
    """
    if "\0" in word:
        raise UsageError(
            "WB-RUN-ARGUMENT",
            f"an argument holds a NUL byte: {word!r}",
            expected="text without NUL, which no program can receive as an argument",
            next="pass such data on standard input (stdin=...)",
        )
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\"'\"'") + "'"


def check_argv(argv: Sequence[str | Raw]) -> None:
    """Refuse what is no list of arguments: a lone string, nothing at all, other types, a program named ``-x``."""
    if isinstance(argv, (str, bytes)):
        raise UsageError(
            "WB-RUN-ARGUMENT",
            f"a command was given as one string: {argv!r}",
            expected="a list of arguments, such as ['ls', '-l']",
            next="pass a list, or use box.sh(script) for shell text",
        )
    wrong = [item for item in argv if not isinstance(item, (str, Raw))]
    if not argv or wrong:
        raise UsageError(
            "WB-RUN-ARGUMENT",
            f"a command holds {wrong[0]!r} of type {type(wrong[0]).__name__}" if wrong else "a command is empty",
            expected="at least one argument, each of type str",
            next="convert each argument to str",
        )
    if isinstance(argv[0], str) and argv[0].startswith("-"):
        raise UsageError(
            "WB-RUN-ARGUMENT",
            f"a program's name starts with a dash: {argv[0]!r}",
            expected="the name or path of a program",
            next=f"write ./{argv[0]} for a program of that name",
        )


def join(argv: Sequence[str | Raw]) -> str:
    """The command as shell text. The program's name is always quoted, so that it is no keyword, alias or assignment."""
    check_argv(argv)
    words = [item.text if isinstance(item, Raw) else quote(item) for item in argv]
    if isinstance(argv[0], str):
        words[0] = "'" + argv[0].replace("'", "'\"'\"'") + "'"
    return " ".join(words)


def exports(env: Mapping[str, str]) -> str:
    """One line that exports ``env``; values may hold newlines, which travel as octal escapes."""
    parts = []
    for name, value in env.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                "WB-RUN-ARGUMENT",
                f"{name!r} is no name of an environment variable",
                expected="letters, digits and underscores, not starting with a digit",
                next="rename the variable",
            )
        if "\n" in value:
            parts.append(f"{name}=$(printf '%b_' {quote(octal(value))}); {name}=${{{name}%_}}; export {name}")
        else:
            parts.append(f"export {name}={quote(value)}")
    return "; ".join(parts)


def octal(text: str) -> str:
    """``text`` for ``printf %b``: letters, digits and a few signs as they are, every other byte as ``\\0ooo``."""
    data = text.encode("utf-8", "surrogateescape")
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _./:=,-"
    return "".join(chr(byte) if byte in plain else f"\\0{byte:03o}" for byte in data)
