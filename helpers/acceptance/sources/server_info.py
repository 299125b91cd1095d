"""A saved /server_info (or /get_server_info) answer: the mean accept length since the server's start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.acceptance.sources.definition import KEPT_ONLY, WITH_BONUS, accept_rate, rule_of
from helpers.acceptance.sources.result import Counters, Part, Size
from helpers.errors import UsageError, WrongResult

_KEY = "avg_spec_accept_length"
DEFINITION = (
    "avg_spec_accept_length is tokens per verify step, bonus included, pooled over all verify steps from the server's "
    "start (or its last cache flush) to the last decode log line: our accept length, warm-up included. The accept rate "
    "is not in it; ours is (L - 1) / (N - 1)"
)


def is_server_info(record: Mapping[str, Any]) -> bool:
    return _KEY in record or "internal_states" in record


def read_server_info(record: Mapping[str, Any], *, draft_tokens: int | None = None) -> Counters:
    """Figures of a server, of each DP rank where there are several.

    Raises:
        UsageError: ``WB-COUNTERS-NONE`` when there is no mean yet.
        WrongResult: ``WB-COUNTERS-CONTRADICT`` when the mean is out of its bounds.
    """
    states = record.get("internal_states") or [record]
    parts = [
        _part(state, record, f"DP{rank}", draft_tokens)
        for rank, state in enumerate(states)
        if isinstance(state, dict) and state.get(_KEY) is not None
    ]
    if not parts:
        speculates = record.get("speculative_algorithm")
        raise UsageError(
            "WB-COUNTERS-NONE",
            f"/server_info has no {_KEY}; its speculative_algorithm is {speculates!r}",
            expected="a server with speculation that wrote a decode log line (every --decode-log-interval batches)",
            next="send more requests, then curl -s http://127.0.0.1:PORT/server_info > FILE",
        )
    warnings = []
    first, one = parts[0], len(parts) == 1
    if not one:
        warnings.append(f"{len(parts)} DP ranks, each with a mean and no counts: no figure for all; `parts` has each")
    if len(parts) < len(states):
        warnings.append(f"{len(states) - len(parts)} of {len(states)} DP ranks have no mean yet")
    topk = states[0].get("speculative_eagle_topk") or record.get("speculative_eagle_topk") or 1
    n = first.num_draft_tokens
    if topk > 1 and n:
        warnings.append(f"topk = {topk}: N - 1 = {n - 1} is the size of the tree; not comparable with a chain's rate")
    if n is None:
        warnings.append("num_draft_tokens is not in the answer: accept rate not told; give --draft-tokens N")
    version = f" (SGLang {record['version']})" if record.get("version") else ""
    told = f", N = {n}{version}." if n else f"{version}."
    if _version_rule(record) == WITH_BONUS:
        told += f" {KEPT_ONLY}"
    return Counters(
        accept_length=first.accept_length if one else None,
        accept_rate=first.accept_rate if one else None,
        survival=first.survival if one else None,
        n=Size(verify_steps=None, lines=len(parts)),
        source="sglang-server-info",
        definition=DEFINITION + told,
        warnings=warnings,
        num_draft_tokens=n,
        parts=[] if one else parts,
    )


def _part(state: Mapping[str, Any], record: Mapping[str, Any], name: str, draft_tokens: int | None) -> Part:
    length = float(state[_KEY])
    key = "speculative_num_draft_tokens"
    n = draft_tokens or state.get(key) or record.get(key)
    if length < 1 or (n and length > n):
        raise WrongResult(
            "WB-COUNTERS-CONTRADICT",
            f"the server's figures contradict each other: {_KEY} is {length:g} with num_draft_tokens {n}",
            expected="identity: 1 <= accept length <= num_draft_tokens",
            next="is the answer this server's? keep it; do not use its rates",
        )
    return Part(
        server=name,
        accept_length=length,
        accept_rate=accept_rate(length, n) if n else None,
        survival=[length - 1] if n == 2 else None,
        n=Size(verify_steps=None, lines=1),
        num_draft_tokens=n,
    )


def _version_rule(record: Mapping[str, Any]) -> str | None:
    """What the version prints as accept rate: that also tells whether cut drafts are counted. None where not told."""
    version = str(record.get("version") or "")
    return rule_of(f"sglang=={version}") if version.count(".") >= 2 and version[0].isdigit() else None
