"""The statistics of two dumps against a plain copy of their bytes, against the obvious code, and in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import cosine_similarity

from benchmarks.rows import Row, by_turns
from helpers.tensors.dumps import Sample, read_dump
from helpers.tensors.paired import compare_rows
from helpers.tensors.statistics import SHIFTS

TOKENS, SLOTS, HIDDEN = 4096, 3, 7168
GIB = 1 << 30
ROW = SLOTS * HIDDEN * 2

NAMES = ("compare_vs_read_bandwidth", "compare_shifts_vs_read_bandwidth", "compare_vs_naive", "compare_peak_mib")


def rows(names: Sequence[str] = NAMES) -> Iterator[Row]:
    """Every row of this module; each names its peer and what both did."""
    torch.set_num_threads(os.cpu_count() or 1)  # as it is where nobody said otherwise
    with tempfile.TemporaryDirectory(prefix="wb-bench-") as folder:
        if set(names) & set(NAMES[:3]):
            a, b = dumps(Path(folder))
            if NAMES[0] in names:
                yield against_a_copy(a, b)
            if NAMES[1] in names:
                yield everything_against_a_copy(a, b)
            if NAMES[2] in names:
                yield against_the_obvious(a, b)
    if NAMES[3] in names:
        with tempfile.TemporaryDirectory(prefix="wb-bench-") as folder:
            yield peak(Path(folder))


def dumps(folder: Path) -> tuple[Sample, Sample]:
    """Two dumps as vLLM's connector writes them, the second near the first."""
    found, x = [], torch.randn(TOKENS, SLOTS, HIDDEN)
    for side in "ab":
        (folder / side).mkdir()
        tensors = {"hidden_states": x.bfloat16(), "token_ids": torch.arange(TOKENS)}
        save_file(tensors, folder / side / "r0.safetensors")
        found.append(read_dump(folder / side, format="vllm")[0])
        x = x + 0.3 * torch.randn(x.shape)
    return found[0], found[1]


def copy_of(a: Sample, b: Sample) -> tuple[Callable[[], None], str]:
    """A plain copy of both dumps' bytes, and what it is in words."""
    into = torch.zeros(2, TOKENS, SLOTS, HIDDEN, dtype=torch.bfloat16)

    def copy() -> None:
        for target, side in zip(into, (a, b), strict=True):
            target.copy_(side.open().rows(slice(None)))

    what = f"{2 * TOKENS * ROW >> 20} MiB of two mapped dumps of {TOKENS} tokens, {SLOTS} x {HIDDEN} bf16, "
    what += f"{torch.get_num_threads()} threads, each run with a mapping of its own; ours compiled before; "
    what += "peer: a copy of the same bytes into memory that is there"
    return copy, what


def against_a_copy(a: Sample, b: Sample) -> Row:
    copy, what = copy_of(a, b)
    times = by_turns(lambda: compare_rows(a, b), copy, times=9)
    detail = f"norms, cosines and K x K at shift 0; {what}; {times}"
    return Row("compare_vs_read_bandwidth", times.speedup, "of the copy's rate", detail)


def everything_against_a_copy(a: Sample, b: Sample) -> Row:
    copy, what = copy_of(a, b)

    def everything() -> None:
        found = compare_rows(a, b, shifts=SHIFTS, centred=True, counts=True)
        _ = (found.non_finite, found.zero, found.repeated, found.norm_spread)

    times = by_turns(everything, copy, times=5)
    done = (
        "norms, cosines and K x K, raw and centred, at five shifts, spread of norms, rows that are not finite, zero or "
    )
    detail = f"{done}repeated; {what}; {times}"
    return Row("compare_shifts_vs_read_bandwidth", times.speedup, "of the copy's rate", detail)


def against_the_obvious(a: Sample, b: Sample) -> Row:
    def obvious() -> list[Tensor]:
        x, y = a.slots.float(), b.slots.float()
        found = [x.norm(dim=-1), y.norm(dim=-1), cosine_similarity(x, y, dim=-1)]
        pairs = [(i, j) for i in range(SLOTS) for j in range(SLOTS)]
        return found + [cosine_similarity(x[:, i], y[:, j], dim=-1).mean() for i, j in pairs]

    ours, theirs = compare_rows(a, b, left_out=0), obvious()
    assert torch.allclose(ours.cosine, theirs[2], atol=1e-4)
    assert torch.allclose(ours.matrix[0].flatten(), torch.stack(theirs[3:]), atol=1e-4)
    times = by_turns(lambda: compare_rows(a, b), obvious, times=5)
    peer = "peer: whole float32 copies, torch's norm and cosine_similarity, one for each pair of slots"
    detail = f"norms, cosines and K x K of the two dumps; {peer}; {times}"
    return Row("compare_vs_naive", times.speedup, "x", detail)


MEASURE = """
import json, sys, threading, torch
from helpers.tensors.dumps import read_dump
from helpers.tensors.paired import Rows, compare_rows
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
sample = read_dump(sys.argv[1], format="vllm")[0]
small = torch.randn(64, 3, 7168).bfloat16()
compare_rows(small, small, shifts=(-2, -1, 0, 1, 2), centred=True, counts=True)
before, highest, stop = anonymous(), 0, threading.Event()
def watch():
    global highest
    while not stop.wait(0.02):
        highest = max(highest, anonymous())
thread = threading.Thread(target=watch)
thread.start()
found = compare_rows(sample, sample, shifts=(-2, -1, 0, 1, 2), centred=True, counts=True)
stop.set()
thread.join()
print(json.dumps([max(highest, anonymous()) - before, found.tokens, found.norms_a.shape[0], float(found.zero[0][0])]))
"""


def peak(folder: Path) -> Row:
    """A file of 8 GiB: every eighth row is written, the others are a hole and read as zeros."""
    tokens = 8 * GIB // ROW + 1
    path = folder / "r0.safetensors"
    shape = [tokens, SLOTS, HIDDEN]
    header = {
        "hidden_states": {"dtype": "BF16", "shape": shape, "data_offsets": [0, tokens * ROW]},
        "token_ids": {"dtype": "I64", "shape": [tokens], "data_offsets": [tokens * ROW, tokens * (ROW + 8)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    some = torch.randn(64, SLOTS * HIDDEN).bfloat16().view(torch.int16).numpy()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        start = file.tell()
        for number, row in enumerate(range(0, tokens, 8)):
            file.seek(start + row * ROW)
            file.write(some[number % 64].tobytes())
        file.truncate(start + tokens * (ROW + 8))
    done = subprocess.run([sys.executable, "-c", MEASURE, folder], capture_output=True, text=True, check=True)
    grown, counted, rows_read, zero = json.loads(done.stdout.splitlines()[-1])
    detail = (
        f"growth of RssAnon over all statistics at five shifts of a mapped file of {tokens * (ROW + 8) / GIB:.1f} GiB "
        f"with itself ({rows_read} rows, all read; every eighth is written, {zero:.0f} are a hole and read as zeros, "
        f"which leaves {counted} in the means), sampled every 20 ms"
    )
    return Row("compare_peak_mib", grown / 1024, "MiB", detail)
