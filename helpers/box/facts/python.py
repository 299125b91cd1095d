"""A Python interpreter and the packages that matter beside tensors; with torch, the dtypes that it knows."""

from __future__ import annotations

import json

from pydantic import ValidationError

from helpers.box.facts.fact import Fact, Model, unreadable

PACKAGES = (
    "torch", "triton", "transformers", "tokenizers", "safetensors", "huggingface-hub", "numpy", "sglang", "sgl-kernel",
    "sglang-kernel", "flashinfer-python", "vllm", "speculators", "specforge",
)  # fmt: skip
DTYPES = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2")
# torch is imported, since only the import tells whether it works; everything else is asked of the metadata.
SCRIPT = f"""
import importlib.metadata, json, platform, sys
answer = {{"executable": sys.executable, "version": platform.python_version(), "platform": platform.platform(),
          "packages": {{}}, "dtypes": None, "cuda": None, "torch_error": None}}
for name in {PACKAGES!r}:
    try:
        answer["packages"][name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
if "torch" in answer["packages"]:
    try:
        import torch
        answer["dtypes"] = [name for name in {DTYPES!r} if hasattr(torch, name)]
        answer["cuda"] = torch.version.cuda
    except Exception as error:
        answer["torch_error"] = repr(error)[:500]
print("WB" + json.dumps(answer))
"""


class Python(Model):
    """packages: name -> version. dtypes: of torch, None without it. cuda: that torch was built for."""

    executable: str
    version: str
    platform: str
    packages: dict[str, str]
    dtypes: tuple[str, ...] | None
    cuda: str | None
    torch_error: str | None


def command(python: str = "python3") -> tuple[str, ...]:
    """The question to the interpreter ``python``."""
    return (python, "-c", SCRIPT)


def parse(text: str) -> Python:
    """From what `command` printed; what packages print on import stands before it and is skipped.

    Raises:
        RemoteFailed: WB-FACT-UNREADABLE with the line.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith('WB{"'):
            try:
                return Python.model_validate(json.loads(line[2:]))
            except (ValueError, ValidationError) as error:
                raise unreadable("python", number, line[:200], "one JSON object about the interpreter") from error
    raise unreadable("python", len(lines), lines[-1][:200] if lines else "", "a line that starts with WB{")


FACT = Fact("python", command(), parse)
