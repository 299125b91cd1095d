"""A local port that leads to a port of the box, as ``ssh -L`` does."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType

import paramiko

from helpers.box.session import Session
from helpers.errors import WorkbookError

_BLOCK = 1 << 16
MAX_CONNECTIONS = 64


class Tunnel:
    """Forwards 127.0.0.1:``local_port`` to ``host``:``port`` as seen from the box, until closed. A context manager.

    Connections through it survive nothing, but the tunnel does: after a reconnect new connections work again.

    Attributes:
        local_port: chosen free. url: ``http://127.0.0.1:<local_port>``.
        last_error: why the latest connection could not be made, where it could not.
    """

    def __init__(self, session: Session, port: int, host: str = "127.0.0.1") -> None:
        self.host, self.port = host, port
        self.last_error: BaseException | None = None
        self._session = session
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.local_port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.local_port}"
        self._stop = threading.Event()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._workers: set[threading.Thread] = set()
        self._acceptor = threading.Thread(target=self._accept, name=f"tunnel-{port}", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        self._listener.settimeout(0.2)
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                self._workers = {worker for worker in self._workers if worker.is_alive()}
                continue
            except OSError:
                return
            self._slots.acquire()
            worker = threading.Thread(target=self._serve, args=(client,), name=f"tunnel-{self.port}-io", daemon=True)
            self._workers.add(worker)
            worker.start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    transport = self._session.link().transport
                    channel = transport.open_channel(
                        "direct-tcpip", (self.host, self.port), client.getpeername(), timeout=self._session.timeout
                    )
                except (WorkbookError, paramiko.SSHException, OSError, EOFError) as error:
                    self.last_error = error
                    return
                with contextlib.closing(channel), contextlib.suppress(OSError, EOFError):
                    self._pump(client, channel)
        finally:
            self._slots.release()

    def _pump(self, client: socket.socket, channel: paramiko.Channel) -> None:
        """Bytes both ways; the end of one direction is passed on as that, not as the end of both."""
        poll = select.poll()
        poll.register(client.fileno(), select.POLLIN)
        poll.register(channel.fileno(), select.POLLIN)
        sending = receiving = True
        while (sending or receiving) and not self._stop.is_set():
            ready = {fd for fd, _ in poll.poll(200)}
            if sending and client.fileno() in ready:
                data = client.recv(_BLOCK)
                if data:
                    channel.sendall(data)
                else:
                    sending = False
                    poll.unregister(client.fileno())
                    channel.shutdown_write()
            if receiving and channel.fileno() in ready:
                data = channel.recv(_BLOCK) if channel.recv_ready() or channel.eof_received or channel.closed else b""
                if data:
                    client.sendall(data)
                elif channel.eof_received or channel.closed:
                    receiving = False
                    poll.unregister(channel.fileno())
                    client.shutdown(socket.SHUT_WR)
            if channel.closed and not channel.recv_ready():
                return

    def close(self) -> None:
        self._stop.set()
        self._listener.close()
        self._acceptor.join(2)
        for worker in list(self._workers):
            worker.join(2)

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
