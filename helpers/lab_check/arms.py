"""The arms of a check: a drafter and how it is fed, each with a server of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.acceptance.load_records import Load
    from helpers.acceptance.prompts import Prompt
    from helpers.box.box import Box
    from helpers.serving.profile import Profile

#: An arm's profile in data/profiles/lab.toml, and the drafter's folder in the pair.
ARMS = {
    "baseline": ("baseline", None),
    "right": ("right", "drafter"),
    "miswired": ("miswired", "drafter"),
    "off by one": ("off-by-one", "drafter"),
    "permuted": ("right", "permuted"),
    "mirror, by its config": ("right", "mirror/drafter"),
    "mirror, as trained": ("miswired", "mirror/drafter"),
}


def models(names: Sequence[str]) -> list[str]:
    """The folders of a pair that these arms serve.

    >>> models(["baseline", "right", "permuted"])
    ['target', 'drafter']
    """
    drafters = ["drafter" if found == "permuted" else found for name in names if (found := ARMS[name][1]) is not None]
    return list(dict.fromkeys(["target", *drafters]))


def arm_profile(pair: Path, name: str, profiles: Mapping[str, Profile], scratch: Path) -> Profile:
    """The profile of an arm, with the pair's folders in place of the lab's own."""
    base, drafter = ARMS[name]
    changes: dict[str, Any] = {"model": str(pair / "target")}
    if drafter == "permuted":
        changes["draft"] = str(permuted(pair / "drafter", scratch / "permuted"))
    elif drafter is not None:
        changes["draft"] = str(pair / drafter)
    return profiles[base].model_copy(update=changes)


def permuted(drafter: Path, out: Path) -> Path:
    """A copy of a drafter with the column blocks of its fc in reverse: a feed that is right meets the wrong columns.

    Raises:
        UsageError: WB-DISK-FULL, WB-LOCAL-WRITE.
    """
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    from helpers.box.partial import local_problem
    from helpers.tensors.writers import whole

    try:
        shutil.copytree(drafter, out, dirs_exist_ok=True)
    except OSError as error:
        raise local_problem(out, error) from error
    tensors = load_file(out / "model.safetensors")
    tensors["fc.weight"] = torch.cat(tensors["fc.weight"].chunk(3, dim=1)[::-1], dim=1).contiguous()
    whole(out / "model.safetensors", lambda part: save_file(tensors, part, metadata={"format": "pt"}))
    return out


def serve_arms(
    box: Box,
    pair: Path,
    names: Sequence[str],
    prompts: Sequence[Prompt],
    new: int,
    scratch: Path,
    loads: dict[str, Load],
) -> None:
    """Every arm's answers, a server each, into `loads`: where a later arm fails, those of the earlier ones stay."""
    from helpers.acceptance import run_load
    from helpers.serving import load_profiles, serving

    profiles = load_profiles()
    for name in names:
        with serving(box, arm_profile(pair, name, profiles, scratch)) as served:
            loads[name] = run_load(served.url, prompts, max_new_tokens=new, title=name)
