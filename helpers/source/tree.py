"""SGLang's source as a folder of texts to read: an unpacked wheel, a clone, or what was fetched from a box's checkout.

Names are relative to the folder that holds the package: ``sglang/srt/server_args.py``.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import UsageError
from helpers.source.checkout import Checkout
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box

MODELS = "sglang/srt/models"
_VERSIONS = ("sglang/_version.py", "sglang/version.py")
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
#: What the wiring is read from; the rest of a checkout (kernels, tests, front end) stays on the box.
_READ = ("srt/models", "srt/layers", "srt/model_executor", "srt/speculative", "srt/configs", "srt/arg_groups")
_FILES = ("_version.py", "version.py", "__init__.py", "srt/server_args.py", "srt/utils")


@dataclass(frozen=True)
class SourceTree:
    """A folder that holds the package ``sglang``. ``name`` says whose it is, for messages."""

    root: Path
    name: str
    stated: str | None = None

    @classmethod
    def open(cls, folder: Path) -> SourceTree:
        """The tree at ``folder``, or at its ``python/`` where it is a clone of SGLang's repository.

        Raises:
            UsageError: WB-SOURCE-FOLDER.
        """
        for root in (folder, folder / "python"):
            if (root / "sglang" / "srt").is_dir():
                return cls(root, str(root))
        raise UsageError(
            "WB-SOURCE-FOLDER",
            f"{folder} holds no package sglang",
            expected="the folder that holds sglang/srt (an unpacked wheel, or a clone)",
            next="pip download --no-deps sglang==0.5.9, and unzip it",
        )

    @property
    def version(self) -> str | None:
        """As the package's own files say, else the metadata beside it; None where nothing does."""
        if self.stated is not None:
            return self.stated
        for path in _VERSIONS:
            if (text := self.read(path)) is not None and (version := stated_version(text)) is not None:
                return version
        infos = sorted(self.root.glob("sglang-*.dist-info"))
        return infos[0].name.removeprefix("sglang-").removesuffix(".dist-info") if len(infos) == 1 else None

    def read(self, path: str) -> str | None:
        """A file's text, None where there is none."""
        try:
            return (self.root / path).read_text("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def find_class(self, name: str) -> str | None:
        """The model file that defines the class ``name``."""
        return self._classes.get(name)

    @cached_property
    def _classes(self) -> dict[str, str]:
        """Class -> the first model file that defines it."""
        found: dict[str, str] = {}
        for path in sorted((self.root / MODELS).glob("**/*.py")):
            file = path.relative_to(self.root).as_posix()
            for name in _CLASS.findall(path.read_text("utf-8", "surrogateescape")):
                found.setdefault(name, file)
        return found


@contextlib.contextmanager
def fetched(box: Box, checkout: Checkout, *, also: Sequence[str] = ()) -> Iterator[SourceTree]:
    """The Python files of a box's checkout that the wiring is read from, in a temporary folder here.

    Args:
        also: further files, such as ``sglang/launch_server.py``.
    """
    below = [f"sglang/{name}" for name in (*_READ, *_FILES)]
    below += [path for path in also if not path.startswith(tuple(f"{name}/" for name in below)) and path not in below]
    request = {"root": checkout.root, "below": below}
    answer = call(box, "archaeology", "archive", request, python=checkout.python)
    with tempfile.TemporaryDirectory(prefix="workbook-source-") as folder:
        packed = io.BytesIO(base64.b64decode(answer["archive"]))
        with tarfile.open(fileobj=packed, mode="r:gz") as archive:
            archive.extractall(folder, filter="data")
        yield SourceTree(Path(folder), f"{box.name}:{checkout.root}", checkout.version)


def stated_version(text: str) -> str | None:
    """``__version__`` of a version file.

    >>> stated_version("__version__ = version = '0.5.9'")
    '0.5.9'
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "__version__" in names:
                return str(node.value.value)
    return None
