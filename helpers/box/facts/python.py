"""An interpreter and the packages that it would import, asked of itself without importing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from helpers.box.facts.answer import Absent, Answer, Fact, Question, absent_program, failed, loads, unreadable
from helpers.box.facts.asking import source

FACT = "python"


class Python(Fact):
    """One interpreter.

    Attributes:
        executable, version, prefix: of the interpreter. machine: such as ``x86_64``. byteorder: little or big.
        packages: name -> version, None where it is not installed; by the metadata, which a checkout on PYTHONPATH
            does not change (the checkout that is imported is a fact of its own).
        torch_cuda, torch_hip: the release that torch was built for; None for a CPU build.
        torch_dtypes: names of torch's dtypes. safetensors_dtypes: what safetensors reads into torch (``BF16``,
            ``F8_E4M3``); None where the package is not there.
    """

    executable: str
    version: str
    prefix: str
    machine: str
    byteorder: str
    packages: dict[str, str | None]
    torch_cuda: str | None = None
    torch_hip: str | None = None
    torch_dtypes: tuple[str, ...] | None = None
    safetensors_dtypes: tuple[str, ...] | None = None


def question(
    python: str,
    *,
    name: str = FACT,
    flags: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    cwd: str | None = None,
) -> Question:
    """The question to ``python`` as it would run with these flags, environment and folder."""
    return Question(name, ((python, *flags, "-c", source("interpreter")),), env=env, cwd=cwd, timeout=30.0)


def parse(answer: Answer) -> Python | Absent:
    """Read its answer: the last line, after whatever start-up files print.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE, WB-FACT-FAILED (it is too old, or broken), WB-FACT-TIMEOUT.
    """
    absent = absent_program(FACT, answer)
    if absent is not None:
        return absent
    if answer.exit_status:
        raise failed(FACT, answer, "Python 3.8 or later")
    number = max(len(answer.lines), 1)
    try:
        return Python.model_validate(loads(answer.lines[-1]))
    except (IndexError, ValueError, ValidationError) as error:
        raise unreadable(FACT, answer, number, "one JSON object about the interpreter") from error
