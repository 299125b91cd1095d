"""What of a capture travels when it is left on its box, over a real connection."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.rows import Row
from benchmarks.sshd import running
from helpers.box import connect
from helpers.tensors.capture import read_capture
from helpers.tensors.dumps import read_dump
from helpers.wiring.diagnosis import Diagnosis, diagnose
from helpers.wiring.near import open_on

TOKENS, HIDDEN, LAYERS, TAPS = 4096, 1024, 10, (2, 5, 9)

NAMES = ("sketch_bytes_share",)


def rows(names: Sequence[str] = NAMES) -> Iterator[Row]:
    """The larger share of two captures: every slot a tap, and one slot in doubt, for which whole rows come too."""
    with tempfile.TemporaryDirectory(prefix="wb-bench-") as name, running(Path(name)) as server:
        dump, shares, said = write_dump(Path(name) / "dump"), [], []
        with connect(server.target) as box:
            for fault in ("miswired", "rotated"):
                folder = write_capture(server.home / fault, fault)
                there = open_on(box, str(folder), python=sys.executable)
                near, whole = (diagnose(taken, read_dump(dump)) for taken in (there, read_capture(folder)))
                assert verdict(near) == verdict(whole), (fault, verdict(near), verdict(whole))
                shares.append(float(there.traffic["share"]))
                said.append(f"{fault} ({', '.join(sorted(set(near.codes())))}): {there.traffic['bytes']} bytes")
        detail = (
            f"both directions, of captures of {TOKENS} tokens, {LAYERS + 1} boundaries and 3 slots of {HIDDEN} in bf16 "
            f"({there.traffic['of']} bytes); verdict, codes and boundaries as from the whole; {'; '.join(said)}"
        )
        yield Row("sketch_bytes_share", max(shares), "of the bytes", detail)


def verdict(found: Diagnosis) -> tuple[object, ...]:
    slots = [(slot.trained.boundary, slot.served.boundary) for slot in found.slots]
    return found.verdict, found.codes(), slots


def ladder() -> list[torch.Tensor]:
    """A residual stream of one text: layers that add little to a large common vector."""
    draw = torch.Generator().manual_seed(0)
    x, common = torch.randn(TOKENS, HIDDEN, generator=draw), 20 * torch.randn(HIDDEN, generator=draw)
    found = [x]
    for _ in range(LAYERS):
        mix = torch.randn(HIDDEN, HIDDEN, generator=draw) / HIDDEN**0.5
        x = x + 0.4 * torch.tanh(x @ mix)
        found.append(x + common)
    return found


def write_dump(folder: Path) -> Path:
    folder.mkdir()
    taps = ladder()
    states = torch.stack([taps[b] for b in (*TAPS, LAYERS)], dim=1).bfloat16()
    save_file({"hidden_states": states, "token_ids": torch.arange(TOKENS)}, folder / "hs_0.safetensors")
    return folder


def write_capture(folder: Path, fault: str) -> Path:
    folder.mkdir()
    taps = ladder()
    fed = [taps[b] for b in ((0, 2, 5) if fault == "miswired" else TAPS)]
    if fault == "rotated":
        fed[1] = fed[1] @ torch.linalg.qr(torch.randn(HIDDEN, HIDDEN))[0]
    tensors = {f"boundary.{b:03d}": tap.bfloat16() for b, tap in enumerate(taps)}
    tensors |= {"token_ids": torch.arange(TOKENS), "positions": torch.arange(TOKENS)}
    tensors |= {"request": torch.zeros(TOKENS, dtype=torch.int32), "feed": torch.cat(fed, dim=1).bfloat16()}
    file = folder / "rank0.safetensors"
    save_file(tensors, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    about = {
        "schema": "workbook.capture/1",
        "run": "bench",
        "engine": {"name": "sglang", "version": "0.5.9"},
        "model": {"architecture": "DeepseekV3ForCausalLM", "num_layers": LAYERS, "hidden_size": HIDDEN},
        "tp_size": 1,
        "requests": [{"id": "r0", "start": 0, "length": TOKENS, "prompt_tokens": TOKENS}],
        "files": [{"name": file.name, "rank": 0, "bytes": file.stat().st_size, "sha256": digest}],
    }
    (folder / "capture.json").write_text(json.dumps(about))
    return folder
