"""Whether a lab's record stands for a lab that really answers."""

from __future__ import annotations

import asyncio

from remote.lab.state import Record

TIMEOUT = 10.0
"""Seconds for a login on the loopback."""


def answers(record: Record) -> bool:
    """Logs in with the lab's own key and pinned host key: the process, its start time and the server are that lab's."""
    return record.daemon.alive() and asyncio.run(_login(record))


async def _login(record: Record) -> bool:
    import asyncssh

    try:
        async with asyncio.timeout(TIMEOUT):
            connection = await asyncssh.connect(
                record.host,
                record.port,
                username=record.user,
                client_keys=[record.client_key],
                known_hosts=record.known_hosts,
                config=None,
                agent_path=None,
                gss_host=None,
            )
            connection.close()
            await connection.wait_closed()
    except (OSError, TimeoutError, asyncssh.Error):
        return False
    return True
