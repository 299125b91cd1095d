"""Captures, dumps, diagnoses and replays as evidence."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.ledger.files import sha256_of
from helpers.ledger.results.base import BOOTSTRAP, Summary, jsonable, names_of, reader, saved
from helpers.serving.profile_file import PROFILE_FILE

if TYPE_CHECKING:
    from helpers.tensors.capture import Capture
    from helpers.tensors.dumps import Dump
    from helpers.wiring.boundaries import Rule
    from helpers.wiring.comparison import SlotComparison
    from helpers.wiring.diagnosis import Diagnosis
    from helpers.wiring.ranks import RankView
    from helpers.wiring.replay import Ablation, Replay, Search, Versus

# A training dump may be terabytes: beyond this it is told by the names and sizes of its files.
HASHED_FILES = 64
HASHED_BYTES = 1 << 30
DIAGNOSE = "workbook diagnose --served CAPTURE --train DUMP"
REPLAY = "workbook replay --draft DRAFT --target TARGET --capture CAPTURE"


@reader("helpers.tensors.capture.Capture")
def capture(result: Capture) -> Summary:
    """A capture: who served it, how much of it there is, the hashes of its files."""
    return capture_folder(result.path)


def capture_folder(path: Path) -> Summary:
    """The same from its folder, without torch."""
    about = json.loads((path / "capture.json").read_text())
    rows = sum(request["length"] for request in about["requests"])
    name = about.get("profile")
    launch = {"aux_layer_ids": about.get("aux_layer_ids"), "tp": about["tp_size"], **about.get("launch", {})}
    launch |= {"patches": names_of(about["patches"])} if "patches" in about else {}  # an engine's own hook tells none
    files = [(path / "capture.json", sha256_of(path / "capture.json"))]
    files += [(path / file["name"], file["sha256"]) for file in about["files"]]
    return Summary(
        source="capture",
        title=f"capture of {name or 'a server'}",
        summary=f"{rows} tokens of {len(about['requests'])} requests at TP {about['tp_size']}, ids "
        f"{about.get('aux_layer_ids')}, {about['engine']['name']} {about['engine']['version']}",
        values={
            "capture": path.name,
            "model": about["model"],
            "aux_layer_ids": about.get("aux_layer_ids"),
            "tp_size": about["tp_size"],
            "requests": len(about["requests"]),
            "launch": about.get("launch", {}),
        },
        files=tuple(files),
        run=about["run"],
        profile=name,
        patches=tuple(about.get("patches", ())),
        versions={about["engine"]["name"]: about["engine"]["version"]},
        n=rows,
        unit="tokens",
        places={"CAPTURE": shlex.quote(str(path))},
        command=again(path, about),
        config={f"launch of {name or about['run']}": launch},
    )


def again(path: Path, about: dict[str, Any]) -> str | None:
    """How to capture the same: only where what was served lies beside it."""
    profiles = path / PROFILE_FILE
    if not profiles.is_file() or not about.get("profile"):
        return None
    name, tokens = shlex.quote(about["profile"]), about.get("sampling", {}).get("max_new_tokens", 1)
    if about.get("sampling", {}).get("natural_end"):
        return None  # no option asks for that: `investigate` does it by itself
    # Whose texts they were is in their names: whole samples of a dump, their starts, or prompts of a file.
    kinds = {re.sub(r"\d+$", "", request["id"]) for request in about["requests"]}
    named = {"s": "--replay DUMP", "sample-": "--replay DUMP", "c": "--replay DUMP --starts"}
    sent = named.get("".join(kinds), "--prompts PROMPTS")
    texts = f"{sent} --limit {len(about['requests'])}"
    texts += "" if sent == "--replay DUMP" and tokens == 1 else f" --max-new-tokens {tokens}"
    out = path.parent.with_name(f"{path.parent.name}-again") / path.name
    # `serve` puts no patch in by itself, so that no server is patched unasked; a bench and an investigation do.
    whose = _whose(profiles, about["profile"])
    patches = [shlex.quote(patch) + whose for patch in about.get("patches", ())]
    return " && ".join(
        [
            *(f"workbook patch BOX apply {patch}" for patch in patches),
            f"workbook serve BOX {name} --profiles {shlex.quote(str(profiles))}",
            f"workbook capture BOX {name} {texts} --out {shlex.quote(str(out))}",
            f"workbook stop BOX {name}",
            *(f"workbook patch BOX revert {patch}" for patch in patches),
        ]
    )


def _whose(profiles: Path, name: str) -> str:
    """What names the profile's SGLang to `workbook patch`, where that is not the box's own ``python3``'s."""
    from helpers.errors import UsageError
    from helpers.serving.profile import get_profile
    from helpers.source.whose import options

    try:
        profile = get_profile(name, profiles)
    except UsageError:
        return ""
    said = options(profile.python, profile.env)
    return "" if said == options("python3") else f" {said}"


@reader("helpers.tensors.dumps.sample.Dump")
def dump(result: Dump) -> Summary:
    """A training dump: its files by their hashes; of a large one only their names and sizes."""
    sizes = {str(file): file.stat().st_size for file in result.files}
    small = len(sizes) <= HASHED_FILES and sum(sizes.values()) <= HASHED_BYTES
    return Summary(
        source="dump",
        title=f"training dump {result.path.name}",
        summary=f"{len(result)} samples, format {result.format}, {result.slots} slots of {result.hidden_size}"
        + ("" if small else "; its files were not hashed, only their names and sizes kept"),
        values={
            "format": result.format,
            "samples": len(result),
            "slots": result.slots,
            "hidden_size": result.hidden_size,
            "warnings": list(result.warnings),
        },
        files=tuple((file, None) for file in result.files) if small else (),
        keep=() if small else (saved("dump-files.json", sizes),),
        n=len(result),
        unit="samples",
        places={"DUMP": shlex.quote(str(result.path))},
        command=f"workbook inspect {shlex.quote(str(result.path))}",
    )


@reader("helpers.wiring.diagnosis.Diagnosis")
def diagnosis(result: Diagnosis) -> Summary:
    """The verdict with its findings."""
    values = result.to_json()
    said = [f"{f.code}{f' in slot {f.slot}' if f.slot is not None else ''}" for f in result.findings]
    fix = f"; {result.fix.note}" if result.fix is not None else ""
    left = "".join(f"; not decided: {one.code}, {one.why}" for one in result.undecided)
    kept = ("verdict", "findings", "undecided", "slots", "aligned_tokens", "aligned", "fix", "ranks")
    return Summary(
        source="diagnosis",
        title="diagnosis of the features",
        summary=f"{result.verdict}: {', '.join(said) or 'no finding'}{fix}{left}",
        values={key: values[key] for key in kept},
        keep=(saved("diagnosis.json", values),),
        n=result.aligned_tokens,
        unit="aligned tokens",
        command=DIAGNOSE,
    )


@reader("helpers.wiring.comparison.SlotComparison")
def comparison(result: SlotComparison) -> Summary:
    """The slot matrix and the ladder, as figures."""
    return Summary(
        source="comparison",
        title="slots against the ladder",
        summary=f"{result.served_slots} served and {result.trained_slots} trained slots against "
        f"{len(result.ladder)} boundaries",
        values={
            "ladder": list(result.ladder),
            "served_vs_trained": jsonable(result.served_vs_trained),
            "served": [None if m is None else m.evidence() for m in result.served],
            "trained": [None if m is None else m.evidence() for m in result.trained],
        },
        n=result.tokens,
        unit="aligned tokens",
        command=DIAGNOSE,
    )


@reader("helpers.wiring.ranks.RankView")
def ranks(result: RankView) -> Summary:
    """What the ranks' copies have in common: the object ``ranks`` of a diagnosis."""
    return Summary(
        source="ranks",
        title="what the ranks hold",
        summary=str(result),
        values=result.model_dump(mode="json"),
        command=f"{DIAGNOSE} --json",
    )


@reader("helpers.wiring.replay.result.Replay")
def replay(result: Replay) -> Summary:
    """What acceptance a wiring gives, from the capture."""
    taps = ", ".join(map(str, result.taps))
    entropy = f", step-1 cross-entropy {result.cross_entropy:.4f} nats" if result.cross_entropy is not None else ""
    notes = "".join(f"; {note}" for note in result.notes)
    return Summary(
        source="replay",
        title=f"replay of the taps {taps}",
        summary=f"accept rate {rate(result.accept_rate, result.ci95)}, accept length {result.accept_length:.2f}"
        f"{entropy}{notes}",
        values=result.model_dump(mode="json"),
        seed=0,
        seed_of=BOOTSTRAP,
        n=result.verify_steps,
        unit="verify steps",
        command=replayed(result.taps, result.new_tokens),
    )


def replayed(taps: Sequence[int | str], new_tokens: int | None) -> str:
    """The replay of a wiring; of one with other taps than boundaries, the feed as it was served."""
    asked = [f"--taps {','.join(map(str, taps))}"] if all(isinstance(tap, int) for tap in taps) else []
    asked += [f"--new-tokens {new_tokens}"] if new_tokens is not None else []
    return " ".join([REPLAY, *asked])


@reader("helpers.wiring.replay.result.Versus")
def versus(result: Versus) -> Summary:
    """One wiring beside another, each with its own rate: a difference alone says nothing of how good either is."""
    one, other = (", ".join(map(str, rated.taps)) for rated in (result.replayed, result))
    return Summary(
        source="difference",
        title=f"replay of the taps {one} against {other}",
        summary=str(result),
        values=result.model_dump(mode="json"),
        seed=0,
        seed_of=BOOTSTRAP,
        n=result.requests,
        unit="requests",
        # A replay of taps also says how they stand against what was served, which is what they are compared with.
        command=replayed(result.replayed.taps, result.new_tokens),
    )


@reader("helpers.wiring.replay.ranking.Search")
def search(result: Search) -> Summary:
    """The ranking of wirings."""
    best, second = result.ranking[0], result.ranking[1] if len(result.ranking) > 1 else None
    ahead = f", ahead of {second.taps} by {second.difference:.4f} nats" if second is not None else ""
    values = result.model_dump(mode="json")
    return Summary(
        source="search",
        title="search of all wirings",
        summary=f"{best.taps} fit the drafter best of {result.tried} of {result.candidates} wirings{ahead}",
        values={key: value for key, value in values.items() if key != "scores"},
        keep=(saved("search.json", values),),
        n=result.sample_rows,
        unit="rows",
        command=f"{REPLAY} --search",
    )


@reader("helpers.wiring.replay.ablation.Ablation")
def ablation(result: Ablation) -> Summary:
    """One slot changed."""
    low, high = result.ci95
    return Summary(
        source="difference",
        title=f"slot {result.slot} put to {result.change}",
        summary=f"accept rate {result.accept_rate:.3f}, {result.difference:+.3f} [{low:+.3f}, {high:+.3f}] by it",
        values=result.model_dump(mode="json"),
        seed=0,
        seed_of=BOOTSTRAP,
    )


@reader("helpers.source.convention.Convention", "helpers.wiring.boundaries.SourceConvention")
def rule(result: Rule) -> Summary:
    """How an engine reads layer ids."""
    told = re.fullmatch(r"sglang (\d[\w.]*), (\w+)", result.name)
    asked = f"workbook boundaries --engine sglang=={told[1]} --model {told[2]} --layers LAYERS" if told else None
    return Summary(
        "rule",
        f"how {result.name} reads layer ids",
        f"{result.name}: {result.source}",
        values=named(result),
        command=asked,
    )


def named(result: Any) -> dict[str, Any]:
    """Name and source of a rule."""
    return {"name": result.name, "source": jsonable(result.source)}


def rate(value: float, interval: tuple[float, float] | None) -> str:
    """``0.604 [0.558, 0.650]``."""
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval is not None else "")
