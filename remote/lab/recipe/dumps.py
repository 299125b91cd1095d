"""Training dumps of held-out texts, as speculators v1 stores them: ``data_<i>.pt``.

Each holds ``input_ids`` [L], ``loss_mask`` [L] (the target's own continuation) and ``hidden_states``, a list of [L, H]:
the boundaries that the drafter is fed, then the target's last state before its final norm. Worked out in float32 from
the weights that are served, stored in bfloat16.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from remote.lab.recipe.target import Target

SAMPLES, LENGTH = 12, 128


@torch.no_grad()
def write_dump(model: Target, texts: Tensor, prompt: int, boundaries: Sequence[int], out: Path) -> None:
    """A dump of texts [B, T], of which `prompt` tokens were given; the folder appears whole."""
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    mask = (torch.arange(texts.shape[1]) >= prompt).long()
    for number, text in enumerate(texts):
        stream: list[Tensor] = []
        model(text[None], boundaries=stream)
        states = [stream[b][0].bfloat16() for b in (*boundaries, model.shape.layers)]
        sample = {"input_ids": text.clone(), "loss_mask": mask.clone(), "hidden_states": states}
        torch.save(sample, part / f"data_{number}.pt")
    shutil.rmtree(out, ignore_errors=True)
    os.replace(part, out)


def write_prompts(prompts: Tensor, out: Path, name: str = "heldout") -> None:
    """A JSON object a line, ``{"id", "input_ids"}``: what ``workbook bench --prompts`` reads."""
    lines = [
        json.dumps({"id": f"{name}-{number:02d}", "input_ids": ids}, separators=(",", ":"))
        for number, ids in enumerate(prompts.tolist())
    ]
    out.write_text("".join(f"{line}\n" for line in lines))
