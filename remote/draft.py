"""A draft model's folder with other layer ids: links to its files, and a config.json of its own.

SGLang reads the ids from the draft's config.json and nowhere else (0.5.9: model_executor/model_runner.py:363), there
only from the nested ``eagle_config``. The draft itself is not touched.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG = "config.json"
SECTION = "eagle_config"
IDS = "eagle_aux_hidden_state_layer_ids"


def rewired(config: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    """The config with these layer ids where the server reads them; all else as it was."""
    return {**config, SECTION: {**(config.get(SECTION) or {}), IDS: ids}}


def copy(source: Path, target: Path, ids: list[int]) -> None:
    """Make ``target``: a link for each entry of ``source``, and the edited config.json."""
    config = json.loads((source / CONFIG).read_text())
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.name != CONFIG:
            (target / entry.name).symlink_to(entry.resolve())
    (target / CONFIG).write_text(json.dumps(rewired(config, ids), indent=1))
