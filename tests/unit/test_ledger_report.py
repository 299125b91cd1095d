"""The report of a ledger: verdict first, refuted ones kept, nothing hostile alive, nothing external, the same again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs
from stories import HOSTILE, SECRET, told_story

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.ledger import Ledger, open_ledger
from helpers.ledger.check import verify
from helpers.ledger.files import look, place
from helpers.ledger.legends import legend
from helpers.ledger.report import _fits
from helpers.panels.markup import text as cell_text
from helpers.paths import DATA, ROOT
from helpers.revision import revision
from helpers.wiring.replay.result import Rated, Versus


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


def test_a_measured_difference_is_told_once_at_the_top(story: Ledger) -> None:
    """A verdict that says all that its evidence does, and one that says less of it: each figure stands there once."""
    pair = PairedDifference(first="mended", second="miswired", difference=0.368, ci95=(0.279, 0.464), requests=16)
    h = story.hypothesis("acceptance comes back", key="fix", prediction="p", threshold="t")
    story.evidence(pair, on=h, supports=True, title="mended against production")
    story.verdict(h, "confirmed", reason=f"{pair}; greedy text equal: yes")
    top = json.loads(story.report().json.read_text())["summary"]
    (line,) = [line for line in top if "+36.8 points" in line]
    assert f"comes back. A{str(pair)[1:]}; greedy text equal: yes. Evidence" in line

    story.verdict(h, "confirmed", reason="+36.8 points")
    top = json.loads(story.report().json.read_text())["summary"]
    (line,) = [line for line in top if "+36.8 points" in line]
    assert line.startswith("Mended against production: accept rate of mended")
    limits = json.loads(story.report().json.read_text())["limits"]
    assert not [text for text in limits if "without speculation" in text], "there is no rate of one server at all"


def test_a_fix_that_was_only_replayed_says_so(story: Ledger) -> None:
    served = Rated(taps=[0, 2, 5], accept_rate=0.3, ci95=(0.2, 0.4), verify_steps=237, accept_length=1.9)
    gain = Versus(
        **{**dict(served), "taps": [2, 5, 9]}, replayed=served, requests=12, difference=0.4, difference_ci95=(0.3, 0.5)
    )
    h = story.hypothesis("more drafts are accepted", key="fix", prediction="p", threshold="t")
    e = story.evidence(gain, on=h, supports=True, title="as trained", note="the texts are the dump's own")
    story.verdict(h, "confirmed", reason="higher")
    text = (story.report().markdown or Path()).read_text()
    assert "Effect of the fix, in a replay and not served: more drafts" in text
    assert f"paired over 12 requests: +0.400 \\[+0.300, +0.500\\] ({e.id}, n = 12 requests). The texts are" in text
    assert "\\[+0.300, +0.500\\]. The texts are the dump's own |" in text, "summary and note are two sentences"


def test_every_figure_of_the_workbook_has_a_legend() -> None:
    titles = [
        title
        for path in (ROOT / "helpers" / "figures").glob("*.py")
        for title in re.findall(r'(?<!_)title=f?"([^"{]{8,})', path.read_text())
    ]
    assert len(titles) > 8
    assert [title for title in titles if not legend(title)] == []


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


@pytest.mark.parametrize("climb", ["../..", "../../../srv/ann/workbook/data"])
def test_a_copied_investigation_finds_its_files_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, climb: str
) -> None:
    """As a colleague has it: the folder elsewhere, the files that its paths climb to in their own checkout."""
    monkeypatch.setenv("WORKBOOK_INVESTIGATIONS", str(tmp_path))
    ledger = open_ledger("copied")
    card = DATA / "lab" / "MODEL_CARD.md"
    e = ledger.evidence(card, title="a card")
    (file,) = e.files
    copied = file.model_copy(update={"path": f"{climb}/lab/MODEL_CARD.md"})
    assert (look(copied, ledger.folder), look(copied, ledger.folder, since=e.at)) == ("same", "same")
    assert ledger.path(copied) == card
    assert place(copied.path, ledger.folder) == "checkout:data/lab/MODEL_CARD.md"
    other = copied.model_copy(update={"sha256": "0" * 64})
    assert look(other, ledger.folder, since="2999-01-01T00:00:00+00:00") == "changed", "its bytes are read"
    gone = copied.model_copy(update={"path": f"{climb}/lab/nothing.md"})
    assert look(gone, ledger.folder) == "missing"


def test_names_in_backticks_are_code_in_tables_as_well(story: Ledger) -> None:
    story.evidence({"summary": "a tap is `all_gather(<x>)`"}, title="a statement", note="its launch: none")
    page = story.report().html.read_text()
    cell = "a tap is <code>all_gather(&lt;x&gt;)</code>. Its launch: none</td>"
    assert cell in page
    assert cell_text("a `b<c`") == "a <code>b&lt;c</code>"


def test_a_report_tells_the_workbook_that_made_it(story: Ledger) -> None:
    assert json.loads(story.report().json.read_text())["workbook"] == revision()
    assert re.fullmatch(r"\d+\.\d+\.\d+, commit (not known|[0-9a-f]{12}( and changes)?)", revision())


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
