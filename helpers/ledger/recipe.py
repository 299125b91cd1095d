"""Commands to reproduce an investigation: grouped, in an order in which they run, with a variable for each place.

A ledger holds commands with the paths of the machine that they were typed on. A report goes to others, and hides home
folders: so every place becomes a variable that is set once, above the commands.
"""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.ledger.grounds import grounds
from helpers.ledger.reasking import anew, made_in, renewed, with_ablation
from helpers.paths import ROOT

if TYPE_CHECKING:
    from helpers.ledger.records import Evidence
    from helpers.ledger.view import View

FOLDER = "WORKBOOK_INVESTIGATIONS"
#: Variables, and what each is.
MEANINGS = {
    "BOX": "the box: lab, an alias of ~/.ssh/config, or user@host",
    "RUN": "a running server's id, or its profile's name (workbook runs)",
    "CAPTURE": "a capture's folder",
    "DUMP": "the training dump",
    "DRAFT": "the drafter's folder on this machine",
    "TARGET": "the target's folder on this machine",
    "PROMPTS": "the prompts: JSON lines",
    "PROFILES": "the TOML file of server profiles",
    "PROFILE": "a profile's name in it",
    "LAYERS": "the target's num_hidden_layers",
}
_OPTIONS = {
    "--train": "DUMP",
    "--replay": "DUMP",
    "--draft": "DRAFT",
    "--target": "TARGET",
    "--prompts": "PROMPTS",
    "--profiles": "PROFILES",
    "--profile": "PROFILES",
    "--served": "CAPTURE",
    "--capture": "CAPTURE",
}
_ON_A_BOX = {"run", "facts", "grep", "show", "patch", "preflight", "serve", "stop", "logs", "capture", "bench"}
_ON_A_BOX |= {"counters", "pull", "push", "sweep", "investigate", "runs"}
#: Kinds of evidence that are asked of a capture.
ASKED = ("dump", "ranks", "comparison", "diagnosis", "replay", "search")
ASKED_ANEW = "what the captured tensors say: from the new capture, so independent of what this report used"
#: Headlines, each with the kinds of evidence below it, in an order in which the commands run.
_GROUPS = (
    ("the box, and what its source says", ("facts", "source", "patch", "preflight", "statement", "rule")),
    ("acceptance: starts and stops every server itself", ("bench", "measurement", "difference", "sweep")),
    ("what the drafter is fed: a capture of its own beside the one that this report used", ("capture",)),
    ("what the captured tensors say: from the capture that this report used", ASKED),
)


@dataclass
class Places:
    """The variables of one recipe, and what each stands for as far as the ledger knows."""

    folder: Path
    values: dict[str, str | None] = field(default_factory=dict)

    def word(self, words: list[str], at: int) -> str:
        """One word of a command, for a shell."""
        word, before = words[at], words[at - 1] if at else ""
        if word in MEANINGS:
            return self._variable(word, None)
        if Path(word).is_absolute() and Path(word).is_relative_to(self.folder):
            inside = Path(word).relative_to(self.folder).as_posix()
            return _in_quotes(f"{self.folder.name}/{inside}", before=f"${FOLDER}/")
        if before in _OPTIONS or (at == 2 and words[1] == "inspect"):
            return self._variable(_OPTIONS.get(before, "DUMP"), _from_checkout(word))
        if at == 2 and words[1] in _ON_A_BOX:
            return self._variable("BOX", word)
        return shlex.quote(_from_checkout(word))

    def _variable(self, name: str, value: str | None) -> str:
        """The variable for a value: a second value of the same kind gets a second variable."""
        number = 1
        while True:
            label = name if number == 1 else f"{name}_{number}"
            if self.values.get(label) is None:
                self.values[label] = value
            if value is None or self.values[label] == value:
                return f'"${label}"'
            number += 1

    def boxes(self) -> list[str | None]:
        """The boxes that the commands are for."""
        return [value for label, value in self.values.items() if label.partition("_")[0] == "BOX"]

    def lines(self) -> list[str]:
        """What is to be set, a line each."""
        set_here = [
            f"export {FOLDER}=data/investigations  # the folder that holds {self.folder.name}/, this report's own"
        ]
        for label, value in self.values.items():
            known = shlex.quote(value) if value is not None else "..."
            unknown = "" if value is not None else "not recorded, set it: "
            set_here.append(f"{label}={known}  # {unknown}{MEANINGS[label.partition('_')[0]]}")
        return set_here


def recipe(ledger: View) -> list[str]:
    """All commands, ready to be pasted into a shell in the workbook's checkout, once the variables are set."""
    everything = ledger.state.evidence()
    places = Places(made_in(everything, ledger.folder))
    kept = [_asked(e) for e in (with_ablation(e, everything) for e in everything) if e.command and e.source != "run"]
    grouped = {kind for _, kinds in _GROUPS for kind in kinds}
    rest = tuple(dict.fromkeys(e.source for e in kept if e.source not in grouped))
    body: list[str] = []
    new = anew(kept, places.folder)
    for head, kinds in (*_GROUPS, ("else", rest)):
        used = [e for e in kept if e.source in kinds]
        again = [renewed(e, new) for e in used] if kinds == ASKED else []
        blocks = dict.fromkeys(tuple(_lines(e, places)) for e in again if e is not None)
        body += ["", f"# {ASKED_ANEW}", *(line for block in blocks for line in block)] if blocks else []
        blocks = dict.fromkeys(tuple(_lines(e, places)) for e in used)
        body += ["", f"# {head}", *(line for block in blocks for line in block)] if blocks else []
    bare = [e for e in everything if e.source != "run" and not with_ablation(e, everything).command]
    if bare:
        body += ["", "# no command of their own; what they are, and what they follow from:"]
        alike: dict[str, list[str]] = {}
        for e in bare:
            alike.setdefault(grounds(ledger, e), []).append(e.id)
        body += [f"#   {', '.join(ids)}: {words}" for words, ids in alike.items()]
    name = shlex.quote(ledger.name)
    body += ["", "# the ledger itself, every line and every file; and this report", f"workbook ledger verify {name}"]
    body.append(f"workbook report {name}")
    start = 'export PATH="$PWD/.venv/bin:$PATH"  # in the checkout of the workbook'
    lab = ["", "# the lab; nothing happens where it is up", "workbook lab up"] if "lab" in places.boxes() else []
    return [start, *places.lines(), *lab, *body]


def _asked(e: Evidence) -> Evidence:
    """A difference of two replays stands with the replays, not with those of two servers."""
    replayed = e.source == "difference" and (e.command or "").startswith("workbook replay ")
    return e.model_copy(update={"source": "replay"}) if replayed else e


def _lines(e: Evidence, places: Places) -> list[str]:
    """One command, or several that follow each other. What was read while a patch was in is read so again."""
    said: list[str] = []
    words = shlex.split(e.command or "")
    for _, group in itertools.groupby(words, key=lambda word: word == "&&"):
        line = list(group)
        if line != ["&&"]:
            said.append(" ".join(places.word(line, at) for at in range(len(line))))
    for name in [patch.partition("@")[0] for patch in e.patches] if e.source == "source" else []:
        patch = 'workbook patch "$BOX"'
        said = [f"{patch} apply {shlex.quote(name)}  # what follows was read with it in", *said]
        said.append(f"{patch} revert {shlex.quote(name)}")
    return said


def _from_checkout(word: str) -> str:
    """A path into the checkout as it is there; the commands run in it."""
    if Path(word).is_absolute() and Path(word).is_relative_to(ROOT):
        return Path(word).relative_to(ROOT).as_posix()
    return word


def _in_quotes(text: str, *, before: str) -> str:
    """Text behind a variable, both in double quotes."""
    escaped = "".join(f"\\{c}" if c in '\\"$`' else c for c in text)
    return f'"{before}{escaped}"'
