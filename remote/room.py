"""How much a disk of this machine still takes: ``python3 -m remote.room free``, a JSON request on standard input.

Standard library, Python 3.9 or later.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def free(request: dict[str, Any]) -> dict[str, Any]:
    """``{"free": bytes}`` that this user may write to ``request["folder"]``, or where it will be made.

    A quota is not seen; what cannot be asked is ``{"free": null}``.
    """
    folder = Path(request["folder"])
    try:
        found = os.statvfs(next(path for path in (folder, *folder.parents) if path.exists()))
    except OSError:
        return {"free": None}
    return {"free": found.f_bavail * found.f_frsize}


OPERATIONS = {"free": free}

if __name__ == "__main__":
    print(json.dumps(OPERATIONS[sys.argv[1]](json.load(sys.stdin))))
