"""Secrets are masked in every record of a command, so that a record can become evidence and be shown to others."""

from __future__ import annotations

import re

MASK = "***"
# Tokens in the plural are counts of text: --max-total-tokens, --speculative-num-draft-tokens.
_SECRET_NAME = r"[A-Za-z0-9_.-]*(?:token|(?:secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|credential)s?)"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s'\"&;,]+)"
_RULES = [
    # Authorization: Bearer abc / Basic abc, with any of : and = between.
    (re.compile(r"(?i)\b(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic|token)?\s*)[^\s'\",;]+"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\1{MASK}"),
    # NAME_TOKEN=value, --api-key value, "password": "value". A JSON or TOML key may be quoted.
    (re.compile(rf"(?i)((?:^|[\s'\"{{,;&?(-]){_SECRET_NAME}['\"]?\s*[=:]\s*){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)((?:^|\s)['\"]?--?{_SECRET_NAME}['\"]?\s+){_VALUE}"), rf"\1{MASK}"),
    # OPENAI_KEY_2=value, DB_PASS=value: the environment's names, where a secret need not be the last part.
    (
        re.compile(rf"((?:^|[\s'\"{{,;&?(-])(?:[A-Z0-9_]*_)?(?:PASS|AUTH|KEY|TOKEN|SECRET)(?:_[A-Z0-9]+)*=){_VALUE}"),
        rf"\1{MASK}",
    ),
    # user:password@host in an address, and token@host.
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@'\"]*:)[^\s/'\"]+(?=@)"), rf"\1{MASK}"),
    (re.compile(r"(\bhttps?://)[^\s:/@'\"]+(?=@)"), rf"\1{MASK}"),
    # Tokens that tell themselves by their shape.
    (re.compile(r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{8,}"), MASK),
]


def mask(text: str) -> str:
    """``text`` with everything that looks like a secret replaced by ``***``.

    >>> mask("HF_TOKEN=hf_abcdefghijkl python3 run.py --api-key s3cret")
    'HF_TOKEN=*** python3 run.py --api-key ***'
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
