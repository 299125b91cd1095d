"""Takes out of a text what must not be kept (secrets), and what a report must not carry: home folders, addresses."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from helpers.box.masking import mask
from helpers.box.result import printable
from helpers.paths import ROOT, investigations_dir, lab_dir

#: What a report and an exported notebook have in the place of folders.
BOX_HOME, CHECKOUT, INVESTIGATIONS = "<box home>", "<checkout>", "<investigations>"
# Token as a word of the trade: "cosine per token: 0.98", "token 12: 5". No secret is such a word with a short number.
_COUNTED = re.compile(r"(?i)(?<![\w-])(tokens?)(?=[\"']?\s*[:=]\s*-?\d{1,6}(?:\.\d+)?(?![\w.-]))")
# "by token": middle.tolist() in a cell's source: what is counted or said token by token is no secret, whatever it is.
_EACH = re.compile(r"(?i)(?<![\w-])((?:by|per|each|every)[ _]tokens?)(?=[\"']?\s*[:=])")
# "nats a token: in the text": a sentence goes on behind it.
_PROSE = re.compile(r"(?i)(?<![\w-])((?:a|the|one) token)(?=:\s+[a-z]{1,12}\s+[a-z])")
# "api_key": "value" stays JSON; one with a space before the value is hidden whole.
_QUOTED = re.compile(
    r"(?i)(?<![a-z0-9_.-])([a-z0-9_.-]*(?:token|(?:secret|passw(?:or)?d|api[_-]?key|credential)s?)[\"']?)(\s*[:=]\s*)([\"'])[^\"'\n]+\3"
)
_APART = "\x00"
# An unbroken run of so many characters is no name of anything; searching it for one takes time in its square.
_RUN = re.compile(r"[A-Za-z0-9_.-]{400,}")
_STAND_IN = "LNGRUN{:06d}RUNLNG"
_SECRET_KEY = re.compile(r"(?i)(token|secret|password|passwd|api_?key|credential)$")
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_LOGIN = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@")  # of an address such as http://ann:***@proxy
_ADDRESS = re.compile(r"\b[\w.+-]+@(?:\d{1,3}(?:\.\d{1,3}){3}|[\w-]+(?:\.[\w-]+)+)")
# Also behind ../../.., as a path relative to another folder has it.
_UP = r"(?:(?<![\w.~-])/|(?<![\w~-])(?:\.\./)+)"
_HOMES = re.compile(_UP + r"(?:(?:home/|Users/)[^/\s\"']+|root(?=[/\s\"':,)]|$))")
# Whose a process or a run is, as the facts of a box say it: "pid 12 of ann", "run right-1 (profile right) of ann".
_OWNER = re.compile(r"(\b(?:pid \d+|run [\w.-]+(?: \(profile [\w.-]+\))?) of )[A-Za-z_][\w.-]*(?![\w@-])")
# An address in numbers, but the loopback and what is a version.
_NUMBERS = re.compile(
    r"(?<![\w.=-])(?!127\.|0\.0\.0\.0)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.-])"
)


def without_secrets(text: str) -> str:
    """The text without tokens, passwords and private keys, and with every character one that a file can hold.

    >>> without_secrets("HF_TOKEN=hf_abcdefghijkl, cosine per token: 0.98, {'by token': middle.tolist()}")
    "HF_TOKEN=***, cosine per token: 0.98, {'by token': middle.tolist()}"
    >>> without_secrets("Nats a token: in the text. The token: swordfish")
    'Nats a token: in the text. The token: ***'
    """
    return _but_for_runs(text, _unsecret)


def redact(text: str, *, homes: tuple[str, ...] = (), hosts: tuple[str, ...] = (), markup: bool = False) -> str:
    """The text without secrets and without where it was made. For prose and values; for JSON use `redact_tree`.

    Args:
        homes: folders to write as ``<box home>``; the lab's is always among them. The user's own is written as ``~``,
            the checkout and the investigations as ``<checkout>`` and ``<investigations>``: three places, three words.
        hosts: names of machines and logins to hide; this machine's and addresses in numbers always are.
        markup: the text is HTML, so these words come as such.

    >>> redact("HF_TOKEN=hf_abcdefghijkl /home/ann/x on 10.1.2.3", homes=())
    'HF_TOKEN=*** ~/x on ***'
    """

    def clean(text: str) -> str:
        text = _unsecret(text)
        places = {**dict.fromkeys(homes, BOX_HOME), **_own_places()}
        for place in sorted(places, key=len, reverse=True):
            if len(place) > 1:
                word = escape(places[place]) if markup else places[place]
                text = re.sub(r"(?:/|(?:\.\./)+)" + re.escape(place.strip("/")) + r"(?![\w.-])", word, text)
        text = _LOGIN.sub(r"\1***@", _HOMES.sub("~", text))
        text = _ADDRESS.sub("***@***", text)
        if user := _own_name():
            text = re.sub(rf"\b{re.escape(user)}@", "***@", text)
        text = _OWNER.sub(r"\1***", text)
        for host in {*hosts, _own_host()}:
            if len(host) > 3:
                text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "***", text)
        return _NUMBERS.sub("***", text)

    return _but_for_runs(text, clean)


def _unsecret(text: str) -> str:
    text = _KEY_BLOCK.sub("*** private key ***", printable(text).replace(_APART, "\N{SYMBOL FOR NULL}"))
    for harmless in (_COUNTED, _EACH, _PROSE):
        text = harmless.sub(rf"\1{_APART}", text)
    # What was dealt with here is set apart, so that the masking of commands does not take its quotes off.
    return mask(_QUOTED.sub(rf"\1{_APART}\2\3***\3", text)).replace(_APART, "")


def _but_for_runs(text: str, clean: Callable[[str], str]) -> str:
    """`clean` on the text with its long runs replaced by short words, which are masked where the run would be."""
    runs: list[str] = []

    def stand_in(match: re.Match[str]) -> str:
        runs.append(match.group())
        return _STAND_IN.format(len(runs) - 1)

    text = clean(_RUN.sub(stand_in, text))
    for number, run in enumerate(runs):
        text = text.replace(_STAND_IN.format(number), run)
    return text


def redact_tree(value: Any, *, homes: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> Any:
    """A JSON value with every string redacted; numbers and structure stay as they are.

    A value under a key that names a secret is hidden whole.

    >>> redact_tree({"api_key": "abc", "draft_token": 12345, "where": "/home/ann/x"})
    {'api_key': '***', 'draft_token': 12345, 'where': '~/x'}
    """
    return tree(value, lambda text: redact(text, homes=homes, hosts=hosts))


def tree_without_secrets(value: Any) -> Any:
    """A JSON value, its strings as `without_secrets` has them; paths and hosts stay, for the ledger is one's own."""
    return tree(value, without_secrets)


def tree(value: Any, clean: Callable[[str], str]) -> Any:
    """A JSON value with `clean` done to every string; one that comes often (a figure's labels) is cleaned once."""
    known: dict[str, str] = {}

    def once(text: str) -> str:
        if text not in known:
            known[text] = clean(text)
        return known[text]

    return _tree(value, once)


def _tree(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _item(str(key), item, clean) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tree(item, clean) for item in value]
    return value


def _item(key: str, value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str) and _SECRET_KEY.search(key):
        return "***"
    if isinstance(value, str) and key == "bdata":
        return value  # plotly's arrays in base64: no text, and changed characters would be other numbers
    return _tree(value, clean)


def _own_places() -> dict[str, str]:
    """This login's home, and what is kept for it (the lab's box, investigations, the checkout), each with its word."""
    kept = {str(lab_dir() / "home"): BOX_HOME, str(investigations_dir()): INVESTIGATIONS, str(ROOT): CHECKOUT}
    try:
        return {str(Path.home()): "~", **kept}
    except RuntimeError:  # a uid without a passwd entry, as in some containers
        return kept


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _own_host() -> str:
    name = socket.gethostname()
    return "" if name == "localhost" else name
