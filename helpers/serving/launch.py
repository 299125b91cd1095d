"""Start a server from a profile: everything is looked at first, the exact command is shown, then it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import RemoteFailed, UsageError, WorkbookError
from helpers.owner import whoami
from helpers.progress import show_command
from helpers.screen import as_typed
from helpers.serving.argv import (
    command_text,
    expand,
    masked,
    masked_argv,
    masked_profile,
    model_folders,
    prepended,
    server_argv,
    server_environment,
)
from helpers.serving.hooks import hook_specs
from helpers.serving.keys import check_keys
from helpers.serving.model import PARTS, text_config
from helpers.serving.profile import Profile
from helpers.serving.records import RUNS, SCHEMA, AppliedPatch, RunRecord, new_id
from helpers.serving.remote import ask, refusal
from helpers.serving.run import Run
from helpers.serving.which_engine import check_version
from helpers.source import patches
from helpers.source.checkout import Checkout, find_checkout
from helpers.source.convention import KNOWN
from helpers.source.patch_state import patch_names
from helpers.source.whose import options
from helpers.uploads import call, upload

if TYPE_CHECKING:
    from helpers.box import Box

#: How often a start is planned anew when somebody else was quicker: took the free port, or patched the checkout.
ATTEMPTS = 3


@dataclass(frozen=True)
class Plan:
    """A start that was looked at and not yet done.

    Attributes:
        id: of the run that it would become. argv: the server's exact command line on the box.
        port: free when it was looked at. patches: those that are in the checkout.
        missing: why a start would be refused: patches that the profile needs and the checkout lacks.
        journal: how many entries the journal of patches had for the checkout; with more, ``patches`` may not
            hold. None: not looked at.
    """

    id: str
    profile: Profile
    argv: tuple[str, ...]
    port: int
    checkout: Checkout
    patches: tuple[AppliedPatch, ...]
    code: str
    journal: int | None = None
    missing: tuple[RemoteFailed, ...] = ()

    @property
    def text(self) -> str:
        """The command for people, secrets masked."""
        return command_text(self.argv)


def plan(box: Box, profile: Profile, *, unpatched: bool = False) -> Plan:
    """Look at everything that a start needs, and build the command. Nothing is started.

    Args:
        unpatched: plan also where patches are missing, which `Plan.missing` names; such a plan cannot be started.

    Raises:
        RemoteFailed: WB-SERVE-NO-MODEL, WB-SERVE-PORT-TAKEN, WB-SERVE-ENGINE-VERSION, WB-SERVE-PATCH-MISSING, or as
            `find_checkout`. UsageError: WB-PROFILE-INVALID for a capture that this model has no boundaries for,
            for layer ids of which the engine would tap fewer than were given, or for a server that wants a key.
    """
    check_keys(profile)
    python = expand(profile.python, box.home)
    checkout = find_checkout(box, python, server_environment(profile, home=box.home))
    check_version(box, profile, checkout)
    known = call(box, "editing", "read", {"paths": []}, python=python)["journal"]  # asked first: see Plan.journal
    applied, lacking = _patches(box, profile, checkout, python)
    if lacking and not unpatched:
        raise lacking[0]
    folders = model_folders(profile, home=box.home)
    probe = ask(box, "probe", {"host": profile.host, "port": profile.port, "folders": list(folders)}, python=python)
    if probe["missing"]:
        missing = probe["missing"]
        error = {"code": "WB-SERVE-NO-MODEL", "message": f"there is no model at {missing[0]}", "missing": missing}
        raise refusal(box.name, error)
    check_ids(profile, probe["configs"].get(expand(profile.model, box.home)))
    run = new_id(profile.name)
    folder = box.path(f"{RUNS}/{run}")
    argv = server_argv(
        profile,
        home=box.home,
        port=probe["port"],
        draft=None if profile.aux_layer_ids is None else f"{folder}/draft",
        hooks=_hooks(profile, probe["configs"], box.home, folder),
    )
    journal = sum(entry.get("root") == checkout.root for entry in known)
    return Plan(run, profile, argv, probe["port"], checkout, applied, upload(box, python=python), journal, lacking)


def launch(
    box: Box, profile: Profile, *, progress: bool = True, planned_as: Callable[[Plan], None] | None = None
) -> Run:
    """Start a server and return at once; `Run.wait_ready` waits for it.

    It runs in a session of its own and outlives this process and the connection. The exact command is shown on
    standard error before it runs (``progress`` off: not), and ``planned_as`` is called with the plan. Ctrl-C while it
    is being started stops it.

    Raises:
        As `plan`; RemoteFailed: WB-SERVE-NO-PROGRAM, WB-SERVE-SOURCE-CHANGED where the checkout never comes to rest.
    """
    for attempt in range(1, ATTEMPTS + 1):
        planned = plan(box, profile)
        if progress:
            show_command(planned.text)
        if planned_as is not None:
            planned_as(planned)
        try:
            return start(box, planned)
        except RemoteFailed as error:
            if not was_quicker(error, profile) or attempt == ATTEMPTS:
                raise
    raise AssertionError("the loop returns or raises")


def was_quicker(error: RemoteFailed, profile: Profile) -> bool:
    """Whether a start failed because somebody else came in between, so that planning it anew may do."""
    return error.code == "WB-SERVE-SOURCE-CHANGED" or (error.code == "WB-SERVE-PORT-TAKEN" and profile.port is None)


def start(box: Box, planned: Plan) -> Run:
    """Start what was planned, unless the checkout was patched since."""
    if planned.missing:
        raise planned.missing[0]
    profile = planned.profile
    python = expand(profile.python, box.home)
    env = server_environment(profile, home=box.home)
    draft = None
    if profile.aux_layer_ids is not None and profile.draft is not None:
        draft = {"folder": expand(profile.draft, box.home), "aux_layer_ids": list(profile.aux_layer_ids)}
    record = {
        "schema": SCHEMA,
        "id": planned.id,
        "profile": masked_profile(profile).model_dump(mode="json", exclude=profile.unused),
        "argv": list(masked_argv(planned.argv)),
        "env": masked(env),
        "host": profile.host,
        "port": planned.port,
        "owner": whoami(),
        "engine": {
            "name": "sglang",
            "version": planned.checkout.version,
            "base": profile.engine_base,
            "checkout": planned.checkout.root,
            "python": python,
        },
        "patches": [patch.model_dump() for patch in planned.patches],
        "code": planned.code,
    }
    request = {
        "record": record,
        "argv": list(planned.argv),
        "env": env,
        "prepend": prepended(profile, home=box.home, code=planned.code),
        "draft": draft,
        "folders": list(model_folders(profile, home=box.home)),
        "journal": planned.journal,
    }
    try:
        answer = ask(box, "start", request, python=python)
    except KeyboardInterrupt:
        _undo(box, planned.id, python)
        raise
    return Run(box, RunRecord.model_validate(answer))


def _undo(box: Box, run: str, python: str) -> None:
    """Stop what may just have been started; that there is no such run is the better case."""
    request = {"run": run, "owner": whoami(), "force": True, "orphans": True, "grace": 2}
    try:
        ask(box, "stop", request, python=python)
    except WorkbookError as error:
        if error.code != "WB-SERVE-NO-RUN":
            raise


def _patches(
    box: Box, profile: Profile, checkout: Checkout, python: str
) -> tuple[tuple[AppliedPatch, ...], tuple[RemoteFailed, ...]]:
    """The patches that are in the checkout, also such that the profile does not ask for; and what it lacks."""
    applied, lacking = [], []
    env = server_environment(profile, home=box.home)
    for name in sorted({*patch_names(checkout.version), *profile.patches}):
        report = patches.status(box, name, python=python, env=env, servers=False)
        if report.state == "applied":
            files = {file.path: file.sha256 for file in report.files}
            applied.append(AppliedPatch(name=name, sha256=report.patch_sha256, files=files))
        elif name in profile.patches:
            refused = RemoteFailed(
                "WB-SERVE-PATCH-MISSING",
                f"profile {profile.name!r} needs the patch {name!r}, which is "
                f"{'not' if report.state == 'clean' else report.state} in {checkout.root}",
                expected="the patch applied",
                next=f"workbook patch {as_typed(box.name)} apply {as_typed(name)} {options(python, env)}",
            )
            lacking.append(refused)
    return tuple(applied), tuple(lacking)


def check_ids(profile: Profile, config: Mapping[str, Any] | None) -> None:
    """Refuse ids that the drafter would not be fed: its fc is too wide then, and the server dies of the shapes."""
    inner = text_config(config or {})
    architecture = (inner.get("architectures") or [""])[0]
    convention = KNOWN.get(("sglang", profile.engine_release, architecture))
    ids = profile.aux_layer_ids
    if ids is None or convention is None:
        return
    layers = int(inner["num_hidden_layers"])
    tapped = convention.boundaries(ids, layers)
    if len(tapped) != len(ids):
        raise UsageError(
            "WB-PROFILE-INVALID",
            f"profile {profile.name!r}: of aux_layer_ids {list(ids)} the engine taps only boundaries {tapped}",
            expected=f"ids of {len(ids)} different boundaries below {layers}, the number of layers ({convention.name}: "
            f"boundary = id + {convention.offset})",
            next="mend aux_layer_ids in the profile",
        )


def _hooks(profile: Profile, configs: Mapping[str, Any], home: str, folder: str) -> list[dict[str, Any]]:
    """The capture hook's specification for SGLang, empty where the profile captures nothing."""
    if profile.capture is False:
        return []
    config = configs.get(expand(profile.model, home))
    if config is None:
        raise UsageError(
            "WB-PROFILE-INVALID",
            f"profile {profile.name!r} captures, but its model {profile.model!r} is no folder on the box",
            expected="a model folder, whose config.json tells the number of layers",
            next="name the folder that the hub's model lies in",
        )
    inner = any(isinstance(config.get(part), dict) for part in PARTS)
    layers = text_config(config)["num_hidden_layers"]
    wanted = None if profile.capture is True else profile.capture
    if wanted is not None and not all(0 <= boundary <= layers for boundary in wanted):
        raise UsageError(
            "WB-PROFILE-INVALID",
            f"profile {profile.name!r}: capture = {list(wanted)} for a model of {layers} layers",
            expected=f"boundaries from 0 to {layers}",
            next="mend capture in the profile",
        )
    prefix = "language_model." if inner else ""
    return hook_specs(layers, f"{folder}/taps/arm.json", prefix=prefix, boundaries=wanted)
