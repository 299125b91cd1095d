"""The receive buffer of long streams: the same bytes, whatever is fed and asked for."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko.buffered_pipe import PipeTimeout

from helpers.box.bulk import BulkBuffer


@given(st.lists(st.binary(min_size=1, max_size=50)), st.lists(st.integers(1, 40), min_size=1))
def test_bytes_come_out_as_they_went_in(blocks: list[bytes], sizes: list[int]) -> None:
    buffer, out, turn = BulkBuffer(), b"", 0
    for block in blocks:
        buffer.feed(block)
        size = sizes[turn % len(sizes)]
        piece = b"".join(buffer.read(size).blocks)
        assert 0 < len(piece) <= size
        out, turn = out + piece, turn + 1
        if not buffer.read_ready():
            assert len(buffer) == 0
        if turn % 3 == 0:
            out += buffer.empty()
        if not buffer.read_ready():
            continue
        out += buffer.empty()
    buffer.close()
    out += b"".join(buffer.read(10_000).blocks)
    assert out == b"".join(blocks)
    assert buffer.read(100).blocks == []


def test_a_reader_waits_until_its_timeout_or_the_end() -> None:
    buffer = BulkBuffer()
    with pytest.raises(PipeTimeout):
        buffer.read(10, 0.01)
    threading.Timer(0.05, buffer.close).start()
    assert len(buffer.read(10, 5)) == 0


def test_a_long_stream_comes_in_few_large_steps() -> None:
    buffer, steps, seen = BulkBuffer(), 0, 0

    def feed() -> None:
        for _ in range(256):
            buffer.feed(b"x" * 32768)
            time.sleep(0)
        buffer.close()

    thread = threading.Thread(target=feed)
    thread.start()
    while block := buffer.read(1 << 21, 5):
        steps, seen = steps + 1, seen + len(block)
    thread.join()
    assert seen == 256 * 32768
    assert steps < 150
