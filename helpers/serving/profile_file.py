"""Profiles back into a TOML file, so that what was served can be served again by whoever gets the results.

>>> print(as_toml([Profile(name="base", engine="sglang==0.5.9", model="~/models/target")]))
[profiles.base]
engine = "sglang==0.5.9"
model = "~/models/target"
<BLANKLINE>
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from helpers.serving.argv import masked_profile
from helpers.serving.profile import Profile

#: The file's name beside a capture or the rows of a bench.
PROFILE_FILE = "profiles.toml"
#: Where a server listened says nothing of what it computed; a new one takes a free port.
_PLACE = {"name", "host", "port"}


def save_profiles(path: Path, profiles: Iterable[Profile]) -> Path:
    """Write profiles so that `load_profiles` reads them. Values that may be secrets are ``***``, to be filled in."""
    part = path.with_name(path.name + ".part")
    part.write_text(as_toml(profiles), encoding="utf-8")
    part.replace(path)
    return path


def as_toml(profiles: Iterable[Profile]) -> str:
    """The file's text: what differs from a profile's own defaults, a table a profile."""
    tables = []
    for profile in profiles:
        values = masked_profile(profile).model_dump(mode="json", exclude=_PLACE, exclude_defaults=True)
        lines = [f"{key} = {_value(value)}" for key, value in values.items() if value is not None]
        tables.append("\n".join([f"[profiles.{_key(profile.name)}]", *lines]) + "\n")
    return "\n".join(tables)


def _key(name: str) -> str:
    return name if "." not in name else _value(name)


def _value(value: Any) -> str:
    """A value of TOML. JSON's strings, numbers and words are TOML's as well, but for the DEL character."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(k))} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
