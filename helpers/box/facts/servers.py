"""Inference servers that run, with the very arguments that they were started with."""

from __future__ import annotations

import itertools

from helpers.box.facts.fact import Fact, Model, unreadable
from helpers.box.facts.fact import shell as _shell

# Per process: id, parent, user id, start time in clock ticks since boot, and the arguments. 0x1f parts arguments and
# 0x1e processes, since arguments may hold spaces and newlines; tr cannot be fooled by either.
COMMAND = _shell(r"""
for d in /proc/[0-9]*; do
  c=$(tr '\000\036\037' '\037  ' 2>/dev/null <"$d/cmdline") || continue
  case $c in *sglang*|*vllm*|*trtllm*|*lmdeploy*|*text-generation-launcher*) ;; *) continue;; esac
  { read -r s <"$d/stat"; } 2>/dev/null || continue
  s=${s##*) }; set -- $s
  printf '%s\t%s\t%s\t%s\t%s\036\n' "${d#/proc/}" "$2" "$(stat -c %u "$d" 2>/dev/null)" "${20}" "$c"
done
exit 0
""")
_MODULES = {
    "sglang.launch_server": "sglang",
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "lmdeploy.serve": "lmdeploy",
}
_PROGRAMS = {
    ("sglang", "serve"): "sglang",
    ("vllm", "serve"): "vllm",
    ("trtllm-serve", ""): "tensorrt-llm",
    ("lmdeploy", "serve"): "lmdeploy",
    ("text-generation-launcher", ""): "tgi",
}
_OPTIONS = {
    "model": ("--model-path", "--model", "--model-id"),
    "draft": ("--speculative-draft-model-path", "--speculative-draft-model", "--draft-model-path"),
    "host": ("--host",),
    "port": ("--port",),
    "tp": ("--tp-size", "--tensor-parallel-size", "--tp"),
}
_PORTS = {"sglang": 30000, "vllm": 8000}


class Server(Model):
    """A running server. started: clock ticks since boot, which with the pid names a process for good."""

    pid: int
    parent: int
    uid: int | None
    started: int
    engine: str
    model: str | None
    draft: str | None
    host: str | None
    port: int | None
    tp: int | None
    argv: tuple[str, ...]


class Servers(Model):
    servers: tuple[Server, ...]


def parse(text: str) -> Servers:
    """From what `COMMAND` printed: the servers themselves, not their workers, nor shells that name them.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    servers = []
    for number, record in enumerate(text.split("\x1e\n")[:-1] if text.endswith("\x1e\n") else _cut(text), 1):
        fields = record.split("\t", 4)
        if len(fields) != 5 or not all(field.isdigit() for field in (fields[0], fields[1], fields[3])):
            raise unreadable("servers", number, record, "pid, parent, uid, start time, arguments")
        argv = tuple(fields[4].removesuffix("\x1f").split("\x1f"))
        engine = _engine(argv)
        if engine is not None:
            servers.append(_server(fields, argv, engine))
    pids = {server.pid for server in servers}
    return Servers(servers=tuple(server for server in servers if server.parent not in pids))


def _cut(text: str) -> list[str]:
    """The records of an answer that broke off, the broken one included."""
    return text.split("\x1e\n") if text else []


def _engine(argv: tuple[str, ...]) -> str | None:
    for flag, module in itertools.pairwise(argv):
        if flag == "-m" and module in _MODULES:
            return _MODULES[module]
    names = [word.rpartition("/")[2] for word in argv[:3]]
    for place, name in enumerate(names[:2]):
        following = names[place + 1] if place + 1 < len(names) else ""
        for (program, verb), engine in _PROGRAMS.items():
            # The program itself, or the interpreter with it as its script.
            if name == program and (not verb or following == verb) and (place == 0 or names[0].startswith("python")):
                return engine
    return None


def _server(fields: list[str], argv: tuple[str, ...], engine: str) -> Server:
    values: dict[str, str] = {}
    for key, names in _OPTIONS.items():
        for word, following in zip(argv, (*argv[1:], ""), strict=True):
            name, equals, value = word.partition("=")
            if name in names:
                values[key] = value if equals else following
    if "model" not in values and (verb := next((i for i, word in enumerate(argv) if word == "serve"), -1)) >= 0:
        following = argv[verb + 1] if verb + 1 < len(argv) else ""
        if following and not following.startswith("-"):
            values["model"] = following
    port = values.get("port", "")
    tp = values.get("tp", "")
    return Server(
        pid=int(fields[0]),
        parent=int(fields[1]),
        uid=int(fields[2]) if fields[2].isdigit() else None,
        started=int(fields[3]),
        engine=engine,
        model=values.get("model"),
        draft=values.get("draft"),
        host=values.get("host"),
        port=int(port) if port.isdigit() else _PORTS.get(engine),
        tp=int(tp) if tp.isdigit() else None,
        argv=argv,
    )


FACT = Fact("servers", COMMAND, parse)
