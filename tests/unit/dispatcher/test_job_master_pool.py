from __future__ import annotations

from collections.abc import Iterator

import pytest

from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_master_pool import (
    FIRST_RETRY_DELAY_MS,
    MAX_STARTING,
    REPLACEMENT_DELAY_MS,
    AssignJob,
    CannotStart,
    EndProcess,
    JobMasterGone,
    JobMasterLost,
    JobMasterPool,
    ReplenishAfter,
    SpawnProcess,
)

A, B, C = JobID("a"), JobID("b"), JobID("c")
ONE, TWO, THREE = "jobmaster-1", "jobmaster-2", "jobmaster-3"


@pytest.fixture
def pool() -> Iterator[JobMasterPool]:
    """A pool with one registered standby."""
    pool = JobMasterPool(1)
    assert pool.start() == [SpawnProcess(ONE)]
    assert pool.session_opened(ONE, is_child=True) == []
    yield pool
    pool.validate()


def test_a_job_takes_the_standby_and_a_new_standby_starts_later(pool: JobMasterPool) -> None:
    assert pool.request(A) == [AssignJob(ONE, A), ReplenishAfter(REPLACEMENT_DELAY_MS)]
    assert pool.replenish() == [SpawnProcess(TWO)]
    assert pool.replenish() == []


def test_a_job_without_a_standby_waits_for_the_next_process(pool: JobMasterPool) -> None:
    pool.request(A)
    assert pool.request(B) == [SpawnProcess(TWO)]
    assert pool.session_opened(TWO, is_child=True) == [AssignJob(TWO, B)]


def test_queued_jobs_are_served_in_order_and_few_processes_start_at_a_time() -> None:
    pool = JobMasterPool(0)
    assert pool.start() == []
    spawned = [effect for job in (A, B, C) for effect in pool.request(job)]
    assert len(spawned) == MAX_STARTING
    effects = pool.session_opened(ONE, is_child=True)
    assert effects == [AssignJob(ONE, A), SpawnProcess(THREE)]
    pool.validate()


def test_a_withdrawn_job_gets_no_process() -> None:
    pool = JobMasterPool(0)
    pool.request(A)
    pool.withdraw(A)
    assert pool.session_opened(ONE, is_child=True) == []
    assert pool.num_standbys == 1


def test_a_process_is_used_once(pool: JobMasterPool) -> None:
    pool.request(A)
    assert pool.release(A) == [EndProcess(ONE, "its job has ended")]
    assert pool.release(B) == [JobMasterGone(B)], "the process never had a job"
    assert pool.session_closed(ONE) == []
    assert pool.process_exited(ONE, "exit code 0") == [JobMasterGone(A)]
    assert pool.num_processes == 0


def test_a_standby_without_a_session_gets_no_job_even_before_its_exit_is_known(pool: JobMasterPool) -> None:
    assert pool.session_closed(ONE) == [EndProcess(ONE, "its session broke", at_once=True)]
    assert pool.request(A) == [SpawnProcess(TWO), SpawnProcess(THREE)]
    assert ReplenishAfter(REPLACEMENT_DELAY_MS) not in pool.process_exited(ONE, "killed by SIGKILL")
    assert pool.session_opened(TWO, is_child=True) == [AssignJob(TWO, A)]


def test_the_exit_of_a_busy_process_reports_its_job_as_lost(pool: JobMasterPool) -> None:
    pool.request(A)
    assert JobMasterLost(A, "its process ended: killed by SIGKILL") in pool.process_exited(ONE, "killed by SIGKILL")


def test_a_child_with_a_broken_session_is_ended_and_its_exit_gives_the_reason(pool: JobMasterPool) -> None:
    pool.request(A)
    assert pool.session_closed(ONE) == [EndProcess(ONE, "its session broke", at_once=True)]
    lost = pool.process_exited(ONE, "killed by SIGKILL")[0]
    assert lost == JobMasterLost(A, "its session with the Dispatcher broke; its process ended: killed by SIGKILL")


def test_a_standby_that_dies_is_replaced(pool: JobMasterPool) -> None:
    assert pool.process_exited(ONE, "exit code 1") == [ReplenishAfter(REPLACEMENT_DELAY_MS)]
    assert pool.replenish() == [SpawnProcess(TWO)]


def test_an_external_process_serves_like_a_child_and_is_lost_with_its_session() -> None:
    pool = JobMasterPool(0)
    assert pool.session_opened("far", is_child=False) == []
    assert pool.request(A)[0] == AssignJob("far", A)
    assert pool.session_closed("far")[0] == JobMasterLost(A, "its session with the Dispatcher broke")
    assert pool.session_closed("far") == []


def test_a_process_started_for_one_job_takes_only_that_job() -> None:
    pool = JobMasterPool(0)
    pool.request(A)
    pool.request(B)
    assert pool.session_opened("for-b", is_child=False, wanted_job=B) == [AssignJob("for-b", B)]
    (effect,) = pool.session_opened("for-c", is_child=False, wanted_job=C)
    assert effect == EndProcess("for-c", f"job {C} does not wait for a JobMaster")


def test_a_second_registration_is_refused(pool: JobMasterPool) -> None:
    assert pool.session_opened(ONE, is_child=True) == [EndProcess(ONE, "it said hello twice", at_once=True)]


def test_start_failures_are_retried_at_once_while_a_job_waits_and_then_fail_it() -> None:
    pool = JobMasterPool(0)
    pool.request(A)
    assert pool.process_exited(ONE, "exit code 1") == [SpawnProcess(TWO)]
    assert pool.process_exited(TWO, "exit code 1") == [SpawnProcess(THREE)]
    failed, later = pool.process_exited(THREE, "exit code 1")
    assert failed == CannotStart(A, "its process ended before it was ready: exit code 1")
    assert isinstance(later, ReplenishAfter)
    assert pool.request(B) == [SpawnProcess("jobmaster-4")]
    pool.validate()


def test_standbys_that_fail_to_start_are_retried_ever_more_slowly() -> None:
    pool = JobMasterPool(1)
    pool.start()
    delays = []
    for number in range(1, 8):
        (effect,) = pool.process_exited(f"jobmaster-{number}", "exit code 1")
        assert isinstance(effect, ReplenishAfter)
        delays.append(effect.delay_ms // FIRST_RETRY_DELAY_MS)
        pool.replenish()
    assert delays == [1, 2, 4, 8, 16, 30, 30]


def test_a_child_that_never_registers_is_killed_and_counts_as_a_start_failure() -> None:
    pool = JobMasterPool(1)
    pool.start()
    assert pool.start_timed_out(ONE) == [EndProcess(ONE, "it did not become ready in time", at_once=True)]
    assert pool.process_exited(ONE, "killed by SIGKILL") == [ReplenishAfter(FIRST_RETRY_DELAY_MS)]
    assert pool.start_timed_out(ONE) == []


def test_a_closed_pool_ends_everything_and_starts_nothing(pool: JobMasterPool) -> None:
    pool.request(A)
    pool.request(B)
    assert {effect.process_id for effect in pool.close() if isinstance(effect, EndProcess)} == {ONE, TWO}
    assert pool.process_exited(ONE, "exit code 0") == []
    assert pool.replenish() == []
    (turned_away,) = pool.session_opened("late", is_child=False)
    assert isinstance(turned_away, EndProcess)
