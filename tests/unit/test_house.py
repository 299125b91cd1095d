"""The house's own rules, held by a test each: error pages, module sizes, one-way dependencies, locks, notebooks."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from helpers.ledger.redaction import without_secrets
from helpers.serving.profile import Profile

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sorted([*ROOT.glob("helpers/**/*.py"), *ROOT.glob("remote/**/*.py"), *ROOT.glob("tools/*.py")])
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
# Which rooms a room may import (design.md: panels, figures, cli -> ledger -> acceptance, wiring -> tensors, serving,
# source -> box).
RANK = {"box": 0, "source": 1, "tensors": 1, "serving": 2, "wiring": 3, "acceptance": 3, "ledger": 4, "figures": 5}


def test_every_error_code_has_a_page_and_every_page_a_code() -> None:
    used = {
        code for path in PYTHON for code in re.findall(r"\"(WB-[A-Z0-9]+(?:-[A-Z0-9]+)+|WB-USAGE)\"", path.read_text())
    }
    pages = {p.stem for p in ROOT.glob("docs/errors/WB-*.md")}
    assert used == pages, f"no page: {sorted(used - pages)}; no code: {sorted(pages - used)}"


def test_no_half_merged_text() -> None:
    mark = "<" * 7
    tracked = subprocess.run(["git", "grep", "-lE", f"^({mark} |>{{7}} )"], capture_output=True, text=True, cwd=ROOT)
    assert tracked.stdout == ""


def test_error_pages_have_one_form() -> None:
    for page in ROOT.glob("docs/errors/WB-*.md"):
        headings = re.findall(r"^#+ .*$", page.read_text(), re.M)
        assert headings == [f"# {page.stem}", "## Symptom", "## Cause", "## Fix"], page.name


def test_modules_are_small() -> None:
    long = {str(p.relative_to(ROOT)): n for p in PYTHON if (n := len(p.read_text().splitlines())) > 300}
    assert not long


def test_test_modules_have_names_of_their_own() -> None:
    """Two of one name in different tiers cannot be collected together (the folders are no packages)."""
    names = [path.name for path in ROOT.glob("tests/*/*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


def test_the_program_kill_is_never_given_a_group() -> None:
    """procps 4.0.2 takes ``kill -9 -4711`` for pid -1: all that this user may signal ends. A group is ended by
    os.killpg, or by the shell's own ``kill -s KILL -- -4711``."""
    everywhere = [*PYTHON, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    words = re.compile(r"\[\s*\"(?:/\S*/)?kill\"")
    assert [str(path) for path in everywhere if words.search(path.read_text())] == []


def test_suggested_commands_quote_what_somebody_else_named() -> None:
    """What `next` says is copied into a shell: a path goes in by `as_typed`, or its name would run there."""
    bare = re.compile(r"\bnext=f?\"[^\"]*\b(?:ls|df|find|rm|mv|cat)\b(?: -\w+)* \{(?!as_typed\()")
    told = [
        f"{path.name}: {line.strip()}" for path in PYTHON for line in path.read_text().splitlines() if bare.search(line)
    ]
    assert [line for line in told if "shlex.quote" not in line] == []


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def test_dependencies_point_one_way() -> None:
    wrong = []
    for path in PYTHON:
        parts = path.relative_to(ROOT).parts
        for name in imports(path):
            target = name.split(".")
            if parts[0] == "remote" and target[0] == "helpers":
                wrong.append(f"{path.name} imports {name}")
            if parts[0] == "helpers" and target[0] == "remote":
                wrong.append(f"{path.name} imports {name}")
            rooms = [[*target, ""][1], parts[1]] if parts[0] == target[0] == "helpers" else []
            if rooms and set(rooms) <= set(RANK) and RANK[rooms[0]] > RANK[rooms[1]]:
                wrong.append(f"{'/'.join(parts)} imports {name}")
    assert not wrong


def test_importing_helpers_is_cheap() -> None:
    probe = (
        "import sys, helpers; print(sorted({'torch','pandas','plotly','paramiko','numpy','numba'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def pins(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[^\s;]+", line) for line in lines), path
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in (line.split("==") for line in lines)}


def test_locks_environment_and_project_agree() -> None:
    main, lab = pins(ROOT / "requirements.lock"), pins(ROOT / "remote/lab/requirements.lock")
    assert not set(main) & set(lab), "a package stands in one lock only"
    assert lab["sglang"] == "0.5.9"
    assert main["torch"] == "2.13.0+cpu"
    unwanted = {name for name in {**main, **lab} if name.startswith(("nvidia", "cuda", "triton", "flashinfer"))}
    assert not unwanted
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [r for group in project["optional-dependencies"].values() for r in group]
    for requirement in [*project["dependencies"], *optional]:
        name, _, version = requirement.partition("==")
        key = re.sub(r"[-_.]+", "-", name).lower()
        assert key in main, f"{requirement} is not in requirements.lock"
        assert not version or main[key] == version
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    names = {re.split(r"[=<>]", d)[0] for d in conda if isinstance(d, str)}
    assert names == {"python", "pip", "make"}, "everything else comes from the locks"
    assert next(d for d in conda if isinstance(d, dict))["pip"][-1] == "-r requirements.lock"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_ends_with_what_comes_next(path: Path) -> None:
    prose = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "markdown"]
    named = re.findall(r"\]\((\w+\.ipynb)\)", "\n".join(prose[-2:]))
    names = [p.name for p in NOTEBOOKS]
    assert set(named) <= set(names)
    after = names[names.index(path.name) + 1 :]
    assert any(name in named for name in after[:1] or names[1:]), "the next one, or where to begin with one's own box"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_are_prose_and_short_cells(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert sum("parameters" in c["metadata"].get("tags", []) for c in code) == 1
    kinds = "".join(c["cell_type"][0] for c in cells)
    assert kinds.startswith("mc"), "a notebook starts with its question, then its parameters"
    assert "ccc" not in kinds, "three code cells in a row: prose belongs between them"
    for number, cell in enumerate(cells):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"], f"cell {number} has outputs"
        assert source.count("\n") < 15, f"cell {number} is too long"
        tree = ast.parse(source)
        defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)]
        assert not defined, f"cell {number} defines something"


def test_every_key_of_a_profile_stands_in_its_page() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/profiles.md").read_text(), re.M)
    told = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert told == set(Profile.model_fields) - {"name"}
    example = re.search(r"```toml\n(.*?)```", (ROOT / "docs/profiles.md").read_text(), re.S)
    assert example is not None
    tables = tomllib.loads(example.group(1))
    for name, table in tables["profiles"].items():
        Profile(name=name, **(tables["defaults"] | table))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_nothing_in_a_notebook_reads_like_a_secret(path: Path) -> None:
    """An exported page would hide it: a figure "by token" and "nats a token: in the text" were taken for secrets."""
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        assert without_secrets(source) == source
