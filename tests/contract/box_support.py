"""What the client's contract tests need beside a server: its address as a target, and a proxy that cuts."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
from types import TracebackType

import ssh_servers

from helpers.box.targets import Target


def target_of(server: ssh_servers.SshServer, port: int | None = None, **changes: object) -> Target:
    """``server`` as a target, or the same behind another port (a proxy)."""
    fields: dict[str, object] = {
        "name": server.alias,
        "host": server.host,
        "port": port or server.port,
        "user": server.user,
        # The host key is kept under the server's own address, wherever a proxy listens.
        "key_name": f"[{server.host}]:{server.port}",
        "identity_files": (server.client_key,),
        "identities_only": True,
        "agent": False,
        "known_hosts": (server.known_hosts,),
    }
    return Target(**{**fields, **changes})  # type: ignore[arg-type]


class CuttingProxy:
    """A TCP proxy in front of a server. It can cut all connections, freeze them, or cut by itself after some bytes
    (of those that go down to the client, or up to the server).

    Attributes:
        port: where to connect. down: bytes sent on towards the client, over all connections. cuts: how many were made.
    """

    def __init__(
        self,
        port: int,
        *,
        cut_every: tuple[int, int] | None = None,
        cut_up_every: tuple[int, int] | None = None,
        cuts: int = 0,
        seed: int = 0,
    ) -> None:
        self._to = port
        self._random = random.Random(seed)
        self._cut_every, self._up, self._cuts_left = cut_every or cut_up_every, cut_up_every is not None, cuts
        self.down = self.cuts = self.connections = 0
        self.frozen = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._live: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._spawn(self._accept)

    def _spawn(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        self._listener.settimeout(0.1)
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.connections += 1
            self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as server:
            budget = self._budget()
            with self._lock:
                self._live.add(client)
            try:
                while not self._stop.is_set():
                    if self.frozen.is_set():
                        self._stop.wait(0.05)
                        continue
                    for ready in select.select([client, server], [], [], 0.1)[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        other = server if ready is client else client
                        other.sendall(data)
                        if ready is server:
                            self.down += len(data)
                        if (ready is server) != self._up:
                            budget -= len(data)
                    if budget <= 0 and self._cuts_left:
                        self._cuts_left -= 1
                        self._reset(client)
                        return
            finally:
                with self._lock:
                    self._live.discard(client)

    def _budget(self) -> int:
        if self._cut_every is None or not self._cuts_left:
            return 1 << 62
        return self._random.randint(*self._cut_every)

    def _reset(self, client: socket.socket) -> None:
        """A reset, as a broken network gives: what the client has not read yet is lost too."""
        self.cuts += 1
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def cut(self) -> None:
        """Reset every connection that is open now."""
        with self._lock:
            for client in list(self._live):
                self.cuts += 1
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.shutdown(socket.SHUT_RDWR)

    def close_for_good(self) -> None:
        """No connection through here any more."""
        self._stop.set()
        self._threads[0].join(5)
        self._listener.close()
        self.cut()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.frozen.clear()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()
