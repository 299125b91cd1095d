"""Who we are: the keys that are tried, in OpenSSH's order, and a clear error where none opens the door."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from helpers.box import agents
from helpers.box.quoting import quote
from helpers.box.targets import Target
from helpers.box.transient import lost
from helpers.errors import BoxUnreachable
from helpers.owner import home

PASSPHRASE_VARIABLE = "WORKBOOK_SSH_PASSPHRASE"
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_KEY_CLASSES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


@dataclass
class Attempts:
    """What was tried, for the error at the end."""

    tried: list[str] = field(default_factory=list)
    locked: list[Path] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    accepted: str = ""  # a key that the box took and that was not enough: ``allowed`` is what it wants beside it


def authenticate(transport: paramiko.Transport, target: Target, *, jump: bool = False) -> None:
    """Log in with the first key that the box accepts. ``jump``: it is a hop on the way to another one.

    Raises:
        BoxUnreachable: WB-SSH-KEY-ENCRYPTED where a key needs its passphrase first, else WB-SSH-AUTH;
            WB-SSH-LOST (Transient) where the connection broke before the box could answer.
    """
    attempts = Attempts()
    agent, trouble = agents.opened(target.agent_socket) if target.agent else (None, "")
    attempts.broken += [trouble] if trouble else []
    try:
        for label, key in _candidates(target, agent, attempts):
            attempts.tried.append(label)
            try:
                if more := transport.auth_publickey(target.user, key):
                    attempts.accepted, attempts.allowed = label, list(more)
                    if "publickey" not in more:
                        break
            except paramiko.BadAuthenticationType as error:
                attempts.allowed = list(error.allowed_types)
                break
            except paramiko.AuthenticationException as error:
                if "timeout" in str(error):  # no answer is no refusal
                    raise
                if not transport.is_active():
                    break
            except paramiko.SSHException as error:
                attempts.broken.append(f"{label}: {error}")
                if not transport.is_active():
                    break
            if transport.is_authenticated():
                return
    finally:
        if agent is not None:
            agent.close()
    if not transport.is_active() and len(attempts.tried) < 2:
        raise lost(target.name, transport.get_exception())
    raise _half_way(target, attempts, jump) if attempts.accepted else _refused(target, attempts)


def _candidates(
    target: Target, agent: paramiko.Agent | agents.NamedAgent | None, attempts: Attempts
) -> Iterator[tuple[str, paramiko.PKey]]:
    files = [path for path in target.identity_files if path.is_file()]
    attempts.broken += [f"{path}: no such file" for path in target.identity_files if not path.is_file()]
    if not target.identity_files:
        files = [path for name in _DEFAULT_KEYS if (path := home() / ".ssh" / name).is_file()]
    held = list(agent.get_keys()) if agent is not None else []
    public = {blob: path for path in files if (blob := _public_blob(path)) is not None}
    named = [key for key in held if key.asbytes() in public]
    for key in named:
        yield f"agent: {public[key.asbytes()]}", key
    if not target.identities_only and not target.identity_files:
        # Without a key named for this box, what the agent holds comes before files, as with OpenSSH.
        for key in held:
            if key not in named:
                yield f"agent: {key.get_name()} {key.fingerprint}", key
    for path in files:
        if any(public.get(key.asbytes()) == path for key in named):
            continue
        if _blob(path) is not None:
            attempts.broken.append(f"{path}: a public key, and no agent holds its private half")
            continue
        loaded = _load(path, attempts)
        if loaded is not None:
            yield str(path), loaded
    if not target.identities_only and target.identity_files:
        for key in held:
            if key not in named:
                yield f"agent: {key.get_name()} {key.fingerprint}", key


def _public_blob(path: Path) -> bytes | None:
    """The public half of an IdentityFile: the file may be that itself, so that an agent's key is picked by it."""
    return _blob(path) or _blob(Path(f"{path}.pub"))


def _blob(path: Path) -> bytes | None:
    try:
        text = path.read_text()
        return None if text.startswith("-----") else paramiko.pkey.PublicBlob.from_string(text).key_blob
    except (OSError, ValueError, IndexError):  # binascii.Error and UnicodeDecodeError are ValueErrors
        return None


def _load(path: Path, attempts: Attempts) -> paramiko.PKey | None:
    """The private key in ``path``, with its certificate where one lies beside it; None and a note if it won't open."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        attempts.broken.append(f"{path}: {error}")
        return None
    key, problem = _parse(text, None)
    if problem == _LOCKED:
        key, problem = _parse(text, os.environ.get(PASSPHRASE_VARIABLE))
        if key is None:
            attempts.locked.append(path)
            return None
    if key is None:
        attempts.broken.append(f"{path}: {problem}")
        return None
    certificate = Path(f"{path}-cert.pub")
    if certificate.is_file():
        key.load_certificate(str(certificate))
    return key


_LOCKED = "it is encrypted"


def _parse(text: str, passphrase: str | None) -> tuple[paramiko.PKey | None, str]:
    """The key in ``text``, or why there is none; paramiko has no reader that takes all kinds in all layouts."""
    problem = "no ed25519, ecdsa or rsa private key"
    for key_class in _KEY_CLASSES:
        try:
            return key_class.from_private_key(io.StringIO(text), password=passphrase), ""
        except paramiko.PasswordRequiredException:
            return None, _LOCKED
        except (paramiko.SSHException, ValueError, TypeError, IndexError) as error:
            if "encountered" not in str(error):  # "encountered EC key, expected RSA key"
                problem = str(error) or problem
    return None, problem


def _half_way(target: Target, attempts: Attempts, jump: bool) -> BoxUnreachable:
    """The error for a box that took a key, and wants something more."""
    wanted = " or ".join(attempts.allowed)
    where = f"{target.user}@{target.host}:{target.port}"
    if jump:
        name = quote(target.name)
        what = (
            f"let ssh itself make the way: ProxyCommand ssh -W %h:%p {name} in ~/.ssh/config, in place of ProxyJump "
            f"{target.name}; with ControlMaster it uses the connection that `ssh {target.name}` has opened already"
        )
    else:
        what = "ask whoever runs the box for a login by key alone; by hand: " + _by_hand(target)
    return BoxUnreachable(
        "WB-SSH-AUTH",
        f"{where} accepted {attempts.accepted}, and wants {wanted} as well: a second factor, which is never asked for",
        expected="a login by key alone" + (", or a way through this hop that ssh has opened" if jump else ""),
        next=what,
        lines=[f"tried {label}" for label in attempts.tried] + attempts.broken,
    )


def _by_hand(target: Target) -> str:
    return f"ssh -v -p {target.port} {quote(f'{target.user}@{target.host}')} true"


def _refused(target: Target, attempts: Attempts) -> BoxUnreachable:
    where = f"{target.user}@{target.host}:{target.port}"
    lines = [f"tried {label}" for label in attempts.tried] + attempts.broken
    if attempts.locked:
        path = attempts.locked[0]
        wrong = bool(os.environ.get(PASSPHRASE_VARIABLE))
        return BoxUnreachable(
            "WB-SSH-KEY-ENCRYPTED",
            f"{path} is encrypted, and "
            + (f"{PASSPHRASE_VARIABLE} does not open it" if wrong else "no agent holds it")
            + f", so {where} cannot be entered",
            expected=f"the key in a running ssh-agent, or its passphrase in {PASSPHRASE_VARIABLE}",
            next=f"ssh-add {quote(str(path))}",
            lines=lines,
        )
    accepted = f"; it accepts {', '.join(attempts.allowed)}" if attempts.allowed else ""
    return BoxUnreachable(
        "WB-SSH-AUTH",
        f"{where} accepted none of {len(attempts.tried)} keys{accepted}",
        expected="a key whose public half is in the box's ~/.ssh/authorized_keys",
        next=_by_hand(target),
        lines=lines,
    )
