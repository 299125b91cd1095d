"""From the chunks of a capture to ``workbook.capture/1`` (design.md): ``python -m remote.assemble DIR --requests F``.

DIR is the capture's folder; the hook wrote its chunks to ``DIR/chunks``. F (JSON) tells what the server was and what it
answered: ``{"capture": {run, engine, tp_size, aux_layer_ids, launch, ...}, "requests": [{"id", "prompt_ids",
"output_ids"}]}``. Prints one JSON object; an error is ``{"error": {code, message, expected, next}}`` with exit status 4
(2 for bad usage). The chunks are removed at the end: what they held is in the rank files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from remote import tensorfile
from remote.capture_rows import Plan, Segment, Text, plan
from remote.chunks import FULL, ROW_KEYS, CaptureFailed, Chunk, disk_full, read_chunk, wait_for_ranks
from remote.shards import Place, Share, not_whole, share_out

SCHEMA = "workbook.capture/1"


def place_feed(drafts: Sequence[Chunk], targets: Sequence[Chunk], kept: dict[tuple[int, int], int]) -> list[list[int]]:
    """``[row of the capture, step of the draft pass, row there]`` of each feed row, in the capture's order.

    A draft pass is fed by the last target pass before it that held the same slot: the row at the same position there.
    """
    placed: dict[int, list[int]] = {}
    latest: dict[int, Segment] = {}
    for chunk in sorted([*targets, *drafts], key=lambda c: c.step):
        for segment in chunk.segments():
            if chunk.about["runner"] == "target":
                latest[segment.pool] = segment
                continue
            source = latest.get(segment.pool)
            if source is None:
                continue
            for row, position in enumerate(segment.positions):
                # In a tree several rows share a position; the one that was kept is the one that was fed on.
                rows = [i for i, p in enumerate(source.positions) if p == position]
                place = next(
                    (k for i in rows if (k := kept.get((source.step, source.first_row + i))) is not None), None
                )
                if place is not None:
                    placed.setdefault(place, [place, chunk.step, segment.first_row + row])
    return [placed[place] for place in sorted(placed)]


def write_rank(directory: Path, share: Share, like: tensorfile.Spec) -> tuple[Path, int]:
    """Write ``rank<r>.safetensors`` under a temporary name; gives that path and the number of feed rows.

    Args:
        like: dtype and width of each tensor that is written, a row for each token; ``feed`` where there is one.
    """
    targets = [c for c in share.chunks if c.about["runner"] == "target"]
    kept = {(row.step, row.row): i for i, row in enumerate(share.rows)}
    feed = place_feed([c for c in share.chunks if c.about["runner"] == "draft"], targets, kept)
    by_step = {chunk.step: chunk for chunk in share.chunks}
    moves: dict[int, list[tuple[int, int]]] = {}  # step -> (row there, row of the output)
    for i, row in enumerate(share.rows):
        moves.setdefault(row.step, []).append((row.row, i))
    feed_moves: dict[int, list[tuple[int, int]]] = {}
    for i, (_, step, there) in enumerate(feed):
        if not share.holds(by_step[step], "feed", there):
            raise not_whole(by_step[step], "the feed's rows lie on another rank than the states that they hold,")
        feed_moves.setdefault(step, []).append((there, i))

    total = len(share.rows)
    spec: tensorfile.Spec = {"request": (torch.int32, (total,))}
    spec |= dict.fromkeys(ROW_KEYS, (torch.int64, (total,)))
    names = [name for name in like if name != "feed"]
    spec |= {name: (like[name][0], (total, *like[name][1])) for name in names}
    if "feed" in like:
        spec["feed"] = (like["feed"][0], (len(feed), *like["feed"][1]))
        if [row for row, _, _ in feed] != list(range(total)):
            spec["feed_rows"] = (torch.int64, (len(feed),))

    part = directory / f"rank{share.rank}.safetensors.part"
    out = tensorfile.create(part, spec)
    out["request"].copy_(torch.tensor([row.request for row in share.rows], dtype=torch.int32))
    if "feed_rows" in out:
        out["feed_rows"].copy_(torch.tensor([row for row, _, _ in feed]))
    for step, pairs in moves.items():
        copy_rows(share, by_step[step], [*ROW_KEYS, *names], pairs, out)
    for step, pairs in feed_moves.items():
        copy_rows(share, by_step[step], ["feed"], pairs, out)
    del out
    tensorfile.sync(part)
    return part, len(feed)


def tensors_of(shares: Sequence[Share]) -> tensorfile.Spec:
    """Dtype and width of what every pass has: a tensor that some pass lacks (the embedding of an image, say) cannot be
    given a row for each token. Ranks without a row of their own are written alike.
    """
    steps = [(share, step) for share in shares for step in sorted({row.step for row in share.rows})]
    by_step = {share.rank: {chunk.step: chunk for chunk in share.chunks} for share in shares}
    passes = [by_step[share.rank][step] for share, step in steps]
    names = sorted(set.intersection(*(set(chunk.tensors) for chunk in passes)))
    found = {name: (passes[0].tensors[name][0], passes[0].tensors[name][1][1:]) for name in names}
    fed = (c for share in shares for c in share.chunks if c.about["runner"] == "draft" and "feed" in c.tensors)
    if (first := next(fed, None)) is not None:
        found["feed"] = (first.tensors["feed"][0], first.tensors["feed"][1][1:])
    return found


def copy_rows(
    share: Share, chunk: Chunk, names: Sequence[str], pairs: list[tuple[int, int]], out: dict[str, torch.Tensor]
) -> None:
    """Copy rows of a chunk to their places: ``pairs`` of (row of the pass, row of the output)."""
    rows = [a for a, _ in pairs]
    target = torch.tensor([b for _, b in pairs])
    with safe_open(chunk.path, framework="pt") as file:
        for name in names:
            tensor = file.get_tensor(name)
            source = torch.tensor(rows if name in ROW_KEYS else share.index(chunk, name, rows))
            if tensor.shape[1:] != out[name].shape[1:] or int(source.max()) >= len(tensor):
                raise not_whole(chunk, f"{name} is {list(tensor.shape)}, not {list(out[name].shape[1:])} a row,")
            out[name][target] = tensor[source]


def assemble(directory: Path, order: dict[str, Any], *, patience: float = 10.0) -> dict[str, Any]:
    """Put a capture together; returns what was written. ``order`` is the content of the requests file."""
    chunk_dir = directory / "chunks"
    about = order["capture"]
    texts = [Text(r["id"], (*r["prompt_ids"], *r["output_ids"]), len(r["prompt_ids"])) for r in order["requests"]]
    own_passes = bool((about.get("launch") or {}).get("enable_dp_attention"))
    paths = wait_for_ranks(chunk_dir, int(about["tp_size"]), patience, own_passes=own_passes)
    chunks = {rank: [read_chunk(path, step) for step, path in enumerate(found)] for rank, found in paths.items()}
    plans = {rank: plan_of(part, texts) for rank, part in chunks.items()}
    shares = share_out(chunks, plans)
    held = {row.request for plan in plans.values() for row in plan.rows}
    without = [text.id for i, text in enumerate(texts) if i not in held]
    if without or shares is None:
        what = f"no rows of {without[:5]}" if without else "the ranks hold neither the same rows nor other requests"
        counts = {rank: len(plan.rows) for rank, plan in plans.items()}
        foreign = max(plan.foreign for plan in plans.values())
        raise CaptureFailed(
            "WB-CAPTURE-ROWS",
            f"{what}: rows kept by rank {counts}, {foreign} of no known request",
            expected="the token ids that the server answered, among those that passed the hook",
            next="capture again while nobody else uses the server; with the prefix cache on, flush it first",
        )
    like = tensors_of(shares)
    parts, fed = [], []
    for share in shares:
        part, feed_rows = write_rank(directory, share, like)
        parts.append((part, directory / f"rank{share.rank}.safetensors"))
        fed.append(feed_rows)
    for part, final in parts:
        os.replace(part, final)

    places = sorted({(row.request, row.position) for share in shares for row in share.rows})
    apart = any(len(share.rows) < len(places) for share in shares)
    facts = next(c.about["model"] for part in chunks.values() for c in part if c.about["runner"] == "target")
    capture = {
        "schema": SCHEMA,
        **about,
        "model": {key: facts[key] for key in ("architecture", "num_layers", "hidden_size")},
        "tapped": {"layers": facts["tapped"], "embedding": facts["embedding_tapped"]},
        "rows": {
            "kept": len(places),
            "rejected": max(plan.rejected for plan in plans.values()),
            "foreign": max(plan.foreign for plan in plans.values()),
            "feed": sum(fed) if apart else fed[0],
        },
        "requests": [
            describe(i, text, places, {k: v for k, v in r.items() if k not in ("id", "prompt_ids", "output_ids")})
            for i, (text, r) in enumerate(zip(texts, order["requests"], strict=True))
        ],
        "files": [
            {"name": final.name, "rank": r, "bytes": final.stat().st_size, "sha256": tensorfile.sha256(final)}
            for r, (_, final) in enumerate(parts)
        ],
    }
    part = directory / "capture.json.part"
    part.write_text(json.dumps(capture, indent=1))
    os.replace(part, directory / "capture.json")
    shutil.rmtree(chunk_dir)
    return {"capture": str(directory), "rows": capture["rows"], "files": capture["files"]}


def plan_of(chunks: Sequence[Chunk], texts: Sequence[Text]) -> Plan:
    """Which rows of one rank's passes are the texts that were produced."""
    return plan([s for chunk in chunks if chunk.about["runner"] == "target" for s in chunk.segments()], texts)


def describe(index: int, text: Text, places: Sequence[Place], extra: dict[str, Any]) -> dict[str, Any]:
    """A request's entry in capture.json: where its rows lie (in the ranks' rows together, where those are others
    each), and what of its text has none.
    """
    rows = [i for i, (request, _) in enumerate(places) if request == index]
    return {
        "id": text.id,
        "start": rows[0],
        "length": len(rows),
        "prompt_tokens": text.prompt_tokens,
        "text_tokens": len(text.tokens),
        **extra,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="chunks of a capture -> workbook.capture/1")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--patience", type=float, default=10.0, help="seconds without a byte from any rank")
    args = parser.parse_args(argv)
    try:
        order = json.loads(args.requests.read_text())
        result = assemble(args.directory, order, patience=args.patience)
    except CaptureFailed as failure:
        print(json.dumps({"error": failure.error}))
        return 4
    except OSError as error:
        if error.errno not in FULL:
            raise
        for part in args.directory.glob("*.part"):
            part.unlink()
        print(json.dumps({"error": disk_full(args.directory, "the ranks were not put together").error}))
        return 4
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
