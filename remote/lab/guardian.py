"""Parent of the lab's daemon: when that ends, however it ends, nothing that the lab started stays behind.

`python -m remote.lab.guardian FOLDER SOCKET_FD` passes its standard input and output on to the daemon, which talks
over them to `up`. It then waits, ends what is left, removes lab.json and goes. On Linux the daemon's children become
its own when the daemon dies, whatever they did to their environment or session.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from remote.lab import leftovers
from remote.lab.process import adopt_orphans
from remote.lab.state import LOG_FORMAT, Paths, read_record

log = logging.getLogger("guardian")


def main(argv: list[str]) -> int:
    paths, listening = Paths(Path(argv[0])), int(argv[1])
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    adopt_orphans()
    # The daemon holds the reading end of this pipe: end of file tells it that its guardian died.
    alive, keep_open = os.pipe()
    daemon = subprocess.Popen(
        [sys.executable, "-m", "remote.lab.daemon", str(paths.root), str(listening), str(alive)],
        pass_fds=(listening, alive),
    )
    signal.signal(signal.SIGTERM, lambda *_: daemon.send_signal(signal.SIGTERM))
    os.close(alive)
    os.close(listening)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    code = daemon.wait()
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # from here on the kernel reaps what is ended below
    ended = leftovers.end(paths, parent=os.getpid())
    record = read_record(paths)
    if record is not None and record.guardian_pid == os.getpid():
        paths.record.unlink(missing_ok=True)
    os.close(keep_open)
    log.info("daemon's exit code %s; ended %s processes in %.1f s", code, ended, time.monotonic() - started)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
