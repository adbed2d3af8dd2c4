from __future__ import annotations

import itertools

from flinkpy.common.ids import ResourceID
from flinkpy.resourcemanager.worker_manager import (
    RetryAfter,
    StartWorker,
    StopWorker,
    WorkerEffect,
    WorkerManager,
    WorkerOptions,
)

ONE, TWO = ResourceID("w1"), ResourceID("w2")


def manager(**options: object) -> WorkerManager:
    names = itertools.count(1)
    return WorkerManager(WorkerOptions(**options), lambda: ResourceID(f"w{next(names)}"))  # type: ignore[arg-type]


def needed(workers: WorkerManager, num_workers: int, now_ms: int) -> list[WorkerEffect]:
    workers.declare_needed(num_workers)
    return workers.start_needed(now_ms)


def test_pending_workers_are_not_started_twice() -> None:
    workers = manager()
    assert needed(workers, 2, 0) == [StartWorker(ONE), StartWorker(TWO)]
    assert needed(workers, 2, 1) == []
    workers.worker_started(ONE)
    assert needed(workers, 2, 2) == []
    workers.worker_registered(ONE)
    assert workers.num_pending == 1
    assert needed(workers, 1, 3) == []


def test_a_task_executor_started_externally_is_not_a_worker() -> None:
    workers = manager()
    needed(workers, 1, 0)
    workers.worker_registered(ResourceID("by-hand"))
    assert not workers.owns(ResourceID("by-hand"))
    assert workers.num_pending == 1


def test_a_failed_start_is_retried_until_the_rate_is_exceeded() -> None:
    workers = manager(max_failure_rate_per_minute=2, retry_interval_ms=3_000)
    needed(workers, 1, 0)
    assert workers.worker_start_failed(ONE, 10) == [StartWorker(TWO)]
    assert workers.worker_exited(TWO, 20) == [StartWorker(ResourceID("w3"))]
    assert workers.worker_exited(ResourceID("w3"), 30) == [RetryAfter(3_000)]
    assert needed(workers, 1, 40) == []
    assert workers.check(3_030, is_retry=True) == [StartWorker(ResourceID("w4"))]


def test_failures_older_than_a_minute_do_not_count() -> None:
    workers = manager(max_failure_rate_per_minute=1)
    needed(workers, 1, 0)
    workers.worker_exited(ONE, 0)
    assert workers.worker_exited(TWO, 60_000) == [StartWorker(ResourceID("w3"))]


def test_the_end_of_a_registered_worker_is_not_a_start_failure() -> None:
    workers = manager(max_failure_rate_per_minute=0)
    needed(workers, 1, 0)
    workers.worker_registered(ONE)
    assert workers.worker_exited(ONE, 1) == []
    assert needed(workers, 1, 2) == [StartWorker(TWO)]


def test_repeated_and_unknown_endings_change_nothing() -> None:
    workers = manager()
    assert workers.worker_exited(ONE, 0) == []
    assert workers.worker_start_failed(ONE, 0) == []
    assert workers.release(ONE, "x") == []
    workers.worker_started(ONE)
    assert workers.num_pending == 0


def test_a_worker_that_does_not_register_in_time_is_stopped_and_replaced() -> None:
    workers = manager(registration_timeout_ms=1_000)
    needed(workers, 1, 0)
    workers.worker_started(ONE)
    assert workers.check(999) == []
    assert workers.check(1_000) == [
        StopWorker(ONE, "it did not register within 1000 ms"),
        StartWorker(TWO),
    ]


def test_a_released_worker_is_stopped_once() -> None:
    workers = manager()
    needed(workers, 1, 0)
    workers.worker_registered(ONE)
    assert workers.release(ONE, "idle") == [StopWorker(ONE, "idle")]
    assert workers.release(ONE, "idle") == []
    assert workers.worker_exited(ONE, 5) == []


def test_a_worker_that_registers_before_a_declaration_acts_is_one_of_the_declared() -> None:
    workers = manager()
    needed(workers, 2, 0)
    workers.worker_registered(ONE)
    workers.declare_needed(1)
    workers.worker_registered(TWO)
    assert workers.start_needed(50) == []


def test_workers_that_registered_while_they_were_looked_for_are_not_counted_twice() -> None:
    workers = manager()
    workers.declare_needed(1)
    workers.workers_recovered([ONE, TWO], {ONE}, 10)
    workers.worker_registered(ONE)
    assert workers.num_pending == 1
    assert workers.start_needed(20) == []
    workers.worker_registered(TWO)
    assert workers.start_needed(30) == []
