"""Takes out of a text what a report must not carry: home folders, addresses, tokens."""

from __future__ import annotations

import getpass
import re
from pathlib import Path

_TOKENS = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{8,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{8,}"),
    re.compile(r"(?i)\b(authorization:\s*(?:bearer|basic)\s+)\S+"),
    re.compile(r"(?i)\b((?:[a-z0-9_]*(?:token|secret|password|passwd|api_?key))[\"']?\s*[=:]\s*[\"']?)[^\s\"',}]{4,}"),
)
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_ADDRESS = re.compile(r"\b[\w.+-]+@(?:\d{1,3}(?:\.\d{1,3}){3}|[\w-]+(?:\.[\w-]+)+)")
_HOMES = re.compile(r"(?:/home/|/Users/)[^/\s\"']+")


def redact(text: str, *, homes: tuple[str, ...] = ()) -> str:
    """The text without secrets and without where it was made.

    Args:
        homes: folders to write as ``~``: the box's home, and the user's own is always among them.

    >>> redact("HF_TOKEN=hf_abcdefghijkl /home/ann/x", homes=())
    'HF_TOKEN=*** ~/x'
    """
    text = _KEY_BLOCK.sub("*** private key ***", text)
    for pattern in _TOKENS:
        text = pattern.sub(lambda m: (m.group(1) if m.re.groups else "") + "***", text)
    for home in sorted({*homes, str(Path.home())}, key=len, reverse=True):
        if len(home) > 1:
            text = text.replace(home, "~")
    text = _HOMES.sub("~", text)
    text = _ADDRESS.sub("***@***", text)
    return re.sub(rf"\b{re.escape(getpass.getuser())}@", "***@", text)
