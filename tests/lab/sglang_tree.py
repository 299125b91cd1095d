"""A checkout of the installed SGLang with one file edited. All else are links, so that it costs nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def edited(folder: Path, file: str, old: str, new: str) -> Path:
    """Makes ``folder/sglang`` with ``file`` changed.

    Args:
        folder: an empty folder, to be put on PYTHONPATH.
        file: path below the package.
        old: text that must stand in the file once.
        new: what to put in its place.

    Returns:
        ``folder``.
    """
    spec = importlib.util.find_spec("sglang")
    assert spec is not None
    assert spec.origin is not None
    source, target = Path(spec.origin).parent, folder / "sglang"
    for part in Path(file).parts:
        target.mkdir()
        for entry in source.iterdir():
            if entry.name not in (part, "__pycache__"):
                (target / entry.name).symlink_to(entry)
        source, target = source / part, target / part
    text = source.read_text()
    assert text.count(old) == 1, f"{text.count(old)} times {old!r}"
    target.write_text(text.replace(old, new))
    return folder
