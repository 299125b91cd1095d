"""Makes .venv from the locks. Standard library only: it runs before anything is installed.

`make setup` calls it. It can be interrupted and run again: the venv counts as ready only once the last step is done.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "remote/lab/requirements.lock")
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PYTORCH_CUDA_INDEX = "https://download.pytorch.org/whl/cu130"


class SetupError(SystemExit):
    """Ends the set-up with one message; make shows it and stops."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(f"setup: {message}\n  next: {cure}")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def pip(python: Path, *args: str) -> bool:
    """Runs pip; True when it succeeded. Says every ten seconds how far it is; pip's errors go through to the user."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-color", *args]
    start = time.monotonic()
    stage = ["fetching"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        reader = threading.Thread(target=_follow, args=(process.stdout, stage), daemon=True)
        reader.start()
        while reader.is_alive():
            reader.join(timeout=10)
            if reader.is_alive():
                say(f"  {stage[0]} ({time.monotonic() - start:.0f} s)")
    return process.returncode == 0


def _follow(lines: Iterable[str], stage: list[str]) -> None:
    for line in lines:
        if line.startswith("Installing collected packages"):
            stage[0] = "installing"


def has_pip(python: Path) -> bool:
    """Whether a venv is there and whole: one whose making was interrupted has a python, and no pip."""
    probe = [str(python), "-m", "pip", "--version"]
    return python.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def torch_line() -> str:
    for line in (ROOT / LOCKS[0]).read_text().splitlines():
        if line.startswith("torch=="):
            return line.strip()
    raise SetupError("requirements.lock names no torch", "restore the line torch==... in requirements.lock")


def install_torch(python: Path, kind: str) -> None:
    pinned = torch_line()
    if kind == "cuda":
        say("torch with CUDA, because TORCH=cuda asks for it")
        release = pinned.split("+")[0] + "+cu130"  # named whole: the CPU build would satisfy the bare version
        if not pip(python, "install", "--index-url", PYTORCH_CUDA_INDEX, release):
            raise SetupError(f"no CUDA build of {release} could be installed", "see pip's message above")
        return
    if sys.platform == "darwin":
        pinned = pinned.split("+")[0]  # macOS wheels are CPU builds and carry no local version
    say(f"{pinned}, the CPU build (190 MB)")
    if pip(python, "install", "--no-deps", pinned):
        return
    say("pip's configured places do not have it; trying PyTorch's own CPU index")
    if not pip(python, "install", "--no-deps", "--index-url", PYTORCH_CPU_INDEX, pinned):
        raise SetupError(
            f"{pinned} was found neither where pip is configured to look nor at {PYTORCH_CPU_INDEX}",
            "check the network, or put the wheel into a folder and set PIP_FIND_LINKS=/that/folder; then make setup",
        )


def install_locks(python: Path) -> None:
    for lock in LOCKS:
        pins = [
            line for line in (ROOT / lock).read_text().splitlines() if line and not line.startswith(("#", "torch=="))
        ]
        say(f"{len(pins)} packages of {lock}")
        wanted = python.parent.parent / "wanted.txt"
        wanted.write_text("\n".join(pins) + "\n")
        # --no-deps: the locks are complete; SGLang's own list would pull CUDA kernels in.
        if not pip(python, "install", "--no-deps", "-r", str(wanted)):
            raise SetupError(f"pip could not install {lock}", "see pip's message above, then run make setup again")
        wanted.unlink()


def check_no_cuda(python: Path) -> None:
    """Ends the set-up when a CUDA build came in unasked: it costs gigabytes and blurs which torch gave the figures."""
    probe = (
        "import importlib.metadata as m, torch\n"
        "bad=[d.name for d in m.distributions() if d.name.lower().startswith(('nvidia-','cuda-'))]\n"
        "print('cuda build of torch: '+torch.__version__ if torch.version.cuda else '')\n"
        "print(' '.join(sorted(bad)))"
    )
    out = subprocess.run([str(python), "-c", probe], capture_output=True, text=True, check=False)
    if out.returncode != 0:
        raise SetupError(
            f"torch does not import: {out.stderr.strip().splitlines()[-1:]}",
            f"rm -r {python.parent.parent} && make setup",
        )
    found = [line for line in out.stdout.splitlines() if line.strip()]
    if found:
        raise SetupError(
            f"CUDA came in unasked: {'; '.join(found)}",
            f"rm -r {python.parent.parent} && make setup; if CUDA is what you want: TORCH=cuda make setup",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    parser.add_argument("--torch", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    if sys.version_info[:2] < (3, 11):  # noqa: UP036 - the point is to say so on an older Python
        found = ".".join(map(str, sys.version_info[:3]))
        raise SetupError(f"Python 3.11 or newer is needed, this is {found}", "make setup PYTHON=/path/to/python3.11")
    where = (ROOT / args.venv).resolve() if not args.venv.is_absolute() else args.venv
    python = where / "bin" / "python"
    start = time.monotonic()
    (where / ".ready").unlink(missing_ok=True)
    if not has_pip(python):
        say(f"a virtual environment in {os.path.relpath(where)}")
        venv.create(where, with_pip=True, clear=where.exists())
    install_torch(python, args.torch)
    install_locks(python)
    say("the workbook itself (editable)")
    if not pip(python, "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT)):
        raise SetupError("the workbook could not be installed into its venv", "see pip's message above")
    if args.torch == "cpu":
        check_no_cuda(python)
    (where / ".ready").write_text(f"torch={args.torch}\n")
    say(f"ready in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("setup: interrupted; make setup goes on from here") from None
