"""Intervals over log lines: never without width, and with what a reader must know beside them.

.venv/bin/python -m pytest tests/unit/test_log_intervals.py
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.acceptance.sources import Counters, read_log

Reader = Callable[[list[float]], Counters]

START = "[2026-11-30 05:42:33] server_args=ServerArgs(speculative_num_steps=3, speculative_num_draft_tokens=4)"
SHARED = "log intervals that follow each other share their requests"


def sglang(lengths: list[float]) -> Counters:
    lines = [
        f"[2026-11-30 05:43:{second:02d}] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, "
        f"accept len: {length:.2f}, accept rate: {length / 4:.2f}, cuda graph: True, "
        "gen throughput (token/s): 90.00, #queue-req: 0"
        for second, length in enumerate([1.0, *lengths])  # the first is warm-up
    ]
    return read_log([START, *lines])


def vllm(lengths: list[float]) -> Counters:
    """Twenty steps of three drafts a line."""
    lines = []
    for length in lengths:
        accepted = round(20 * (length - 1))
        shares = [min(1.0, max(0.0, accepted / 20 - k)) for k in range(3)]
        lines.append(
            f"INFO 11-30 05:43:00 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: {length:.2f}, "
            f"Accepted throughput: 9.99 tokens/s, Drafted throughput: 20.00 tokens/s, Accepted: {accepted} tokens, "
            f"Drafted: 60 tokens, Per-position acceptance rate: {', '.join(f'{share:.3f}' for share in shares)}, "
            f"Avg Draft acceptance rate: {accepted / 0.6:.1f}%"
        )
    return read_log(lines)


@pytest.mark.parametrize("read", [sglang, vllm])
def test_three_lines_have_an_interval_that_says_how_little_it_is(read: Reader) -> None:
    found = read([2.30, 2.35, 2.30])
    assert found.accept_length_ci95 is not None
    assert found.accept_length_ci95[0] < found.accept_length_ci95[1]
    assert "over 3 log intervals: an interval drawn from so few is too narrow; decide nothing on it" in found.warnings
    assert [told for told in found.warnings if told.startswith(SHARED)]


@pytest.mark.parametrize("read", [sglang, vllm])
def test_equal_lines_tell_no_interval(read: Reader) -> None:
    for lengths in ([2.30, 2.30], [2.30] * 40):
        found = read(lengths)
        assert found.accept_length == pytest.approx(2.30)
        assert (found.accept_length_ci95, found.accept_rate_ci95) == (None, None)
        said = f"all {len(lengths)} log intervals have the same accept length: that tells no 95% interval"
        assert said in found.warnings


@pytest.mark.parametrize("read", [sglang, vllm])
def test_many_lines_still_share_their_requests(read: Reader) -> None:
    found = read([2.30, 2.35] * 20)
    assert not [told for told in found.warnings if "decide nothing" in told]
    assert [told for told in found.warnings if told.startswith(SHARED)]
    assert not [told for told in read([2.30]).warnings if SHARED in told or "log intervals" in told]
