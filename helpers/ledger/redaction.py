"""Takes out of a text what a report must not carry: home folders, addresses, tokens."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TOKENS = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{8,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{8,}"),
    re.compile(r"(?i)\b(authorization:\s*(?:bearer|basic)\s+)\S+"),
    re.compile(r"(?i)\b((?:[a-z0-9_]*(?:token|secret|password|passwd|api_?key))[\"']?\s*[=:]\s*[\"']?)[^\s\"',}]{4,}"),
)
_SECRET_KEY = re.compile(r"(?i)(token|secret|password|passwd|api_?key|credential)$")
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)
_ADDRESS = re.compile(r"\b[\w.+-]+@(?:\d{1,3}(?:\.\d{1,3}){3}|[\w-]+(?:\.[\w-]+)+)")
_HOMES = re.compile(r"(?:/home/|/Users/)[^/\s\"']+")


def redact(text: str, *, homes: tuple[str, ...] = ()) -> str:
    """The text without secrets and without where it was made. For prose and values; for JSON use `redact_tree`.

    Args:
        homes: folders to write as ``~``: the box's home; the user's own is always among them.

    >>> redact("HF_TOKEN=hf_abcdefghijkl /home/ann/x", homes=())
    'HF_TOKEN=*** ~/x'
    """
    text = _KEY_BLOCK.sub("*** private key ***", text)
    for pattern in _TOKENS:
        text = pattern.sub(lambda m: (m.group(1) if m.re.groups else "") + "***", text)
    for home in sorted({*homes, *_own_home()}, key=len, reverse=True):
        if len(home) > 1:
            text = re.sub(re.escape(home.rstrip("/")) + r"(?![\w.-])", "~", text)
    text = _HOMES.sub("~", text)
    text = _ADDRESS.sub("***@***", text)
    user = _own_name()
    return re.sub(rf"\b{re.escape(user)}@", "***@", text) if user else text


def redact_tree(value: Any, *, homes: tuple[str, ...] = ()) -> Any:
    """A JSON value with every string redacted; numbers and structure stay as they are.

    A value under a key that names a secret is hidden whole.

    >>> redact_tree({"api_key": "abc", "draft_token": 12345, "where": "/home/ann/x"})
    {'api_key': '***', 'draft_token': 12345, 'where': '~/x'}
    """
    if isinstance(value, str):
        return redact(value, homes=homes)
    if isinstance(value, Mapping):
        return {
            str(key): "***"
            if isinstance(item, str) and _SECRET_KEY.search(str(key))
            else redact_tree(item, homes=homes)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_tree(item, homes=homes) for item in value]
    return value


def _own_home() -> tuple[str, ...]:
    try:
        return (str(Path.home()),)
    except RuntimeError:  # a uid without a passwd entry, as in some containers
        return ()


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
