"""The CheckpointCoordinator: every rule about when checkpoints begin, count and end."""

from __future__ import annotations

import math

import pytest
from coordinator_calls import call
from coordinator_fakes import Coordination, FakeJob, location, source_and_sink, state_of, vertex

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator import checkpoint_request_decider
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import FINAL_CHECKPOINT_RETRY_MS, FINISHED_ACK_GRACE_MS
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, savepoint, stop_with_savepoint
from flinkpy.checkpoint.coordinator.checkpoint_stats_tracker import StatisticsParts, quantile_of
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.errors import CheckpointStorageError, FunctionError
from flinkpy.common.states import ExecutionState as E

SAVEPOINT = savepoint(pb.CANONICAL)
STOP = stop_with_savepoint(pb.CANONICAL, drain=False)
BOOM = FunctionError("boom")
FAILOVER = call.tasks_stopped(Reason.JOB_FAILOVER_REGION, BOOM)


# A checkpoint from its beginning to its end


def test_the_first_checkpoint_begins_within_the_interval():
    job = Coordination(interval_ms=100)
    assert 1_000 <= job.coordinator.next_deadline_ms <= 1_100
    assert job.begin() == 1


def test_the_first_checkpoint_waits_for_the_pause():
    job = Coordination(interval_ms=100, min_pause_ms=100)
    assert job.coordinator.next_deadline_ms == 1_100


@pytest.mark.parametrize("min_pause_ms", [0, 500])
def test_nothing_begins_without_an_interval(min_pause_ms):
    job = Coordination(interval_ms=0, min_pause_ms=min_pause_ms)
    job.advance(100_000)
    assert job.effects == []


def test_nothing_begins_before_all_tasks_run():
    job = Coordination(running=False)
    job.advance(1_000)
    assert job.effects == []


def test_coordinators_are_triggered_after_the_location_is_created_and_before_the_tasks():
    job = Coordination()
    checkpoint_id = job.begin()
    assert job.effects == []
    job.send(call.location_made(checkpoint_id, location(checkpoint_id)))
    assert job.effects == [fx.SnapshotCoordinators(1)]
    job.effects.clear()
    job.send(call.coordinators_snapshotted(1, {"source-op": b"splits"}))
    (trigger,) = job.effects
    assert trigger.attempts == (job.job.attempt("source"),)
    assert trigger.options.kind == pb.CHECKPOINT
    assert trigger.options.alignment == pb.ALIGNED
    assert trigger.options.location.exclusive_directory == "/c"


def test_events_are_released_when_the_triggers_are_answered():
    job = Coordination()
    job.trigger(job.begin())
    assert job.take(fx.ReleaseEvents) == [fx.ReleaseEvents(1)]


def test_events_are_released_when_every_task_has_its_barrier_even_if_a_trigger_is_not_answered():
    job = Coordination(max_concurrent=2)
    checkpoint_id = job.begin()
    job.send(call.location_made(checkpoint_id, location(checkpoint_id)))
    job.send(call.coordinators_snapshotted(checkpoint_id, {}))
    assert job.take(fx.ReleaseEvents) == []
    job.ack_all(checkpoint_id)
    assert job.take(fx.ReleaseEvents) == [fx.ReleaseEvents(1)]
    assert job.begin() == 2, "the first is not being triggered any more"
    job.send(call.triggers_answered(checkpoint_id))
    assert job.take(fx.ReleaseEvents) == []


def test_a_checkpoint_counts_only_when_it_has_been_written():
    job = Coordination()
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id)
    assert job.coordinator.latest is None
    assert job.take(fx.ConfirmCheckpoint) == []
    assert job.coordinator.is_finalizing
    job.finalized(checkpoint_id)
    assert job.latest_id == 1
    (confirmed,) = job.take(fx.ConfirmCheckpoint)
    assert (confirmed.checkpoint_id, confirmed.attempts) == (1, tuple(job.job.attempts))


def test_the_metadata_contains_every_operator_with_its_subtasks_and_coordinator():
    job = Coordination(source_and_sink(2))
    checkpoint_id = job.begin()
    job.trigger(checkpoint_id, {"source-op": b"splits"})
    job.ack_all(checkpoint_id)
    (effect,) = job.take(fx.FinalizeCheckpoint)
    source, sink = effect.metadata.operators
    assert (source.operator_id, source.uid, source.parallelism, source.max_parallelism) == (
        "source-op",
        "source-uid",
        2,
        128,
    )
    assert source.coordinator.data == b"splits"
    assert source.coordinator.size_bytes == 6
    assert not sink.HasField("coordinator")
    assert sorted(sink.subtasks) == [0, 1]
    assert sink.subtasks[1].operator[0].file.data == str(job.job.attempt("sink", 1)).encode()
    assert effect.metadata.checkpoint_id == 1
    assert effect.metadata.job_id == "job"


@pytest.mark.parametrize("is_unaligned", [True, False])
def test_the_metadata_contains_the_job_the_kind_and_the_time_of_the_checkpoint(is_unaligned):
    job = Coordination(interval_ms=0, now_ms=5_000)
    job.request(SAVEPOINT)
    job.trigger(job.begun())
    source, sink = job.job.attempts
    job.now_ms = 5_300
    job.ack(1, source, metrics=pb.CheckpointMetrics(is_unaligned=is_unaligned))
    job.ack(1, sink)
    (effect,) = job.take(fx.FinalizeCheckpoint)
    metadata = effect.metadata
    assert (metadata.kind, metadata.format) == (pb.SAVEPOINT, pb.CANONICAL)
    assert (metadata.job_name, metadata.timestamp_ms) == ("test job", 5_000)
    assert metadata.is_unaligned is is_unaligned
    assert metadata.flinkpy_version
    assert metadata.python_version


def test_tasks_that_have_ended_receive_no_confirmation():
    job = Coordination()
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id)
    job.job.set("sink", E.FINISHED)
    job.send(call.task_finished(job.job.attempt("sink")))
    job.finalized(checkpoint_id)
    assert job.take(fx.ConfirmCheckpoint)[0].attempts == (job.job.attempt("source"),)


def test_ids_are_never_used_again():
    job = Coordination(tolerable_failures=100)
    ids = []
    for _ in range(4):
        ids.append(job.start())
        job.decline(ids[-1], job.job.attempt("source"))
    assert ids == [1, 2, 3, 4]


# Unexpected acknowledgements


def test_a_repeated_acknowledgement_changes_nothing_and_keeps_the_state():
    job = Coordination()
    checkpoint_id = job.start()
    job.effects.clear()
    source = job.job.attempt("source")
    job.ack(checkpoint_id, source)
    job.ack(checkpoint_id, source)
    assert job.effects == []
    job.ack(checkpoint_id, job.job.attempt("sink"))
    assert len(job.take(fx.FinalizeCheckpoint)) == 1


@pytest.mark.parametrize("when", ["finalizing", "completed", "later"])
def test_a_repeated_acknowledgement_of_a_completed_checkpoint_keeps_the_state(when):
    job = Coordination()
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id)
    if when != "finalizing":
        job.finalized(checkpoint_id)
    if when == "later":
        job.complete()
    job.effects.clear()
    job.ack(checkpoint_id, job.job.attempt("source"))
    assert job.effects == []


def test_the_state_of_a_late_acknowledgement_of_an_ended_checkpoint_is_deleted():
    job = Coordination(tolerable_failures=1)
    checkpoint_id = job.start()
    job.decline(checkpoint_id, job.job.attempt("source"))
    job.effects.clear()
    sink = job.job.attempt("sink")
    job.ack(checkpoint_id, sink)
    assert job.effects == [fx.DiscardState((state_of(sink),))]


def test_the_state_of_an_acknowledgement_of_a_former_attempt_is_deleted():
    job = Coordination()
    former = job.job.attempt("source")
    job.send(FAILOVER)
    job.job.restart()
    job.send(call.all_tasks_running())
    checkpoint_id = job.start()
    job.effects.clear()
    job.ack(checkpoint_id, former)
    assert job.effects == [fx.DiscardState((state_of(former),))]
    job.ack_all(checkpoint_id)
    assert len(job.take(fx.FinalizeCheckpoint)) == 1


@pytest.mark.parametrize("never_begun", [2, 77])
def test_an_acknowledgement_of_an_unknown_checkpoint_is_left_alone(never_begun):
    job = Coordination()
    job.complete()
    job.effects.clear()
    job.ack(never_begun, job.job.attempt("source"))
    assert job.effects == []


def test_repeated_and_late_answers_change_nothing():
    job = Coordination()
    checkpoint_id = job.begin()
    broken = CheckpointStorageError("broken")

    def moved_on(*events):
        """Each of these tasks has answered before, or is no longer asked."""
        job.effects.clear()
        for event in events:
            assert job.send(event) == []

    made = call.location_made(checkpoint_id, location(checkpoint_id))
    moved_on(call.coordinators_snapshotted(checkpoint_id, {}), call.coordinator_snapshot_failed(checkpoint_id, broken))
    job.send(made)
    moved_on(made, call.location_failed(checkpoint_id, broken), call.triggers_answered(checkpoint_id))
    snapshotted = call.coordinators_snapshotted(checkpoint_id, {"source-op": b"splits"})
    job.send(snapshotted)
    moved_on(made, snapshotted, call.coordinator_snapshot_failed(checkpoint_id, broken))
    job.send(call.triggers_answered(checkpoint_id))
    moved_on(call.triggers_answered(checkpoint_id))
    moved_on(call.finalized(checkpoint_id, "/c/chk-1"), call.finalization_failed(checkpoint_id, broken))
    job.ack_all(checkpoint_id)
    assert len(job.take(fx.FinalizeCheckpoint)) == 1
    moved_on(made, snapshotted, call.triggers_answered(checkpoint_id))
    job.send(call.finalized(checkpoint_id, "/c/chk-1"))
    moved_on(call.finalized(checkpoint_id, "/c/chk-1"), call.finalization_failed(checkpoint_id, broken))
    assert job.latest_id == 1


# Failures


def test_a_declined_checkpoint_is_aborted_everywhere():
    job = Coordination(tolerable_failures=1)
    checkpoint_id = job.start()
    job.effects.clear()
    source, sink = job.job.attempts
    job.ack(checkpoint_id, source)
    job.decline(checkpoint_id, sink)
    (aborted,) = job.take(fx.AbortCheckpoint)
    assert (aborted.checkpoint_id, aborted.latest_completed_id, aborted.attempts) == (1, 0, (source, sink))
    assert job.take(fx.DiscardState) == [fx.DiscardState((state_of(source),))]
    assert job.take(fx.DiscardCheckpoint) == [fx.DiscardCheckpoint(1, location(1))]
    assert job.effects == []


def test_an_abort_names_the_latest_completed_checkpoint():
    job = Coordination(tolerable_failures=1)
    job.complete()
    checkpoint_id = job.start()
    job.decline(checkpoint_id, job.job.attempt("sink"))
    assert job.take(fx.AbortCheckpoint)[0].latest_completed_id == 1


def test_a_decline_by_an_unknown_task_or_of_an_ended_checkpoint_changes_nothing():
    job = Coordination()
    checkpoint_id = job.start()
    job.effects.clear()
    job.decline(99, job.job.attempt("sink"))
    former = job.job.attempt("sink")
    job.job.restart()
    job.decline(checkpoint_id, job.job.attempt("sink"))
    assert job.effects == []
    job.decline(checkpoint_id, former)
    assert job.take(fx.AbortCheckpoint)


def test_a_decline_after_the_acknowledgement_changes_nothing():
    """The answer of the trigger was lost, so the JobMaster declined for a task that had received it."""
    job = Coordination()
    checkpoint_id = job.start()
    job.effects.clear()
    job.ack(checkpoint_id, job.job.attempt("source"))
    job.decline(checkpoint_id, job.job.attempt("source"), Reason.TRIGGER_CHECKPOINT_FAILURE)
    assert job.effects == []


def test_a_checkpoint_expires():
    job = Coordination(timeout_ms=500, tolerable_failures=1, interval_ms=0)
    job.request()
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.ack(checkpoint_id, job.job.attempt("source"))
    job.advance(499)
    assert job.coordinator.pending_ids == [1]
    job.advance(1)
    assert job.last_failure() == "CHECKPOINT_EXPIRED"
    assert "1 of 2 tasks" in job.coordinator.statistics.response().latest_failed.failure.message


def test_a_checkpoint_whose_metadata_is_being_written_does_not_expire():
    job = Coordination(timeout_ms=500)
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id)
    job.advance(10_000)
    job.finalized(checkpoint_id)
    assert job.latest_id == 1


def test_a_location_that_cannot_be_created_fails_the_checkpoint():
    job = Coordination(tolerable_failures=1)
    job.send(call.location_failed(job.begin(), CheckpointStorageError("/c: no space")))
    assert job.last_failure() == "IO_EXCEPTION"
    assert job.take(fx.AbortCheckpoint)[0].attempts == ()


def test_a_location_created_for_an_ended_checkpoint_is_deleted():
    job = Coordination()
    checkpoint_id = job.begin()
    job.send(FAILOVER)
    job.effects.clear()
    job.send(call.location_made(checkpoint_id, location(1)))
    assert job.effects == [fx.DiscardCheckpoint(1, location(1))]


def test_a_coordinator_that_raises_fails_the_checkpoint_and_releases_its_events():
    job = Coordination(tolerable_failures=1)
    checkpoint_id = job.begin()
    job.send(call.location_made(checkpoint_id, location(1)))
    job.effects.clear()
    job.send(call.coordinator_snapshot_failed(checkpoint_id, FunctionError("no")))
    assert job.effects[0] == fx.ReleaseEvents(1)
    assert job.last_failure() == "TRIGGER_CHECKPOINT_FAILURE"


def test_a_task_that_ends_while_coordinators_are_triggered_fails_the_checkpoint_without_counting():
    job = Coordination(tolerable_failures=0)
    checkpoint_id = job.begin()
    job.send(call.location_made(checkpoint_id, location(1)))
    job.job.set("source", E.FINISHED)
    job.send(call.task_finished(job.job.attempt("source")))
    job.send(call.coordinators_snapshotted(checkpoint_id, {}))
    assert job.last_failure() == "NOT_ALL_REQUIRED_TASKS_RUNNING"
    assert job.take(fx.FailJob) == []


def test_metadata_that_cannot_be_written_fails_the_checkpoint():
    job = Coordination(tolerable_failures=1)
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id)
    job.effects.clear()
    job.send(call.finalization_failed(checkpoint_id, CheckpointStorageError("disk full")))
    assert job.last_failure() == "FINALIZE_CHECKPOINT_FAILURE"
    assert job.coordinator.latest is None
    assert not job.coordinator.is_finalizing
    assert len(job.take(fx.AbortCheckpoint)[0].attempts) == 2
    assert len(job.take(fx.DiscardState)[0].states) == 2


def test_more_failures_in_a_row_than_tolerated_fail_the_job():
    job = Coordination(tolerable_failures=1)
    job.decline(job.start(), job.job.attempt("sink"))
    assert job.take(fx.FailJob) == []
    job.decline(job.start(), job.job.attempt("sink"))
    (failure,) = job.take(fx.FailJob)
    assert "at most 1 checkpoints may fail in a row" in str(failure.cause)


def test_a_completed_checkpoint_resets_the_count_of_failures():
    job = Coordination(tolerable_failures=1)
    for _ in range(3):
        job.decline(job.start(), job.job.attempt("sink"))
        job.complete()
    assert job.take(fx.FailJob) == []


def test_no_failure_is_tolerated_by_default():
    job = Coordination()
    job.decline(job.start(), job.job.attempt("sink"))
    assert len(job.take(fx.FailJob)) == 1


@pytest.mark.parametrize(
    "reason", [Reason.CHECKPOINT_DECLINED_TASK_NOT_READY, Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM]
)
def test_failures_unrelated_to_the_job_do_not_count(reason):
    job = Coordination()
    for _ in range(3):
        job.decline(job.start(), job.job.attempt("sink"), reason)
    assert job.take(fx.FailJob) == []


# Pause, concurrency, queue


def test_a_long_checkpoint_delays_the_next():
    job = Coordination(interval_ms=100)
    checkpoint_id = job.start()
    job.advance(1_000)
    assert job.take(fx.MakeLocation) == []
    job.ack_all(checkpoint_id)
    job.finalized(checkpoint_id)
    assert job.begun() == 2  # only one, no matter how many intervals have passed
    job.advance(99)
    assert job.take(fx.MakeLocation) == []


def test_the_checkpoint_after_one_that_was_delayed_is_an_interval_later():
    job = Coordination(interval_ms=100)
    checkpoint_id = job.start()
    job.advance(150)
    job.ack_all(checkpoint_id)
    job.finalized(checkpoint_id)
    second = job.begun()
    job.trigger(second)
    job.ack_all(second)
    job.finalized(second)
    job.advance(99)
    assert job.take(fx.MakeLocation) == []
    job.advance(1)
    assert job.begun() == 3


def test_a_checkpoint_requested_by_a_client_does_not_delay_periodic_ones():
    job = Coordination(interval_ms=100)
    first = job.start()
    due_ms = job.coordinator.next_deadline_ms
    job.request()
    job.advance(20)
    job.ack_all(first)
    job.finalized(first)
    assert job.begun() == 2
    assert job.coordinator.next_deadline_ms == due_ms


def test_the_pause_is_kept_between_the_end_of_one_and_the_start_of_the_next():
    job = Coordination(interval_ms=100, min_pause_ms=80)
    checkpoint_id = job.start()
    job.advance(90)
    job.ack_all(checkpoint_id)
    job.finalized(checkpoint_id)
    job.advance(79)
    assert job.take(fx.MakeLocation) == []
    job.advance(1)
    assert job.begun() == 2


def test_the_coordinator_takes_as_many_concurrent_checkpoints_as_allowed():
    job = Coordination(max_concurrent=2)
    first, second = job.start(), job.start()
    job.advance(1_000)
    assert job.coordinator.pending_ids == [first, second]
    job.ack_all(second)
    job.finalized(second)
    assert job.last_failure() == "CHECKPOINT_SUBSUMED"
    assert job.latest_id == second


def test_only_one_checkpoint_is_triggered_at_a_time():
    job = Coordination(max_concurrent=2)
    job.begin()
    job.advance(1_000)
    assert job.take(fx.MakeLocation) == []


def test_an_older_checkpoint_is_not_written_after_a_newer_one():
    job = Coordination(max_concurrent=2)
    first, second = job.start(), job.start()
    job.ack_all(second)
    job.ack_all(first)
    assert job.last_failure() == "CHECKPOINT_SUBSUMED"
    job.finalized(second)
    assert job.latest_id == second


def test_the_newer_of_two_checkpoints_being_written_is_restored_in_either_order():
    job = Coordination(max_concurrent=2)
    first, second = job.start(), job.start()
    job.ack_all(first)
    job.ack_all(second)
    job.send(call.finalized(second, "/c/chk-2"))
    assert job.coordinator.pending_ids == [first], "only the writing decides"
    job.send(call.finalized(first, "/c/chk-1"))
    assert job.latest_id == second


def test_requests_beyond_the_queue_limit_are_refused_least_urgent_first(monkeypatch):
    monkeypatch.setattr(checkpoint_request_decider, "MAX_QUEUED_REQUESTS", 2)
    job = Coordination(interval_ms=0)
    for trigger_id in ("begins", "waits", "gives way", "is refused"):
        job.request(trigger_id=trigger_id)
    assert job.answers() == {"is refused": "TOO_MANY_CHECKPOINT_REQUESTS"}
    job.request(SAVEPOINT, trigger_id="savepoint")
    assert job.answers() == {"gives way": "TOO_MANY_CHECKPOINT_REQUESTS"}
    assert job.coordinator.statistics.response().num_failed == 2


def test_a_manual_checkpoint_is_answered():
    job = Coordination(interval_ms=0)
    job.request(FULL)
    checkpoint_id = job.begun()
    assert job.trigger(checkpoint_id).options.kind == pb.FULL_CHECKPOINT
    job.ack_all(checkpoint_id)
    assert job.answers() == {}
    job.finalized(checkpoint_id)
    assert job.answers() == {"t": "/c/chk-1"}
    assert job.latest_id == 1


def test_a_repeated_request_takes_one_checkpoint():
    job = Coordination(interval_ms=0)
    job.request()
    job.request()
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.ack_all(checkpoint_id)
    job.finalized(checkpoint_id)
    assert job.answers() == {"t": "/c/chk-1"}
    assert job.take(fx.MakeLocation) == []


def test_a_request_is_refused_when_not_all_tasks_run_in_time():
    job = Coordination(running=False, timeout_ms=10)
    job.request()
    assert job.answers() == {}
    job.advance(10)
    assert job.answers() == {"t": "NOT_ALL_REQUIRED_TASKS_RUNNING"}


def test_a_failed_checkpoint_is_answered_with_its_reason():
    job = Coordination(interval_ms=0, tolerable_failures=1)
    job.request()
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.decline(checkpoint_id, job.job.attempt("sink"), Reason.CHECKPOINT_ASYNC_EXCEPTION)
    assert job.answers() == {"t": "CHECKPOINT_ASYNC_EXCEPTION"}


# Savepoints


def test_a_savepoint_waits_neither_for_a_running_checkpoint_nor_for_the_pause():
    job = Coordination(min_pause_ms=10_000)
    job.start(10_000)
    job.request(SAVEPOINT, directory="/s")
    (made,) = job.take(fx.MakeLocation)
    assert (made.checkpoint_id, made.target_directory) == (2, "/s")
    assert job.trigger(2).options.format == pb.CANONICAL
    assert job.coordinator.pending_ids == [1, 2]


def test_a_savepoint_overtakes_waiting_checkpoints():
    job = Coordination(interval_ms=0)
    job.request(trigger_id="first")
    job.request(trigger_id="manual")
    job.request(SAVEPOINT, trigger_id="savepoint")
    job.trigger(job.begun())  # "first" began at once; the others waited for it to be triggered
    (made,) = job.take(fx.MakeLocation)
    assert made.properties == SAVEPOINT


def test_a_savepoint_is_neither_restored_from_nor_confirmed_nor_subsumed():
    job = Coordination(max_concurrent=2)
    job.request(SAVEPOINT)
    savepoint_id = job.begun()
    job.trigger(savepoint_id)
    job.complete()
    assert job.coordinator.pending_ids == [savepoint_id]
    job.effects.clear()
    job.ack_all(savepoint_id)
    assert not job.coordinator.is_finalizing
    job.finalized(savepoint_id, "/s/savepoint-1")
    assert job.answers() == {"t": "/s/savepoint-1"}
    assert job.take(fx.ConfirmCheckpoint) == []
    assert job.latest_id == 2


def test_a_savepoint_is_written_even_while_a_newer_checkpoint_is_being_written():
    job = Coordination(max_concurrent=2)
    job.request(SAVEPOINT)
    savepoint_id = job.begun()
    job.trigger(savepoint_id)
    job.ack_all(job.start())
    job.take(fx.FinalizeCheckpoint)
    job.ack_all(savepoint_id)
    job.finalized(savepoint_id, "/s/savepoint-1")
    assert job.answers() == {"t": "/s/savepoint-1"}


def test_a_failed_savepoint_does_not_fail_the_job():
    job = Coordination(interval_ms=0)
    job.request(SAVEPOINT)
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.decline(checkpoint_id, job.job.attempt("sink"))
    assert job.answers() == {"t": "CHECKPOINT_DECLINED"}
    assert job.take(fx.FailJob) == []


def test_savepoints_are_aligned_even_if_checkpoints_are_not():
    job = Coordination(interval_ms=0, is_unaligned=True)
    job.request(SAVEPOINT)
    assert job.trigger(job.begun()).options.alignment == pb.ALIGNED


@pytest.mark.parametrize(
    ("options", "alignment", "timeout_ms"),
    [
        ({"is_exactly_once": False}, pb.AT_LEAST_ONCE, 0),
        ({"is_unaligned": True}, pb.UNALIGNED, 0),
        ({"is_unaligned": True, "aligned_timeout_ms": 500}, pb.ALIGNED, 500),
        ({}, pb.ALIGNED, 0),
    ],
)
def test_barriers_carry_their_alignment(options, alignment, timeout_ms):
    job = Coordination(**options)
    sent = job.trigger(job.begin()).options
    assert (sent.alignment, sent.aligned_timeout_ms) == (alignment, timeout_ms)


# stop-with-savepoint


def stopping(**options):
    """Returns a job whose stop-with-savepoint has been triggered."""
    job = Coordination(**options)
    job.request(STOP)
    job.savepoint_id = job.begun()
    job.trigger(job.savepoint_id)
    job.effects.clear()
    return job


def test_stop_with_savepoint_ends_periodic_and_running_checkpoints():
    job = Coordination()
    periodic = job.start()
    job.request(STOP)
    assert job.take(fx.AbortCheckpoint)[0].checkpoint_id == periodic
    assert job.coordinator.is_stopping
    job.effects.clear()
    job.advance(1_000)
    assert job.take(fx.MakeLocation) == []


@pytest.mark.parametrize(("drain", "kind"), [(False, pb.SYNC_SAVEPOINT_SUSPEND), (True, pb.SYNC_SAVEPOINT_TERMINATE)])
def test_the_barriers_of_a_stop_carry_the_drain_flag(drain, kind):
    job = Coordination()
    job.request(stop_with_savepoint(pb.NATIVE, drain=drain))
    options = job.trigger(job.begun()).options
    assert (options.kind, options.format) == (kind, pb.NATIVE)


def test_stop_with_savepoint_is_answered_when_the_job_has_finished():
    job = stopping()
    job.ack_all(job.savepoint_id)
    job.finalized(job.savepoint_id, "/s/savepoint-1")
    assert len(job.take(fx.ConfirmCheckpoint)) == 1
    assert job.latest_id == job.savepoint_id
    assert job.answers() == {}
    job.send(call.job_ended(is_finished=True))
    assert job.answers() == {"t": "/s/savepoint-1"}


def test_a_stop_that_cannot_begin_leaves_everything_as_it_was():
    job = Coordination()
    job.job.set("sink", E.INITIALIZING)
    job.request(STOP)
    assert job.answers() == {"t": "NOT_ALL_REQUIRED_TASKS_RUNNING"}
    assert not job.coordinator.is_stopping
    job.job.set("sink", E.RUNNING)
    assert job.begin() == 1


def test_a_stop_that_cannot_begin_aborts_no_running_checkpoint():
    job = Coordination(max_concurrent=2)
    checkpoint_id = job.start()
    due_ms = job.coordinator.next_deadline_ms
    job.job.set("sink", E.CANCELING)
    job.request(STOP)
    assert job.answers() == {"t": "NOT_ALL_REQUIRED_TASKS_RUNNING"}
    assert job.take(fx.AbortCheckpoint) == []
    assert job.coordinator.pending_ids == [checkpoint_id]
    assert job.coordinator.next_deadline_ms == due_ms


def test_a_job_that_stops_takes_no_checkpoint_for_a_backlog_or_the_end_of_its_data():
    job = stopping(interval_ms=1_000_000, backlog_interval_ms=10, max_concurrent=2)
    job.send(call.backlog_changed("source-op", True))
    end_of_data(job)
    job.advance(1_000)
    assert job.take(fx.MakeLocation) == []


def test_a_second_stop_and_other_requests_are_refused_during_a_stop():
    job = stopping()
    job.request(STOP, trigger_id="second")
    job.request(trigger_id="manual")
    assert job.answers() == {
        "second": "CHECKPOINT_COORDINATOR_SUSPEND",
        "manual": "CHECKPOINT_COORDINATOR_SUSPEND",
    }


def test_a_stop_whose_savepoint_fails_restarts_the_job_and_its_checkpoints():
    job = stopping()
    job.decline(job.savepoint_id, job.job.attempt("sink"))
    assert job.answers() == {"t": "CHECKPOINT_DECLINED"}
    (failure,) = job.take(fx.FailJob)
    assert "stop-with-savepoint failed" in str(failure.cause)
    assert failure.cause.__cause__.details == {"failure_reason": "CHECKPOINT_DECLINED"}
    job.send(FAILOVER)
    job.job.restart()
    job.send(call.all_tasks_running())
    assert job.begin() == 2


def test_a_stop_that_fails_before_any_task_was_triggered_leaves_the_job_running():
    job = Coordination()
    job.request(STOP)
    job.send(call.location_failed(job.begun(), CheckpointStorageError("/s cannot be written")))
    assert job.answers() == {"t": "IO_EXCEPTION"}
    assert job.take(fx.FailJob) == []
    assert job.begin() == 2


def test_a_task_that_fails_during_a_stop_restarts_the_whole_job():
    job = stopping()
    job.send(FAILOVER)
    assert job.answers() == {"t": "JOB_FAILOVER_REGION"}
    assert len(job.take(fx.FailJob)) == 1


def test_a_task_that_fails_after_the_savepoint_restarts_the_job_from_it_and_names_it():
    job = stopping()
    job.ack_all(job.savepoint_id)
    job.finalized(job.savepoint_id, "/s/savepoint-1")
    job.effects.clear()
    job.send(FAILOVER)
    (answer,) = job.take(fx.AnswerRequest)
    assert answer.error.details["savepoint_path"] == "/s/savepoint-1"
    assert answer.error.__cause__ is BOOM
    assert len(job.take(fx.FailJob)) == 1
    assert job.latest_id == job.savepoint_id
    job.job.restart()
    job.send(call.all_tasks_running())
    assert job.begin() == 2, "the job is not being stopped any more"


@pytest.mark.parametrize("is_written", [True, False])
def test_a_task_failure_during_the_write_of_a_savepoint_waits_for_the_write(is_written):
    job = stopping()
    job.ack_all(job.savepoint_id)
    job.send(FAILOVER)
    assert job.answers() == {}
    assert len(job.take(fx.FailJob)) == 1
    assert job.coordinator.is_finalizing
    if is_written:
        job.finalized(job.savepoint_id, "/s/savepoint-1")
        assert job.answers() == {"t": "StopWithSavepointStoppingError"}
    else:
        job.send(call.finalization_failed(job.savepoint_id, CheckpointStorageError("full")))
        assert job.answers() == {"t": "FINALIZE_CHECKPOINT_FAILURE"}
    job.effects.clear()
    job.job.restart()
    job.send(call.all_tasks_running())
    assert job.begin() == 2


def test_a_stop_is_answered_when_the_job_is_cancelled():
    job = stopping()
    job.send(call.job_ended(is_finished=False))
    assert job.answers() == {"t": "CHECKPOINT_COORDINATOR_SUSPEND"}


# Failover


def test_a_failover_aborts_all_checkpoints_and_the_next_one_waits_for_all_tasks():
    job = Coordination(max_concurrent=2)
    job.start()
    job.start()
    job.request(trigger_id="waits")
    job.effects.clear()
    job.send(FAILOVER)
    assert [effect.checkpoint_id for effect in job.take(fx.AbortCheckpoint)] == [1, 2]
    assert job.answers() == {"waits": "JOB_FAILOVER_REGION"}
    assert job.coordinator.next_deadline_ms is None
    job.job.restart()
    job.send(call.all_tasks_running())
    assert job.begin() == 3


def test_a_failover_does_not_count_as_a_failed_checkpoint():
    job = Coordination()
    job.start()
    job.send(FAILOVER)
    assert job.take(fx.FailJob) == []


def test_a_checkpoint_that_is_being_written_survives_a_failover():
    job = Coordination()
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id)
    for task in list(job.job.states):
        job.job.states[task] = E.CANCELED
    job.send(FAILOVER)
    assert job.coordinator.is_finalizing
    job.finalized(checkpoint_id)
    assert job.latest_id == checkpoint_id
    assert job.take(fx.ConfirmCheckpoint)[0].attempts == ()


def test_messages_from_before_a_failover_change_nothing():
    job = Coordination()
    checkpoint_id = job.begin()
    job.send(call.location_made(checkpoint_id, location(1)))
    job.send(FAILOVER)
    job.effects.clear()
    job.send(call.coordinators_snapshotted(checkpoint_id, {}))
    job.send(call.triggers_answered(checkpoint_id))
    job.send(call.coordinator_snapshot_failed(checkpoint_id, FunctionError("late")))
    job.send(call.finalized(checkpoint_id, "/c/chk-1"))
    job.send(call.finalization_failed(checkpoint_id, CheckpointStorageError("late")))
    assert job.effects == []


def test_after_its_end_a_job_takes_no_checkpoint():
    job = Coordination()
    job.start()
    job.send(call.job_ended(is_finished=False))
    job.effects.clear()
    job.send(call.all_tasks_running())
    job.advance(10_000)
    job.request()
    assert job.answers() == {"t": "CHECKPOINT_COORDINATOR_SHUTDOWN"}
    assert job.effects == []


@pytest.mark.parametrize("is_declined", [True, False])
def test_after_its_end_a_job_waits_for_nothing(is_declined):
    job = Coordination(interval_ms=1_000_000, tolerable_failures=1)
    end_of_data(job)
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    if is_declined:
        job.decline(checkpoint_id, job.job.attempt("sink"))
    job.send(call.job_ended(is_finished=False))
    job.effects.clear()
    assert job.coordinator.next_deadline_ms is None
    end_of_data(job)
    job.send(call.backlog_changed("source-op", True))
    job.send(call.check_timers())
    assert job.effects == []


# Restoring


def restored_from(checkpoint_id=7, *, owned=True):
    from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint

    return CompletedCheckpoint(pb.CheckpointMetadata(checkpoint_id=checkpoint_id), "/old", owned)


def test_ids_continue_after_the_restored_checkpoint():
    job = Coordination(running=False)
    job.coordinator.start_from(restored_from(7), 12, must_be_full=False)
    job.send(call.all_tasks_running())
    assert job.latest_id == 7
    assert job.begin() == 12


@pytest.mark.parametrize("next_id", [1, 8])
def test_the_id_of_the_restored_checkpoint_is_not_used_again(next_id):
    job = Coordination(running=False)
    job.coordinator.start_from(restored_from(7), next_id, must_be_full=False)
    job.send(call.all_tasks_running())
    assert job.begin() == 8


def test_a_job_that_starts_over_uses_new_ids():
    job = Coordination(running=False)
    job.coordinator.start_from(None, 12, must_be_full=True)
    job.send(call.all_tasks_running())
    assert job.latest_id is None
    checkpoint_id = job.begin()
    assert checkpoint_id == 12
    assert job.trigger(checkpoint_id).options.kind == pb.CHECKPOINT, "there is no savepoint to be independent of"


def test_a_repeated_acknowledgement_of_the_restored_checkpoint_keeps_the_state():
    job = Coordination(running=False)
    job.coordinator.start_from(restored_from(7), 12, must_be_full=False)
    job.send(call.all_tasks_running())
    job.ack(7, job.job.attempt("source"))
    assert job.take(fx.DiscardState) == []
    job.ack(11, job.job.attempt("source"))
    assert len(job.take(fx.DiscardState)) == 1, "a checkpoint of before, which was not completed"


def test_a_damaged_checkpoint_is_replaced_by_an_older_one():
    job = Coordination(running=False)
    job.coordinator.start_from(restored_from(7), 8, must_be_full=False)
    job.coordinator.replace_latest(restored_from(5))
    assert job.latest_id == 5
    job.coordinator.tasks_restored(5_000)
    assert job.coordinator.statistics.response().latest_restored.checkpoint_id == 5


def test_a_job_that_starts_over_has_restored_nothing():
    job = Coordination(running=False)
    job.coordinator.start_from(None, 1, must_be_full=False)
    job.coordinator.tasks_restored(5_000)
    assert job.coordinator.statistics.response().num_restored == 0


def test_the_first_checkpoint_after_an_unowned_savepoint_is_full():
    job = Coordination(running=False, tolerable_failures=1)
    job.coordinator.start_from(restored_from(7, owned=False), 8, must_be_full=True)
    job.send(call.all_tasks_running())
    first = job.begin()
    assert job.trigger(first).options.kind == pb.FULL_CHECKPOINT
    job.decline(first, job.job.attempt("sink"))
    second = job.begin()
    assert job.trigger(second).options.kind == pb.FULL_CHECKPOINT
    job.ack_all(second)
    job.finalized(second)
    assert job.trigger(job.begin()).options.kind == pb.CHECKPOINT


# Tasks that finish


def test_a_task_that_finishes_without_acknowledging_aborts_the_checkpoint_after_a_while():
    job = Coordination(tolerable_failures=0, interval_ms=1_000_000)
    job.advance(1_000_000)
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.job.set("source", E.FINISHED)
    job.send(call.task_finished(job.job.attempt("source")))
    job.advance(9_999)
    assert job.coordinator.pending_ids == [1]
    job.advance(1)
    assert job.last_failure() == "CHECKPOINT_DECLINED_TASK_CLOSING"
    assert job.take(fx.FailJob) == []


def test_a_task_that_finishes_after_its_acknowledgement_does_not_abort_the_checkpoint():
    job = Coordination(interval_ms=1_000_000)
    checkpoint_id = job.start()
    source, sink = job.job.attempts
    job.ack(checkpoint_id, source)
    job.job.set("source", E.FINISHED)
    job.send(call.task_finished(source))
    job.advance(FINISHED_ACK_GRACE_MS)
    job.ack(checkpoint_id, sink)
    job.finalized(checkpoint_id)
    assert job.latest_id == 1


def test_an_acknowledgement_overtaken_by_the_end_of_its_task_counts():
    job = Coordination(interval_ms=1_000_000)
    checkpoint_id = job.start()
    source, sink = job.job.attempts
    job.job.set("source", E.FINISHED)
    job.send(call.task_finished(source))
    job.ack(checkpoint_id, source)
    job.advance(20_000)
    job.ack(checkpoint_id, sink)
    job.finalized(checkpoint_id)
    assert job.latest_id == 1


def test_finished_tasks_are_in_the_metadata_as_finished():
    job = Coordination(source_and_sink(2))
    job.job.set("source", E.FINISHED, 0)
    checkpoint_id = job.start()
    job.ack(checkpoint_id, job.job.attempt("source", 1), state_of(job.job.attempt("source", 1), finished=True))
    for subtask in (0, 1):
        job.ack(checkpoint_id, job.job.attempt("sink", subtask))
    (effect,) = job.take(fx.FinalizeCheckpoint)
    source, sink = effect.metadata.operators
    assert source.is_fully_finished
    assert list(source.finished_subtasks) == [0, 1]
    assert not sink.is_fully_finished


@pytest.mark.parametrize("has_state_at_its_end", [True, False])
def test_a_task_that_ends_behind_a_task_that_runs_again_runs_again_too(has_state_at_its_end):
    """Otherwise a savepoint at the end of the data could not be restored: a task would refuse the data it gets."""
    source = vertex("source", 1)
    middle = vertex("middle", 1, [source])
    job = Coordination(FakeJob(source, middle, vertex("sink", 1, [middle])), interval_ms=0)
    job.request(STOP)
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    for name in ("source", "middle", "sink"):
        attempt = job.job.attempt(name)
        has_state = name == "middle" and has_state_at_its_end
        job.ack(checkpoint_id, attempt, state_of(attempt, finished=True, union=has_state))
    (effect,) = job.take(fx.FinalizeCheckpoint)
    is_finished = {operator.name: operator.is_fully_finished for operator in effect.metadata.operators}
    assert is_finished == {"source": True, "middle": not has_state_at_its_end, "sink": not has_state_at_its_end}


def test_a_partly_finished_vertex_without_union_state_is_checkpointed():
    job = Coordination(source_and_sink(2))
    job.job.set("source", E.FINISHED, 0)
    checkpoint_id = job.start()
    job.ack_all(checkpoint_id, [job.job.attempt("source", 1), job.job.attempt("sink", 0), job.job.attempt("sink", 1)])
    (effect,) = job.take(fx.FinalizeCheckpoint)
    source, _ = effect.metadata.operators
    assert not source.is_fully_finished
    assert (list(source.finished_subtasks), list(source.subtasks)) == ([0], [1])


def test_a_partly_finished_vertex_with_union_state_cannot_be_checkpointed():
    job = Coordination(source_and_sink(2))
    job.job.set("source", E.FINISHED, 0)
    checkpoint_id = job.start()
    for attempt in (job.job.attempt("source", 1), job.job.attempt("sink", 0), job.job.attempt("sink", 1)):
        job.ack(checkpoint_id, attempt, state_of(attempt, union=True))
    assert job.last_failure() == "CHECKPOINT_DECLINED_TASK_CLOSING"
    assert job.take(fx.FinalizeCheckpoint) == []
    assert job.take(fx.FailJob) == []


def test_subtasks_with_union_state_end_with_the_same_checkpoint():
    """Otherwise one task would end, and the other would wait for a checkpoint that can no longer be completed."""
    job = Coordination(source_and_sink(2))
    first, second = (job.job.attempt("sink", subtask) for subtask in (0, 1))
    sources = [job.job.attempt("source", subtask) for subtask in (0, 1)]

    def checkpoint(*, is_second_finished):
        checkpoint_id = job.start()
        for source in sources:
            job.ack(checkpoint_id, source, state_of(source, finished=True))
        job.ack(checkpoint_id, first, state_of(first, finished=True, union=True))
        job.ack(checkpoint_id, second, state_of(second, finished=is_second_finished, union=True))
        return job.take(fx.FinalizeCheckpoint)

    assert checkpoint(is_second_finished=False) == []
    assert job.last_failure() == "CHECKPOINT_DECLINED_TASK_CLOSING"
    (effect,) = checkpoint(is_second_finished=True)
    source, sink = effect.metadata.operators
    assert source.is_fully_finished
    assert sorted(sink.subtasks) == [0, 1], "their state is restored"


# The end of the data


def end_of_data(job, *attempts):
    job.send(call.end_of_data_reached(attempts or tuple(job.job.attempts)))


def test_a_checkpoint_begins_at_once_when_all_tasks_are_at_the_end_of_their_data():
    job = Coordination(interval_ms=1_000_000)
    source, sink = job.job.attempts
    end_of_data(job, source)
    assert job.effects == []
    end_of_data(job, sink)
    assert job.begun() == 1


def test_the_end_of_the_data_of_a_task_counts_once():
    job = Coordination(interval_ms=1_000_000)
    end_of_data(job)
    end_of_data(job)
    job.trigger(job.begun())
    assert job.take(fx.MakeLocation) == []


def test_tasks_that_have_finished_are_not_waited_for_at_the_end_of_the_data():
    job = Coordination(interval_ms=1_000_000)
    end_of_data(job, job.job.attempt("sink"))
    job.job.set("source", E.FINISHED)
    job.send(call.task_finished(job.job.attempt("source")))
    assert job.begun() == 1


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_job_whose_last_task_has_ended_asks_for_no_checkpoint(is_restarted):
    job = Coordination(interval_ms=1_000_000)
    end_of_data(job, job.job.attempt("sink"))
    if is_restarted:
        job.send(FAILOVER)
        job.job.restart()
        job.send(call.all_tasks_running())
    for name in ("sink", "source"):
        job.job.set(name, E.FINISHED)
        job.send(call.task_finished(job.job.attempt(name)))
    assert job.coordinator.statistics.response().num_total == 0


def test_a_refused_checkpoint_at_the_end_of_the_data_is_requested_again(monkeypatch):
    monkeypatch.setattr(checkpoint_request_decider, "MAX_QUEUED_REQUESTS", 1)
    job = Coordination(interval_ms=1_000_000)
    job.request(trigger_id="begins")
    job.request(trigger_id="waits")
    end_of_data(job)
    for _ in range(2):
        checkpoint_id = job.begun()
        job.trigger(checkpoint_id)
        job.ack_all(checkpoint_id)
        job.finalized(checkpoint_id)
    assert job.take(fx.MakeLocation) == []
    job.advance(FINAL_CHECKPOINT_RETRY_MS)
    assert job.begun() == 3


def test_a_failed_checkpoint_at_the_end_of_the_data_is_taken_again_soon():
    job = Coordination(interval_ms=1_000_000, tolerable_failures=1)
    end_of_data(job)
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.decline(checkpoint_id, job.job.attempt("sink"))
    job.advance(FINAL_CHECKPOINT_RETRY_MS - 1)
    job.send(call.check_timers())
    assert job.take(fx.MakeLocation) == []
    job.advance(1)
    assert job.begun() == 2


def test_a_retry_that_comes_due_while_the_job_stops_is_forgotten():
    job = Coordination(interval_ms=1_000_000, tolerable_failures=1)
    end_of_data(job)
    checkpoint_id = job.begun()
    job.trigger(checkpoint_id)
    job.decline(checkpoint_id, job.job.attempt("sink"))
    job.request(STOP)
    job.trigger(job.begun())
    job.advance(FINAL_CHECKPOINT_RETRY_MS)  # raises where the deadline stays in the past
    assert job.take(fx.MakeLocation) == []


def test_the_end_of_the_data_of_a_former_attempt_is_ignored():
    job = Coordination(interval_ms=1_000_000)
    former = tuple(job.job.attempts)
    job.send(FAILOVER)
    job.job.restart()
    job.send(call.all_tasks_running())
    job.effects.clear()
    end_of_data(job, *former)
    assert job.effects == []


def test_a_job_that_reaches_the_end_of_its_data_again_after_a_failover_takes_another_checkpoint():
    job = Coordination(interval_ms=1_000_000)
    end_of_data(job)
    assert job.begun() == 1
    job.send(FAILOVER)
    job.job.restart()
    job.send(call.all_tasks_running())
    end_of_data(job)
    assert job.begun() == 2


def test_at_the_end_of_the_data_a_task_of_a_new_attempt_is_waited_for():
    job = Coordination(interval_ms=1_000_000)
    end_of_data(job, job.job.attempt("source"))
    job.send(FAILOVER)
    job.job.restart()
    job.send(call.all_tasks_running())
    end_of_data(job, job.job.attempt("sink"))
    assert job.take(fx.MakeLocation) == []
    end_of_data(job, job.job.attempt("source"))
    assert job.begun() == 1


def test_no_task_waits_at_the_end_of_the_data_if_finished_tasks_allow_no_checkpoint():
    job = Coordination(interval_ms=1_000_000, after_tasks_finish=False)
    end_of_data(job)
    assert job.effects == []


def test_no_task_waits_at_the_end_of_the_data_without_periodic_checkpoints():
    job = Coordination(interval_ms=0)
    end_of_data(job)
    assert job.effects == []


# Statistics


def test_the_statistics_contain_counts_and_history():
    job = Coordination(tolerable_failures=10, history_size=3)
    for _ in range(3):
        job.complete()
    job.decline(job.start(), job.job.attempt("sink"))
    running = job.start()
    job.ack(running, job.job.attempt("source"), metrics=pb.CheckpointMetrics(state_size_bytes=10, bytes_persisted=4))
    told = job.coordinator.statistics.response()
    assert (told.num_total, told.num_in_progress, told.num_completed, told.num_failed) == (5, 1, 3, 1)
    assert [entry.checkpoint_id for entry in told.history] == [5, 4, 3]
    assert [entry.status for entry in told.history] == ["IN_PROGRESS", "FAILED", "COMPLETED"]
    newest = told.history[0]
    assert (newest.num_subtasks, newest.num_acknowledged_subtasks) == (2, 1)
    assert (newest.state_size_bytes, newest.persisted_bytes) == (10, 4)
    assert told.latest_completed.external_path == "/c/chk-3"
    assert told.latest_failed.failure.type == "CheckpointError"


def test_the_statistics_summarize_completed_checkpoints():
    job = Coordination()
    for size in (10, 20, 60):
        checkpoint_id = job.start()
        for attempt in job.job.attempts:
            job.ack(checkpoint_id, attempt, metrics=pb.CheckpointMetrics(state_size_bytes=size))
        job.finalized(checkpoint_id)
    summary = job.coordinator.statistics.response().summary.state_size_bytes
    assert (summary.minimum, summary.average, summary.p50, summary.maximum) == (20, 60, 40, 120)


def test_the_summary_covers_checkpoints_that_have_left_the_history():
    job = Coordination(history_size=2)
    for _ in range(5):
        checkpoint_id = job.start()
        for attempt in job.job.attempts:
            job.ack(checkpoint_id, attempt, metrics=pb.CheckpointMetrics(bytes_persisted=checkpoint_id))
        job.finalized(checkpoint_id)
    told = job.coordinator.statistics.response()
    assert [entry.checkpoint_id for entry in told.history] == [5, 4]
    summary = told.summary.persisted_bytes
    assert (summary.minimum, summary.average, summary.p50, summary.maximum) == (2, 6, 6, 10)


def test_the_statistics_of_a_vertex_add_up_its_subtasks():
    job = Coordination()
    checkpoint_id = job.start()
    job.advance(7)
    metrics = pb.CheckpointMetrics(state_size_bytes=10, bytes_persisted=4, bytes_processed_during_alignment=2)
    job.ack(checkpoint_id, job.job.attempt("source"), metrics=metrics)
    (newest,) = job.coordinator.statistics.response().history
    source, sink = newest.vertices
    assert (source.num_acknowledged_subtasks, source.latest_ack_timestamp_ms) == (1, job.now_ms)
    assert (source.state_size_bytes, source.persisted_bytes, source.processed_in_flight_bytes) == (10, 4, 2)
    assert (sink.num_acknowledged_subtasks, sink.latest_ack_timestamp_ms) == (0, 0)
    assert newest.latest_ack_timestamp_ms == job.now_ms


def test_callers_choose_the_checkpoint_whose_subtasks_they_get():
    job = Coordination()
    job.complete()
    job.complete()

    def told(**request):
        parts = StatisticsParts.of(pb.CheckpointStatisticsRequest(**request))
        response = job.coordinator.statistics.response(parts)
        return {one.checkpoint_id: sum(len(each.subtasks) for each in one.vertices) for one in response.history}

    assert told() == {1: 2, 2: 2}
    assert told(without_subtasks=True) == {1: 0, 2: 0}
    assert told(without_subtasks=True, checkpoint_id=1) == {1: 2, 2: 0}


def test_quantiles_are_interpolated_as_in_flink():
    assert [quantile_of([1, 2, 3, 4], one) for one in (0.1, 0.5, 0.75, 0.99)] == [1, 2.5, 3.75, 4]
    assert math.isnan(quantile_of([], 0.5))


def test_a_completed_checkpoint_that_was_replaced_is_shown_as_discarded():
    job = Coordination()
    job.complete()
    job.complete()
    newest, older = job.coordinator.statistics.response().history
    assert not newest.discarded
    assert older.discarded


def test_a_failed_checkpoint_is_shown_as_discarded_with_the_time_of_its_end():
    job = Coordination(tolerable_failures=10)
    checkpoint_id = job.start()
    job.advance(25)
    job.decline(checkpoint_id, job.job.attempt("sink"))
    failed = job.coordinator.statistics.response().latest_failed
    assert failed.discarded and failed.end_timestamp_ms == job.now_ms


def test_the_statistics_contain_durations():
    job = Coordination()
    checkpoint_id = job.start()
    job.advance(40)
    job.ack_all(checkpoint_id)
    job.finalized(checkpoint_id)
    told = job.coordinator.statistics.response()
    assert told.summary.duration_ms.maximum == job.now_ms - told.latest_completed.trigger_timestamp_ms


def test_a_savepoint_is_shown_separately_and_not_subject_to_the_retention_of_checkpoints():
    job = Coordination()
    job.complete()
    job.request(SAVEPOINT, directory="/s")
    savepoint_id = job.begun()
    job.trigger(savepoint_id)
    job.ack_all(savepoint_id)
    job.finalized(savepoint_id, "/s/savepoint-2")
    job.complete()
    told = job.coordinator.statistics.response()
    assert told.latest_savepoint.checkpoint_id == savepoint_id
    assert told.latest_completed.checkpoint_id == savepoint_id + 1
    assert [(entry.checkpoint_id, entry.discarded) for entry in told.history] == [(3, False), (2, False), (1, True)]


def test_the_statistics_contain_the_metrics_of_each_subtask_and_the_size_of_coordinators():
    job = Coordination()
    checkpoint_id = job.begin()
    job.trigger(checkpoint_id, {"source-op": b"12345", "stateless": None})
    job.ack(checkpoint_id, job.job.attempt("source"), metrics=pb.CheckpointMetrics(state_size_bytes=7))
    newest = job.coordinator.statistics.response().history[0]
    subtasks = {vertex.vertex_id: list(vertex.subtasks) for vertex in newest.vertices}
    assert newest.state_size_bytes == 12 and subtasks["sink"] == []
    assert [(one.subtask_index, one.metrics.state_size_bytes) for one in subtasks["source"]] == [(0, 7)]


def test_the_restored_checkpoint_is_shown():
    job = Coordination(running=False)
    job.coordinator.start_from(restored_from(7), 8, must_be_full=False)
    job.coordinator.tasks_restored(5_000)
    told = job.coordinator.statistics.response()
    assert told.num_restored == 1
    assert (told.latest_restored.checkpoint_id, told.latest_restored.external_path) == (7, "/old")


def test_a_job_without_a_source_of_barriers_for_a_vertex_still_waits_for_it():
    single = FakeJob(vertex("a", 1), vertex("b", 2))
    job = Coordination(single)
    assert len(job.trigger(job.begin()).attempts) == 3
    assert PERIODIC.counts_for_recovery


# While a source reads a backlog


def test_a_backlog_has_an_interval_of_its_own():
    job = Coordination(interval_ms=100, backlog_interval_ms=1_000)
    job.send(call.backlog_changed("source-op", True))
    job.complete()
    begun_ms = job.coordinator.next_deadline_ms - 1_000
    job.send(call.backlog_changed("other-op", True))
    job.send(call.backlog_changed("source-op", False))
    assert job.coordinator.next_deadline_ms == begun_ms + 1_000

    job.send(call.backlog_changed("other-op", False))
    assert job.coordinator.next_deadline_ms <= begun_ms + 200
    assert job.begin() == 2


def test_there_may_be_no_checkpoints_during_a_backlog():
    job = Coordination(interval_ms=100, backlog_interval_ms=0, running=False)
    job.send(call.backlog_changed("source-op", True))
    job.send(call.all_tasks_running())
    assert job.coordinator.next_deadline_ms is None
    job.advance(100_000)
    assert job.effects == []

    job.send(call.backlog_changed("source-op", False))
    assert job.begin() == 1
    job.send(call.backlog_changed("source-op", True))
    job.trigger(1)
    job.ack_all(1)
    job.finalized(1)
    job.advance(100_000)
    assert job.take(fx.MakeLocation) == []


def test_a_longer_interval_counts_after_the_checkpoint_that_is_due_next():
    job = Coordination(interval_ms=100, backlog_interval_ms=1_000)
    due_ms = job.coordinator.next_deadline_ms
    job.send(call.backlog_changed("source-op", True))
    assert job.coordinator.next_deadline_ms == due_ms
    job.now_ms = due_ms
    job.send(call.check_timers())
    job.trigger(job.begun())
    job.advance(999)
    assert job.take(fx.MakeLocation) == []


def test_a_backlog_reported_before_all_tasks_run_starts_no_checkpoint():
    job = Coordination(interval_ms=1_000_000, backlog_interval_ms=10, running=False)
    job.send(call.backlog_changed("source-op", True))
    assert job.coordinator.next_deadline_ms is None
    job.send(call.all_tasks_running())
    assert job.begin(10) == 1


def test_without_an_interval_for_backlogs_nothing_changes():
    job = Coordination(interval_ms=100)
    due_ms = job.coordinator.next_deadline_ms
    job.send(call.backlog_changed("source-op", True))
    assert job.coordinator.next_deadline_ms == due_ms
    never = Coordination(interval_ms=0, backlog_interval_ms=50)
    never.send(call.backlog_changed("source-op", True))
    assert never.coordinator.next_deadline_ms is None
