"""Profiles that are written are read as what they were; what may be secret is not in the file."""

from __future__ import annotations

from pathlib import Path

from helpers.serving import load_profiles
from helpers.serving.profile import Profile, Speculation
from helpers.serving.profile_file import save_profiles

ODD = Profile(
    name="v1.2",
    engine="sglang==0.5.9",
    model='/models/"a" \\ b\n# c',
    draft="~/models/é",
    speculation=Speculation(num_steps=2, topk=4, num_draft_tokens=8),
    aux_layer_ids=(-1, 2),
    env={"NCCL_DEBUG": "INFO"},
    extra_args=("--a", "x y"),
    capture=[0, 3],
    host="0.0.0.0",
    port=31000,
    note="[x] = 'y'",
)


def test_they_come_back(tmp_path: Path) -> None:
    profiles = [*load_profiles().values(), ODD]
    read = load_profiles(save_profiles(tmp_path / "profiles.toml", profiles))
    free = {"host": Profile.model_fields["host"].default, "port": None}
    assert list(read.values()) == [profile.model_copy(update=free) for profile in profiles]


def test_secrets_stay_where_they_are(tmp_path: Path) -> None:
    secret = ODD.model_copy(update={"env": {"HF_TOKEN": "hf_abc"}, "extra_args": ("--api-key", "s3cret")})
    text = save_profiles(tmp_path / "profiles.toml", [secret]).read_text()
    assert "hf_abc" not in text
    assert "s3cret" not in text
