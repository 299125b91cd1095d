"""What a path holds: a capture or a training dump, told by content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump


def inspect(path: Path) -> dict[str, Any]:
    """Describe a capture (a folder with capture.json) or a dump.

    Returns:
        ``format``, ``samples``, ``tokens``, ``slots`` (K, None where unknown), ``hidden_size``, ``dtype``,
        ``layer_ids`` (None where none are stored), and for a capture ``run``, ``engine``, ``ranks``, ``boundaries``,
        ``feed_width``.
    """
    if (path / "capture.json").exists():
        return inspect_capture(path)
    dump = read_dump(path)
    tokens, stored = 0, None
    for sample in dump:
        tokens += len(sample.token_ids)
        stored = sample.stored_ids
    return {
        "format": dump.format,
        "samples": len(dump),
        "tokens": tokens,
        "slots": dump.slots,
        "hidden_size": dump.hidden_size,
        "dtype": str(dump.dtype).removeprefix("torch."),
        "layer_ids": stored,
    }


def inspect_capture(path: Path) -> dict[str, Any]:
    capture = read_capture(path)
    rank, info = capture.ranks[0], capture.info
    tensors = [e for name, e in rank.entries.items() if name.split(".")[0] in ("boundary", "feed", "normed")]
    return {
        "format": info.schema_,
        "samples": len(info.requests),
        "tokens": len(rank.token_ids),
        "slots": capture.slots,
        "hidden_size": info.model.hidden_size,
        "dtype": str(tensors[0].dtype).removeprefix("torch.") if tensors else None,
        "layer_ids": info.aux_layer_ids,
        "run": info.run,
        "engine": f"{info.engine.name} {info.engine.version}",
        "ranks": len(capture.ranks),
        "boundaries": rank.boundaries,
        "feed_width": rank.feed_width,
    }
