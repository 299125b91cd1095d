"""Tokens that passed the target and never reached the drafter: rows without a feed, and where they sit."""

from __future__ import annotations

from typing import Any

from helpers.tensors.view import View
from helpers.wiring.findings import Finding, error

# What a last verify pass may hold where the launch does not say how many tokens one has.
TAIL = 8


def rows_missing(view: View) -> list[Finding]:
    """Tokens without a row in the feed. The last verify pass of a request is never fed on: its rows are no fault."""
    if view.feed_width is None:
        return []
    fed = view.fed
    launch = view.capture.info.launch
    tail = int(launch.get("speculative_num_draft_tokens") or TAIL)
    ranges: list[dict[str, Any]] = []
    count = 0
    for number, request in enumerate(view.capture.info.requests):
        index = (view.request == number).nonzero().flatten()
        positions, has = view.positions[index].tolist(), fed[index].tolist()
        for start, stop in gaps(positions, has, tail):
            edge = edge_of(start, stop, positions[0], request.prompt_tokens, launch)
            ranges.append({"request": request.id, "start": start, "stop": stop, "edge": edge})
            count += stop - start
    if not ranges:
        return []
    first = ranges[0]
    summary = f"{count} tokens never reached the drafter; the first are {first['start']} to {first['stop'] - 1} of "
    summary += f"request {first['request']}" + (f", at a {first['edge']} edge" if first["edge"] else "")
    evidence = {"rows": count, "ranges": ranges[:50], "edges": sorted({r["edge"] or "none" for r in ranges})}
    return [error("rows-missing", None, summary, **evidence)]


def gaps(positions: list[int], has: list[bool], tail: int) -> list[tuple[int, int]]:
    """Ranges of positions without a feed, up to the last that could have had one."""
    fed = {p for p, h in zip(positions, has, strict=True) if h}
    if not positions:
        return []
    end = positions[-1] + 1
    last = max(fed, default=positions[0] - 1) + 1
    stop = last if end - last <= tail else end - tail
    found: list[tuple[int, int]] = []
    for position in range(positions[0], stop):
        if position in fed:
            continue
        if found and found[-1][1] == position:
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
    return found


def edge_of(start: int, stop: int, first: int, prompt: int, launch: dict[str, Any]) -> str | None:
    """The edge that a range lies at, if any: of a prefill's chunk, of what the prefix cache held, of the prompt."""
    chunk = int(launch.get("chunked_prefill_size") or 0)
    if chunk > 0 and ((start and start % chunk == 0) or stop % chunk == 0):
        return "chunk"
    if start == first:
        return "cache" if first > 0 else "start"
    return "prompt" if prompt in (start, stop) else None
