"""Whether somebody is there: a front end that goes on listening once a cell has ended."""

from __future__ import annotations


def attended() -> bool:
    """Whether a front end is there for whom a display may be completed later.

    JupyterLab and the like say with every cell that they take input. `jupyter execute`, nbconvert and papermill say
    that they do not, and hear of a cell nothing more once it has ended. A plain Python has no front end at all.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return False
    kernel = getattr(shell, "kernel", None)  # a terminal's shell has none
    return bool(getattr(kernel, "_allow_stdin", True))
