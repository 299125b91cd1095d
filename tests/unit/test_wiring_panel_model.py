"""What the wiring panel shows, without a browser; and its numbers against plain computation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import streams
import torch

from helpers.errors import UsageError
from helpers.export import FIGURES_MIME
from helpers.panels.wiring_model import WiringModel
from helpers.panels.worker import Cancelled
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.dumps import Dump, read_dump
from helpers.wiring.diagnosis import diagnose
from helpers.wiring.per_token import look_at_tokens, partings
from helpers.wiring.token_tables import pair_rows

Sides = tuple[Capture, Dump]


def sides(path: Path, feed: tuple[int, ...] = (0, 2, 5), *, ranks: int = 1, spoil: float = 0.0) -> Sides:
    texts = streams.texts()
    served = streams.served(texts, feed, ranks=ranks)
    for rank in served.ranks[1:]:
        rank["boundary.004"][20:] += spoil
    capture = read_capture(served.write(path / "capture"))
    return capture, read_dump(streams.write_dump(path / "dump", texts, dtype=torch.float32))


def loaded(capture: Capture, dump: Dump, **more: object) -> WiringModel:
    model = WiringModel(capture, dump, diagnose(capture, dump), **more)  # type: ignore[arg-type]
    model.take(model.read())
    return model


def test_the_pairs_figures_are_those_of_plain_torch(tmp_path: Path) -> None:
    capture, dump = sides(tmp_path)
    view = look_at_tokens(capture, dump)
    texts = streams.texts()
    rows = torch.cat([streams.stream(text)[2][1:-1] for text in texts])  # served slot 1: no token 0, no last row
    trained = torch.cat([streams.stream(text)[5][1:-1] for text in texts])
    table = pair_rows(view, served=1, trained=1)
    assert len(table) == len(rows) == view.total
    assert table["served_norm"].to_numpy() == pytest.approx(rows.norm(dim=1).numpy(), rel=1e-5)
    assert table["trained_norm"].to_numpy() == pytest.approx(trained.norm(dim=1).numpy(), rel=1e-5)
    cosine = torch.cosine_similarity(rows, trained)
    centred = torch.cosine_similarity(rows - rows.mean(0), trained - trained.mean(0))
    assert table["cosine"].to_numpy() == pytest.approx(cosine.numpy(), abs=1e-5)
    assert table["centred"].to_numpy() == pytest.approx(centred.numpy(), abs=1e-5)
    assert table.loc[0, ["request", "position"]].tolist() == [0, 1]
    assert table["token_id"].tolist()[:5] == texts[0][1:6].tolist()


def test_a_large_capture_stays_bounded_and_says_how(tmp_path: Path) -> None:
    capture, dump = sides(tmp_path)
    whole, few = look_at_tokens(capture, dump), look_at_tokens(capture, dump, tokens=20)
    assert whole.rule == "all 202 paired tokens"
    assert len(few) <= 20
    assert few.rule == f"{len(few)} of 202 paired tokens, one in 11"
    assert few.served_rows.tolist() == whole.served_rows[::11].tolist()  # counted through the requests


def test_where_the_sides_part(tmp_path: Path) -> None:
    capture, dump = sides(tmp_path, (0, 2, 9))
    found = partings(look_at_tokens(capture, dump))
    assert [(p.trained, p.served, p.at, p.tokens) for p in found] == [(2, 0, 0, 202), (5, 2, 0, 202), (9, 9, None, 0)]


def test_the_first_pair_is_the_worst_of_the_diagonal(tmp_path: Path) -> None:
    model = loaded(*sides(tmp_path, (2, 4, 9)))
    assert model.pair == (1, 1)
    assert "Served slot 1 and trained slot 1" in model.pair_summary()


def test_static_has_matrix_partings_findings_and_three_figures(tmp_path: Path) -> None:
    model = loaded(*sides(tmp_path))
    static = model.static()
    assert [table.caption.split(":")[0].split(" (")[0] for table in static.tables] == [
        "Slot matrix",
        "Where the sides part",
        "Findings",
    ]
    assert static.tables[0].rows[1]["trained slot 0"] == "1.0000"
    assert len(static.figures) == 3
    bundle = static.bundle()
    assert "slot-embedding" in bundle["text/html"]
    open_ones = [row["code"] for row in static.tables[2].rows if row["severity"] == "not decided"]
    assert open_ones == [one["code"] for one in (model.diagnosis or {})["undecided"]]
    assert "fc-order" in open_ones
    assert "slot-embedding" in bundle["text/plain"]
    assert len(json.dumps(bundle[FIGURES_MIME])) < 300_000


def test_the_shown_call_runs_as_it_stands(tmp_path: Path) -> None:
    capture, dump = sides(tmp_path, ranks=2, spoil=0.5)
    model = loaded(capture, dump)
    for choice in ("served slot 1", "trained slot 2", "rank 1 against rank 0"):
        model.ladder_of = choice
        scope = {"capture": capture, "dump": dump}
        exec(model.call(), scope)
        assert scope["pair"].equals(model.pair_table())  # type: ignore[attr-defined]


def test_ranks_show_the_first_layer_and_token_that_differ(tmp_path: Path) -> None:
    model = loaded(*sides(tmp_path, ranks=2, spoil=0.5))
    assert "rank 1 against rank 0" in model.ladder_choices
    model.ladder_of = "rank 1 against rank 0"
    figure = model.ladder_figure()
    assert figure is not None
    mark = figure.data[1]
    assert (list(mark.x), list(mark.y)) == ([19], [4])  # row 20 of the capture is token 19 of those shown


def test_before_it_is_read_it_says_so(tmp_path: Path) -> None:
    model = WiringModel(*sides(tmp_path))
    assert "Nothing has been compared yet" in model.static().html
    assert model.ladder_choices == {}


def test_reading_ends_where_it_is_cancelled(tmp_path: Path) -> None:
    def check() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        WiringModel(*sides(tmp_path)).read(check)


def test_a_capture_without_a_feed_has_a_ladder_and_no_pairs(tmp_path: Path) -> None:
    texts = streams.texts()
    served = streams.served(texts)
    for rank in served.ranks:
        del rank["feed"], rank["feed_rows"]
    capture = read_capture(served.write(tmp_path / "capture"))
    model = loaded(capture, read_dump(streams.write_dump(tmp_path / "dump", texts)))
    assert not model.has_pairs
    assert "no feed" in model.static().text
    assert [figure.layout.title.text for figure in model.static().figures] == [
        "Trained slot 0 against the ladder, by layer and token"
    ]


def test_other_texts_are_refused_with_the_code(tmp_path: Path) -> None:
    capture, _ = sides(tmp_path)
    dump = read_dump(streams.write_dump(tmp_path / "other", streams.texts(seed=99)))
    with pytest.raises(UsageError) as caught:
        WiringModel(capture, dump).read()
    assert caught.value.code == "WB-ALIGN-NOTHING"
