"""Work beside the main thread: results, errors as text, cancelling."""

from __future__ import annotations

import threading

from helpers.errors import RemoteFailed
from helpers.panels.worker import Cancelled, Job, Token, Worker


def test_the_result_goes_to_then_in_another_thread() -> None:
    found: list[tuple[int, threading.Thread]] = []
    jobs: list[Job] = []
    worker = Worker(jobs.append)
    assert worker.start("adding", lambda token: 1 + 1, lambda n: found.append((n, threading.current_thread())))
    assert worker.wait(10)
    assert found[0][0] == 2
    assert found[0][1] is not threading.main_thread()
    assert [job.state for job in jobs] == ["running", "done"]


def test_an_error_of_ours_is_its_coded_text_and_no_traceback() -> None:
    worker = Worker()

    def fail(token: Token) -> None:
        raise RemoteFailed("WB-RUN-FAILED", "'ls' ended with 2", expected="0", next="workbook run lab -- ls")

    worker.start("listing", fail)
    worker.wait(10)
    assert worker.job.state == "failed"
    assert worker.job.error.startswith("WB-RUN-FAILED: 'ls' ended with 2\n  expected: 0")
    assert "docs/errors/WB-RUN-FAILED.md" in worker.job.error
    assert "Traceback" not in worker.job.error


def test_a_fault_of_the_workbook_is_one_line_and_its_stack_is_kept() -> None:
    worker = Worker()
    worker.start("dividing", lambda token: 1 // 0)
    worker.wait(10)
    assert worker.job.error == "ZeroDivisionError: integer division or modulo by zero"
    assert "test_panel_worker.py" in worker.job.trace


def test_one_job_at_a_time() -> None:
    worker, go = Worker(), threading.Event()
    assert worker.start("first", lambda token: go.wait(10))
    assert not worker.start("second", lambda token: None)
    assert worker.job.title == "first"
    go.set()
    assert worker.wait(10)
    assert worker.start("second", lambda token: None)
    assert worker.wait(10)


def test_cancelled_work_ends_where_it_asks_and_can_clean_up() -> None:
    worker, begun, cleaned = Worker(), threading.Event(), threading.Event()

    def work(token: Token) -> None:
        begun.set()
        try:
            while True:
                worker.detail("still", token)
        except Cancelled:
            cleaned.set()
            raise

    worker.start("turning", work)
    assert begun.wait(10)
    worker.cancel()
    assert worker.wait(10)
    assert cleaned.is_set()
    assert worker.job.state == "cancelled"


def test_work_that_only_reads_is_dropped_at_once() -> None:
    worker, go, taken = Worker(), threading.Event(), []
    worker.start("reading", lambda token: go.wait(10), taken.append, drop=True)
    first = worker._thread
    worker.cancel()
    assert worker.job.state == "cancelled"
    assert worker.start("again", lambda token: "new", taken.append)
    assert worker.wait(10)
    go.set()
    assert first is not None
    first.join(10)
    assert taken == ["new"]
    assert worker.job.title == "again"
    assert worker.job.state == "done"


def test_cancel_without_work_changes_nothing() -> None:
    worker = Worker()
    worker.cancel()
    assert worker.job == Job()
    assert worker.wait(0)
