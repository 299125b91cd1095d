"""One run of the chain, step by step; each step leaves its evidence before the next one starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.defaults import SAMPLES
from helpers.figures.wiring import feature_norms, ladder, slot_matrix
from helpers.investigate.fixes import capture_answers, not_replayed, replay_fix
from helpers.investigate.suspects import state_suspects, weigh
from helpers.investigate.texts import choose, continued, different
from helpers.ledger import Ledger, open_ledger, story
from helpers.ledger.report import ReportPaths
from helpers.paths import investigations_dir

if TYPE_CHECKING:
    from helpers.acceptance import Prompt
    from helpers.box import Box
    from helpers.serving.profile import Profile
    from helpers.serving.run import Run
    from helpers.tensors.capture import Capture
    from helpers.tensors.dumps import Dump
    from helpers.wiring.diagnosis import Diagnosis

NEW_TOKENS = 40
"""Per text: enough for some ten rounds of three drafts each, which the replay of fixes needs."""


@dataclass(frozen=True)
class Investigation:
    """What came of it. ``started``: the server was started for it, and stopped again."""

    ledger: Ledger
    diagnosis: Diagnosis
    capture: Path
    report: ReportPaths
    run: str
    started: bool
    summary: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 where the features match, else 1."""
        return self.diagnosis.exit_code


def investigate(
    box: Box,
    run: str,
    *,
    train: Path,
    draft: Path | None = None,
    target: Path | None = None,
    name: str | None = None,
    profiles: Path | None = None,
    format: str | None = None,
    samples: int = SAMPLES,
    max_new_tokens: int = NEW_TOKENS,
    progress: bool = True,
) -> Investigation:
    """Find out what a server's drafter is fed, and what would mend it, without anybody watching.

    Args:
        run: a living run with the capture hook, or a profile's name: then it is started with the hook, and stopped.
        train: the drafter's training dump. draft, target: folders here; with both, the fix is replayed.
        name: of the investigation; ``investigate-<profile>`` by default. profiles: the TOML file of profiles.
        samples: how many of the dump's samples are sent, at most.

    Raises:
        What the steps raise; what was found before stays in the ledger.
    """
    from helpers.commands.wiring import slots_of
    from helpers.serving.capture import capture, check_run
    from helpers.serving.model import check_prompts
    from helpers.serving.overview import overview
    from helpers.serving.room import Bounds, check_room
    from helpers.tensors.capture import read_capture
    from helpers.tensors.dumps import read_dump
    from helpers.wiring.boundaries import convention_of
    from helpers.wiring.diagnosis import diagnose
    from helpers.wiring.drafter.config import read_json

    found = _living(box, run)
    if found is not None:
        check_run(found)
    profile = found.profile if found else _profile(run, profiles)
    dump = read_dump(train, format=format, slots=len(profile.aux_layer_ids) if profile.aux_layer_ids else None)
    # What can be refused is refused before the ledger has a line.
    texts = choose(dump, profile, samples, max_new_tokens)
    whole = [text.whole for text in texts]
    check_prompts(box, profile, whole)
    check_room(box, profile, whole, investigations_dir(), Bounds(max_new_tokens))
    for folder in (draft, target):
        if folder is not None:
            read_json(folder)
    ledger = open_ledger(name or f"investigate-{profile.name}", title=f"What is the drafter of {profile.name} fed?")
    hypotheses = state_suspects(ledger)
    ledger.evidence(overview(box, progress=progress), title=f"facts of {box.name}")
    _preflight(ledger, box, profile, profiles, draft, target)
    places = _places(box, profiles, train, draft, target)
    again = f"workbook investigate BOX {profile.name} --train DUMP{_models(draft, target)} --profiles PROFILES "
    again += f"--samples {samples} --max-new-tokens {max_new_tokens} --name again"
    with _server(box, found, profile, progress) as server:
        ledger.evidence(server, title=f"run of {profile.name}")
        out = ledger.folder / "captures" / f"{server.id}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        taken = capture(box, server, whole, max_new_tokens=max_new_tokens, out=out, progress=progress)
        captured = read_capture(taken, verify=True)
        dump = read_dump(train, format=format, slots=slots_of(captured, draft))
        # While the server is up: which boundaries the replay of the fix needs is known from here on.
        diagnosis = diagnose(captured, dump, convention=convention_of(captured.info), draft=draft, target=target)
        ledger.evidence(
            captured,
            title=f"capture of {profile.name}",
            on=list(hypotheses.values()),
            of=server,
            command=again,
            places=places,
        )
        told = ledger.evidence(
            diagnosis,
            title="diagnosis",
            on=hypotheses["ids"],
            supports=_bearing(diagnosis),
            of=[captured, dump],
            command=f"workbook diagnose --served CAPTURE --train DUMP{_models(draft, target)}",
            places=places,
        )

        def go_on(asked: Sequence[Prompt], boundaries: Sequence[int]) -> Path:
            return capture(
                box,
                server,
                asked,
                boundaries=boundaries,
                max_new_tokens=max_new_tokens,
                natural_end=True,
                out=out.with_name(f"{out.name}-answers"),
                progress=progress,
            )

        answers, apart = None, different(texts)
        if draft is not None and target is not None:
            answers = capture_answers(ledger, go_on, apart, captured, diagnosis)
    draw(ledger, captured, dump)
    if draft is None or target is None:
        ledger.note(not_replayed("the drafter's and the target's folders were not given"), about="limit")
    elif answers is not None:
        said = continued(apart, answers, max_new_tokens)
        ledger.evidence(
            answers, title=f"capture of answers of {profile.name}", of=server, command=again, places=places, note=said
        )
        replay_fix(ledger, answers, said, diagnosis, draft, target, progress=progress)
    of, conclusion = [captured, told], story.cause(diagnosis.to_json())
    if answers is not None and diagnosis.verdict == "match":
        # What matches is a capture of prompts alone, all from prefill passes; answers are of decode and verify passes.
        second = diagnose(answers, dump, convention=convention_of(answers.info), draft=draft, target=target)
        of.append(
            ledger.evidence(
                second,
                title="diagnosis of answers",
                on=hypotheses["ids"],
                supports=_bearing(second),
                of=[answers, dump],
                command=f"workbook diagnose --served CAPTURE --train DUMP{_models(draft, target)}",
                places=places,
            )
        )
        conclusion = story.both(diagnosis.to_json(), second.to_json())
        diagnosis = second if second.verdict == "mismatch" else diagnosis
    weigh(ledger, diagnosis, of=of)
    ledger.note(conclusion, about="conclusion")
    bench = f"workbook bench BOX {profile.name} --pairs 1 --prompts FILE"
    ledger.note(f"Acceptance under load was not measured here; `{bench}` does that.", about="limit")
    summary = tuple(_summary(ledger))
    return Investigation(ledger, diagnosis, taken, ledger.report(homes=(box.home,)), server.id, found is None, summary)


def draw(ledger: Ledger, captured: Capture, dump: Dump) -> None:
    """Norms, slot matrix and ladder as evidence, where capture and dump share tokens."""
    from helpers.wiring.features import align_features, compare_aligned
    from helpers.wiring.tables import ladder_rows, norm_rows, slot_matrix_rows

    compared = compare_aligned(align_features(captured, dump), dump)
    if compared is None or not compared.served_slots:
        return
    n, caption = compared.tokens, f"run {captured.info.run}, {compared.tokens} tokens"
    figures = [
        ("slot matrix", slot_matrix(slot_matrix_rows(compared), caption=caption)),
        ("feature norms", feature_norms(norm_rows(compared), caption=caption)),
    ]
    if compared.ladder:
        figures.insert(1, ("ladder", ladder(ladder_rows(compared), caption=caption)))
    for title, figure in figures:
        ledger.evidence(figure, on="ids", title=title, of=[captured, dump], n=n, unit="aligned tokens")


def _living(box: Box, name: str) -> Run | None:
    """The run of this name whose server lives; None where there is none (then it may be a profile's name)."""
    from helpers.serving import find_runs, get_run

    alive = [r for r in find_runs(box, alive=True) if name in (r.id, r.profile.name) or r.id.startswith(name)]
    return get_run(box, name) if alive else None


def _profile(name: str, profiles: Path | None) -> Profile:
    """The profile with its capture hook: what it is served with is what is looked at."""
    from helpers.serving import get_profile

    profile = get_profile(name, profiles)
    return profile if profile.capture else profile.model_copy(update={"capture": True})


@contextmanager
def _server(box: Box, found: Run | None, profile: Profile, progress: bool) -> Iterator[Run]:
    from helpers.serving import serving

    if found is not None:
        yield found
        return
    with serving(box, profile, progress=progress) as served:
        yield served.run


def _preflight(
    ledger: Ledger, box: Box, profile: Profile, profiles: Path | None, draft: Path | None, target: Path | None
) -> None:
    from helpers.serving.preflight import examine, gathered_there

    with gathered_there(profile, box, target=target, draft=draft) as facts:
        known = _places(box, profiles)
        ledger.evidence(examine(facts), title=f"preflight of {profile.name}", of=profile, places=known)


def _places(
    box: Box, profiles: Path | None, train: Path | None = None, draft: Path | None = None, target: Path | None = None
) -> dict[str, object]:
    """What the words of the commands stand for."""
    from helpers.serving.profile import LAB_PROFILES

    known = {"BOX": box.name, "PROFILES": profiles or LAB_PROFILES, "DUMP": train, "DRAFT": draft, "TARGET": target}
    return {word: place for word, place in known.items() if place is not None}


def _models(draft: Path | None, target: Path | None) -> str:
    """The options that name the checkpoints here."""
    return (" --draft DRAFT" if draft else "") + (" --target TARGET" if target else "")


def _bearing(diagnosis: Diagnosis) -> bool | None:
    """What a diagnosis as a whole says of the ids."""
    from helpers.investigate.suspects import SUSPECTS

    if any(code in SUSPECTS[0].codes for code in diagnosis.codes()):
        return True
    return False if diagnosis.verdict == "match" else None


def _summary(ledger: Ledger) -> list[str]:
    from helpers.ledger.chapters import summary

    return summary(ledger)
