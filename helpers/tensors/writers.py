"""Dumps written for a trainer: speculators (``hs_{i}.safetensors``) and SpecForge (``rows_*/data_{i}.ckpt[.gz]``).

The two differ in the verifier's state: speculators trains on the one before the target's final norm, SpecForge on the
one after it. A state that would have to be changed is changed only with the norm's weight at hand, else refused.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from helpers.box.partial import local_problem
from helpers.errors import UsageError
from helpers.screen import as_typed
from helpers.tensors.dumps import Dump, Sample

GROUP = 2000  # SpecForge's samples a folder


@dataclass(frozen=True)
class FinalNorm:
    """The target's final RMS norm: its weight [H] and its epsilon."""

    weight: Float[Tensor, " H"]
    eps: float = 1e-6

    def __call__(self, states: Float[Tensor, "T H"]) -> Float[Tensor, "T H"]:
        """The states after the norm, in their dtype."""
        x = states.float()
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).to(states.dtype)


def write_speculators(dump: Dump, out: Path, *, normed: bool | None = None) -> list[Path]:
    """Write every sample as ``hs_{i}.safetensors``: hidden_states [L, K+1, H], token_ids [L], any loss_mask.

    Args:
        dump: to be written anew.
        out: a folder that holds no samples yet.
        normed: whether the dump's verifier state was taken after the final norm, where the dump does not say.

    Raises:
        UsageError: ``WB-DUMP-VERIFIER`` where the state before the norm is not there, ``WB-DUMP-OUT`` for the folder.
    """
    if kind(dump, normed):
        raise lacking(dump, "its verifier's state was taken after the final norm, which cannot be undone")
    prepare(out)
    written = []
    for index, sample in enumerate(dump):
        states = sample.open()
        if states.verifier is None:
            raise lacking(dump, f"{sample.source} holds no verifier's state")
        tensors = {
            "hidden_states": torch.cat([states.rows(slice(None)), states.verifier.unsqueeze(1)], dim=1),
            "token_ids": sample.token_ids,
        }
        if sample.loss_mask is not None:
            tensors["loss_mask"] = sample.loss_mask.long()
        written.append(whole(out / f"hs_{index}.safetensors", saver(tensors)))
    return written


def write_specforge(
    dump: Dump, out: Path, *, norm: FinalNorm | None = None, compress: bool = False, normed: bool | None = None
) -> list[Path]:
    """Write every sample as ``rows_{g}-{g+2000}/data_{i}.ckpt``, or ``.ckpt.gz``.

    Args:
        dump: to be written anew.
        out: a folder that holds no samples yet.
        norm: the target's final norm; needed where the dump's verifier state was taken before it.
        compress: gzip each file.
        normed: whether the dump's verifier state was taken after the final norm, where the dump does not say.

    Raises:
        UsageError: ``WB-DUMP-VERIFIER`` where the state after the norm cannot be had, ``WB-DUMP-OUT`` for the folder.
    """
    after = kind(dump, normed)
    if not after and norm is None:
        raise lacking(dump, "its verifier's state was taken before the final norm, and no norm was given")
    prepare(out)
    return [write_one(dump, index, sample, out, None if after else norm, compress) for index, sample in enumerate(dump)]


def write_one(dump: Dump, index: int, sample: Sample, out: Path, norm: FinalNorm | None, compress: bool) -> Path:
    states = sample.open()
    if states.verifier is None:
        raise lacking(dump, f"{sample.source} holds no verifier's state")
    verifier = states.verifier if norm is None else norm(states.verifier)
    mask = torch.ones_like(sample.token_ids) if sample.loss_mask is None else sample.loss_mask.long()
    data = {
        "input_ids": sample.token_ids,
        "loss_mask": mask,
        "aux_hidden_state": states.rows(slice(None)).flatten(1).unsqueeze(0).clone(),
        "hidden_state": verifier.unsqueeze(0).clone(),
    }
    first = index - index % GROUP
    folder = out / f"rows_{first}-{first + GROUP}"
    folder.mkdir(exist_ok=True)

    def save(part: Path) -> None:
        if compress:
            with gzip.open(part, "wb", compresslevel=1) as file:
                file.write(packed(data))
        else:
            torch.save(data, part)

    return whole(folder / f"data_{index}.ckpt{'.gz' if compress else ''}", save)


def packed(data: dict[str, Tensor]) -> bytes:
    buffer = io.BytesIO()
    torch.save(data, buffer)
    return buffer.getvalue()


def saver(tensors: dict[str, Tensor]) -> Callable[[Path], None]:
    return lambda part: save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, part)


def whole(path: Path, save: Callable[[Path], None]) -> Path:
    """Write under a temporary name and rename: a file that is there is whole.

    Raises:
        UsageError: WB-DISK-FULL, WB-LOCAL-WRITE.
    """
    part = path.with_name(path.name + ".part")
    try:
        try:
            save(part)
        except (RuntimeError, SafetensorError) as error:
            raise cause(part, error) from error
        os.replace(part, path)
    except OSError as error:
        raise local_problem(path, error) from error
    finally:
        part.unlink(missing_ok=True)
    return path


def cause(part: Path, error: Exception) -> OSError:
    """Why torch or safetensors could not write: both say it in words of their own, torch ("unexpected pos") not at all.

    Where the words hold no error number, writing on shows it: what was too much for the disk still is.
    """
    told = re.search(r"\(os error (\d+)\)", str(error))
    if told is not None:
        return OSError(int(told[1]), os.strerror(int(told[1])))
    try:
        with part.open("ab") as file:
            file.write(bytes(1 << 20))
    except OSError as found:
        return found
    return OSError(str(error))


def kind(dump: Dump, normed: bool | None) -> bool:
    """Whether the verifier's state is the one after the final norm."""
    found = dump.normed_verifier if normed is None else normed
    if found is None:
        raise lacking(dump, f"{dump.format} does not say whether its verifier's state is normed, or holds none")
    return found


def lacking(dump: Dump, why: str) -> UsageError:
    return UsageError(
        "WB-DUMP-VERIFIER",
        f"{dump.path} ({dump.format}) cannot be written so: {why}",
        expected="the verifier's state of each token: before the final norm for speculators, after it for SpecForge",
        next="give the final norm (FinalNorm), say normed=True or False, or dump again with the state",
    )


def prepare(out: Path) -> None:
    """Make the folder; one that holds something is left alone."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            "WB-DUMP-OUT",
            f"{out} is there already and is no empty folder",
            expected="a new folder",
            next=f"ls {as_typed(out)}",
        )
    out.mkdir(parents=True, exist_ok=True)
