"""The worker that runs the requests of a writer in their order, beside the task."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flinkpy.connectors.ordered_worker import OrderedWorker


@pytest.fixture
def worker() -> Iterator[OrderedWorker]:
    worker = OrderedWorker("test", max_requests=2)
    yield worker
    worker.close(lambda: None)


def test_requests_run_in_their_order_while_the_task_goes_on(worker: OrderedWorker) -> None:
    go_on, done = threading.Event(), []
    worker.submit(go_on.wait)
    worker.submit(lambda: done.append(1))
    assert done == [], "the first request still waits, and the task does not"
    go_on.set()
    worker.submit(lambda: done.append(2))
    assert worker.call(lambda: list(done)) == [1, 2]


def test_task_waits_while_two_requests_are_unfinished(worker: OrderedWorker) -> None:
    go_on, submitted = threading.Event(), threading.Event()

    def submit_three() -> None:
        for _ in range(3):
            worker.submit(go_on.wait)
        submitted.set()

    thread = threading.Thread(target=submit_three)
    thread.start()
    assert not submitted.wait(0.05)
    go_on.set()
    thread.join()
    assert submitted.is_set()
    worker.wait_until_done()


def test_failed_request_stops_the_later_ones_and_its_error_is_raised(worker: OrderedWorker) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def fail() -> None:
        begun.set()
        go_on.wait()
        raise ValueError("refused")

    worker.submit(fail)
    worker.submit(lambda: done.append("later"))
    go_on.set()
    with pytest.raises(ValueError, match="refused"):
        worker.wait_until_done()
    worker.wait_until_done()
    assert done == []


def test_close_drops_what_has_not_begun_and_ends_on_the_thread_of_the_requests() -> None:
    worker, threads, go_on, begun = OrderedWorker("test"), [], threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait()
        threads.append(threading.current_thread())

    worker.submit(wait)
    worker.submit(lambda: threads.append(None))
    begun.wait()
    closing = threading.Thread(target=lambda: worker.close(lambda: threads.append(threading.current_thread())))
    closing.start()
    while not worker._is_stopped:
        pass
    go_on.set()
    closing.join()
    assert len(threads) == 2 and threads[0] is threads[1]
