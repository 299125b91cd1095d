"""What a path holds: a capture or a training dump, told by content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump


def inspect(path: Path, *, format: str | None = None) -> dict[str, Any]:
    """Describe a capture (a folder with capture.json) or a dump; ``format`` settles what its files leave open.

    Returns:
        ``format``, ``samples``, ``tokens``, ``slots`` (K, None where unknown), ``hidden_size``, ``dtype``,
        ``layer_ids`` (None where none are stored); for a dump ``files``, ``verifier`` ("before" or "after" the final
        norm, "unsaid", None where there is none), ``loss_mask``, ``warnings``; for a capture ``run``, ``engine``,
        ``ranks``, ``boundaries``, ``feed_width``.
    """
    if (path / "capture.json").exists() and format in (None, "workbook.capture/1"):
        return inspect_capture(path)
    dump = read_dump(path, format=format)
    tokens, stored, verifier, masked = 0, None, True, True
    for sample in dump:
        tokens += len(sample.token_ids)
        stored = sample.stored_ids
        verifier = verifier and sample.verifier is not None
        masked = masked and sample.loss_mask is not None
    said = {True: "after the final norm", False: "before the final norm", None: "unsaid"}
    return {
        "format": dump.format,
        "samples": len(dump),
        "tokens": tokens,
        "slots": dump.slots,
        "hidden_size": dump.hidden_size,
        "dtype": str(dump.dtype).removeprefix("torch."),
        "layer_ids": None if stored is None else list(stored),
        "files": len(dump.files),
        "verifier": said[dump.normed_verifier] if verifier else None,
        "loss_mask": masked,
        "ranks": dump.ranks,
        "warnings": list(dump.warnings),
    }


def inspect_capture(path: Path) -> dict[str, Any]:
    capture = read_capture(path, verify=True)
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
