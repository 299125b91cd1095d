"""Which SGLang a box's interpreter would import: asked of that interpreter, without importing anything of SGLang."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.box_python import interpreter
from helpers.errors import RemoteFailed
from helpers.notebook_text import Worded
from helpers.screen import as_typed

if TYPE_CHECKING:
    from helpers.box import Box

# The version is read from the package's own files (a checkout on PYTHONPATH has no metadata, or another one's), else
# from the metadata that lie beside it. A namespace package (a folder that happens to be called sglang) is none.
# Arguments are put before the search path.
ASK = """
import ast, importlib.metadata, importlib.util, json, os, sys
sys.path = sys.argv[1:] + [path for path in sys.path if path]
answer = {"python": sys.executable, "python_version": sys.version.split()[0], "package": None, "version": None}
spec = importlib.util.find_spec("sglang")
if spec is not None and spec.origin:
    package = os.path.dirname(os.path.realpath(spec.origin))
    answer["package"] = package
    for name in ("_version.py", "version.py"):
        try:
            with open(os.path.join(package, name)) as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if "__version__" in names and answer["version"] is None:
                    answer["version"] = node.value.value
    if answer["version"] is None:
        for found in importlib.metadata.distributions(name="sglang", path=[os.path.dirname(package)]):
            answer["version"] = found.version
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Checkout(Worded):
    """A checkout of SGLang on a box.

    Attributes:
        package: the folder of the package ``sglang``; ``root``: the folder that holds it, to which FILE arguments and
            the paths of patches are relative.
        version: as its own files say, or None where they do not.
        python, python_version: the interpreter that imports it.
    """

    package: str
    version: str | None
    python: str
    python_version: str

    @property
    def root(self) -> str:
        return posixpath.dirname(self.package)

    def __str__(self) -> str:
        return (
            f"sglang {self.version or 'of an unknown version'} in {self.root}, as {self.python} "
            f"(Python {self.python_version}) imports it"
        )


def find_checkout(box: Box, python: str = "python3", env: Mapping[str, str] | None = None) -> Checkout:
    """The checkout that ``python`` on the box imports ``sglang`` from.

    Args:
        python: the interpreter, by name or path; a leading ``~/`` is the box's home.
        env: what a server would be given beside the box's own environment (a PYTHONPATH decides).

    Raises:
        RemoteFailed: WB-SOURCE-NO-PYTHON, WB-SOURCE-NO-SGLANG.
    """
    result = box.run([interpreter(box, python), "-c", ASK], env=env, check=False, idempotent=True)
    if not result.ok:
        raise RemoteFailed(
            "WB-SOURCE-NO-PYTHON",
            f"{python!r} on {box.name} cannot be asked where it imports sglang from",
            expected="a Python interpreter on the box's PATH, or its absolute path",
            next=f"workbook run {box.name} -- {as_typed(python)} --version",
            lines=result.stderr.splitlines()[-5:],
        )
    answer = json.loads(result.stdout)
    if answer["package"] is None:
        raise RemoteFailed(
            "WB-SOURCE-NO-SGLANG",
            f"{answer['python']} on {box.name} finds no package sglang",
            expected="an interpreter that imports SGLang",
            next="name the server's own interpreter (python = ... in the profile, --python on the command line)",
        )
    return Checkout(answer["package"], answer["version"], answer["python"], answer["python_version"])
