"""How a run ended, in words."""

from __future__ import annotations

from typing import Any

from helpers.serving.endings import ending
from helpers.serving.profile import Profile
from helpers.serving.records import RunRecord


def record(**more: Any) -> RunRecord:
    profile = Profile(name="plain", engine="sglang==0.5.9", model="m").model_dump()
    engine = {"name": "sglang", "version": "0.5.9", "checkout": "/c", "python": "python3"}
    fields = {"profile": profile, "engine": engine, "id": "a", "owner": "me", "argv": (), "env": {}, "code": ""}
    fields |= {"host": "h", "port": 1, "pid": 2, "pgid": 2, "start_time": 3, "boot_id": "b", "started": "t"}
    return RunRecord.model_validate(fields | more)


def test_who_stopped_it_comes_before_what_its_log_says() -> None:
    stopped = record(stopped={"by": "ann@laptop", "at": "2026-01-31T10:00:00Z"})
    found = ending(stopped, "stopped", ["MemoryError"])
    assert found is not None
    assert (str(found), found.code, found.by) == ("stopped by ann@laptop, 2026-01-31T10:00:00Z", None, "ann@laptop")
    assert ending(record(), "alive", None) is None
    assert ending(record(node={"name": "node1"}), "elsewhere", None) is None


def test_a_death_has_its_cause_or_says_that_there_is_none() -> None:
    said = {
        "WB-SERVE-OUT-OF-MEMORY: out of memory": ending(record(), "dead", ["MemoryError"]),
        "WB-SERVE-DIED: KeyError: 'x'": ending(record(), "stranger", ["Traceback", "KeyError: 'x'"], rebooted=True),
        "the log names no cause: it was ended from outside": ending(record(), "dead", ["all is well"]),
        "its log is empty or gone": ending(record(), "dead", []),
        "its log was not looked at: it is an older run": ending(record(), "dead", None),
        "the box was started again since": ending(record(), "dead", ["all is well"], rebooted=True),
    }
    assert {words: str(found) for words, found in said.items()} == {words: words for words in said}
