"""paramiko's transport with three additions: signals as exit statuses, a watch for dead peers, fast ciphers."""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import Any

import paramiko
from paramiko.common import MSG_CHANNEL_REQUEST
from paramiko.packet import Packetizer

# paramiko reports every lost connection through logging; here each becomes an exception with a code instead.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class ClockedPacketizer(Packetizer):
    """Notes when the last packet came."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.last_packet = time.monotonic()

    def read_message(self) -> Any:
        message = super().read_message()
        self.last_packet = time.monotonic()
        return message


class BoxTransport(paramiko.Transport):
    """A client transport.

    AES-GCM comes first: one pass instead of cipher and MAC, about twice as fast in paramiko. A command that dies by
    signal n has exit status 128 + n, as in a shell (paramiko drops the server's ``exit-signal``).
    """

    _preferred_ciphers = (
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
        "aes128-ctr",
        "aes192-ctr",
        "aes256-ctr",
    )

    packetizer: ClockedPacketizer
    _channel_handler_table: dict[int, Any]
    _send_user_message: Any

    def __init__(self, sock: Any) -> None:
        super().__init__(sock, packetizer_class=ClockedPacketizer)
        self._channel_handler_table = {**self._channel_handler_table, MSG_CHANNEL_REQUEST: _channel_request}
        self._probe_sent: float | None = None
        self._watch_stop = threading.Event()
        self._watcher: threading.Thread | None = None

    def watch(self, interval: float, dead_after: float) -> None:
        """Ask for a sign of life after ``interval`` silent seconds; without one for ``dead_after``, close the link."""
        self.packetizer.set_keepalive(interval, self._probe)
        self._watcher = threading.Thread(target=self._watch, args=(dead_after,), name="box-watch", daemon=True)
        self._watcher.start()

    def _probe(self) -> None:
        # Runs in the transport's thread. The stamp comes first: sending itself may block on a stuck peer.
        if self._probe_sent is None or self._probe_sent < self.packetizer.last_packet:
            self._probe_sent = time.monotonic()
        message = paramiko.Message()
        message.add_byte(paramiko.common.cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)
        self._send_user_message(message)

    def _watch(self, dead_after: float) -> None:
        while not self._watch_stop.wait(min(1.0, dead_after / 4)) and self.is_active():
            sent = self._probe_sent
            silent = time.monotonic() - self.packetizer.last_packet
            if sent is not None and sent > self.packetizer.last_packet and silent > dead_after:
                self.saved_exception = TimeoutError(f"no sign of life for {silent:.0f} s")
                self.close()

    def close(self) -> None:
        self._watch_stop.set()
        self.packetizer.complete_handshake()  # ends paramiko's handshake timer, which would hold up the exit
        super().close()
        for thread in (self._watcher, self):
            if thread is not None and thread is not threading.current_thread() and thread.is_alive():
                thread.join(2)


def _channel_request(channel: Any, message: paramiko.Message) -> None:
    start = message.packet.tell()
    if message.get_text() == "exit-signal":
        message.get_boolean()
        name = message.get_text()
        number = getattr(signal, f"SIG{name}", None)
        channel.exit_status = 128 + int(number) if number is not None else 255
        channel.status_event.set()
        return
    message.packet.seek(start)
    channel._handle_request(message)
