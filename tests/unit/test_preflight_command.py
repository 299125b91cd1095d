"""`workbook preflight` takes a profile and its file as `serve` does, and as it did before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.cli import main

PROFILES = """
[profiles.mine]
engine = "sglang==0.5.9"
model = "/models/target"
"""


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        # Without a box: the profile is found, and what comes next is the folder of the source.
        (("--source", "/nowhere", "--profiles", "{file}", "--name", "mine"), "WB-SOURCE-FOLDER", "/nowhere"),
        (("--source", "/nowhere", "--profile", "{file}", "--name", "mine"), "WB-SOURCE-FOLDER", "/nowhere"),
        (("lab", "mien", "--profiles", "{file}"), "WB-PROFILE-UNKNOWN", "'mien' in {file}"),
        (("lab", "--name", "mien", "--profile", "{file}"), "WB-PROFILE-UNKNOWN", "'mien' in {file}"),
        (("lab", "mien", "--name", "mien", "--profiles", "{file}"), "WB-PROFILE-UNKNOWN", "'mien' in {file}"),
        (("lab", "mine", "--name", "other", "--profiles", "{file}"), "WB-USAGE", "--name 'other'"),
        (("--source", "/nowhere", "lab", "mine"), "WB-USAGE", "a BOX, or a folder"),
    ],
)
def test_both_ways_to_name_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str, told: str
) -> None:
    file = tmp_path / "my.toml"
    file.write_text(PROFILES)
    with pytest.raises(SystemExit) as ended:
        main(["preflight", *(word.format(file=file) for word in words), "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (ended.value.code, error["code"]) == (2, code)
    assert told.format(file=file) in error["message"]
