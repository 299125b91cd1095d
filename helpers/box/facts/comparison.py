"""Laptop against box: what differs, and what of it matters when tensors of the one are compared on the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from helpers.box.facts.answer import Fact
from helpers.box.facts.gpus import Gpus
from helpers.box.facts.python import Python

State = Literal["match", "differs", "critical"]
OLDEST = (3, 9)  # what the workbook's own programs on the box need
_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2")
_SAVED = ("BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4")


class Row(Fact):
    """One thing on both sides; None where it is not there, or not known.

    Attributes:
        state: critical where a comparison would fail or mislead until something is done about it.
        why: what the difference does to a comparison of tensors.
    """

    name: str
    laptop: str | None
    box: str | None
    state: State
    why: str


def compare(
    laptop: Python, box: Python | None, *, gpus: Gpus | None = None, engine: str | None = None
) -> tuple[Row, ...]:
    """The table.

    Args:
        box: the interpreter that serves there; None where none could be asked.
        gpus: of the box. engine: version of the SGLang that is imported there, by its checkout.
    """
    if box is None:
        why = "no interpreter of the box could be asked: name the server's own with --python"
        return (Row(name="python", laptop=laptop.version, box=None, state="critical", why=why),)
    rows = [_python(laptop, box), _machine(laptop, box), _torch(laptop, box), _calculates(laptop, box, gpus)]
    if laptop.packages.get("torch") and box.packages.get("torch"):
        rows.append(_dtypes("dtypes", laptop.torch_dtypes, box.torch_dtypes, _FLOATS, "torch"))
    rows.append(_safetensors(laptop, box))
    if laptop.packages.get("safetensors") and box.packages.get("safetensors"):
        saved = _dtypes("dtypes in files", laptop.safetensors_dtypes, box.safetensors_dtypes, _SAVED, "safetensors")
        rows.append(saved)
    rows += [_numpy(laptop, box), _transformers(laptop, box), _sglang(laptop, engine)]
    return tuple(rows)


def _python(laptop: Python, box: Python) -> Row:
    here, there = laptop.version, box.version
    if _release(there) < OLDEST:
        state: State = "critical"
        why = f"the workbook's own programs on the box need Python {'.'.join(map(str, OLDEST))}: --python names another"
    else:
        state = "match" if _release(here) == _release(there) else "differs"
        why = "no influence on safetensors; a .pt dump of Python objects may need the version that wrote it"
    return Row(name="python", laptop=here, box=there, state=state, why=why)


def _machine(laptop: Python, box: Python) -> Row:
    same_order = laptop.byteorder == box.byteorder
    state: State = "critical" if not same_order else "match" if laptop.machine == box.machine else "differs"
    why = (
        "CPU kernels of another architecture add in another order: compare by cosine, not bits"
        if same_order
        else "numbers are stored backwards on one side: raw buffers do not read alike"
    )
    return Row(name="machine", laptop=laptop.machine, box=box.machine, state=state, why=why)


def _torch(laptop: Python, box: Python) -> Row:
    here, there = laptop.packages.get("torch"), box.packages.get("torch")
    state: State = "differs"
    if there is None:
        state, why = "critical", "this interpreter of the box reads and writes no tensors: --python names the server's"
    elif here is None:
        state, why = "critical", "no tensor can be read here: make setup"
    elif here == there:
        state, why = "match", "the same kernels on the same kind of device; equal bits only on the same device"
    elif here.partition("+")[0] == there.partition("+")[0]:
        why = "the same release built for another device: kernels add in another order: compare by cosine, not bits"
    else:
        why = "kernels add in another order: compare by cosine, not bits"
    return Row(name="torch", laptop=here, box=there, state=state, why=why)


def _calculates(laptop: Python, box: Python, gpus: Gpus | None) -> Row:
    here = _device(laptop)
    there = _device(box)
    why = "the same arithmetic, as far as torch's kernels are the same"
    state: State = "match"
    if gpus is not None and gpus.gpus:
        first = gpus.gpus[0]
        kinds = [kind for kind in ("bfloat16", "float8", "float4") if first.calculates(kind)]
        there = f"{len(gpus.gpus)} x {first.name}"
        there += f" (sm_{first.compute_capability.replace('.', '')})" if first.compute_capability else ""
        there += ": " + ", ".join(kinds) if kinds else ""
    if here != there:
        state = "differs"
        why = "tensor cores round and add otherwise: take references in float32, compare by cosine and by norms"
    return Row(name="calculates on", laptop=here, box=there, state=state, why=why)


def _device(python: Python) -> str:
    built = f"CUDA {python.torch_cuda}" if python.torch_cuda else f"ROCm {python.torch_hip}" if python.torch_hip else ""
    return f"torch for {built}" if built else "CPU"


def _dtypes(
    name: str, laptop: Iterable[str] | None, box: Iterable[str] | None, kinds: Iterable[str], package: str
) -> Row:
    here = None if laptop is None else {kind for kind in kinds if kind in set(laptop)}
    there = None if box is None else {kind for kind in kinds if kind in set(box)}
    state: State = "match"
    why = "what is stored there can be opened here"
    if here is None or there is None:
        state, why = "differs", f"{package} of one side does not say which it has: try before a long capture"
    elif there - here:
        missing = ", ".join(kind for kind in kinds if kind in there - here)
        state, why = "critical", f"tensors of the box in {missing} cannot be opened here: a newer {package} here"
    elif here - there:
        state, why = "differs", "the box lacks some: its captures hold none of them, and files from here may not open"
    return Row(name=name, laptop=_listed(here, kinds), box=_listed(there, kinds), state=state, why=why)


def _listed(had: set[str] | None, kinds: Iterable[str]) -> str | None:
    return None if had is None else ", ".join(kind for kind in kinds if kind in had) or "none"


def _safetensors(laptop: Python, box: Python) -> Row:
    here, there = laptop.packages.get("safetensors"), box.packages.get("safetensors")
    state: State = "match" if here == there else "differs"
    why = "the file format is the same in all versions: a header and the bytes; only the dtypes that it knows differ"
    if there is None:
        state, why = "critical", "the capture hook writes with it: install it into the server's environment"
    elif here is None:
        state, why = "critical", "no capture can be read here: make setup"
    return Row(name="safetensors", laptop=here, box=there, state=state, why=why)


def _numpy(laptop: Python, box: Python) -> Row:
    here, there = laptop.packages.get("numpy"), box.packages.get("numpy")
    return Row(
        name="numpy",
        laptop=here,
        box=there,
        state="match" if here == there else "differs",
        why="neither side takes tensors through numpy: it knows no bfloat16",
    )


def _transformers(laptop: Python, box: Python) -> Row:
    here, there = laptop.packages.get("transformers"), box.packages.get("transformers")
    return Row(
        name="transformers",
        laptop=here,
        box=there,
        state="match" if here == there else "differs",
        why="tokenizer and chat template may give other token ids: compare the ids first, or replay a dump's own",
    )


def _sglang(laptop: Python, engine: str | None) -> Row:
    here = laptop.packages.get("sglang")
    state: State = "match"
    why = "layer ids mean the same boundaries on both sides"
    if engine is None:
        state, why = "differs", "the box's interpreter imports none: --python names the server's"
    elif here is None:
        state, why = "differs", "none is needed here: what layer ids mean is read from the box's own checkout"
    elif here != engine:
        state = "critical"
        why = "the same layer ids can mean other boundaries (0.5.9 adds one, 0.5.23 does not): read the box's source"
    return Row(name="sglang", laptop=here, box=engine, state=state, why=why)


def _release(version: str) -> tuple[int, int]:
    major, minor = [*version.split("."), "0"][:2]
    return int(major), int(minor) if minor.isdigit() else 0
