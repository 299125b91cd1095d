"""`workbook diagnose`, `inspect` and what `capture` refuses: exit codes and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import streams
import typer

from helpers.acceptance.prompts import texts
from helpers.commands import capture, wiring
from helpers.errors import UsageError
from helpers.serving.again import serve_again
from helpers.serving.capture import check, configured_ids
from helpers.serving.profile import Profile, load_profiles


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    for command in (capture.capture, wiring.diagnose, wiring.inspect):
        app.command()(command)
    return app


def run(app: typer.Typer, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = app(args=[str(a) for a in arguments], standalone_mode=False)
    return status, capsys.readouterr().out


@pytest.mark.parametrize(("feed", "status", "verdict"), [((2, 5, 9), 0, "match"), ((0, 2, 5), 1, "mismatch")])
def test_diagnose(
    app: typer.Typer,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    feed: tuple[int, ...],
    status: int,
    verdict: str,
) -> None:
    texts = streams.texts()
    served = streams.served(texts, feed).write(tmp_path / "c")
    train = streams.write_dump(tmp_path / "d", texts)
    code, out = run(app, capsys, "diagnose", "--served", served, "--train", train, "--json")
    assert code == status
    assert json.loads(out)["verdict"] == verdict
    code, out = run(app, capsys, "diagnose", "--served", served, "--train", train)
    assert code == status
    assert out.startswith(f"{verdict}, from ")
    if verdict == "mismatch":
        assert "ids [1, 4, 8]" in out


def test_diagnose_hashes_what_it_reads(app: typer.Typer, tmp_path: Path) -> None:
    texts = streams.texts()
    served = streams.served(texts).write(tmp_path / "c")
    content = bytearray((served / "rank0.safetensors").read_bytes())
    content[-1] ^= 1
    (served / "rank0.safetensors").write_bytes(bytes(content))
    train = streams.write_dump(tmp_path / "d", texts)
    with pytest.raises(UsageError, match="WB-CAPTURE-TAMPERED"):
        app(args=["diagnose", "--served", str(served), "--train", str(train)], standalone_mode=False)


def test_inspect(app: typer.Typer, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dump = streams.write_dump(tmp_path, streams.texts())
    code, out = run(app, capsys, "inspect", dump, "--json")
    assert (code, json.loads(out)["slots"]) == (0, 3)
    code, out = run(app, capsys, "inspect", dump)
    assert "speculators-v1" in out
    assert "warnings" not in out, "there are none"
    assert "[" not in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["capture", "lab", "r"],
        ["capture", "lab", "r", "--prompts", "x", "--replay", "y"],
        ["capture", "lab", "r", "--prompts", "x", "--boundaries", "two"],
        ["capture", "lab", "r", "--prompts", "x", "--starts"],
    ],
)
def test_capture_refuses_bad_usage_before_it_connects(app: typer.Typer, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="WB-USAGE"):
        app(args=arguments, standalone_mode=False)


def test_a_replay_opens_no_more_of_a_dump_than_it_sends(tmp_path: Path) -> None:
    """The last sample is broken: whoever reads it says so. By default 24 go, as `investigate` sends."""
    dump = streams.write_dump(tmp_path / "d", streams.texts(26))
    last = max(dump.iterdir(), key=lambda path: int("".join(filter(str.isdigit, path.name))))
    last.write_bytes(last.read_bytes()[:-50])
    chosen, of = texts(None, dump)
    assert (len(chosen), of) == (24, 26)
    assert len(texts(None, dump, limit=3)[0]) == 3
    with pytest.raises(UsageError):
        texts(None, dump, limit=26)


def test_the_help_says_how_many_samples_are_sent(app: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app(args=["capture", "--help"])
    assert "24 samples" in " ".join(capsys.readouterr().out.replace("│", " ").split())


class Stub:
    """As much of a run as `check` looks at."""

    def __init__(self, capture: bool | tuple[int, ...]) -> None:
        self.id = "right-1"
        self.state, self.ending = "alive", None
        self.profile = Profile(name="right", engine="sglang==0.5.9", model="/m", capture=capture)
        config = json.dumps({"num_hidden_layers": 5, "vocab_size": 32})
        self.box = type("Box", (), {"name": "lab", "home": "/h", "read_text": lambda path: config})


class OnePrompt:
    id = "p0"
    input_ids = (1, 2)


def test_what_a_capture_refuses(tmp_path: Path) -> None:
    def refusal(run: Any, out: Path, boundaries: Any = "all", prompts: Any = (OnePrompt(),)) -> str:
        with pytest.raises(UsageError) as caught:
            check(run, prompts, boundaries, out)
        return caught.value.code

    new = tmp_path / "new"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert refusal(Stub(False), new) == "WB-CAPTURE-NO-HOOK"
    with pytest.raises(UsageError) as caught:
        check(Stub(False), [OnePrompt()], "all", new)  # type: ignore[arg-type]
    # As a user's own file needs it: the server that runs is stopped first, and the file is named.
    first, _, last = caught.value.next.split("; ")
    assert (first, last) == ("workbook stop lab right-1", "workbook serve lab right --profiles FILE")
    assert refusal(Stub(True), tmp_path / "full") == "WB-CAPTURE-OUT"
    assert refusal(Stub(True), new, prompts=()) == "WB-CAPTURE-NO-PROMPTS"
    assert refusal(Stub((0, 2)), new, [0, 5]) == "WB-CAPTURE-BOUNDARIES"
    assert refusal(Stub(True), new, [-1]) == "WB-CAPTURE-BOUNDARIES"
    run: Any = Stub((0, 2))
    assert check(run, [OnePrompt()], "all", new) is None
    assert check(run, [OnePrompt()], "none", new) == []
    assert check(run, [OnePrompt()], [2, 0, 2], new) == [0, 2]


def test_the_labs_own_profiles_need_no_file_named() -> None:
    run: Any = Stub(False)
    for profile in load_profiles().values():
        run.profile = profile.model_copy(update={"capture": True})
        assert serve_again(run) == f"workbook serve lab {profile.name}"
        run.profile = profile.model_copy(update={"tp": 2})
        assert serve_again(run).endswith(" --profiles FILE"), "another one of that name"


def test_ids_are_read_where_sglang_reads_them() -> None:
    class Box:
        def __init__(self, config: object) -> None:
            self.config = config

        def read_text(self, path: str) -> str:
            assert path == "/m/draft/config.json"
            return json.dumps(self.config)

    def ids(config: object, path: str | None = "/m/draft") -> list[int] | None:
        box: Any = Box(config)
        return configured_ids(box, path)

    assert ids({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 4, 8]}}) == [1, 4, 8]
    assert ids({"eagle_aux_hidden_state_layer_ids": [1, 4, 8]}) is None
    assert ids({}, None) is None
