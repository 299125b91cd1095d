"""A capture that an investigation already has, or makes now: so that notebooks can be run in any order, and again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import UsageError
from helpers.progress import Progress
from helpers.serving.asking import Prompt
from helpers.serving.capture import capture
from helpers.serving.model import check_prompts
from helpers.serving.profile import Profile
from helpers.serving.room import Bounds, check_room
from helpers.serving.session import serving
from helpers.source.versions import release_of

if TYPE_CHECKING:
    from helpers.box import Box


def captured(
    box: Box,
    profile: Profile,
    prompts: Sequence[Prompt],
    folder: Path,
    *,
    max_new_tokens: int = 1,
    again: bool = False,
    progress: bool = True,
) -> Path:
    """The newest capture under `folder` of this profile with these prompts; where there is none, one is made.

    To make one, the profile is served in its capture form for that long: with the hook, and otherwise as it is.

    Args:
        prompts: their token ids; a capture of others is not this one.
        max_new_tokens: per prompt; as in `helpers.serving.capture.capture`.
        again: make a new one, whatever there is.

    Returns:
        The capture's own folder, verified against its hashes when it was pulled.

    Raises:
        As `helpers.serving.serving` and `helpers.serving.capture.capture`.

    >>> path = captured(box, get_profile("miswired"), prompts, Path("captures"))     # doctest: +SKIP
    """
    known = [] if again else [path for path in newest_first(folder) if is_of(path, profile, prompts, max_new_tokens)]
    if known:
        Progress(f"capture of {profile.name}", enabled=progress).done(f"there is one: {known[0].name}")
        return known[0]
    check_prompts(box, profile, prompts)
    hooked = profile if profile.capture else profile.model_copy(update={"capture": True})
    check_room(box, hooked, prompts, folder, Bounds(max_new_tokens))
    with serving(box, hooked, progress=progress) as served:
        out = folder / f"{served.run.id}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        return capture(box, served.run, prompts, max_new_tokens=max_new_tokens, out=out, progress=progress)


def newest_first(folder: Path) -> list[Path]:
    """Folders that hold a capture, the newest first."""
    found = [path.parent for path in folder.glob("*/capture.json")]
    return sorted(found, key=lambda path: (path / "capture.json").stat().st_mtime_ns, reverse=True)


def is_of(path: Path, profile: Profile, prompts: Sequence[Prompt], max_new_tokens: int) -> bool:
    """Whether a capture was made of this configuration with these tokens. One that cannot be read is not."""
    import torch

    from helpers.tensors.capture import read_capture

    try:
        found = read_capture(path)
    except UsageError:
        return False
    info = found.info
    same = (info.profile, info.tp_size, tuple(info.patches)) == (profile.name, profile.tp, profile.patches)
    # A checkout that tells no release goes by its profile's word, whatever version its server says.
    vouched = profile.engine_base is not None and release_of(info.engine.version) is None
    version = profile.engine if vouched else f"{info.engine.name}=={info.engine.version}"
    if not same or (version, info.engine.base) != (profile.engine, profile.engine_base):
        return False
    if profile.aux_layer_ids is not None and info.aux_layer_ids != list(profile.aux_layer_ids):
        return False
    if info.sampling.get("max_new_tokens") != max_new_tokens or info.sampling.get("natural_end", False):
        return False
    if len(info.requests) != len(prompts):
        return False
    tokens = found.ranks[0].token_ids
    for request, prompt in zip(info.requests, prompts, strict=True):
        own = tokens[request.start : request.start + len(prompt.input_ids)]
        if request.prompt_tokens != len(prompt.input_ids) or not torch.equal(own, torch.tensor(prompt.input_ids)):
            return False
    return True
