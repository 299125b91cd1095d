"""The report: nothing external, nothing secret, the data embedded whole, never half-written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from plotly.offline import get_plotlyjs

from helpers.figures.acceptance import accept_rates, survival
from helpers.figures.wiring import feature_norms, ladder, slot_matrix
from helpers.ledger.redacted_text import redact_markdown, redact_text
from helpers.ledger.redaction import redact, redact_tree
from helpers.ledger.report import Section, write_report
from helpers.paths import ROOT

ROWS = pd.DataFrame({"profile": ["right"] * 3, "k": [1, 2, 3], "survival": [0.8, 0.6, 0.4]}).assign(
    low=lambda d: d["survival"] - 0.05, high=lambda d: d["survival"] + 0.05
)


def test_a_report_needs_nothing_from_outside(tmp_path: Path) -> None:
    figure = survival(ROWS, caption="run r1, capture c1")
    paths = write_report(
        tmp_path / "x",
        title="Why <the> drafter fails",
        summary=["Because."],
        sections=[Section("Acceptance", ["Text"], [{"profile": "right", "rate": "60%"}], figure)],
        data={"profiles": [], "note": "</script><b>"},
    )
    page = paths.html.read_text()
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"'](?!data:)[^\"'>]+", page)
    assert "Why &lt;the&gt; drafter fails" in page
    embedded = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.S)
    assert embedded is not None
    assert json.loads(embedded.group(1)) == json.loads(paths.json.read_text())
    assert json.loads(paths.json.read_text())["note"] == "</script><b>"
    assert sorted(p.name for p in paths.html.parent.iterdir()) == ["report.html", "report.json"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("token hf_AbCdEfGh1234 here", "token *** here"),
        ("HF_TOKEN=abcdef12 next", "HF_TOKEN=*** next"),
        ('{"api_key": "abcd1234"}', '{"api_key": "***"}'),
        ("/srv/box/homework stays", "/srv/box/homework stays"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("ssh ann@10.1.2.3 ls", "ssh ***@*** ls"),
        ("/home/ann/models/x", "~/models/x"),
        ("/data/lab/home/models/x", "/data/lab/home/models/x"),
        ('MAX_NEW_TOKENS = "data/x.jsonl", 64', 'MAX_NEW_TOKENS = "data/x.jsonl", 64'),
        ("/srv/box/home/models", "<box home>/models"),
        ("../../../home/ann/dump/x.pt", "~/dump/x.pt"),
        ("../../srv/box/home/models", "<box home>/models"),
        ("../../data/lab/dump", "../../data/lab/dump"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "*** private key ***"),
        ("pid 12 of ann, port 3", "pid 12 of ***, port 3"),
        ("run right-1 (profile right) of ann, up", "run right-1 (profile right) of ***, up"),
        ("run right-1 (profile right) of ann@10.1.2.3, up", "run right-1 (profile right) of ***@***, up"),
        (f"{ROOT}/data/x", "<checkout>/data/x"),
        ("tokens: 1234, max_new_tokens=64", "tokens: 1234, max_new_tokens=64"),
    ],
)
def test_redaction(text: str, clean: str) -> None:
    assert redact(text, homes=("/srv/box/home",)) == clean


def test_the_labs_home_is_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", "/data/mine/lab")
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", "/data/mine/found")
    said = "/data/mine/lab/home/sglang and /data/mine/found/case/captures, not /data/mine/laboratory"
    assert redact(said) == "<box home>/sglang and <investigations>/case/captures, not /data/mine/laboratory"
    assert redact("/data/mine/found/case", markup=True) == "&lt;investigations&gt;/case"


def test_columns_stay_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of a terminal whose paths become shorter, or longer than there is room for."""
    monkeypatch.setenv("WORKBOOK_LAB_HOME", "/mine/lab")
    table = (
        "folder                  free   of\n/mine/lab/home/models   1 GB   20 GB\n/                       1 GB   20 GB"
    )
    lines = redact_text(table).split("\n")
    assert lines[1].startswith("<box home>/models ")
    assert [line.index("GB") for line in lines[1:]] == [table.split("\n")[2].index("GB")] * 2
    marked = redact_text(f"<pre>{table}</pre>", markup=True)
    assert "&lt;box home&gt;/models       1 GB   20 GB" in marked
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", "/m/f")
    assert redact_text("/m/f/a  1 GB  2") == "<investigations>/a  1 GB  2"


def test_markdown_keeps_its_words_for_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", "/mine/lab")
    said = redact_markdown("in /mine/lab/home/x and `/mine/lab/home/x`\n```\n/mine/lab/home\n```")
    assert said == "in &lt;box home&gt;/x and `<box home>/x`\n```\n<box home>\n```"


def test_redaction_keeps_json_json() -> None:
    tree = {
        "draft_token": 12345,
        "hf_token": "hf_AbCdEfGh1234",
        "at": ["/srv/box/home/x", 1.5, None],
        "n": {"ok": True},
    }
    clean = redact_tree(tree, homes=("/srv/box/home",))
    assert clean == {"draft_token": 12345, "hf_token": "***", "at": ["<box home>/x", 1.5, None], "n": {"ok": True}}
    assert json.loads(json.dumps(clean)) == clean


def test_the_drawing_script_is_left_as_it_is(tmp_path: Path) -> None:
    figure = survival(ROWS, caption="run of ann@example.org in /srv/box/home")
    section = Section("S", ["by ann@example.org"], [], figure)
    paths = write_report(
        tmp_path, title="T", summary=["in /srv/box/home/x"], sections=[section], data={}, homes=("/srv/box/home",)
    )
    page = paths.html.read_text()
    assert get_plotlyjs() in page
    rest = page.replace(get_plotlyjs(), "")
    assert "ann@example.org" not in rest
    assert "/srv/box/home" not in rest


def test_every_figure_has_title_axes_and_caption() -> None:
    sides = pd.DataFrame(
        {"side": ["trained", "served"] * 4, "slot": [0, 0, 1, 1] * 2, "token": [0, 0, 0, 0, 1, 1, 1, 1]}
    )
    norms = sides.assign(norm=range(8))
    cosines = pd.DataFrame({"served": [0, 0, 1, 1], "trained": [0, 1, 0, 1], "cosine": [1, 0.5, 0.4, 1]})
    rungs = pd.DataFrame(
        {"side": ["served"] * 4, "slot": [0, 0, 1, 1], "boundary": [0, 1, 0, 1], "cosine": [1, 0, 0, 1]}
    )
    rates = pd.DataFrame({"profile": ["a"], "accept_rate": [0.5], "low": [0.4], "high": [0.6]})
    for figure in (
        feature_norms(norms, caption="run r1"),
        slot_matrix(cosines, caption="run r1"),
        ladder(rungs, caption="run r1"),
        survival(ROWS, caption="run r1"),
        accept_rates(rates, caption="run r1"),
    ):
        assert figure.layout.title.text
        assert figure.layout.xaxis.title.text
        assert figure.layout.yaxis.title.text
        assert "run r1" in [note.text for note in figure.layout.annotations]
