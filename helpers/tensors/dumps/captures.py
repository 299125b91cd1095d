"""A capture as a dump: one sample a request, its slots the feed, as far as the feed goes without a gap from token 0."""

from __future__ import annotations

from pathlib import Path

import torch

from helpers.errors import UsageError
from helpers.tensors.capture import Capture, read_capture
from helpers.tensors.capture_info import Request
from helpers.tensors.dumps.sample import Dump, Sample, States, sample_of

NAME = "workbook.capture/1"


def open_capture(path: Path) -> Dump:
    """The feed of a capture as training would store it."""
    capture = read_capture(path, verify=True)
    slots, rank = capture.slots, capture.ranks[0]
    usable = [request for request in capture.info.requests if fed(capture, request)]
    if slots is None or not usable:
        raise UsageError(
            "WB-DUMP-SHAPE",
            f"{path} is a capture with {'no feed of whole slots' if slots is None else 'no request fed from token 0'}",
            expected=f"a feed whose width is a multiple of {capture.info.model.hidden_size}",
            next="workbook capture BOX RUN --replay DUMP",
        )

    def opener(index: int) -> Sample:
        return sample_of(states(capture, usable[index]), rank.path, lambda: states(capture, usable[index]))

    dtype = rank.entries["feed"].dtype
    count, hidden = len(usable), capture.info.model.hidden_size
    return Dump(path, NAME, (rank.path,), slots, hidden, dtype, opener, count, ranks=len(capture.ranks))


def fed(capture: Capture, request: Request) -> int:
    """How many tokens of a request, from its first, have a feed."""
    rank = capture.ranks[0]
    if rank.feed_rows is None:
        return 0
    rows = slice(request.start, request.start + request.length)
    has = torch.isin(torch.arange(rows.start, rows.stop), rank.feed_rows)
    straight = rank.positions[rows] == torch.arange(request.length)
    return int((has & straight).long().cumprod(dim=0).sum())


def states(capture: Capture, request: Request) -> States:
    rank, count = capture.ranks[0], fed(capture, request)
    rows = torch.arange(request.start, request.start + count)
    assert rank.feed_rows is not None
    place = torch.searchsorted(rank.feed_rows, rows)
    feed = rank.rows("feed", place).view(count, capture.slots or 1, capture.info.model.hidden_size)
    last = f"boundary.{capture.info.model.num_layers:03d}"
    verifier = rank.rows(last, rows) if last in rank.entries else None
    return States(rank.token_ids[rows], feed, verifier)
