"""Questions to a box, all in one round trip: a small Python program runs them side by side and answers in JSON lines.

A box without Python answers too, a command at a time; the parsers see no difference.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from helpers.box.facts.answer import Answer, Question, lines_of
from helpers.errors import RemoteFailed
from helpers.paths import REMOTE
from helpers.progress import Progress

if TYPE_CHECKING:
    from helpers.box.box import Box

# Without site-packages and PYTHONPATH: what an environment installs into every Python does not slow or break it. The
# commands that it runs get the session's own environment.
BARE = ("-E", "-s", "-S")
QUIET = 2.0  # seconds without a word on progress
SLACK = 10.0


def source(name: str) -> str:
    """The text of a module of ``remote/`` that is sent with a call."""
    return (REMOTE / f"{name}.py").read_text()


def ask(
    box: Box, questions: Sequence[Question], *, pythons: Sequence[str] = ("python3",), progress: bool = True
) -> dict[str, Answer]:
    """Every question's answer, by its name.

    Args:
        pythons: interpreters to run them with, the first that there is; with none, each takes a trip of its own.
        progress: after two seconds say on stderr what is still awaited.

    Raises:
        BoxUnreachable, RemoteFailed: the box cannot be asked at all. What one question comes to is in its answer.
    """
    with _awaited(box, questions, progress) as answers:
        for python in dict.fromkeys(pythons):
            if box.session.retry(partial(_together, box, questions, python, answers)):
                return answers
        with ThreadPoolExecutor(4) as pool:
            for question, answer in zip(questions, pool.map(lambda each: _alone(box, each), questions), strict=True):
                answers[question.name] = answer
        return answers


def _together(box: Box, questions: Sequence[Question], python: str, answers: dict[str, Answer]) -> bool:
    """Fill ``answers``; False where ``python`` cannot run the program that asks."""
    answers.clear()
    request = [
        {
            "name": question.name,
            "commands": question.commands,
            "env": question.env,
            "cwd": question.cwd,
            "timeout": question.timeout,
        }
        for question in questions
    ]
    longest = max((question.timeout for question in questions), default=0)
    execution = box.execute(
        [python, *BARE, "-c", source("asking")],
        stdin=json.dumps(request),
        deadline=longest + SLACK + box.session.shell_seconds,
    )
    rest = b""
    try:
        for name, block in execution.events():
            if name == "out":
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    _understand(line, answers)
    except RemoteFailed as error:
        if error.code != "WB-RUN-DEADLINE":
            raise
    if not answers and questions:
        return False
    for question in questions:  # what never came hangs, in a way that even its end could not be reported
        answers.setdefault(question.name, Answer(question.commands[0], (), (), -1, longest, timed_out=True))
    return True


def _understand(line: bytes, answers: dict[str, Answer]) -> None:
    try:
        said: dict[str, Any] = json.loads(line)
        answers[said["name"]] = Answer(
            tuple(said["argv"]),
            lines_of(said["stdout"]),
            lines_of(said["stderr"]),
            said["exit_status"],
            said["seconds"],
            said["timed_out"],
        )
    except (ValueError, KeyError, TypeError):
        return  # a wrapper around the interpreter prints into its output; the answers are the JSON lines


def _alone(box: Box, question: Question) -> Answer:
    """The same by a command of its own for each alternative."""
    answers: list[Answer] = []
    for argv in question.commands:
        changes = {name: value for name, value in (question.env or {}).items() if value is not None}
        try:
            result = box.run(
                argv,
                cwd=question.cwd,
                env={"LC_ALL": "C", **changes},
                deadline=question.timeout + box.session.shell_seconds,
                check=False,
                idempotent=True,
            )
        except RemoteFailed as error:
            if error.code != "WB-RUN-DEADLINE":
                raise
            return Answer(tuple(argv), (), (), -1, question.timeout, timed_out=True)
        answer = Answer(
            tuple(argv),
            lines_of(result.stdout),
            lines_of(result.stderr),
            result.exit_status,
            round(result.seconds, 3),
        )
        if answer.exit_status == 0:
            return answer
        answers.append(answer)
    return next((answer for answer in answers if answer.exit_status != 127), answers[0])


@contextmanager
def _awaited(box: Box, questions: Sequence[Question], enabled: bool) -> Iterator[dict[str, Answer]]:
    """The answers so far; a task with progress once it has taken two seconds."""
    answers: dict[str, Answer] = {}
    bar = Progress(f"facts of {box.name}", enabled=enabled)
    over = threading.Event()

    def tell() -> None:
        wait = QUIET
        while not over.wait(wait):
            left = [question.name for question in questions if question.name not in answers]
            bar.update("waiting for " + ", ".join(left) if left else "reading")
            wait = 0.5

    teller = threading.Thread(target=tell, name="facts-progress", daemon=True)
    teller.start()
    try:
        yield answers
    finally:
        over.set()
        teller.join()
        if bar.seconds() > QUIET:
            bar.done(f"{len(answers)} of {len(questions)} answered")
