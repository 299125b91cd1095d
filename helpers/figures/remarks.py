"""Sentences and cells of the notebooks that stand beside figures: the taps of a profile, what intervals cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: What a person would write of the lab's staged story, as notes about that.
OF_THE_LAB = {
    "trigger": "somebody changed the drafter's layer ids",
    "limit": "The lab is a small model on a CPU: no speed of a GPU box, and no CUDA graphs, are shown.",
}


def taps(
    name: str, ids: Sequence[int] | None, fed: Sequence[int], trained: Sequence[int], *, patch: str | None = None
) -> str:
    """Which boundaries a profile's ids tap, and which of training's they are not.

    Args:
        ids: as configured; None where the engine's own defaults are tapped.
        fed, trained: boundaries by slot.
        patch: the patch that one of the ids needs.
    """
    what = "no ids, so the engine's defaults" if ids is None else f"the ids {_numbers(ids)}"
    text = f"{name}: {what} tap the boundaries {_numbers(fed)}, slot by slot; training had {_numbers(trained)}."
    if patch is not None and ids is not None and any(i < 0 for i in ids):
        text += f" That a negative id means the embedding (boundary 0) holds only while the patch {patch} is in."
    if len(fed) != len(trained):
        return f"{text} The number of slots differs: {len(fed)} against {len(trained)}."
    wrong = [slot for slot, (one, other) in enumerate(zip(fed, trained, strict=True)) if one != other]
    if not wrong:
        return f"{text} Every slot is what it was in training."
    lost = sorted(set(trained) - set(fed))
    text += f" Slots that differ: {_numbers(wrong)}."
    return f"{text} Boundaries that reach no slot any more: {_numbers(lost)}." if lost else text


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def plain(value: object) -> object:
    """A cell of a table as a person writes it: a list without brackets and quotes, an empty one as ``none``."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return value


def recorded(hypotheses: int, evidence: int) -> str:
    """What a ledger holds, and where to go when that is nothing."""
    if not hypotheses and not evidence:
        return (
            "Nothing is recorded yet: run the notebooks 10 to 60 with this INVESTIGATION, or "
            "`workbook investigate BOX RUN --train DUMP`, then this one again."
        )
    return f"{_count(hypotheses, 'hypothesis', 'hypotheses')}, {_count(evidence, 'piece', 'pieces')} of evidence"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def outcome(rates: Mapping[str, str], *, won: bool | None, equal_text: bool | None) -> str:
    """Whether acceptance came back, with the rates that say so.

    Args:
        rates: by configuration, as text with intervals; the mended one first.
        won: as the threshold decided that was set before; None where it is not decided.
        equal_text: greedy text as without speculation; None where none was compared.
    """
    (name, now), (before, was) = rates.items()
    back = {
        True: "acceptance came back",
        False: "acceptance did not come back as the threshold asked",
        None: "whether acceptance came back is not decided",
    }[won]
    text = {
        True: "greedy text is that without speculation",
        False: "greedy text is NOT that without speculation",
        None: "no text was compared with that without speculation",
    }[equal_text]
    return f"{back}: {name} accepts {now}, {before} {was}; {text}"


def between_starts(seconds: Mapping[str, float]) -> str:
    """What the step times of servers that do the same work say of this session's noise.

    Args:
        seconds: of a verify step, by configuration; same models, draft steps and concurrency, other taps
            (more accepted drafts make the drafter read a little more).
    """
    slowest, fastest = max(seconds.values()), min(seconds.values())
    times = " and ".join(f"{1e3 * value:.1f} ms ({name})" for name, value in seconds.items())
    return (
        f"Other taps are almost the same work, and a verify step took {times}: a factor of {slowest / fastest:.2f} "
        "that is more the machine's than the wiring's. No speed here is known better than that."
    )


def budgets(rows: pd.DataFrame, stages: Sequence[str], column: str) -> str:
    """How many steps each training had, and what they reached at the last step that all of them were measured at.

    Args:
        rows: as `helpers.figures.training` takes them. column: of what they reached.
    """
    parts = [rows[rows["stage"] == stage].dropna(subset=[column]).set_index("step")[column] for stage in stages]
    measured = [(stage, part) for stage, part in zip(stages, parts, strict=True) if len(part)]
    if len(measured) < 2:
        return "There are no two trainings here to hold against each other."
    had = ", ".join(f"{stage} had {part.index.max()} steps" for stage, part in measured)
    ends = ", ".join(f"{part[part.index.max()]:.3f} ({stage})" for stage, part in measured)
    common = set.intersection(*(set(part.index) for _, part in measured))
    text = f"{had}. At its own end each has {column} {ends}."
    if not common:
        return f"{text} There is no step at which all were measured."
    values = ", ".join(f"{part[max(common)]:.3f} ({stage})" for stage, part in measured)
    return f"{text} At step {max(common)}, the last that all were measured at: {values}."
