"""Statistics against their definitions, written out token by token; alignment by token ids."""

from __future__ import annotations

from pathlib import Path

import pytest
import streams
import torch

from helpers.tensors.align import align, feed_index
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.tensors.health import Health
from helpers.tensors.statistics import (
    compare,
    cosines,
    gram_error,
    non_finite,
    norm_spread,
    norms,
    shifted,
    slot_matrix,
)
from helpers.wiring import features


def stack(tokens: int = 37, features: int = 4, hidden: int = 16) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(tokens, features, hidden) * 3 + torch.linspace(-5, 5, hidden)


def test_streaming_equals_the_definition() -> None:
    x = stack()
    found = compare(lambda: [x[:5], x[5:6], x[6:]])
    centred = x.double() - x.double().mean(0)
    for a in range(4):
        for b in range(4):
            raw = torch.nn.functional.cosine_similarity(x[:, a].double(), x[:, b].double(), dim=-1).mean()
            mid = torch.nn.functional.cosine_similarity(centred[:, a], centred[:, b], dim=-1).mean()
            assert float(found.cosine[a, b]) == pytest.approx(float(raw), abs=1e-6)
            assert float(found.centred[a, b]) == pytest.approx(float(mid), abs=1e-6)
    assert found.tokens == 37


def test_bf16_input_is_summed_in_float32() -> None:
    x = stack().bfloat16()
    assert torch.allclose(compare(lambda: [x]).centred, compare(lambda: [x.float()]).centred)
    assert norms(x).dtype == torch.float32


def test_scale_and_relative_error() -> None:
    x = stack(features=1)
    found = compare(lambda: [torch.cat([x * 1.25, x], dim=1)])
    assert found.scale(0, 1) == pytest.approx(1.25, abs=1e-5)
    assert found.relative_error(0, 1) == pytest.approx(0.25, abs=1e-4)
    assert found.relative_error(1, 1) == 0


def test_a_constant_feature_is_like_nothing() -> None:
    x = torch.cat([stack(features=1), torch.ones(37, 1, 16)], dim=1)
    assert float(compare(lambda: [x]).centred[0, 1]) == pytest.approx(0, abs=1e-6)


def test_small_ones() -> None:
    x = stack()
    assert torch.allclose(cosines(x, x), torch.ones(37, 4))
    assert slot_matrix(x[:, :2], x[:, 1:]).shape == (2, 3)
    assert float(slot_matrix(x[:, :2], x[:, 1:])[1, 0]) == pytest.approx(1)
    x[3, 1, 2], x[4, 1, 0], x[4, 3, 0] = float("nan"), float("inf"), float("-inf")
    assert non_finite(x).tolist() == [0, 2, 0, 1]
    with pytest.raises(ValueError, match="no tokens"):
        compare(list)


def test_requests_may_be_longer_shorter_and_in_another_order(tmp_path: Path) -> None:
    texts = streams.texts(3, length=20)
    longer = torch.cat([texts[2], torch.tensor([5, 6, 7])])
    capture = read_capture(streams.served([longer, texts[0][:11], torch.arange(9)]).write(tmp_path / "c"))
    dump = read_dump(streams.write_dump(tmp_path / "d", texts))
    pairs = list(align(capture, dump))
    assert [(p.sample.source.name, p.request, len(p)) for p in pairs] == [("data_0.pt", 1, 11), ("data_2.pt", 0, 26)]
    for pair in pairs:
        assert torch.equal(capture.ranks[0].token_ids[pair.served], pair.sample.token_ids[pair.trained])


def test_a_text_that_departs_is_paired_up_to_there(tmp_path: Path) -> None:
    text = streams.texts(1, length=20)[0]
    other = text.clone()
    other[13] = (other[13] + 1) % 1024
    capture = read_capture(streams.served([other]).write(tmp_path / "c"))
    (pair,) = align(capture, read_dump(streams.write_dump(tmp_path / "d", [text])))
    assert pair.trained.tolist() == list(range(13))


def test_rows_that_a_cache_spared(tmp_path: Path) -> None:
    text = streams.texts(1, length=20)[0]
    served = streams.served([text])
    spared = 6
    feed = served.ranks[0]["feed_rows"] >= spared
    for name, tensor in served.ranks[0].items():
        served.ranks[0][name] = tensor[feed] if name.startswith("feed") else tensor[spared:]
    served.ranks[0]["feed_rows"] -= spared
    served.info["requests"][0] |= {"length": 20 - spared}
    capture = read_capture(served.write(tmp_path / "c"))
    (pair,) = align(capture, read_dump(streams.write_dump(tmp_path / "d", [text])))
    assert pair.trained.tolist() == list(range(spared, 20))
    assert pair.served.tolist() == list(range(20 - spared))
    assert feed_index(capture).tolist() == [*range(20 - spared - 1), -1]


def test_blocks_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = streams.texts(3, length=20)
    capture = read_capture(streams.served(texts, (0, 2, 5)).write(tmp_path / "c"))
    dump = read_dump(streams.write_dump(tmp_path / "d", texts))
    held = features.compare_features(capture, dump)
    monkeypatch.setattr(features, "IN_MEMORY", 0)
    monkeypatch.setattr(features, "BLOCK", 4 * 17 * streams.HIDDEN * 5)  # five rows
    streamed = features.compare_features(capture, dump)
    assert torch.equal(held.positions, streamed.positions)
    assert torch.allclose(held.statistics.centred, streamed.statistics.centred, atol=1e-5)
    monkeypatch.setattr(features, "MEAN_TOKENS", 20)  # means of every third token: near, and no more is claimed
    sampled = features.compare_features(capture, dump)
    assert sampled.tokens == held.tokens
    assert [m and m.boundary for m in sampled.served] == [0, 2, 5]


def test_shifts_and_inner_products() -> None:
    x = stack(tokens=40)
    moved = x.roll(-1, dims=0)  # row t of it is row t + 1 of x
    scores = shifted(moved, x)
    assert scores.shape == (5, 4)
    assert scores.argmax(dim=0).tolist() == [3] * 4
    assert scores[3].min() > 0.999
    with pytest.raises(ValueError, match="too few"):
        shifted(x[:4], x[:4])
    q, _ = torch.linalg.qr(torch.randn(16, 16))
    assert gram_error(x[:, 0] @ q, x[:, 0]) < 1e-4
    assert norm_spread(x[:, 0] @ q, x[:, 0]) < 1e-5
    assert gram_error(x[:, 0], x[:, 1]) > 0.3


def test_rows_that_are_broken_are_counted_across_blocks() -> None:
    x = torch.randn(8, 6).bfloat16()
    x[5], x[6] = x[1], 0
    health = Health()
    tokens = torch.arange(8).unsqueeze(1)
    for part in (slice(0, 3), slice(3, 8)):
        health.rows("feed[0]", x[part], torch.arange(8)[part], tokens[part])
    assert (health.zero, health.repeated("feed[0]"), health.stale("feed[0]")) == ({"feed[0]": [6]}, [1, 5], [1, 5, 6])
    same_text = Health()
    same_text.rows("a", x[[1, 5]], torch.tensor([1, 5]), torch.tensor([[4], [4]]))
    assert same_text.stale("a") == []
    x[2, 3], x[4, 0] = float("nan"), float("-inf")
    assert same_text.finite("b", x, torch.arange(8)).tolist() == [True, True, False, True, False, True, True, True]
    assert same_text.non_finite == {"b": [2, 4]}
