"""The capture hook: a factory for SGLang's ``--forward-hooks`` (0.5.9, model_executor/hook_manager.py).

SGLang calls the factory once for every model runner of a TP process, the target's and the drafter's, and registers what
it returns on each module that the spec names. So one `Tap` serves one runner, and it learns which runner that is, and
which module is which, from the module that closes each forward pass (the one that owns ``embed_tokens``).

A pass that is captured becomes one chunk file per rank, made whole under a temporary name and then renamed:
``rank<r>.<nanoseconds>.<target|draft>.safetensors`` in the folder that the arm file names. remote/assemble.py turns the
chunks of a capture into ``workbook.capture/1``.

What must hold here:

- Disarmed, a forward pays one ``stat`` of the arm file and a few attribute reads.
- Tensors are copied to the CPU inside the hook: CUDA kernels write the next layer's norm into these very buffers.
- Nothing that goes wrong here may reach the server: the first error is written beside the chunks and ends the capture.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import traceback
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

CHUNK_SCHEMA = "workbook.taps/1"
Hook = Callable[[torch.nn.Module, tuple[Any, ...], Any], None]


def make_hook(config: dict[str, Any]) -> Hook:
    """The factory that ``--forward-hooks`` names. ``config["arm"]`` is the path of the arm file.

    The arm file is JSON: ``{"directory": str, "boundaries": [int, ...] | null (all that are hooked), "terms": bool,
    "seconds": float (optional)}``. It arms every rank by being there, and disarms them by being gone, or by being left
    untouched for more than ``seconds`` (remote/arming.py keeps it fresh).
    """
    return Tap(Path(config["arm"]))


class Tap:
    """The hook of one runner in one rank: gathers the tensors of a forward pass and writes them as a chunk."""

    def __init__(self, arm: Path) -> None:
        self._arm = arm
        self._arm_key: tuple[int, int, int] | None = None
        self._order: dict[str, Any] | None = None  # the arm file's content while armed
        self._failed: dict[str, Any] | None = None  # that of a capture which an error ended
        self._first: torch.nn.Module | None = None  # the module that opened the pass; None between passes
        self._root: torch.nn.Module | None = None
        self._names: dict[int, str] = {}  # id(module) -> its name below the root, known after the first pass
        self._draft = False
        self._taken: dict[int, dict[str, torch.Tensor]] = {}

    def __call__(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        # A pass that broke off is never closed: then the next one shows in its first module firing again.
        if self._first is None or module is self._first:
            self._first = module
            self._look_at_arm_file()
        # The root is the last module of a pass to fire; until it is known, the embedding that it owns tells it.
        closes = module is self._root or (self._root is None and hasattr(module, "embed_tokens"))
        if closes:
            self._first = None
            if self._root is None:
                self._root = module
                self._names = {id(part): name for name, part in module.named_modules()}
                self._draft = "fc" in self._names.values()
        if self._order is None:
            return
        try:
            if closes:
                self._close(module, args)
            else:
                self._take(module, args, output)
        except Exception as error:  # noqa: BLE001 - a capture must never take the server down
            self._give_up(error)

    def _look_at_arm_file(self) -> None:
        try:
            found = os.stat(self._arm)
        except OSError:
            self._arm_key = self._order = self._failed = None
            self._taken.clear()
            return
        key = (found.st_mtime_ns, found.st_ino, found.st_size)
        if key != self._arm_key:
            self._arm_key = key
            self._taken.clear()
            try:
                order = json.loads(self._arm.read_text())
            except (OSError, ValueError):
                order = None  # gone again, or no order at all: there is no folder to tell it to
            self._order = None if order == self._failed else order  # a renewal does not mend what went wrong
        if self._order is not None and time.time() - found.st_mtime > self._order.get("seconds", float("inf")):
            self._order = None  # whoever armed it is gone
            self._taken.clear()

    def _take(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        order = self._order
        assert order is not None
        # In the first pass of all the root has not fired yet: take everything, `_close` drops what is not asked for.
        wanted = parts_wanted(self._names.get(id(module)), self._draft, order) if self._names else PARTS
        if not wanted:
            return
        hidden, residual = as_terms(output)
        parts: dict[str, torch.Tensor] = {}
        if "fed" in wanted and args and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            parts["fed"] = to_cpu(args[0])
        if hidden is not None:
            if "hidden" in wanted:
                parts["hidden"] = to_cpu(hidden)
            if residual is not None and "residual" in wanted:
                parts["residual"] = to_cpu(residual)
            if "sum" in wanted:
                # The engine's own sum, in its own dtype: what its capture appends for the next layer's input.
                parts["sum"] = to_cpu(hidden if residual is None else hidden + residual)
        self._taken[id(module)] = parts

    def _close(self, root: torch.nn.Module, args: tuple[Any, ...]) -> None:
        taken, self._taken = self._taken, {}
        order = self._order
        assert order is not None
        tensors: dict[str, torch.Tensor] = {}
        for key, parts in taken.items():
            name = self._names.get(key)
            wanted = parts_wanted(name, self._draft, order)
            tensors.update(named_parts(name or "", {part: t for part, t in parts.items() if part in wanted}))
        if self._draft and "feed" not in tensors:
            return  # a later draft step: it feeds the drafter's own state, fc is not called
        batch = read_batch(args)
        if batch is None:
            return
        rows, about = batch
        about |= {"runner": "draft" if self._draft else "target", "model": model_facts(root)}
        self._write(Path(order["directory"]), {**tensors, **rows}, about)

    def _write(self, directory: Path, tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> None:
        # Nanoseconds order the passes of a process: target and drafter take turns on one thread.
        name = f"rank{rank()}.{time.monotonic_ns():020d}.{about['runner']}.safetensors"
        directory.mkdir(parents=True, exist_ok=True)
        part = directory / (name + ".part")
        try:
            save_file(tensors, part, metadata={"schema": CHUNK_SCHEMA, "about": json.dumps(about)})
            os.replace(part, directory / name)
        except Exception:
            with contextlib.suppress(OSError):
                part.unlink()  # half a chunk is of no use, and on a full disk the report needs its room
            raise

    def _give_up(self, error: Exception) -> None:
        order, self._order = self._order, None
        self._failed = order
        self._taken.clear()
        report = {"rank": rank(), "error": f"{type(error).__name__}: {error}", "errno": errno_of(error)}
        report["traceback"] = traceback.format_exc()
        try:
            directory = Path((order or {})["directory"])
            directory.mkdir(parents=True, exist_ok=True)
            part = directory / f"error.rank{rank()}.{time.monotonic_ns()}.part"
            with contextlib.suppress(OSError):  # a full disk takes a name still: an empty report tells of it
                part.write_text(json.dumps(report))
            os.replace(part, part.with_suffix(".json"))
        except Exception:  # noqa: BLE001 - no disk to write to; the missing rows will tell
            pass


def errno_of(error: Exception) -> int | None:
    """The system's number of a failed write, which safetensors only has in words; None where it was something else."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


PARTS = frozenset({"fed", "hidden", "residual", "sum"})


def parts_wanted(name: str | None, draft: bool, order: dict[str, Any]) -> Set[str]:
    """What of a module's tensors a capture order asks for. ``name`` is its name below the root."""
    if name is None:
        return set()
    if draft:
        return {"fed"} if name == "fc" else set()
    if name == "norm":
        return {"hidden"}
    boundary = boundary_of(name)
    if boundary is None or (order.get("boundaries") is not None and boundary not in order["boundaries"]):
        return set()
    return {"sum", "hidden", "residual"} if order.get("terms") else {"sum"}


def named_parts(name: str, parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The parts of one module under the names of ``workbook.capture/1``."""
    if name == "fc":
        return {"feed": parts["fed"]} if "fed" in parts else {}
    if name == "norm":
        return {"normed": parts["hidden"]} if "hidden" in parts else {}
    boundary = boundary_of(name)
    titles = {"sum": f"boundary.{boundary:03d}", "hidden": f"out.{boundary}", "residual": f"residual.{boundary}"}
    return {titles[part]: tensor for part, tensor in parts.items()} if boundary is not None else {}


def boundary_of(name: str) -> int | None:
    """The boundary that a module's output is: 0 for the embedding, i + 1 for layer i."""
    if name == "embed_tokens":
        return 0
    head, _, index = name.partition(".")
    return int(index) + 1 if head == "layers" and index.isdigit() else None


def as_terms(output: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """A module's output as (hidden, residual or None)."""
    if isinstance(output, torch.Tensor):
        return output, None
    if isinstance(output, tuple | list) and output and isinstance(output[0], torch.Tensor):
        second = output[1] if len(output) > 1 else None
        same = isinstance(second, torch.Tensor) and second.shape == output[0].shape
        return output[0], second if same else None
    return None, None


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of its own, in the same dtype; on a CPU box ``to`` alone would hand back the live buffer."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def read_batch(args: Sequence[Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """Token ids and positions of a pass [rows], and which request each row belongs to; None for an idle pass.

    SGLang 0.5.9's ForwardBatch has no request ids: ``req_pool_indices`` stand in, and the final text settles the rest.
    """
    batch = next((a for a in args if hasattr(a, "forward_mode")), None)
    if batch is None:
        raise TypeError(f"no ForwardBatch among the arguments: {[type(a).__name__ for a in args]}")
    mode = batch.forward_mode.name
    if mode == "IDLE":
        return None
    tokens = args[0] if isinstance(args[0], torch.Tensor) else batch.input_ids
    positions = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) and args[1].dim() == 1 else None
    positions = batch.positions if positions is None else positions
    pools = batch.req_pool_indices.tolist()
    rows = {"token_ids": to_cpu(tokens).long(), "positions": to_cpu(positions).long()}
    about: dict[str, Any] = {"mode": mode}
    if mode == "TARGET_VERIFY":
        spec = batch.spec_info
        lengths = [int(spec.draft_token_num)] * len(pools)
        if int(spec.topk) > 1:
            about["tree"] = {
                "next": spec.retrive_next_token.tolist(),
                "sibling": spec.retrive_next_sibling.tolist(),
            }
    elif mode == "DECODE":
        lengths = [1] * len(pools)
    else:
        lengths = [int(n) for n in (batch.extend_seq_lens_cpu or batch.extend_seq_lens.tolist())]
    about["segments"] = [[int(pool), int(length)] for pool, length in zip(pools, lengths, strict=True)]
    return rows, about


def model_facts(root: torch.nn.Module) -> dict[str, Any]:
    """What the root module itself says about the model and about what it taps."""
    configs = (getattr(module, "config", None) for module in root.modules())
    config = next((c for c in configs if hasattr(c, "num_hidden_layers")), None)
    architectures = getattr(config, "architectures", None) or [type(root).__name__]
    tapped = getattr(root, "layers_to_capture", None)
    return {
        "architecture": str(architectures[0]),
        "num_layers": getattr(config, "num_hidden_layers", None),
        "hidden_size": getattr(config, "hidden_size", None),
        "tapped": [int(b) for b in tapped] if tapped is not None else None,
        "embedding_tapped": bool(getattr(root, "capture_embedding_for_eagle3", False)),
    }


def rank() -> int:
    """This process's rank among those of the server."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return 0
