"""The SGLang that each running server really imports: asked of its own interpreter, folder and environment."""

from __future__ import annotations

import json

from pydantic import ValidationError

from helpers.box.facts.fact import Fact, Model, unreadable

# Nothing of SGLang is imported: only where it would come from is asked, as the server's process would find it. The
# version is read from the package's own files, else from metadata that lie beside it.
_INNER = """
import ast, importlib.metadata, importlib.util, json, os, sys
sys.path = [path if path else os.getcwd() for path in sys.path]
answer = {"executable": sys.executable, "python": sys.version.split()[0], "package": None, "version": None}
spec = importlib.util.find_spec("sglang")
if spec is not None and spec.origin:
    answer["package"] = package = os.path.dirname(os.path.realpath(spec.origin))
    for name in ("_version.py", "version.py"):
        try:
            with open(os.path.join(package, name)) as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                if any(getattr(target, "id", "") == "__version__" for target in node.targets):
                    answer["version"] = answer["version"] or node.value.value
    for found in importlib.metadata.distributions(name="sglang", path=[os.path.dirname(package)]):
        answer["version"] = answer["version"] or found.version
print(json.dumps(answer))
"""
_SCRIPT = f"""
import glob, json, os, subprocess
inner = {_INNER!r}
engines = []
for folder in glob.glob("/proc/[0-9]*"):
    try:
        with open(folder + "/cmdline", "rb") as file:
            argv = file.read().split(b"\\0")[:-1]
        server = b"sglang.launch_server" in argv or argv[1:3] == [b"sglang", b"serve"]
        if not server and not any(a.endswith(b"/sglang") and b == b"serve" for a, b in zip(argv, argv[1:])):
            continue
        with open(folder + "/environ", "rb") as file:
            env = dict(item.split(b"=", 1) for item in file.read().split(b"\\0") if b"=" in item)
        engine = {{"pid": int(folder[6:]), "cwd": os.readlink(folder + "/cwd"), "problem": None, "executable": None,
                  "python": None, "package": None, "version": None}}
        # The interpreter by the name that it was started by: the venv is found from that, not from the real file.
        exe = os.path.join(os.fsencode(engine["cwd"]), argv[0]) if b"/" in argv[0] else os.readlink(folder + "/exe")
        if argv[0].rpartition(b"/")[2][:6] != b"python":
            exe = os.readlink(folder + "/exe")
    except OSError:
        continue  # another user's, or it has just ended
    try:
        out = subprocess.run([exe, "-c", inner], cwd=engine["cwd"], env=env, capture_output=True, timeout=60)
        engine.update(json.loads(out.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        engine["problem"] = repr(error)[:300]
    engines.append(engine)
print("WB" + json.dumps({{"engines": sorted(engines, key=lambda engine: engine["pid"])}}))
"""


class Engine(Model):
    """One server's SGLang. package: the folder imported, in its checkout; version as its own files say."""

    pid: int
    cwd: str
    executable: str | None
    python: str | None
    package: str | None
    version: str | None
    problem: str | None


class Engines(Model):
    engines: tuple[Engine, ...]


def command(python: str = "python3") -> tuple[str, ...]:
    """The question; ``python`` is any interpreter of 3.8 or later, which asks each server's own."""
    return (python, "-c", _SCRIPT)


def parse(text: str) -> Engines:
    """From what `command` printed.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    lines = text.splitlines()
    line = lines[-1] if lines else ""
    if not line.startswith("WB{"):
        raise unreadable("engine", len(lines), line[:200], "a line that starts with WB{")
    try:
        return Engines.model_validate(json.loads(line[2:]))
    except (ValueError, ValidationError) as error:
        raise unreadable("engine", len(lines), line[:200], "one JSON object about the servers") from error


FACT = Fact("engine", command(), parse)
