"""Makes the lab's training dump from a capture: ``python -m remote.lab.make_dump CAPTURE OUT --boundaries 2,5,9``.

The dump is what an EAGLE-3 trainer would have stored of the target, in the layout of speculators v1: a file a sample
with ``input_ids`` [L], ``loss_mask`` [L] (the target's own continuation) and ``hidden_states``, a list of [L, H]: the
boundaries that the drafter is trained on, then the verifier's last state before its final norm (speculators norms it
itself when it computes the targets). It is made from the *ladder* of a capture of a server without speculation, so no
wiring of a drafter can have coloured it; data/lab/MODEL_CARD.md has the commands.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file


def make_dump(capture: Path, out: Path, boundaries: Sequence[int], length: int) -> list[Path]:
    """Write ``data_<i>.pt`` for each request of a capture, cut to `length` tokens, in bf16."""
    info = json.loads((capture / "capture.json").read_text())
    tensors = load_file(capture / "rank0.safetensors")
    last = info["model"]["num_layers"]
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for number, request in enumerate(info["requests"]):
        rows = slice(request["start"], request["start"] + length)
        positions = tensors["positions"][rows]
        if not torch.equal(positions, torch.arange(length)) or request["length"] < length:
            raise SystemExit(
                f"request {request['id']} has {request['length']} rows, not {length} from its first token on"
            )
        sample = {
            "input_ids": tensors["token_ids"][rows].clone(),
            "loss_mask": (positions >= request["prompt_tokens"]).long(),
            "hidden_states": [tensors[f"boundary.{b:03d}"][rows].bfloat16() for b in (*boundaries, last)],
        }
        path = out / f"data_{number}.pt"
        torch.save(sample, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)
        written.append(path)
    return written


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="a capture's ladder -> a training dump of speculators v1")
    parser.add_argument("capture", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--boundaries", required=True, help="those that the drafter is trained on, such as 2,5,9")
    parser.add_argument("--length", type=int, default=128, help="tokens a sample")
    args = parser.parse_args(argv)
    for path in make_dump(args.capture, args.out, [int(b) for b in args.boundaries.split(",")], args.length):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
