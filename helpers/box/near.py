"""A look at tensors where they lie: hashes, rank comparison, norms and slices by ``remote/near_data.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from helpers.errors import RemoteFailed

if TYPE_CHECKING:
    from helpers.box.box import Box


class NearData:
    """Questions to a box about safetensors files on it; what comes back is small, whatever their size.

    ``python`` is an interpreter there with torch (`hashes` needs none).
    """

    def __init__(self, box: Box, python: str = "python3") -> None:
        self._box, self._python = box, python

    def hashes(self, files: Sequence[str]) -> list[dict[str, Any]]:
        """Per file: path, bytes, sha256, and ``tensors``: {name: {dtype, shape, sha256}}."""
        answer: list[dict[str, Any]] = self._ask("hashes", {"files": self._paths(files)})["files"]
        return answer

    def compare(self, files: Sequence[str], names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Per tensor, over rank files: ``alike`` (dtype and shape), ``equal`` (every bit), ``missing_in``, and
        ``differences`` from the first: file, same_bits, max_abs, relative (norm of the difference over the norm)."""
        request = {"files": self._paths(files), "names": None if names is None else list(names)}
        answer: dict[str, dict[str, Any]] = self._ask("compare", request)["tensors"]
        return answer

    def norms(self, file: str, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Per floating tensor: shape, rms, mean_row_norm, max_row_norm, non_finite (how many)."""
        request = {"file": self._box.path(file), "names": None if names is None else list(names)}
        answer: dict[str, dict[str, Any]] = self._ask("norms", request)["tensors"]
        return answer

    def slice(
        self, file: str, name: str, rows: tuple[int, int], columns: tuple[int, int] | None = None
    ) -> dict[str, Any]:
        """``values`` of a tensor's rows (and columns), with its dtype and whole shape; at most a million values."""
        request = {"file": self._box.path(file), "name": name, "rows": rows, "columns": columns}
        return self._ask("slice", request)

    def _paths(self, files: Sequence[str]) -> list[str]:
        return [self._box.path(file) for file in files]

    def _ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        from helpers.uploads import upload

        argv = [self._python, "-m", "remote.near_data", operation]
        code = upload(self._box)
        result = self._box.run(argv, cwd=code, stdin=json.dumps(request), check=False, idempotent=True)
        try:
            answer: dict[str, Any] = json.loads(result.stdout)
        except ValueError:
            answer = {"error": {"message": f"{self._python} gave no answer"}}
        if "error" in answer:
            raise RemoteFailed(
                "WB-NEAR-DATA",
                f"{self._box.name} cannot tell about {request.get('file') or request.get('files')}: "
                f"{answer['error']['message']}",
                expected="safetensors files, and an interpreter with torch",
                next=f"workbook run {self._box.name} -- {self._python} -c 'import torch'",
                lines=result.stderr.splitlines()[-5:],
            )
        return answer
