"""A look at tensors where they lie: hashes, rank comparison, norms and slices by ``remote/near_data.py``."""

from __future__ import annotations

import contextlib
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
        self.sent = self.received = 0  # bytes of requests and of answers, so far

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

    def stream(self, operation: str, request: dict[str, Any]) -> bytes:
        """The answer of an operation that answers in tensors, as `remote.sketches.packed` writes them."""
        answer: bytes = self._box.session.retry(lambda: self._stream(operation, request))
        return answer

    def _stream(self, operation: str, request: dict[str, Any]) -> bytes:
        from helpers.uploads import upload

        text = json.dumps(request).encode()
        execution = self._box.execute(self._argv(operation), cwd=upload(self._box), stdin=text)
        out, err = bytearray(), bytearray()
        with contextlib.closing(execution.events()) as events:
            for name, block in events:
                (out if name == "out" else err).extend(block)
        self.sent += len(text)
        self.received += len(out)
        if execution.exit_status:
            try:
                told = json.loads(out[out.rfind(b'{"error"') :])
            except ValueError:
                told = {}
            raise self._failed(request, told, err.decode("utf-8", "replace"))
        return bytes(out)

    def ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of an operation that answers in JSON."""
        return self._ask(operation, request)

    def _argv(self, operation: str) -> list[str]:
        return [self._python, "-m", "remote.near_data", operation]

    def _ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        from helpers.uploads import upload

        text = json.dumps(request)
        result = self._box.run(self._argv(operation), cwd=upload(self._box), stdin=text, check=False, idempotent=True)
        self.sent += len(text)
        self.received += len(result.stdout)
        try:
            answer: dict[str, Any] = json.loads(result.stdout)
        except ValueError:
            answer = {"error": {"message": f"{self._python} gave no answer"}}
        if "error" in answer:
            raise self._failed(request, answer, result.stderr)
        return answer

    def _failed(self, request: dict[str, Any], answer: dict[str, Any], err: str) -> RemoteFailed:
        features = request.get("features") or [{"files": None}]
        about = request.get("file") or request.get("files") or request.get("path") or request.get("first")
        why = answer.get("error", {}).get("message", f"{self._python} gave no answer")
        return RemoteFailed(
            "WB-NEAR-DATA",
            f"{self._box.name} cannot tell about {about or features[0]['files']}: {why}",
            expected="safetensors files, and an interpreter with torch",
            next=f"workbook run {self._box.name} -- {self._python} -c 'import torch'",
            lines=err.splitlines()[-5:],
        )
