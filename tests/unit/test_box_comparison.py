"""Laptop and box side by side: which differences matter."""

from __future__ import annotations

from helpers.box.facts.comparison import compare
from helpers.box.facts.gathering import BoxFacts
from helpers.box.facts.python import DTYPES, Python
from helpers.box.facts.text import to_text


def python(dtypes: tuple[str, ...] | None = DTYPES, **packages: str) -> Python:
    return Python(
        executable="/usr/bin/python3", version="3.11.2", platform="Linux", packages=packages, dtypes=dtypes,
        cuda=None, torch_error=None,
    )  # fmt: skip


def verdicts(here: Python, there: Python, engine: str | None = None) -> dict[str, str]:
    return {row.what: row.verdict for row in compare(here, there, engine).rows}


def test_the_same_on_both_sides() -> None:
    both = python(torch="2.9.1", transformers="4.57.1", safetensors="0.8.0", sglang="0.5.9")
    assert set(verdicts(both, both).values()) == {"same"}
    assert compare(both, both).matters == ()


def test_what_matters() -> None:
    here = python(torch="2.13.0+cpu", transformers="4.57.1", safetensors="0.8.0", sglang="0.5.9", tokenizers="0.22.2")
    there = python(torch="2.9.1+cu128", transformers="5.0.0", safetensors="0.3.9", sglang="0.5.9", tokenizers="0.22.0")
    found = verdicts(here, there, "0.5.23")
    assert {name: found[name] for name in ("torch", "transformers", "safetensors", "sglang")} == dict.fromkeys(
        ("torch", "transformers", "safetensors", "sglang"), "matters"
    )
    assert found["tokenizers"] == "differs"
    assert all(row.why for row in compare(here, there).matters)


def test_a_dtype_that_only_the_box_knows_matters() -> None:
    found = verdicts(python(("bfloat16",)), python(("bfloat16", "float8_e4m3fn")))
    assert (found["torch.bfloat16"], found["torch.float8_e4m3fn"]) == ("same", "matters")
    assert verdicts(python(), python(None))["torch.bfloat16"] == "missing"


def test_as_text() -> None:
    table = compare(python(torch="2.13.0"), python(torch="2.9.1"))
    text = to_text(BoxFacts(box="b", problems={"gpus": "no answer"}), table)
    assert "! gpus: no answer" in text
    assert any(line.startswith("! torch ") for line in text.splitlines())
