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
from remote.chunks import ROW_KEYS, CaptureFailed, Chunk, read_chunk, wait_for_ranks

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


def write_rank(directory: Path, rank: int, chunks: list[Chunk], chosen: Plan) -> tuple[Path, int]:
    """Write ``rank<r>.safetensors`` under a temporary name; gives that path and the number of feed rows."""
    targets = [c for c in chunks if c.about["runner"] == "target"]
    kept = {(row.step, row.row): i for i, row in enumerate(chosen.rows)}
    feed = place_feed([c for c in chunks if c.about["runner"] == "draft"], targets, kept)
    by_step = {chunk.step: chunk for chunk in chunks}
    moves: dict[int, list[tuple[int, int]]] = {}  # step -> (row there, row of the output)
    for i, row in enumerate(chosen.rows):
        moves.setdefault(row.step, []).append((row.row, i))
    feed_moves: dict[int, list[tuple[int, int]]] = {}
    for i, (_, step, there) in enumerate(feed):
        feed_moves.setdefault(step, []).append((there, i))

    total = len(chosen.rows)
    spec: tensorfile.Spec = {"request": (torch.int32, (total,))}
    spec |= dict.fromkeys(ROW_KEYS, (torch.int64, (total,)))
    # A tensor that some pass lacks (the embedding of an image, say) cannot be given a row for each token.
    names = sorted(set.intersection(*(set(by_step[step].tensors) for step in moves)))
    first = by_step[min(moves)]
    spec |= {name: (first.tensors[name][0], (total, first.tensors[name][1][1])) for name in names}
    if feed:
        dtype, shape = by_step[feed[0][1]].tensors["feed"]
        spec["feed"] = (dtype, (len(feed), shape[1]))
        if [row for row, _, _ in feed] != list(range(total)):
            spec["feed_rows"] = (torch.int64, (len(feed),))

    part = directory / f"rank{rank}.safetensors.part"
    out = tensorfile.create(part, spec)
    out["request"].copy_(torch.tensor([row.request for row in chosen.rows], dtype=torch.int32))
    if "feed_rows" in out:
        out["feed_rows"].copy_(torch.tensor([row for row, _, _ in feed]))
    for step, pairs in moves.items():
        copy_rows(by_step[step], [*ROW_KEYS, *names], pairs, out)
    for step, pairs in feed_moves.items():
        copy_rows(by_step[step], ["feed"], pairs, out)
    del out
    tensorfile.sync(part)
    return part, len(feed)


def copy_rows(chunk: Chunk, names: Sequence[str], pairs: list[tuple[int, int]], out: dict[str, torch.Tensor]) -> None:
    """Copy rows of a chunk to their places: ``pairs`` of (row in the chunk, row of the output)."""
    source = torch.tensor([a for a, _ in pairs])
    target = torch.tensor([b for _, b in pairs])
    with safe_open(chunk.path, framework="pt") as file:
        for name in names:
            tensor = file.get_tensor(name)
            if tensor.shape[0] < len(chunk.positions) or tensor.shape[1:] != out[name].shape[1:]:
                raise CaptureFailed(
                    "WB-CAPTURE-SHARD",
                    f"{name} is {list(tensor.shape)} in a pass of {len(chunk.positions)} tokens ({chunk.path.name})",
                    expected="a row of one width for each token, on each rank",
                    next="capture without an A2A MoE backend, data-parallel attention and context parallelism",
                )
            out[name][target] = tensor[source]


def assemble(directory: Path, order: dict[str, Any], *, patience: float = 10.0) -> dict[str, Any]:
    """Put a capture together; returns what was written. ``order`` is the content of the requests file."""
    chunk_dir = directory / "chunks"
    about = order["capture"]
    texts = [Text(r["id"], (*r["prompt_ids"], *r["output_ids"]), len(r["prompt_ids"])) for r in order["requests"]]
    parts: list[tuple[Path, Path]] = []
    plans: list[tuple[list[tuple[int, int]], Plan]] = []
    facts: dict[str, Any] = {}
    feed_rows = 0
    for rank, paths in wait_for_ranks(chunk_dir, int(about["tp_size"]), patience).items():
        chunks = [read_chunk(path, step) for step, path in enumerate(paths)]
        targets = [c for c in chunks if c.about["runner"] == "target"]
        chosen = plan([s for chunk in targets for s in chunk.segments()], texts)
        without = [t.id for i, t in enumerate(texts) if not any(row.request == i for row in chosen.rows)]
        places = [(row.request, row.position) for row in chosen.rows]
        if without or (plans and plans[0][0] != places):
            what = f"no rows of {without[:5]}" if without else f"rank {rank} holds other rows than rank 0"
            raise CaptureFailed(
                "WB-CAPTURE-ROWS",
                f"{what} on rank {rank}: {len(places)} rows kept, {chosen.foreign} of no known request",
                expected="the token ids that the server answered, among those that passed the hook",
                next="capture again while nobody else uses the server; with the prefix cache on, flush it first",
            )
        plans.append((places, chosen))
        facts = targets[0].about["model"]
        part, feed_rows = write_rank(directory, rank, chunks, chosen)
        parts.append((part, directory / f"rank{rank}.safetensors"))

    for part, final in parts:
        os.replace(part, final)
    chosen = plans[0][1]
    capture = {
        "schema": SCHEMA,
        **about,
        "model": {key: facts[key] for key in ("architecture", "num_layers", "hidden_size")},
        "tapped": {"layers": facts["tapped"], "embedding": facts["embedding_tapped"]},
        "rows": {"kept": len(chosen.rows), "rejected": chosen.rejected, "foreign": chosen.foreign, "feed": feed_rows},
        "requests": [
            describe(i, text, chosen, {k: v for k, v in r.items() if k not in ("id", "prompt_ids", "output_ids")})
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


def describe(index: int, text: Text, chosen: Plan, extra: dict[str, Any]) -> dict[str, Any]:
    """A request's entry in capture.json: where its rows lie, and what of its text has none."""
    rows = [(i, row.position) for i, row in enumerate(chosen.rows) if row.request == index]
    return {
        "id": text.id,
        "start": rows[0][0],
        "length": len(rows),
        "prompt_tokens": text.prompt_tokens,
        "text_tokens": len(text.tokens),
        **extra,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="chunks of a capture -> workbook.capture/1")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--patience", type=float, default=10.0, help="seconds to wait for the last rank to write")
    args = parser.parse_args(argv)
    try:
        order = json.loads(args.requests.read_text())
        result = assemble(args.directory, order, patience=args.patience)
    except CaptureFailed as failure:
        print(json.dumps({"error": failure.error}))
        return 4
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
