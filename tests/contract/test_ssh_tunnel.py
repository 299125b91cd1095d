"""A local port that leads to a port of the box."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import ssh_servers
from box_support import CuttingProxy, target_of

from helpers.box import Box, connect

BODY = bytes(range(256)) * 16384  # 4 MiB


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        got = self.rfile.read(size)
        answer = str(len(got) if got == BODY[:size] else -1).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_both_ways_at_any_size(box: Box, service: int) -> None:
    with box.tunnel(service) as tunnel:
        assert tunnel.local_port != service
        assert tunnel.url == f"http://127.0.0.1:{tunnel.local_port}"
        assert httpx.get(tunnel.url, timeout=30).content == BODY
        assert httpx.post(tunnel.url, content=BODY, timeout=30).text == str(len(BODY))


def test_many_connections_at_once(box: Box, service: int) -> None:
    with box.tunnel(service) as tunnel, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: httpx.get(tunnel.url, timeout=60).content == BODY, range(16)))
    assert all(answers)


def test_the_end_of_one_direction_is_passed_on_as_that(box: Box) -> None:
    """A service that answers after it has read to the end of its input."""
    with socket.create_server(("127.0.0.1", 0)) as listener, box.tunnel(listener.getsockname()[1]) as tunnel:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                got = b""
                while block := peer.recv(65536):
                    got += block
                peer.sendall(got[::-1])

        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(("127.0.0.1", tunnel.local_port), timeout=20) as client:
            client.sendall(b"abc")
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while block := client.recv(65536):
                answer += block
        thread.join()
    assert answer == b"cba"


def test_nothing_listens_on_the_box(box: Box) -> None:
    with box.tunnel(ssh_servers.free_port()) as tunnel:
        with socket.create_connection(("127.0.0.1", tunnel.local_port), timeout=20) as client:
            assert client.recv(10) == b""
        assert tunnel.last_error is not None


def test_a_tunnel_outlives_its_connection(ssh_server: ssh_servers.SshServer, service: int) -> None:
    with CuttingProxy(ssh_server.port) as proxy, connect(target_of(ssh_server, proxy.port)) as box:
        with box.tunnel(service) as tunnel:
            assert httpx.get(tunnel.url, timeout=30).content == BODY
            proxy.cut()
            answers = [_try(tunnel.url) for _ in range(3)]
        assert answers[-1] == BODY


def _try(url: str) -> bytes:
    try:
        return httpx.get(url, timeout=30).content
    except httpx.HTTPError:
        return b""


def test_a_closed_tunnel_leaves_nothing(box: Box, service: int) -> None:
    before = set(threading.enumerate())
    tunnel = box.tunnel(service)
    idle = socket.create_connection(("127.0.0.1", tunnel.local_port))
    httpx.get(tunnel.url, timeout=30)
    tunnel.close()
    idle.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", tunnel.local_port), timeout=2)
    assert {thread for thread in threading.enumerate() if thread.name.startswith("tunnel")} <= before
