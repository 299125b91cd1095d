"""The report of a ledger: verdict first, refuted ones kept, nothing hostile alive, nothing external, the same again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs
from stories import HOSTILE, SECRET, told_story

from helpers.acceptance.measurement import Measurement
from helpers.ledger import Ledger
from helpers.ledger.check import verify
from helpers.ledger.report import _fits
from helpers.paths import ROOT


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    return told_story("case", figures=2)


def test_the_verdict_stands_first_and_what_was_refuted_stays(story: Ledger) -> None:
    paths = story.report()
    data = json.loads(paths.json.read_text())
    assert data["summary"][0].startswith("Confirmed, H1: the ids feed other layers")
    assert [h["standing"] for h in data["hypotheses"]] == ["confirmed", "refuted", "open"]
    assert data["differences"] == [{"setting": "aux_layer_ids", "right": "[1, 4, 8]", "miswired": "[-1, 1, 4]"}]
    assert data["ledger"] == {"name": "case", "entries": len(story.entries), "head": story.head}
    page, text = paths.html.read_text(), (paths.markdown or Path()).read_text()
    for chapter in ("Cause and trigger", "Hypotheses", "Configuration differences", "Limits", "Timeline"):
        assert page.count(f"<h2>{chapter}</h2>") == 1
        assert f"\n## {chapter}\n" in text
    assert page.index("Confirmed, H1") < page.index("<h2>Cause and trigger</h2>") < page.index("<h2>Timeline</h2>")
    assert "Trigger: somebody changed the ids on Monday." in page
    assert "workbook ledger verify case" in page
    assert "No verdict was given on H3." in data["limits"]
    assert verify(story.folder).good
    story.note("later")
    assert verify(story.folder).good


def test_the_same_ledger_gives_the_same_report_but_for_its_time(story: Ledger) -> None:
    def read() -> list[str]:
        paths = story.report()
        files = [paths.html, paths.json, paths.markdown or Path()]
        return [re.sub(r'"made": "[^"]+"', "", file.read_text()) for file in files]

    assert read() == read()


def test_a_figure_has_its_caption_and_a_changed_one_is_not_drawn(story: Ledger) -> None:
    page = story.report().html.read_text()
    assert page.count('class="plotly-graph-div"') == 2
    assert re.search(r"E\d+ supports H1\. run miswired-1, .*sha256 [0-9a-f]{12}, n = 640 aligned tokens", page)
    e = next(e for e in story.evidence_on() if e.source == "figure")
    file = story.path(e.files[0])
    file.write_bytes(file.read_bytes().replace(b"Ladder", b"Lodder"))
    page = story.report().html.read_text()
    assert page.count('class="plotly-graph-div"') == 1
    assert f"{e.id} is stale" in page


def test_the_cause_is_told_once_in_prose_and_once_in_the_record(story: Ledger) -> None:
    """The conclusion at the top, the verdict's reason in its table; a reader of both has not read it three times."""
    story.note("slot 0 is fed boundary 0 and was trained on 2", about="conclusion")
    text = (story.report().markdown or Path()).read_text()
    assert text.count("slot 0 is fed boundary 0 and was trained on 2") == 1
    assert text.count("slot 0 is boundary 0, trained was 2") == 1


def test_the_words_of_a_report_are_explained_in_it(story: Ledger) -> None:
    page = story.report().html.read_text()
    assert page.count('<a href="#words">') == page.count('<h2 id="words">') == 1
    told = page[page.index('<h2 id="words">') :]
    for word in ("boundary b", "slot", "verify step", "accept rate", "accept length", "feed", "ladder"):
        assert f">{word}</td>" in told


def test_no_short_word_is_broken_and_a_table_keeps_to_a_narrow_window() -> None:
    rows = [
        {"id": "E1", "verdict": "inconclusive", "time": "2026-11-30 10:51:48", "one more": "x" * 12, "sha": "0" * 64},
        {"id": "E2", "verdict": "refuted", "time": "2026-11-30 10:51:49", "one more": "y", "sha": "a b"},
    ]
    assert _fits(rows) == ["line", "line", "line", "word", ""]


def test_a_file_elsewhere_tells_nothing_of_this_machine(story: Ledger) -> None:
    e = story.evidence(ROOT / "data" / "lab" / "MODEL_CARD.md", title="a card")
    assert e.files[0].path.startswith("../"), "the ledger itself finds it by the way from its folder"
    paths = story.report()
    assert "checkout:data/lab/MODEL_CARD.md" in paths.html.read_text()
    for path in (paths.html, paths.json, paths.markdown or Path()):
        assert str(ROOT).strip("/") not in path.read_text()


def test_hostile_strings_are_text(story: Ledger) -> None:
    paths = story.report(hosts=("gpu-17.example",))
    page = paths.html.read_text().replace(get_plotlyjs(), "")
    text = (paths.markdown or Path()).read_text()
    for markup in HOSTILE:
        assert markup not in text
        assert markup not in page
    assert page.count("<script") == page.count("</script>")
    assert "<!--" not in page
    assert not re.findall(r"<(?:script|link|img|iframe|object)[^>]+(?:src|href)=[\"'](?!data:)[^\"'>]+", page)
    assert "evil.example/picture" not in page
    assert sorted(p.name for p in (story.folder / "evidence").iterdir() if not p.is_file()) == []
    embedded = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.S)
    assert embedded is not None
    assert json.loads(embedded.group(1)) == json.loads(paths.json.read_text())
    assert "&#64;everyone" in text
    assert "@everyone" not in text


def test_nothing_private_is_in_any_file(story: Ledger) -> None:
    paths = story.report(hosts=("gpu-17.example",))
    for path in (paths.html, paths.json, paths.markdown or Path()):
        text = path.read_text().replace(get_plotlyjs(), "")
        for private in (SECRET, "/home/ann", "10.1.2.3", "gpu-17", "ann@", "//ann", "s3cretvalue", story.entries[0].by):
            assert private not in text, (path.name, private)


def test_servers_that_differ_in_a_patch_alone_differ_in_the_table(story: Ledger) -> None:
    """As a mended source beside the stock one: ids and dtype are the same, and the patch is what was changed."""
    known = {"dtype": "float32", "aux_layer_ids": [1, 4, 8], "boundaries": [2, 5, 9], "greedy_equal": True}
    figures = {"requests": 4, "tokens_per_s": 9.0, "first_difference": None}
    for name, patches in (("patched", ["capture-embedding@0123456789ab"]), ("stock", [])):
        story.evidence(Measurement(name=name, patches=patches, **known, **figures), title=name)  # type: ignore[arg-type]
    rows = json.loads(story.report().json.read_text())["differences"]
    told = next(row for row in rows if row["setting"] == "patches")
    assert (told["patched"], told["stock"]) == ("[capture-embedding]", "none")
