"""Captures: arm the hook of a running server, send it prompts, have the box put the tensors together, fetch them."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx

from helpers.errors import RemoteFailed, UsageError, WorkbookError
from helpers.owner import whoami
from helpers.progress import Progress
from helpers.progress import progress as show_progress
from helpers.screen import as_typed
from helpers.serving.again import serve_again, with_hook
from helpers.serving.arming import armed, discard
from helpers.serving.asking import Prompt, ask_all, get
from helpers.serving.model import check_tokens, model_facts
from helpers.serving.preflight.arguments import settings_of
from helpers.serving.profile_file import PROFILE_FILE, save_profiles
from helpers.serving.registry import get_run
from helpers.serving.room import Boundaries, Bounds, check_out, check_room, no_place
from helpers.uploads import upload

if TYPE_CHECKING:
    from helpers.box import Box
    from helpers.serving.run import Run


def capture(
    box: Box,
    run: Run,
    prompts: Sequence[Prompt],
    *,
    boundaries: Boundaries = "all",
    max_new_tokens: int = 32,
    out: Path,
    terms: bool = False,
    concurrency: int = 1,
    natural_end: bool = False,
    progress: bool = True,
) -> Path:
    """Capture what a server computes and feeds its drafter while it answers these prompts, greedily.

    Args:
        run: started from a profile with ``capture``; nobody else should use the server meanwhile.
        boundaries: of those that the profile hooks; ``none`` for the feed alone.
        max_new_tokens: per prompt; 1 for the prompts' own tokens (to compare with a dump of the same text).
        out: a folder that does not exist yet, or is empty; the capture is pulled into it and verified.
        terms: also both terms of each boundary (a layer's own output and the residual).
        concurrency: requests at a time. With more than one they share batches, and prompts with a common start may
            share cached rows, which then pass the hook only once.
        natural_end: let the server end an answer at end-of-text; else that is ignored, and all are equally long.

    Returns:
        ``out``; what was served lies in it as profiles.toml. The capture also stays on the box, in the run's folder.

    Raises:
        UsageError: WB-CAPTURE-OUT, WB-CAPTURE-NO-HOOK, WB-CAPTURE-BOUNDARIES, WB-CAPTURE-NO-PROMPTS,
            WB-PROMPTS-VOCABULARY, WB-PROMPTS-LAB; WB-DISK-FULL, as RemoteFailed where it is the box's.
        RemoteFailed: WB-CAPTURE-NOT-RUNNING, WB-CAPTURE-BUSY, WB-CAPTURE-REQUEST, or what remote/assemble.py says
            (WB-CAPTURE-...).
    """
    wanted = check(run, prompts, boundaries, out)
    arm, python = f"{run.folder}/taps/arm.json", run.record.engine.python
    bounds = Bounds(max_new_tokens, boundaries, terms)
    room = check_room(box, run.profile, prompts, out, bounds, folder=run.folder, python=python)
    Progress("room for the capture", enabled=progress).done(room)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    folder = f"{run.folder}/taps/{name}"
    order = {"directory": f"{folder}/chunks", "boundaries": wanted, "terms": terms, "by": whoami(), "capture": name}
    with show_progress(f"capture of {run.id}", enabled=progress, done=f"captured into {out}") as bar:
        began, requests = False, None
        try:
            with run.tunnel() as tunnel, httpx.Client(base_url=tunnel.url, timeout=600, trust_env=False) as client:
                about = describe(box, run, get(client, "/server_info"))
                sampling = {"temperature": 0, "max_new_tokens": max_new_tokens, "natural_end": natural_end}
                about |= {"sampling": sampling}
                flush = not about["launch"]["disable_radix_cache"]
                with armed(box, arm, order, python=python):
                    began = True
                    requests = ask_all(client, prompts, name, max_new_tokens, concurrency, flush, bar, natural_end)
            bar.update("assembling on the box")
            assemble(box, run, folder, {"capture": about, "requests": requests})
        except BaseException as error:
            # Chunks that were complete and would not go together are evidence, and stay; a full disk is not left full.
            told = isinstance(error, WorkbookError) and error.code != "WB-DISK-FULL"
            if began and (requests is None or not told):
                discard(box, arm, name, python=python)
            if isinstance(error, RemoteFailed) and isinstance(error.__cause__, httpx.TransportError):
                raise cut_off(box, run, error) from error
            raise
        bar.update("pulling")
        fetch(box, folder, out)
    save_profiles(out / PROFILE_FILE, [run.profile])
    return out


def check(run: Run, prompts: Sequence[Prompt], boundaries: Boundaries, out: Path) -> list[int] | None:
    """Refuse what cannot work before the server hears of it; returns the boundaries for the arm file (None: all)."""
    if not prompts:
        raise UsageError(
            "WB-CAPTURE-NO-PROMPTS",
            "there are no prompts to capture",
            expected="at least one",
            next="data/prompts/lab-heldout.jsonl has some for the lab",
        )
    hooked = check_run(run)
    model = model_facts(run.box, run.profile)
    check_tokens(prompts, model.vocab_size, f"the model of run {run.id}")
    if boundaries == "all":
        check_out(out)
        return None
    wanted = [] if boundaries == "none" else sorted({int(b) for b in boundaries})
    possible = range(model.num_layers + 1) if hooked is True else hooked
    if not set(wanted) <= set(possible):
        raise UsageError(
            "WB-CAPTURE-BOUNDARIES",
            f"boundaries {sorted(set(wanted) - set(possible))} of {wanted} are not hooked in run {run.id}",
            expected=f"a part of 0 to {model.num_layers}" if hooked is True else f"a part of {list(hooked)}",
            next=f"--boundaries all captures every one of a model with {model.num_layers} layers"
            if hooked is True
            else with_hook(run),
        )
    check_out(out)
    return wanted


def check_run(run: Run) -> Literal[True] | tuple[int, ...]:
    """Refuse a run that, as it was looked at last, cannot be captured at all.

    Returns:
        What is hooked: True for all boundaries.

    Raises:
        RemoteFailed: WB-CAPTURE-NOT-RUNNING. UsageError: WB-CAPTURE-NO-HOOK.
    """
    if run.state != "alive":
        ended = f": {run.ending.summary}" if run.ending is not None and run.state == "stopped" else ""
        raise RemoteFailed(
            "WB-CAPTURE-NOT-RUNNING",
            f"run {run.id} on {run.box.name} is {run.state}{ended}",
            expected="a server that lives",
            next=serve_again(run) if run.profile.capture else with_hook(run),
        )
    if run.profile.capture is False:
        raise UsageError(
            "WB-CAPTURE-NO-HOOK",
            f"run {run.id} was started without the capture hook (profile {run.profile.name!r})",
            expected="a profile with capture = true, or a list of boundaries",
            next=with_hook(run),
        )
    return run.profile.capture


def cut_off(box: Box, run: Run, error: RemoteFailed) -> RemoteFailed:
    """A request whose connection ended: was it the server that died?"""
    found = get_run(box, run.id, python=run.record.engine.python)
    alive = found.state == "alive"
    state = f"was {found.ending.summary}" if found.state == "stopped" and found.ending else None
    return RemoteFailed(
        error.code,
        f"{error.message}; {run.id} {state or ('is alive' if alive else 'is dead')} on {box.name}",
        expected=error.expected,
        next=f"workbook logs {box.name} {run.id}" if alive else serve_again(found),
        # Of one that somebody stopped, the log's end tells no more than that.
        lines=[] if alive or state else list(found.logs(tail=10)),
    )


LAUNCH_KEYS = (
    "dtype",
    "attention_backend",
    "disable_radix_cache",
    "chunked_prefill_size",
    "enable_flashinfer_allreduce_fusion",
    "moe_a2a_backend",
    "enable_dp_attention",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
)


def describe(box: Box, run: Run, server: dict[str, Any]) -> dict[str, Any]:
    """What a capture says of its server, as the server itself says it; ``base`` is the profile's word."""
    base = run.record.engine.base
    return {
        "run": run.id,
        "profile": run.profile.name,
        "engine": {"name": "sglang", "version": str(server["version"]), **({"base": base} if base else {})},
        "tp_size": int(server["tp_size"]),
        "aux_layer_ids": configured_ids(box, server.get("speculative_draft_model_path")),
        "launch": {"cuda_graph": not server["disable_cuda_graph"], **{key: server.get(key) for key in LAUNCH_KEYS}},
        "without_capture": {"cuda_graph": uses_graphs(run.profile.extra_args)},
        "patches": [patch.name for patch in run.record.patches],
    }


def uses_graphs(extra_args: Sequence[str]) -> bool | None:
    """Whether a profile leaves CUDA graphs on: one that captures gets them switched off beside its own arguments.

    None where it switches them off itself: that may be for the capture's sake, and says nothing of another run.

    >>> uses_graphs(["--tp", "8"]), uses_graphs(["--device", "cpu"]), uses_graphs(["--disable-cuda-graph"])
    (True, False, None)
    """
    settings = settings_of(extra_args)
    if settings["device"] not in (None, "cuda"):
        return False
    return None if settings["disable_cuda_graph"] else True


def configured_ids(box: Box, draft: str | None) -> list[int] | None:
    """The ids that SGLang reads: those of the drafter's nested ``eagle_config``, and no others."""
    if draft is None or not draft.startswith("/"):
        return None
    config = json.loads(box.read_text(f"{draft}/config.json"))
    ids = (config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    return None if ids is None else [int(i) for i in ids]


def assemble(box: Box, run: Run, folder: str, order: dict[str, Any]) -> None:
    """Run remote/assemble.py on the box; its error becomes ours."""
    python = run.record.engine.python
    requests = f"{folder}/requests.json"
    box.write_text(requests, json.dumps(order))
    command = [python, "-m", "remote.assemble", folder, "--requests", requests]
    result = box.run(command, cwd=upload(box, python=python), check=False)
    try:
        answer = json.loads(result.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        answer = {}
    if "error" in answer:
        error = answer["error"]
        hint = str(error.get("next", "")).replace("BOX", as_typed(box.name)).replace("RUN", run.id)
        raise RemoteFailed(**error | {"next": hint})
    if not result.ok or "capture" not in answer:
        raise RemoteFailed(
            "WB-CAPTURE-ASSEMBLE",
            f"putting the capture together failed on {box.name} with exit status {result.exit_status}",
            expected="one JSON object",
            next=f"the chunks are still there: workbook run {box.name} -- ls {as_typed(f'{folder}/chunks')}",
            lines=result.stderr.splitlines()[-10:],
        )


def fetch(box: Box, folder: str, out: Path) -> None:
    """Pull a capture beside its place, hold it against its own hashes, and only then give it its name."""
    from helpers.tensors.capture import read_capture

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise no_place(out, error) from error
    try:
        box.pull(folder, part, progress=False)
        read_capture(part, verify=True)
        try:
            part.replace(out)
            out.chmod(0o755)
        except OSError as error:  # somebody took the name meanwhile
            raise no_place(out, error) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
