"""The mirror: a drafter that was trained on the miswired taps, served as its config asks. Serving is not at fault.

.venv/bin/python -m pytest tests/lab/test_mirror.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.acceptance import Prompt, compare, run_load
from helpers.box import Box
from helpers.commands import wiring
from helpers.paths import DATA
from helpers.serving import Profile, serving
from helpers.serving.capture import capture
from helpers.tensors.dumps import read_dump

MIRROR = DATA / "lab" / "mirror"


@pytest.mark.full
def test_the_tool_says_which_side_is_not_as_the_config_asks(
    box: Box,
    profiles: dict[str, Profile],
    prompts: list[Prompt],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dump = read_dump(MIRROR / "dump")
    replayed = [Prompt(f"s{i}", tuple(dump[i].token_ids.tolist())) for i in range(3)]
    by_config = profiles["right"].model_copy(update={"draft": str(MIRROR / "drafter"), "capture": True})
    with serving(box, by_config, progress=False) as served:
        fed = run_load(served.url, prompts, max_new_tokens=24, progress=False)
        capture(box, served.run, replayed, max_new_tokens=1, out=tmp_path / "taps", progress=False)
    status = wiring.diagnose(
        str(tmp_path / "taps"), MIRROR / "dump", draft=MIRROR / "drafter", target=DATA / "lab" / "target", as_json=True
    )
    told = json.loads(capsys.readouterr().out)
    assert (status, told["verdict"]) == (1, "mismatch")
    assert [slot["served"]["boundary"] for slot in told["slots"]] == [2, 5, 9]
    assert [slot["trained"]["boundary"] for slot in told["slots"]] == [0, 2, 5]
    assert told["draft_config"]["agrees_with"] == "served"
    assert told["draft_config"]["boundaries"] == [2, 5, 9]
    assert told["fix"]["aux_layer_ids"] == [-1, 1, 4]
    assert "train again on the boundaries [2, 5, 9]" in told["fix"]["note"]
    # The same taps against the lab's own dump: nothing is wrong with serving.
    assert (
        wiring.diagnose(str(tmp_path / "taps"), DATA / "lab" / "dump", draft=DATA / "lab" / "drafter", as_json=True)
        == 0
    )
    right = json.loads(capsys.readouterr().out)
    assert (right["verdict"], right["draft_config"]["agrees_with"]) == ("match", "both")
    # And the drafter is good, once it is fed what it was trained on.
    as_trained = profiles["miswired"].model_copy(update={"draft": str(MIRROR / "drafter")})
    with serving(box, as_trained, progress=False) as served:
        gain = compare("trained", run_load(served.url, prompts, max_new_tokens=24, progress=False), "config", fed)
    assert gain.ci95[0] > 0.05
