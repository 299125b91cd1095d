"""The layer ids in a drafter's config.json on the box, edited through the same journal as patches, and taken back.

The edit is a patch that is made for the file at hand: the journal keeps it, so that a revert gives the very bytes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.box.result import printable
from helpers.errors import RemoteFailed, UsageError
from helpers.screen import as_typed
from helpers.source.journal import application
from helpers.source.patch_report import PatchReport
from helpers.source.patch_state import Patch, sha256
from helpers.source.patch_view import View, entry_of, replace, text_of
from helpers.uploads import call

if TYPE_CHECKING:
    from helpers.box import Box

CONFIG = "config.json"
_SECTION, _IDS = "eagle_config", "eagle_aux_hidden_state_layer_ids"


def set_ids(box: Box, draft: str, ids: Sequence[int], *, python: str = "python3", force: bool = False) -> PatchReport:
    """Write ``ids`` where SGLang reads them (nested ``eagle_config``); all else in the file stays as it is.

    Ids that were written from here before are replaced; a revert goes back to the file from before the first.

    Args:
        force: also while a server, anybody's, loads this drafter.

    Raises:
        RemoteFailed: WB-FILE-MISSING, WB-PATCH-CONFIG, WB-PATCH-IN-USE, WB-PATCH-DRIFTED, WB-PATCH-WRITE,
            WB-PATCH-RACE.
    """
    root = _folder(box, draft)
    view, now = _view(box, root, python)
    if view is not None and view.state not in ("applied", "clean"):
        raise view.refusal()
    original = now
    if view is not None and view.state == "applied" and view.entry is not None:
        assert view.files[0].result is not None
        original = view.files[0].result
    wanted = rewritten(original, ids, where=f"{box.name}:{root}/{CONFIG}")
    if wanted == now:
        return _report(box, root, python)
    patch = Patch.of(_name(root), diff_of(original, wanted, ids))
    if wanted == original and view is not None:
        view.write("revert", force=force)
    else:
        files = [{"path": CONFIG, "before": sha256(original), "after": sha256(wanted)}]
        entry = entry_of("apply", patch, root, None, files)
        replace(box, patch.name, entry, [(f"{root}/{CONFIG}", sha256(now), wanted)], python=python, force=force)
    return _report(box, root, python, changed=True)


def ids_status(box: Box, draft: str, *, python: str = "python3") -> tuple[list[int] | None, PatchReport | None]:
    """The ids that the draft's config.json has now, and what the journal says; None where there are none."""
    root = _folder(box, draft)
    view, now = _view(box, root, python)
    return read_ids(now, where=f"{box.name}:{root}/{CONFIG}"), view.report("status") if view else None


def revert_ids(box: Box, draft: str, *, python: str = "python3", force: bool = False) -> PatchReport | None:
    """The file as it was before ids were written from here; None where none were.

    Raises:
        RemoteFailed: WB-PATCH-DRIFTED where somebody changed it since (unless ``force`` and the lines still stand).
    """
    root = _folder(box, draft)
    view, _ = _view(box, root, python)
    if view is None:
        return None
    if view.state == "clean":
        return view.report("revert")
    if view.files[0].result is None or (view.state != "applied" and not force):
        raise view.refusal()
    proven = view.proven()
    view.write("revert", force=force)
    return view.again().report("revert", changed=True, proven=proven)


def rewritten(data: bytes, ids: Sequence[int], *, where: str = CONFIG) -> bytes:
    """A config.json with these ids, written in the file's own style, so that little else changes.

    >>> rewritten(b'{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]}}', [3])
    b'{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [3]}}'
    """
    config = _config(data, where)
    section = config.get(_SECTION)
    new = {**config, _SECTION: {**(section if isinstance(section, dict) else {}), _IDS: list(ids)}}
    text = data.decode("utf-8", "surrogateescape")
    end = text[len(text.rstrip()) :]
    styles: list[dict[str, Any]] = [
        {"indent": indent, "ensure_ascii": ascii, "separators": separators}
        for indent in (2, 1, 4, None, "\t")
        for ascii in (False, True)
        for separators in (None, (",", ":"))
    ]
    style = next((s for s in styles if json.dumps(config, **s) == text.rstrip()), styles[0])
    return (json.dumps(new, **style) + end).encode("utf-8", "surrogateescape")


def read_ids(data: bytes, *, where: str = CONFIG) -> list[int] | None:
    """The nested ids of a config.json."""
    section = _config(data, where).get(_SECTION)
    ids = section.get(_IDS) if isinstance(section, Mapping) else None
    return list(ids) if isinstance(ids, list) else None


def diff_of(before: bytes, after: bytes, ids: Sequence[int]) -> str:
    """The edit as a unified diff of config.json, with a head that says what it is."""
    head = f"Layer ids of this drafter: {list(ids)}, where SGLang reads them.\n\n"
    old, new = (data.decode("utf-8", "surrogateescape").splitlines(keepends=True) for data in (before, after))
    lines = list(difflib.unified_diff(old, new, f"a/{CONFIG}", f"b/{CONFIG}"))
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def parse_ids(text: str) -> tuple[int, ...]:
    """``2,30,58`` as numbers.

    Raises:
        UsageError: WB-USAGE.
    """
    try:
        ids = tuple(int(part) for part in text.split(","))
    except ValueError:
        ids = ()
    if not ids or min(ids) < -1:
        raise UsageError(
            "WB-USAGE",
            f"--ids={printable(text)} are no layer ids",
            expected="numbers such as 2,30,58",
            next="--ids=2,30,58",
        )
    return ids


def _view(box: Box, root: str, python: str) -> tuple[View | None, bytes]:
    """The edit in force, None where there is none; and the file as it is now."""
    path = f"{root}/{CONFIG}"
    answer = call(box, "editing", "read", {"paths": [path]}, python=python)
    if "missing" in answer["files"][path]:
        raise RemoteFailed(
            "WB-FILE-MISSING",
            f"{box.name}:{printable(path)} cannot be read: {answer['files'][path]['missing']}",
            expected="a drafter's folder on the box, with a config.json",
            next=f"workbook run {box.name} -- ls -l {as_typed(printable(root))}",
        )
    now = text_of(answer["files"][path])
    assert now is not None
    if application(answer["journal"], _name(root), root) is None:
        return None, now
    return View(box, _name(root), None, root=root, version=None, python=python), now


def _report(box: Box, root: str, python: str, *, changed: bool = False) -> PatchReport:
    view, _ = _view(box, root, python)
    if view is not None:
        return view.report("apply", changed=changed)
    return PatchReport(
        name=_name(root),
        action="apply",
        state="clean",
        checkout=root,
        version=None,
        patch_sha256="",
        files=(),
        changed=changed,
    )


def _config(data: bytes, where: str) -> dict[str, Any]:
    try:
        config = json.loads(data)
    except ValueError as error:
        config = str(error)
    if isinstance(config, dict):
        return config
    raise RemoteFailed(
        "WB-PATCH-CONFIG",
        f"{printable(where)} is no config: {config if isinstance(config, str) else 'it holds no object'}",
        expected="a JSON object, as transformers writes it",
        next="push the drafter again, or mend the file",
    )


def _folder(box: Box, draft: str) -> str:
    return box.path(draft).rstrip("/") or "/"


def _name(root: str) -> str:
    return f"ids of {root}"
