"""Whom we talk to and who we are: configuration, keys, host keys, jumps; and a clear word when one of them fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import ssh_servers
from box_support import CuttingProxy, target_of

from helpers.box import connect
from helpers.box.facts.answer import Question
from helpers.box.facts.asking import ask
from helpers.box.targets import resolve
from helpers.errors import BoxUnreachable, RemoteFailed, UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own with an empty ~/.ssh and no agent."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv("WORKBOOK_SSH_PASSPHRASE", raising=False)
    return tmp_path


def keygen(path: Path, kind: str, passphrase: str = "", *more: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", path, *more], check=True)
    return path


def authorize(server: ssh_servers.SshServer, key: Path) -> None:
    with (server.client_key.parent / "authorized_keys").open("a") as file:
        file.write(key.with_name(key.name + ".pub").read_text())


def config(home: Path, server: ssh_servers.SshServer, *lines: str, host: str = "box", identity: bool = True) -> None:
    text = [f"Host {host}", f"  HostName {server.host}", f"  Port {server.port}", f"  User {server.user}"]
    if identity:
        text.append(f"  IdentityFile {server.client_key}")
    with (home / ".ssh/config").open("a") as file:
        file.write("\n".join([*text, *(f"  {line}" for line in lines)]) + "\n")


def trust(home: Path, server: ssh_servers.SshServer) -> None:
    with (home / ".ssh/known_hosts").open("a") as file:
        file.write(server.known_hosts.read_text())


def test_an_alias_of_the_configuration(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    config(home, ssh_server)
    trust(home, ssh_server)
    with connect("box") as box:
        assert box.run(["echo", "hi"]).stdout == "hi\n"
        assert (box.name, box.port, box.home) == ("box", ssh_server.port, str(ssh_server.home))


def test_an_address_with_user_and_port(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    trust(home, ssh_server)
    (home / ".ssh/id_ed25519").write_bytes(ssh_server.client_key.read_bytes())
    with connect(f"{ssh_server.user}@{ssh_server.host}:{ssh_server.port}") as box:
        assert box.run(["true"]).ok


def test_included_files_and_patterns(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    (home / ".ssh/conf.d").mkdir()
    (home / ".ssh/config").write_text("Include conf.d/*\nHost gpu-*\n  User nobody-else\n")
    (home / ".ssh/conf.d/one").write_text(
        f"Host gpu-?\n  HostName {ssh_server.host}\n  Port {ssh_server.port}\n  User {ssh_server.user}\n"
        f'  IdentityFile "{ssh_server.client_key}"\n  UserKnownHostsFile {ssh_server.known_hosts}\n'
    )
    with connect("gpu-1") as box:
        assert box.user == ssh_server.user
    assert resolve("gpu-12").user == "nobody-else"


@pytest.mark.parametrize(("kind", "more"), [("ed25519", ()), ("rsa", ("-b", "2048")), ("ecdsa", ("-b", "384"))])
@pytest.mark.parametrize("passphrase", ["", "open sesame"])
@pytest.mark.parametrize("layout", ["OPENSSH", "PEM"])
def test_kinds_of_keys(
    home: Path,
    openssh_server: ssh_servers.SshServer,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    more: tuple[str, ...],
    passphrase: str,
    layout: str,
) -> None:
    if layout == "PEM" and kind != "ed25519":  # ed25519 has no PEM form; ssh-keygen writes its own either way
        more = (*more, "-m", "PEM")
    key = keygen(home / "key", kind, passphrase, *more)
    authorize(openssh_server, key)
    trust(home, openssh_server)
    config(home, openssh_server, f"IdentityFile {key}", identity=False)
    if passphrase:
        with pytest.raises(BoxUnreachable, match="WB-SSH-KEY-ENCRYPTED") as caught:
            connect("box")
        assert f"ssh-add {key}" in caught.value.next
        monkeypatch.setenv("WORKBOOK_SSH_PASSPHRASE", "wrong")
        with pytest.raises(BoxUnreachable, match=r"WB-SSH-KEY-ENCRYPTED.*does not open it"):
            connect("box")
        monkeypatch.setenv("WORKBOOK_SSH_PASSPHRASE", passphrase)
    with connect("box") as box:
        assert box.run(["true"]).ok


@pytest.fixture
def agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    sock = home / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL) as process:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
        while subprocess.run(["ssh-add", "-l"], capture_output=True).returncode == 2:
            assert process.poll() is None
        yield
        process.terminate()


@pytest.mark.usefixtures("agent")
def test_an_encrypted_key_in_the_agent(home: Path, openssh_server: ssh_servers.SshServer) -> None:
    plain = keygen(home / "key", "ed25519")
    authorize(openssh_server, plain)
    trust(home, openssh_server)
    subprocess.run(["ssh-add", "-q", plain], check=True)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", plain], check=True)
    config(home, openssh_server, f"IdentityFile {plain}", "IdentitiesOnly yes", identity=False)
    with connect("box") as box:
        assert box.run(["true"]).ok


@pytest.mark.usefixtures("agent")
def test_only_the_agent_has_a_key(home: Path, openssh_server: ssh_servers.SshServer) -> None:
    key = keygen(home / "elsewhere", "rsa", "", "-b", "2048")
    authorize(openssh_server, key)
    trust(home, openssh_server)
    subprocess.run(["ssh-add", "-q", key], check=True)
    config(home, openssh_server, identity=False)
    with connect("box") as box:
        assert box.run(["true"]).ok


@pytest.mark.usefixtures("agent")
def test_an_agent_that_only_the_configuration_names(
    home: Path, openssh_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with 1Password: the private half is in an agent of its own, and a public key says which one is meant."""
    key = keygen(home / "box", "ed25519")
    authorize(openssh_server, key)
    trust(home, openssh_server)
    for number in range(8):  # more than a server lets anybody try
        subprocess.run(["ssh-add", "-q", keygen(home / f"other{number}", "ed25519")], check=True)
    subprocess.run(["ssh-add", "-q", key], check=True)
    key.unlink()
    monkeypatch.delenv("SSH_AUTH_SOCK")
    lines = (f"IdentityFile {key}.pub", "IdentitiesOnly yes")
    config(home, openssh_server, *lines, "IdentityAgent ~/agent", identity=False)
    with connect("box") as box:
        assert box.run(["true"]).ok
    config(home, openssh_server, *lines, "IdentityAgent ~/no-agent", identity=False, host="without")
    with pytest.raises(BoxUnreachable, match=r"WB-SSH-AUTH(.|\n)*IdentityAgent .*/no-agent: No such file"):
        connect("without")


def test_a_second_factor(home: Path, tmp_path: Path, openssh_server: ssh_servers.SshServer) -> None:
    asks = ("AuthenticationMethods publickey,keyboard-interactive", "KbdInteractiveAuthentication yes")
    trust(home, openssh_server)
    with ssh_servers.openssh_server(tmp_path / "bastion", *asks) as bastion:
        trust(home, bastion)
        config(home, bastion, host="bastion")
        config(home, openssh_server, "ProxyJump bastion")
        with pytest.raises(BoxUnreachable, match=r"WB-SSH-AUTH.*accepted .*wants keyboard-interactive") as caught:
            connect("box")
        assert "ProxyCommand ssh -W %h:%p bastion" in caught.value.next
        with pytest.raises(BoxUnreachable, match=r"WB-SSH-AUTH.*accepted .*wants keyboard-interactive") as caught:
            connect("bastion")
        assert "ProxyCommand" not in caught.value.next


def test_two_keys_that_are_both_wanted(home: Path, tmp_path: Path) -> None:
    with ssh_servers.openssh_server(tmp_path / "two", "AuthenticationMethods publickey,publickey") as server:
        second = keygen(home / "second", "ed25519")
        authorize(server, second)
        trust(home, server)
        config(home, server, f"IdentityFile {second}")
        with connect("box") as box:
            assert box.run(["true"]).ok


def test_no_key_is_accepted(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    key = keygen(home / "stranger", "ed25519")
    trust(home, ssh_server)
    config(home, ssh_server, f"IdentityFile {key}", "IdentityFile ~/missing", identity=False)
    with pytest.raises(BoxUnreachable, match="WB-SSH-AUTH") as caught:
        connect("box")
    assert caught.value.exit_code == 3
    assert f"tried {key}" in caught.value.lines
    assert any("missing: no such file" in line for line in caught.value.lines)


def test_an_unknown_host_key_shows_its_fingerprint_and_what_adds_it(
    home: Path, ssh_server: ssh_servers.SshServer
) -> None:
    config(home, ssh_server)
    with pytest.raises(BoxUnreachable, match="WB-SSH-HOSTKEY-UNKNOWN") as caught:
        connect("box")
    listed = subprocess.run(["ssh-keygen", "-lf", ssh_server.known_hosts], capture_output=True, text=True, check=True)
    fingerprint = listed.stdout.split()[1]
    assert fingerprint in caught.value.message
    # The command named adds this very key, and nothing that the network may say later.
    command = caught.value.next.partition("add this very key: ")[2]
    subprocess.run(["/bin/sh", "-c", command], check=True)
    with connect("box") as box:
        assert box.run(["true"]).ok


def test_a_changed_host_key_always_refuses(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    config(home, ssh_server, "StrictHostKeyChecking no")
    other = keygen(home / "other", "ed25519")
    blob = " ".join(other.with_name("other.pub").read_text().split()[:2])
    (home / ".ssh/known_hosts").write_text(f"[{ssh_server.host}]:{ssh_server.port} {blob}\n")
    with pytest.raises(BoxUnreachable, match="WB-SSH-HOSTKEY-CHANGED") as caught:
        connect("box")
    assert "known_hosts:1" in caught.value.expected
    assert "ssh-keygen -R" in caught.value.next


def test_hashed_and_revoked_entries(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    config(home, ssh_server)
    trust(home, ssh_server)
    known = home / ".ssh/known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    assert known.read_text().startswith("|1|")
    with connect("box") as box:
        assert box.run(["true"]).ok
    blob = " ".join(ssh_server.known_hosts.read_text().split()[1:])
    known.write_text(f"{known.read_text()}@revoked * {blob}\n")
    with pytest.raises(BoxUnreachable, match=r"WB-SSH-HOSTKEY-CHANGED.*revoked"):
        connect("box")


def test_a_jump_and_a_chain_of_jumps(
    home: Path, ssh_server: ssh_servers.SshServer, openssh_server: ssh_servers.SshServer
) -> None:
    trust(home, ssh_server)
    if ssh_server != openssh_server:
        trust(home, openssh_server)
    config(home, openssh_server, host="hop1")
    config(home, openssh_server, host="hop2")
    config(home, ssh_server, "ProxyJump hop1,hop2")
    with connect("box") as box:
        assert box.run(["echo", "through"]).stdout == "through\n"


def test_a_jump_in_a_circle(home: Path, openssh_server: ssh_servers.SshServer) -> None:
    config(home, openssh_server, "ProxyJump box")
    with pytest.raises(BoxUnreachable, match="circle"):
        connect("box")


def test_a_proxy_command(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    trust(home, ssh_server)
    config(home, ssh_server, f"ProxyCommand ssh -F {ssh_server.ssh_config} -W %h:%p {ssh_server.alias}")
    with connect("box") as box:
        assert len(box.run(["head", "-c", "3000000", "/dev/zero"]).stdout) == 3_000_000


def test_a_proxy_command_that_fails(home: Path, ssh_server: ssh_servers.SshServer) -> None:
    trust(home, ssh_server)
    config(home, ssh_server, "ProxyCommand sh -c 'echo no route to anything >&2; exit 1'")
    with pytest.raises(BoxUnreachable, match=r"WB-SSH-CONNECT.*no route to anything"):
        connect("box", timeout=5)


def test_a_way_that_is_slow(home: Path, ssh_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cold proxy, and a hop that answers late: each has the time that the configuration or the variable gives it."""
    monkeypatch.setattr("helpers.box.patience.DEFAULT", 0.5)
    trust(home, ssh_server)
    slow = f"ProxyCommand sh -c 'sleep 1; exec ssh -F {ssh_server.ssh_config} -W %h:%p {ssh_server.alias}'"
    config(home, ssh_server, slow)
    config(home, ssh_server, slow, "ConnectTimeout 20", host="patient")
    config(home, ssh_server, "ProxyJump patient", "ConnectTimeout 10", host="behind")
    with pytest.raises(BoxUnreachable, match=r"WB-SSH-CONNECT") as caught:
        connect("box")
    assert "WORKBOOK_CONNECT_TIMEOUT" in caught.value.expected
    for name in ("patient", "behind"):
        with connect(name) as box:
            assert box.run(["true"]).ok
    monkeypatch.setenv("WORKBOOK_CONNECT_TIMEOUT", "20")
    with connect("box") as box:
        assert box.run(["true"]).ok


def test_a_login_shell_that_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start-up files are no part of the connection: the first command has a time of its own, and so have facts."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nsleep 2\nexec /bin/sh "$@"\n')
    shell.chmod(0o755)
    with ssh_servers.openssh_server(tmp_path / "slow", f'ForceCommand {shell} -c "$SSH_ORIGINAL_COMMAND"') as server:
        with connect(target_of(server), timeout=1.5) as box:
            assert box.session.shell_seconds > 2
            monkeypatch.setattr("helpers.box.facts.asking.SLACK", 0.0)
            asked = ask(box, [Question("words", (("echo", "hi"),), timeout=1.0)], progress=False)
            assert asked["words"].lines == ("hi",)
        monkeypatch.setattr("helpers.box.hello.GREETING", 1.0)
        with pytest.raises(RemoteFailed, match=r"WB-RUN-DEADLINE.*login shell(.|\n)*WORKBOOK_CONNECT_TIMEOUT"):
            connect(target_of(server), timeout=1)


def test_bad_targets(home: Path) -> None:
    for wrong in ("", "a b", "-oProxyCommand=touch PWNED", "user@", "host:99999", "user@host:22:22"):
        with pytest.raises(UsageError, match="WB-SSH-TARGET"):
            connect(wrong)
    (home / ".ssh/config").write_text("Host box\n  this-is-no-option\n")
    with pytest.raises(UsageError, match="WB-SSH-CONFIG"):
        connect("box")


def test_nothing_listens(home: Path) -> None:
    with pytest.raises(BoxUnreachable, match=r"WB-SSH-CONNECT.*refused"):
        connect(f"someone@127.0.0.1:{ssh_servers.free_port()}", timeout=3)


def test_the_lab_is_not_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBOOK_LAB_HOME", str(tmp_path))
    with pytest.raises(BoxUnreachable, match="WB-LAB-NOT-UP") as caught:
        connect()
    assert caught.value.next == ".venv/bin/workbook lab up"
    state = {"host": "127.0.0.1", "port": ssh_servers.free_port(), "user": "me", "home": "/nowhere"}
    (tmp_path / "lab.json").write_text(json.dumps({**state, "client_key": "/no", "known_hosts": "/no"}))
    with pytest.raises(BoxUnreachable, match="WB-LAB-NOT-UP"):
        connect()
    (tmp_path / "lab.json").write_text("{")
    with pytest.raises(BoxUnreachable, match="WB-LAB-NOT-UP"):
        connect()


def test_a_dead_link_is_made_anew(ssh_server: ssh_servers.SshServer) -> None:
    with CuttingProxy(ssh_server.port) as proxy, connect(target_of(ssh_server, proxy.port)) as box:
        assert box.run(["true"]).ok
        proxy.cut()
        assert box.run(["echo", "again"], idempotent=True).stdout == "again\n"
        assert box.session.connections == 2


def test_a_cut_in_the_middle_of_a_command_is_told(ssh_server: ssh_servers.SshServer) -> None:
    with CuttingProxy(ssh_server.port) as proxy, connect(target_of(ssh_server, proxy.port)) as box:
        lines = box.sh_stream("echo first; sleep 5")
        assert next(lines) == "first"
        proxy.cut()
        with pytest.raises(BoxUnreachable, match=r"WB-SSH-LOST.*may still run there as process"):
            next(lines)
        assert box.run(["true"]).ok


def test_a_silent_peer_counts_as_dead(ssh_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.box.link.KEEPALIVE", 0.3)
    monkeypatch.setattr("helpers.box.link.DEAD_AFTER", 1.0)
    with CuttingProxy(ssh_server.port) as proxy, connect(target_of(ssh_server, proxy.port)) as box:
        lines = box.sh_stream("echo first; sleep 60")
        assert next(lines) == "first"
        proxy.frozen.set()
        with pytest.raises(BoxUnreachable, match=r"WB-SSH-LOST.*no sign of life"):
            next(lines)
        proxy.frozen.clear()
        assert box.run(["true"]).ok


def test_an_idle_link_is_kept_alive(ssh_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.box.link.KEEPALIVE", 0.2)
    monkeypatch.setattr("helpers.box.link.DEAD_AFTER", 1.0)
    with connect(target_of(ssh_server)) as box:
        assert box.run(["sleep", "1.6"]).ok
        assert box.session.connections == 1


def test_new_keys_in_the_midst_of_everything(
    ssh_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """paramiko hangs when a channel closes during a key exchange; with many exchanges that is sure to happen."""
    monkeypatch.setattr("helpers.box.packets.BoxPacketizer.REKEY_BYTES", 150_000)
    with connect(target_of(ssh_server)) as box:
        for size in range(20_000, 400_000, 7_001):
            assert len(box.run(["head", "-c", str(size), "/dev/zero"], deadline=20).stdout) == size
        assert box.session.connections == 1


def test_fewer_sessions_than_we_would_open(tmp_path: Path) -> None:
    with ssh_servers.openssh_server(tmp_path, "MaxSessions 2") as server, connect(target_of(server)) as box:
        first, second = box.sh_stream("echo 1; sleep 60"), box.sh_stream("echo 2; sleep 1")
        assert (next(first), next(second)) == ("1", "2")
        # Both sessions are taken: the next command waits for one; ending the first needs a session too.
        with pytest.raises(Exception, match="WB-SSH-BUSY"):
            box.run(["true"], deadline=0.5)
        first.close()  # type: ignore[attr-defined]
        assert box.run(["echo", "3"], deadline=10).stdout == "3\n"
        assert list(second) == []


def test_our_own_threads_end_with_the_box(ssh_server: ssh_servers.SshServer) -> None:
    import threading

    before = set(threading.enumerate())
    with connect(target_of(ssh_server)) as box:
        box.run(["true"])
    assert set(threading.enumerate()) <= before


def test_a_stopped_server_process_is_noticed(
    openssh_server: ssh_servers.SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel there still answers TCP; only the watch can tell."""
    monkeypatch.setattr("helpers.box.link.KEEPALIVE", 0.3)
    monkeypatch.setattr("helpers.box.link.DEAD_AFTER", 1.0)
    with connect(target_of(openssh_server)) as box:
        # The shell's parent is the sshd process of this connection.
        pid = int(box.sh("echo $PPID").stdout)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(BoxUnreachable, match="WB-SSH-LOST"):
                box.run(["true"])
        finally:
            os.kill(pid, signal.SIGKILL)
