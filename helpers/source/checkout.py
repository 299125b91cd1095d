"""Which SGLang a box's interpreter would import: asked of that interpreter, without importing anything of SGLang."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from helpers.box.facts import engine
from helpers.errors import RemoteFailed, UsageError

if TYPE_CHECKING:
    from helpers.box import Box

# The version is read from the package's own files (a checkout on PYTHONPATH has no metadata, or another one's), else
# from the metadata that lie beside it. A namespace package (a folder that happens to be called sglang) is none.
_ASK = """
import ast, importlib.metadata, importlib.util, json, os, sys
sys.path = [path for path in sys.path if path]
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


# Which of some processes are this login's affair: another user's, or one with this very home. A process of the same
# user with another HOME belongs to another box on the same machine (a second lab, say).
_OURS = """
import json, os, sys
ours = []
for pid in sys.argv[1:]:
    try:
        with open("/proc/%s/environ" % pid, "rb") as file:
            homes = [item[5:] for item in file.read().split(b"\\0") if item.startswith(b"HOME=")]
        if os.stat("/proc/" + pid).st_uid != os.getuid() or homes in ([], [os.environb.get(b"HOME", b"")]):
            ours.append(int(pid))
    except OSError:
        pass
print(json.dumps(ours))
"""


@dataclass(frozen=True)
class Checkout:
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


def find_checkout(box: Box, python: str = "python3", env: Mapping[str, str] | None = None) -> Checkout:
    """The checkout that ``python`` on the box imports ``sglang`` from.

    Args:
        python: the interpreter, by name or path.
        env: what a server would be given beside the box's own environment (a PYTHONPATH decides).

    Raises:
        RemoteFailed: WB-SOURCE-NO-PYTHON, WB-SOURCE-NO-SGLANG.
    """
    result = box.run([python, "-c", _ASK], env=env, check=False, idempotent=True)
    if not result.ok:
        raise RemoteFailed(
            "WB-SOURCE-NO-PYTHON",
            f"{python!r} on {box.name} cannot be asked where it imports sglang from",
            expected="a Python interpreter on the box's PATH, or its absolute path",
            next=f"workbook run {box.name} -- {python} --version",
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


def served_checkout(box: Box, python: str | None = None) -> Checkout:
    """The checkout that the box's running server imports, as its own interpreter and environment find it.

    Args:
        python: ask this interpreter instead; with no server running and none given, it is python3.

    Raises:
        UsageError: WB-SOURCE-SEVERAL, where servers import different ones. RemoteFailed: as `find_checkout`.
    """
    if python is not None:
        return find_checkout(box, python)
    served = {
        one.package: Checkout(one.package, one.version, one.executable, one.python or "")
        for one in _engines(box)
        if one.package and one.executable
    }
    if len(served) > 1:
        raise UsageError(
            "WB-SOURCE-SEVERAL",
            f"servers on {box.name} import sglang from different places: " + ", ".join(sorted(served)),
            expected="one checkout, or a word on which is meant",
            next="name the interpreter (--python), or the file by its absolute path with --python python3",
        )
    return next(iter(served.values())) if served else find_checkout(box)


def _engines(box: Box) -> list[engine.Engine]:
    """The servers that run on this box."""
    result = box.run(engine.command(), check=False, idempotent=True)
    found = engine.parse(result.stdout).engines if result.ok else ()
    if not found:
        return []
    answer = box.run(["python3", "-c", _OURS, *(str(one.pid) for one in found)], idempotent=True)
    ours = set(json.loads(answer.stdout))
    return [one for one in found if one.pid in ours]
