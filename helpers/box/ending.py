"""The end of a command on the box: TERM to its process group, KILL for what stays, and a look that nothing is left."""

from __future__ import annotations

import contextlib

import paramiko

from helpers.box.session import Session
from helpers.box.wrap import wrap
from helpers.errors import WorkbookError

GRACE = 2.0
"""Seconds between TERM and KILL."""

# $1 is the process (group leader), $2 is - for the group and empty for the process alone. A zombie does not count:
# where nobody reaps it, it stays for ever and holds nothing.
_SCRIPT = r"""
alive() {
  kill -s 0 -- "$2$1" 2>/dev/null || return 1
  for f in /proc/[0-9]*/stat; do
    { read -r l <"$f"; } 2>/dev/null || continue
    p=${l%% *}; l=${l##*) }; set -- "$1" "$2" $l
    [ "$3" = Z ] && continue
    [ "$p" = "$1" ] && return 0
    [ "$2" = - ] && [ "$5" = "$1" ] && return 0
  done
  [ ! -e /proc/self/stat ]
}
kill -s TERM -- "$2$1" 2>/dev/null
n=0
while alive "$1" "$2"; do
  n=$((n + 1))
  [ $n -eq STEPS ] && kill -s KILL -- "$2$1" 2>/dev/null
  [ $n -ge LIMIT ] && exit 1
  sleep 0.1
done
exit 0
"""


def end_group(session: Session, pid: int, *, group: bool) -> bool:
    """End the process group that ``pid`` leads (the process alone where it leads none), through a second channel.

    Returns:
        Whether nothing of it is left; False also where the box could not be asked.
    """
    grace = GRACE
    steps = max(1, int(grace * 10))
    script = _SCRIPT.replace("STEPS", str(steps)).replace("LIMIT", str(steps + 30))
    wrapped = wrap(["/bin/sh", "-c", script, "end", str(pid), "-" if group else ""])
    with (
        contextlib.suppress(WorkbookError, paramiko.SSHException, OSError, EOFError),
        session.urgent_channel() as channel,
    ):
        channel.settimeout(grace + 15)
        channel.exec_command(wrapped.text)
        channel.shutdown_write()
        channel.status_event.wait(grace + 10)
        return bool(channel.exit_status == 0)
    return False
