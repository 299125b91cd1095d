"""Why a server died, read from the lines of its log. Pure, tested by the cases in tests/cases/crash/.

A cause is taken from the lines that end a traceback or that a program prints as its last words, the earliest first:
one rank's lack of memory comes before the other ranks' lost connections. Other words of a log prove nothing (SGLang
itself logs import errors that it can live with), so a line counts only from its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LAST = 600  # how many lines back a cause may stand
SHOWN_BEFORE, SHOWN_AFTER, SHOWN_REASON, SHOWN_OTHERS = 5, 3, 6, 15

# What may stand before a message: "[2026-01-31 10:00:00 TP0]", "[rank0]:", "(SGLangEngine pid=3111)", "sglang-1  |".
_PREFIX = re.compile(r"^\s*(?:(?:\[[^\]]*\]:?|\(\w[^)]*\)|[\w.-]+ +\|)\s*)*")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception)(?::|$)")


@dataclass(frozen=True)
class Crash:
    """A recognised or unrecognised end of a server.

    Attributes:
        code: the workbook's code, ``WB-SERVE-DIED`` where no cause was recognised.
        summary: the cause in words.
        line: the line of the log that says so, empty where none does.
        lines: that line with its surroundings, or the last lines of the log.
        next: what to do about it; BOX, RUN and WHOSE (the options that mean its interpreter) are to be filled in.
    """

    code: str
    summary: str
    line: str
    lines: tuple[str, ...]
    next: str

    def hint(self, box: str, run: str, whose: str) -> str:
        """``next`` with these in it; ``whose`` last, as it holds a path that is nobody's placeholder."""
        return self.next.replace("BOX", box).replace("RUN", run).replace("WHOSE", whose)


@dataclass(frozen=True)
class _Cause:
    code: str
    summary: str
    next: str
    pattern: re.Pattern[str]
    near: str | None  # must stand in one of the lines just before


def _cause(code: str, summary: str, next: str, *alternatives: str, near: str | None = None) -> _Cause:
    return _Cause(code, summary, next, re.compile("|".join(f"(?:{each})" for each in alternatives)), near)


_MEMORY = _cause(
    "WB-SERVE-OUT-OF-MEMORY",
    "out of memory",
    "workbook facts BOX shows who holds memory; else more GPUs (tp), a shorter context_length, or another "
    "--mem-fraction-static (higher where the pool is too small, lower where a forward has too little)",
    r"(?:torch\.)?(?:cuda\.)?OutOfMemoryError",
    r"\w*(?:Error|Exception): .*(?:CUDA out of memory|CUDA error: out of memory|[Nn]ot enough memory"
    r"|Failed to CUDA calloc|can't allocate memory|Cannot allocate memory)",
    r"Failed to CUDA calloc",
    r"MemoryError",
    r"Not enough memory\. Please try to increase --mem-fraction-static",
)

# What kernels are built by.
_TOOLS = r"(?:ninja|nvcc|ptxas|gcc|g\+\+|cc|c\+\+|clang|clang\+\+)"

# The first cause that fits a line wins, so the special ones stand before the general ones.
_CAUSES = (
    _cause(
        "WB-SERVE-EMBEDDING-TAP",
        "the layer id -1 asks for the embedding, which this engine cannot capture unpatched",
        "workbook patch BOX apply capture-embedding WHOSE, then start again",
        r"TypeError: unsupported operand type\(s\) for \+: 'Tensor' and 'NoneType'",
        near="aux_hidden_states.append(hidden_states + residual)",
    ),
    _MEMORY,
    _cause(
        "WB-SERVE-PORT-TAKEN",
        "a port is taken",
        "give the profile another port, or none (a free one is chosen); workbook runs BOX shows who has which",
        r".*(?:\[Errno 98\]|EADDRINUSE|[Aa]ddress already in use)",
        r"\w*Error: .*[Pp]ort (?:at )?\d+ is (?:not available|in use|already in use|occupied)",
    ),
    _cause(
        "WB-SERVE-CUDA-VERSION",
        "CUDA, the driver and the installed packages do not fit together",
        "workbook facts BOX shows driver and torch; install the build of torch and sgl-kernel for that driver and GPU",
        r".*NVIDIA driver on your system is too old",
        r".*CUDA driver version is insufficient",
        r".*no kernel image is available",
        r".*forward compatibility was attempted",
        r".*(?:Found no NVIDIA driver|system has unsupported display driver / cuda driver combination)",
        r".*provided PTX was compiled with an unsupported toolchain",
        r"AssertionError: Torch not compiled with CUDA enabled",
    ),
    _cause(
        "WB-SERVE-IMPORT",
        "an import failed",
        "workbook facts BOX shows the interpreter and its packages; install what is missing into that interpreter",
        r"(?:ModuleNotFoundError|ImportError)\b",
        r"\S*python\S*: No module named",
        r"\S*python\S*: Error while finding module specification",
        r"OSError: .*cannot open shared object file",
        r"\w*Error: .*undefined symbol",
    ),
    _cause(
        "WB-SERVE-KERNEL-BUILD",
        "a GPU kernel could not be built: ninja, nvcc or a compiler is missing or failed",
        "in the profile: python by its whole path (what lies beside it is then on PATH), env = { CUDA_HOME = ... }, "
        "env_prepend = { PATH = ... }; docs/profiles.md says why",
        rf"FileNotFoundError: .*: '(?:\S*/)?{_TOOLS}'$",
        rf"\S*CalledProcessError: Command ['\"\[]+(?:[^' ]*/)?{_TOOLS}\b",
        r"\S*(?:Error|Exception): (?:.* )?(?:CUDA_HOME|[Nn]inja (?:is required|build failed)|ninja: error)\b",
        r"\S*(?:Error|Exception): .*(?:[Cc]ould not|[Cc]annot|[Ff]ailed to) find (?:nvcc|ptxas|C compiler|ninja)\b",
        r"(?:/bin/)?sh: (?:\d+: |line \d+: )?(?:\S*/)?(?:nvcc|ninja|g\+\+|c\+\+): .*not found",
    ),
    _cause(
        "WB-SERVE-NCCL",
        "the GPUs could not talk to each other (NCCL)",
        "start again with env NCCL_DEBUG=INFO; look for too little /dev/shm, a wrong NCCL_SOCKET_IFNAME, P2P trouble",
        r"\S*(?:Error|Exception): .*NCCL error",
        r"nccl\w+Error:",
        r"(?:torch\.distributed\.)?DistBackendError",
        r".*ProcessGroupNCCL.*(?:[Ww]atchdog|timeout)",
    ),
    _cause(
        "WB-SERVE-MISSING-FILE",
        "a file is missing",
        "workbook run BOX -- ls -lL MODEL: complete the model's folder, or mend the path in the profile",
        r"FileNotFoundError\b",
        r"\w*Error: .*(?:No such file or directory|Cannot find any model weights|does not appear to have a file named"
        r"|[Nn]o safetensors|Incorrect path_or_model_id|is not a local folder and is not a valid model identifier)",
        r"\S*HFValidationError\b",
        r"ValueError: Either model_file or model_proto must be specified",  # transformers, without a tokenizer's files
        r"\S*(?:RepositoryNotFoundError|LocalEntryNotFoundError|OfflineModeIsEnabled)\b",
    ),
    _cause(
        "WB-SERVE-BROKEN-FILE",
        "a file of the model is cut short or damaged",
        "workbook run BOX -- ls -lL MODEL: compare sizes with where the model came from, and fetch that file again",
        r"\S*SafetensorError: .*(?:header|deserializ|[Ii]ncomplete)",
        r"\w*Error: .*(?:PytorchStreamReader failed|[Ii]nvalid header or archive is corrupted|unexpected EOF)",
        r"\S*UnpicklingError\b",
        r"EOFError: Ran out of input",
    ),
    _cause(
        "WB-SERVE-SHAPE-MISMATCH",
        "shapes do not fit: the weights are not those that the configuration describes",
        "compare config.json with the checkpoint: hidden size, heads, vocabulary, and the drafter's fc (K x hidden)",
        r"\w*Error: .*(?:size mismatch|[Ss]hape mismatch|shapes cannot be multiplied|must match the size of tensor"
        r"|must match the existing size|Attempted to load weight|is invalid for input of size"
        r"|exceeds dimension size|inconsistent tensor size|expected size)",
        r"AssertionError: .*\.shape\b",
        r"AssertionError: \d+ is not divisible by \d+",
    ),
    _cause(
        "WB-SERVE-BAD-ARGUMENT",
        "the server does not take its arguments",
        "mend extra_args in the profile; workbook run BOX -- python3 -m sglang.launch_server --help lists them",
        r"\S*launch_server\S*: error:",
    ),
)


def recognise(lines: Sequence[str]) -> Crash:
    """The cause of death in the lines of a log.

    Lines are without their line ends. Where no cause is recognised the summary is the last exception, if there is one,
    and ``lines`` are the last lines of the log.
    """
    lines = lines[-LAST:]
    said = _said(lines)
    for at, text in enumerate(said):
        before = lines[max(0, at - SHOWN_BEFORE) : at]
        for cause in _CAUSES:
            if cause.pattern.match(text) and (cause.near is None or any(cause.near in line for line in before)):
                if cause.code == "WB-SERVE-NCCL":  # NCCL tells its own reason a few lines further down
                    memory = [line for line in said[at : at + SHOWN_REASON] if _MEMORY.pattern.match(line)]
                    cause, text = (_MEMORY, memory[0]) if memory else (cause, text)
                shown = (*before, *lines[at : at + 1 + SHOWN_AFTER])
                return Crash(cause.code, cause.summary, text, shown, cause.next)
    last = tuple(line.rstrip() for line in lines if line.strip())[-SHOWN_OTHERS:]
    exceptions = [text for text in said if _EXCEPTION.match(text)]
    if exceptions:
        return Crash("WB-SERVE-DIED", exceptions[-1], exceptions[-1], last, "workbook logs BOX RUN shows the whole log")
    return Crash(
        "WB-SERVE-DIED",
        "the log names no cause, so it was ended from outside",
        "",
        last,
        "ask who else works on BOX, and whether the kernel ran out of memory: workbook run BOX -- dmesg",
    )


def _said(lines: Sequence[str]) -> list[str]:
    """The lines without what loggers put in front; a bare AssertionError with the assertion that failed."""
    said: list[str] = []
    assertion = ""
    for line in lines:
        text = _PREFIX.sub("", line).rstrip()
        if text.startswith("assert "):
            assertion = text
        said.append(f"AssertionError: {assertion}" if text == "AssertionError" and assertion else text)
    return said
