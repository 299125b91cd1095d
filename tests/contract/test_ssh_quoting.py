"""No string that a user gives is run as a command, and each reaches the program as it is."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.box import Box
from helpers.box.wrap import Marker, wrap

SHOW = ["printf", "%s\\0"]
NASTY = st.sampled_from(
    ["'", '"', "\\", "\n", "\r", "\t", "$(touch PWNED)", "`touch PWNED`", ";touch PWNED;", "&& touch PWNED", "| sh",
     "> PWNED", "-rf", "--", "-", "~", "~root", "*", "?", "[a-z]", "{a,b}", "!", "!!", "#", "=ls", "$HOME", "${IFS}",
     "%s", "\x01wb", "é", "日本", "\u202e", "𝄞", " ", "\udcff", "A=b", "\\\\", "\\'", "^", "EOF"]
)  # fmt: skip
STRINGS = st.lists(NASTY | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)).map(
    "".join
)


def shown(*texts: str) -> bytes:
    """What SHOW prints for these arguments."""
    return b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in texts)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=STRINGS)
def test_arguments_patterns_and_paths(box: Box, there: Path, text: str) -> None:
    reached = box.run([*SHOW, text, "-x" + text, text + "\n"], cwd=str(there))
    assert reached.stdout.encode("utf-8", "surrogateescape") == shown(text, "-x" + text, text + "\n")
    # As a pattern: grep gets it as data, whatever it starts with.
    pattern = text.replace("\n", " ")
    found = box.run(["grep", "-c", "-F", "-e", pattern], stdin=pattern + "\n", check=False)
    assert (found.stdout.strip(), found.exit_status) == ("1", 0)
    assert list(there.iterdir()) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=STRINGS)
def test_paths_of_files(box: Box, there: Path, text: str) -> None:
    name = text.replace("/", "_")[:60] or "x"
    if name in (".", ".."):
        name += "x"
    name = name.encode("utf-8", "surrogateescape")[:200].decode("utf-8", "surrogateescape")
    data = uuid.uuid4().bytes
    box.write_bytes(f"{there}/{name}", data)
    assert [entry.name for entry in there.iterdir()] == [name]
    assert box.read_bytes(f"{there}/{name}") == data
    (there / name).unlink()


@pytest.mark.parametrize(
    "shell", [name for name in ("sh", "bash", "dash", "zsh", "fish", "tcsh") if shutil.which(name)]
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=STRINGS)
def test_login_shells(tmp_path: Path, shell: str, text: str) -> None:
    """The wrapped command is what sshd hands to the login shell with -c."""
    wrapped = wrap([*SHOW, text, "-x" + text], login_shell=shell)
    result = subprocess.run([shell, "-c", wrapped.text], cwd=tmp_path, capture_output=True, timeout=60)
    assert Marker(wrapped.nonce).feed(result.stdout) == shown(text, "-x" + text)
    assert list(tmp_path.iterdir()) == []
