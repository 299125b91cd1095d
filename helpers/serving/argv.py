"""A profile's exact command line and environment. Pure: nothing is asked of the box, so it can be shown before it runs.

>>> from helpers.serving.profile import Profile
>>> profile = Profile(name="base", engine="sglang==0.5.9", model="~/models/target", tp=2)
>>> " ".join(server_argv(profile, home="/home/me", port=30000)[3:7])
'--model-path /home/me/models/target --tensor-parallel-size 2'
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.box.masking import MASK, mask
from helpers.serving.profile import Profile, is_folder

#: Options, and keys in JSON, whose values are secrets: shown and stored as ``***``.
SECRET = re.compile(
    r"(?i)(^|[_-])(token|secret|password|passwd|pass|auth|authorization|credentials?|(api|access)?key)$"
)
#: Variables whose values may be shown, for they tell how a server was run. All others may be secrets, whatever they are
#: called, and are kept as ``***``.
HARMLESS = re.compile(
    r"(?:CUDA|DG|FLASHINFER|GLOO|HF_HUB|LC|MKL|NCCL|NVIDIA|NVSHMEM|OMP|PYTHON|PYTORCH|SGLANG|SGL|SPT|TOKENIZERS|TORCH"
    r"|TORCHDYNAMO|TORCHINDUCTOR|TRANSFORMERS|TRITON|UCX|VLLM)_\w+"
    r"|HF_HOME|HOME|LANG|LD_LIBRARY_PATH|LD_PRELOAD|PATH|PYTHON[A-Z]+|TMPDIR|TZ"
)
#: But for those of them that smell of a secret; tokens in the plural are counts of text.
SMELLS = re.compile(r"(?i)token(?!s|iz)|secret|pass|key|auth|cred|cookie")
NO_GRAPHS = "--disable-cuda-graph"


def server_argv(
    profile: Profile,
    *,
    home: str,
    port: int,
    draft: str | None = None,
    hooks: Sequence[Mapping[str, Any]] = (),
) -> tuple[str, ...]:
    """The words of the server's command line on the box.

    Args:
        home: the box's home, for a leading ``~/``.
        port: where it listens.
        draft: a folder to use for the drafter instead of the profile's (a run's copy with other layer ids).
        hooks: SGLang's ``--forward-hooks`` specifications, none for no hook.
    """
    words = [expand(profile.python, home), "-m", "sglang.launch_server"]
    words += ["--model-path", expand(profile.model, home), "--tensor-parallel-size", str(profile.tp)]
    words += ["--host", profile.host, "--port", str(port), "--dtype", profile.dtype]
    if profile.context_length is not None:
        words += ["--context-length", str(profile.context_length)]
    if profile.speculation is not None:
        words += ["--speculative-algorithm", "EAGLE3"]
        words += ["--speculative-draft-model-path", draft or expand(profile.draft or "", home)]
        words += ["--speculative-num-steps", str(profile.speculation.num_steps)]
        words += ["--speculative-eagle-topk", str(profile.speculation.topk)]
        words += ["--speculative-num-draft-tokens", str(profile.speculation.num_draft_tokens)]
    if hooks:
        words += ["--forward-hooks", json.dumps(list(hooks), separators=(",", ":"))]
        if NO_GRAPHS not in profile.extra_args:  # hooks do not fire when a CUDA graph is replayed
            words.append(NO_GRAPHS)
    return (*words, *(expand(word, home) for word in profile.extra_args))


def server_environment(profile: Profile, *, home: str) -> dict[str, str]:
    """What the server is given beside the box's own environment; a leading ``~/`` of a value is the home."""
    return {name: expand(value, home) for name, value in profile.env.items()}


def prepended(profile: Profile, *, home: str, code: str) -> dict[str, str]:
    """What is put in front of path-like variables of the box's own environment: name -> folders, colons between them.

    ``code`` is the folder of remote/ there, for the capture hook.
    """
    found = {
        name: ":".join(expand(folder, home) for folder in value.split(":"))
        for name, value in profile.env_prepend.items()
    }
    return found if profile.capture is False else {**found, "PYTHONPATH": code}


def model_folders(profile: Profile, *, home: str) -> tuple[str, ...]:
    """The folders on the box that must be models before the server is started; hub names are left to the server."""
    return tuple(expand(path, home) for path in (profile.model, profile.draft) if path and is_folder(path))


def expand(word: str, home: str) -> str:
    """``~/x`` as ``<home>/x``; the server is started without a shell that would do it."""
    return home + word[1:] if word == "~" or word.startswith("~/") else word


def masked(env: Mapping[str, str]) -> dict[str, str]:
    """The environment as it may be stored and shown: only what is known to be harmless in clear.

    >>> masked({"NCCL_DEBUG": "INFO", "OPENAI_KEY_X": "abc", "HTTPS_PROXY": "http://u:p@proxy:3128"})
    {'NCCL_DEBUG': 'INFO', 'OPENAI_KEY_X': '***', 'HTTPS_PROXY': '***'}
    """
    return {
        name: mask(value) if HARMLESS.fullmatch(name) and not SMELLS.search(name) else MASK
        for name, value in env.items()
    }


def masked_profile(profile: Profile) -> Profile:
    """The profile as it may be stored and shown: the values of its variables and of its arguments masked."""
    return profile.model_copy(
        update={
            "env": masked(profile.env),
            "env_prepend": masked(profile.env_prepend),
            "extra_args": masked_argv(profile.extra_args),
        }
    )


def masked_argv(words: Sequence[str]) -> tuple[str, ...]:
    """The command line as it may be shown: the value after ``--api-key`` and the like (or behind its ``=``) hidden.

    So are such values inside JSON, and the credentials in addresses.
    """
    shown: list[str] = []
    hide = False
    for word in words:
        flag, equals, _ = word.partition("=")
        is_flag = word.startswith("--")
        secret = is_flag and SECRET.search(flag) is not None
        shown.append(MASK if hide and not is_flag else f"{flag}={MASK}" if secret and equals else _masked_word(word))
        hide = secret and not equals
    return tuple(shown)


def _masked_word(word: str) -> str:
    """A word with the secrets inside it masked; one without any stays as it is, to the letter."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    try:
        content = json.loads(value) if value.startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        content = None
    if content is None:
        return mask(word)
    safe = _masked_json(content)
    return word if safe == content else option + equals + json.dumps(safe, separators=(",", ":"))


def _masked_json(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: MASK if SECRET.search(key) else _masked_json(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_masked_json(item) for item in content]
    return mask(content) if isinstance(content, str) else content


def command_text(words: Sequence[str]) -> str:
    """The command line for people, a flag a line, ready to paste into a shell."""
    lines: list[str] = []
    for word in masked_argv(words):
        if lines and not word.startswith("--"):
            lines[-1] += " " + shlex.quote(word)
        else:
            lines.append(shlex.quote(word))
    return " \\\n    ".join(lines)
