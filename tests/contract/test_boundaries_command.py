"""`workbook boundaries`: exit codes, the JSON object, the way back, the drafter's config; offline throughout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from setter_sources import HEAD, PLUS_ONE, inner, tiny, write

from helpers.cli import main


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No index and an empty cache: nothing is fetched, and the command still answers for the source at hand."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("WORKBOOK_CACHE", str(tmp_path / "cache"))


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as caught:
        main(["boundaries", *arguments, "--layers", "12", "--json"])
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return int(caught.value.code or 0), printed


def source(tmp_path: Path, setter: str = PLUS_ONE) -> list[str]:
    tiny(tmp_path / "checkout", setter)
    return ["--source", str(tmp_path / "checkout"), "--model", "tiny"]


def test_clean_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = call(capsys, *source(tmp_path), "--ids=2,4,8")
    assert status == 0
    assert printed["boundaries"] == [3, 5, 9]
    assert printed["rule"] == "boundary = id + 1"
    assert printed["traps"] == []
    assert {"file", "line", "text"} == set(printed["evidence"][0])
    assert printed["evidence"][0]["file"] == "sglang/srt/models/tiny.py"
    same = {tap["convention"]: tap["ids"] for tap in printed["same_taps"]}
    assert same["vLLM"] == [3, 5, 9]
    assert same["speculators"] == [3, 5, 9, 12]
    assert same["SpecForge, Hugging Face target"] == [2, 4, 8]
    notes = [tap["note"] for tap in printed["same_taps"] if tap["convention"].startswith("sglang==")]
    assert len(notes) == 3
    assert "was not fetched" in notes[0]


def test_traps_are_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = call(capsys, *source(tmp_path), "--ids=-1,2,4")
    assert status == 1
    assert printed["boundaries"] == [3, 5]
    assert [(trap["code"], trap["ids"]) for trap in printed["traps"]] == [("fails-at-layer", [-1])]


def test_an_empty_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = draft(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": []})
    status, printed = call(capsys, *source(tmp_path), "--draft", empty)
    assert (status, printed["boundaries"]) == (1, [])
    assert [trap["code"] for trap in printed["traps"]] == ["never-fires"]


def test_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = call(capsys, *source(tmp_path))
    assert (status, printed["boundaries"], printed["defaults"]) == (0, [2, 6, 9], True)


def test_the_way_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = call(capsys, *source(tmp_path), "--boundaries", "3,5,9")
    assert (status, printed["ids"], printed["boundaries"]) == (0, [2, 4, 8], [3, 5, 9])
    status, printed = call(capsys, *source(tmp_path), "--boundaries", "5,3")
    assert (status, printed["ids"]) == (1, None)
    assert [trap["code"] for trap in printed["traps"]] == ["no-ids"]


def test_the_way_back_under_a_rule_on_the_first_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setter = """
        if layer_ids and layer_ids[0] == 1:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]
        else:
            self.model.layers_to_capture = list(layer_ids)
"""
    where = source(tmp_path, setter)
    assert call(capsys, *where, "--boundaries", "2,5,9")[1]["ids"] in ([1, 4, 8], [2, 5, 9])
    printed = call(capsys, *where, "--boundaries", "1,5,9")[1]
    assert printed["ids"] == [5, 9, 1]
    assert [trap["code"] for trap in printed["traps"]] == ["reordered"]


def test_no_setter_and_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = HEAD + inner() + "\n\nclass TinyForCausalLM(nn.Module):\n    pass\n\n\nEntryClass = TinyForCausalLM\n"
    write(tmp_path / "checkout", tiny=bare)
    where = ["--source", str(tmp_path / "checkout")]
    status, printed = call(capsys, *where, "--model", "tiny", "--ids=2")
    assert (status, printed["error"]["code"]) == (2, "WB-SETTER-MISSING")
    status, printed = call(capsys, *where, "--model", "tine", "--ids=2")
    assert (status, printed["error"]["code"]) == (2, "WB-SETTER-NO-MODEL")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--ids=2,x"], "WB-USAGE"),
        (["--ids="], "WB-USAGE"),
        (["--ids=2", "--boundaries", "3"], "WB-USAGE"),
        (["--ids=2", "--engine", "sglang==0.5.9"], "WB-USAGE"),
        (["--ids=2", "--draft", "."], "WB-USAGE"),
    ],
)
def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str) -> None:
    status, printed = call(capsys, *source(tmp_path), *arguments)
    assert (status, printed["error"]["code"]) == (2, code)


def draft(tmp_path: Path, **config: Any) -> str:
    folder = tmp_path / "draft"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_drafters_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "eagle_aux_hidden_state_layer_ids"
    where = source(tmp_path)
    nested = draft(tmp_path, eagle_config={key: [2, 4, 8]})
    assert call(capsys, *where, "--draft", nested)[1]["boundaries"] == [3, 5, 9]
    status, printed = call(capsys, *where, "--draft", draft(tmp_path, **{key: [2, 4, 8]}))
    assert (status, printed["boundaries"], printed["defaults"]) == (1, [2, 6, 9], True)
    assert [(trap["code"], trap["ids"]) for trap in printed["traps"]] == [("ids-ignored", [2, 4, 8])]
    both = draft(tmp_path, eagle_config={key: [2, 4, 8]}, **{key: [3, 5, 9]})
    assert [trap["code"] for trap in call(capsys, *where, "--draft", both)[1]["traps"]] == ["ids-ignored"]
    status, printed = call(capsys, *where, "--draft", draft(tmp_path, eagle_config={key: "2,4,8"}))
    assert (status, printed["error"]["code"]) == (2, "WB-DRAFT-CONFIG")
    status, printed = call(capsys, *where, "--draft", str(tmp_path / "nowhere"))
    assert (status, printed["error"]["code"]) == (2, "WB-DRAFT-CONFIG")


def test_text_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["boundaries", *source(tmp_path), "--ids=8,2", "--layers", "12"])
    text = capsys.readouterr().out
    assert caught.value.code == 1
    assert "ids [8, 2] -> boundaries [3, 9]" in text
    assert "trap reordered" in text
    assert "tiny.py:" in text
