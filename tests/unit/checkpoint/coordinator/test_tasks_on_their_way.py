"""Requests of clients while tasks start or finish are planned again and not refused."""

from __future__ import annotations

import pytest
from coordinator_calls import call
from coordinator_fakes import Coordination, FakeJob, location, source_and_sink, state_of, vertex

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import FINISHED_ACK_GRACE_MS
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, savepoint, stop_with_savepoint
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import FIRST_DELAY_MS, MAX_START_WAIT_MS, MAX_TRIES
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.errors import FunctionError
from flinkpy.common.states import ExecutionState as E

SAVEPOINT = savepoint(pb.CANONICAL)
STOP = stop_with_savepoint(pb.CANONICAL, drain=False)
DRAIN = stop_with_savepoint(pb.CANONICAL, drain=True)
ON_ITS_WAY = [Reason.CHECKPOINT_DECLINED_TASK_CLOSING, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY]
CLOSING = ON_ITS_WAY[0]
FAILOVER = call.tasks_stopped(Reason.JOB_FAILOVER_REGION, FunctionError("boom"))

staying = pytest.mark.parametrize(
    "properties", [pytest.param(SAVEPOINT, id="savepoint"), pytest.param(PERIODIC, id="checkpoint"), FULL]
)
stopping = pytest.mark.parametrize("properties", [pytest.param(STOP, id="stop"), pytest.param(DRAIN, id="drain")])
everything = pytest.mark.parametrize("properties", [SAVEPOINT, PERIODIC, FULL, STOP, DRAIN])


def two_sources():
    """The sources `rules` and `records` with different state. The sink reads both."""
    rules, records = vertex("rules", 1), vertex("records", 1)
    return FakeJob(rules, records, vertex("sink", 1, [rules, records]))


def asked(properties, job=None, **options):
    """Returns a job with two sources, without periodic checkpoints, for which a client has sent a request."""
    coordination = Coordination(job or two_sources(), **{"interval_ms": 0, **options})
    coordination.request(properties)
    return coordination


def finish(coordination, name, subtask=0):
    attempt = coordination.job.attempt(name, subtask)
    coordination.job.set(name, E.FINISHED, subtask)
    coordination.send(call.task_finished(attempt))
    return attempt


def complete(coordination, checkpoint_id, *names):
    """Acknowledges the checkpoint for these tasks, completes it, and returns the written metadata."""
    for name in names:
        coordination.ack(checkpoint_id, coordination.job.attempt(name))
    (effect,) = coordination.take(fx.FinalizeCheckpoint)
    assert effect.checkpoint_id == checkpoint_id
    coordination.send(call.finalized(checkpoint_id, f"/s/{checkpoint_id}", (checkpoint_id,)))
    if effect.properties.is_synchronous:
        assert coordination.answers() == {}
        coordination.send(call.job_ended(is_finished=True))
    assert coordination.answers() == {"t": f"/s/{checkpoint_id}"}
    assert coordination.take(fx.FailJob) == []
    return {operator.name: operator.is_fully_finished for operator in effect.metadata.operators}


# Before any task knows of it


@everything
def test_a_task_that_ends_while_coordinators_are_triggered_is_finished_in_the_next_plan(properties):
    job = asked(properties)
    first = job.begun()
    job.send(call.location_made(first, location(first)))
    job.take(fx.SnapshotCoordinators)
    finish(job, "rules")
    job.send(call.coordinators_snapshotted(first, {}))
    assert job.take(fx.AbortCheckpoint)[0].checkpoint_id == first
    second = job.begun()
    assert job.trigger(second).attempts == (job.job.attempt("records"),)
    assert complete(job, second, "records", "sink") == {"rules": True, "records": False, "sink": False}


@everything
def test_each_task_that_ends_changes_the_plan_again(properties):
    rules, more_rules, records = vertex("rules", 1), vertex("more rules", 1), vertex("records", 1)
    job = asked(properties, FakeJob(rules, more_rules, records, vertex("sink", 1, [rules, more_rules, records])))
    for name in ("rules", "more rules"):
        checkpoint_id = job.begun()
        job.send(call.location_made(checkpoint_id, location(checkpoint_id)))
        job.take(fx.SnapshotCoordinators)
        finish(job, name)
        job.send(call.coordinators_snapshotted(checkpoint_id, {}))
    third = job.begun()
    job.trigger(third)
    complete(job, third, "records", "sink")


# Between the trigger and the barrier


@staying
@pytest.mark.parametrize("reason", ON_ITS_WAY)
def test_a_late_trigger_starts_another_checkpoint_when_the_end_of_the_task_is_known(properties, reason):
    job = asked(properties)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("rules"), reason)
    assert job.answers() == {}
    assert job.take(fx.MakeLocation) == [], "the task still counts as running and would decline again"
    finish(job, "rules")
    second = job.begun()
    job.trigger(second)
    complete(job, second, "records", "sink")


@staying
def test_the_end_of_a_task_may_be_known_before_its_decline(properties):
    job = asked(properties)
    first = job.begun()
    job.trigger(first)
    attempt = finish(job, "rules")
    job.decline(first, attempt, CLOSING)
    second = job.begun()
    job.trigger(second)
    complete(job, second, "records", "sink")


@staying
def test_a_task_that_is_not_ready_is_triggered_again_after_a_pause(properties):
    job = asked(properties)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("rules"), Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)
    job.advance(FIRST_DELAY_MS - 1)
    assert job.take(fx.MakeLocation) == []
    job.advance(1)
    second = job.begun()
    job.trigger(second)
    complete(job, second, "rules", "records", "sink")


@staying
def test_another_checkpoint_starts_after_a_task_ended_without_an_answer(properties):
    job = asked(properties)
    first = job.begun()
    job.trigger(first)
    finish(job, "rules")
    job.advance(FINISHED_ACK_GRACE_MS)
    second = job.begun()
    job.trigger(second)
    complete(job, second, "records", "sink")


@everything
def test_a_task_that_ends_after_its_acknowledgement_changes_nothing(properties):
    job = asked(properties)
    only = job.begun()
    job.trigger(only)
    job.ack(only, job.job.attempt("rules"))
    finish(job, "rules")
    assert complete(job, only, "records", "sink")["rules"] is False


# A stop that tasks may have seen


@stopping
@pytest.mark.parametrize("is_end_known_first", [True, False])
def test_a_stop_continues_with_a_task_that_ended_before_its_trigger_as_finished(properties, is_end_known_first):
    job = asked(properties)
    only = job.begun()
    job.trigger(only)
    job.ack(only, job.job.attempt("records"))  # the stop can no longer be aborted
    attempt = finish(job, "rules") if is_end_known_first else job.job.attempt("rules")
    job.decline(only, attempt, CLOSING)
    assert job.answers() == {}
    if not is_end_known_first:
        finish(job, "rules")
    job.advance(FINISHED_ACK_GRACE_MS)
    assert job.take(fx.AbortCheckpoint) == []
    assert job.take(fx.TriggerTasks) == [], "the sink gets a barrier from the other source"
    assert complete(job, only, "sink") == {"rules": True, "records": False, "sink": False}


@stopping
def test_a_stop_is_complete_when_the_last_missing_task_has_ended(properties):
    job = asked(properties)
    only = job.begun()
    job.trigger(only)
    for name in ("records", "sink"):
        job.ack(only, job.job.attempt(name))
    job.decline(only, job.job.attempt("rules"), CLOSING)
    finish(job, "rules")
    complete(job, only)


@stopping
def test_a_stop_triggers_tasks_that_receive_no_barrier(properties):
    source = vertex("rules", 1)
    records = vertex("records", 1)
    middle = vertex("middle", 1, [source])
    job = asked(properties, FakeJob(source, records, middle, vertex("sink", 1, [middle, records])))
    only = job.begun()
    options = job.trigger(only).options
    job.decline(only, job.job.attempt("rules"), CLOSING)
    finish(job, "rules")
    (trigger,) = job.take(fx.TriggerTasks)
    assert (trigger.checkpoint_id, trigger.attempts) == (only, (job.job.attempt("middle"),))
    assert trigger.options == options
    finished = complete(job, only, "records", "middle", "sink")
    assert finished == {"rules": True, "records": False, "middle": False, "sink": False}


@stopping
def test_a_stop_takes_two_tasks_that_end_one_after_the_other_as_finished(properties):
    source = vertex("rules", 1)
    records = vertex("records", 1)
    middle = vertex("middle", 1, [source])
    job = asked(properties, FakeJob(source, records, middle, vertex("sink", 1, [middle, records])))
    only = job.begun()
    job.trigger(only)
    job.decline(only, job.job.attempt("rules"), CLOSING)
    finish(job, "rules")
    job.take(fx.TriggerTasks)
    job.decline(only, job.job.attempt("middle"), CLOSING)
    finish(job, "middle")
    assert job.take(fx.TriggerTasks) == []
    finished = complete(job, only, "records", "sink")
    assert finished == {"rules": True, "records": False, "middle": True, "sink": False}


@stopping
def test_a_task_that_ended_behind_one_that_missed_the_stop_missed_it_too(properties):
    source = vertex("rules", 1)
    records = vertex("records", 1)
    middle = vertex("middle", 1, [source])
    job = asked(properties, FakeJob(source, records, middle, vertex("sink", 1, [middle, records])))
    only = job.begun()
    job.trigger(only)
    finish(job, "rules")
    finish(job, "middle")
    job.decline(only, job.job.attempt("rules"), CLOSING)
    assert job.take(fx.TriggerTasks) == []
    assert complete(job, only, "records", "sink")["middle"] is True


@stopping
def test_a_stop_waits_for_the_acknowledgement_of_a_task_that_ended_behind_a_participant(properties):
    job = asked(properties, source_and_sink())
    only = job.begun()
    job.trigger(only)
    job.ack(only, job.job.attempt("source"))
    finish(job, "source")
    sink = finish(job, "sink")
    assert job.take(fx.FinalizeCheckpoint) == []
    job.ack(only, sink)
    assert len(job.take(fx.FinalizeCheckpoint)) == 1


@stopping
def test_a_stop_does_not_continue_before_the_triggers_are_answered(properties):
    """The coordinators' events are held back until then."""
    source = vertex("rules", 1)
    records = vertex("records", 1)
    middle = vertex("middle", 1, [source])
    job = asked(properties, FakeJob(source, records, middle, vertex("sink", 1, [middle, records])))
    only = job.begun()
    job.send(call.location_made(only, location(only)))
    job.send(call.coordinators_snapshotted(only, {}))
    job.take(fx.TriggerTasks)
    job.decline(only, job.job.attempt("rules"), CLOSING)
    finish(job, "rules")
    assert job.take(fx.TriggerTasks) == []
    job.send(call.triggers_answered(only))
    assert len(job.take(fx.TriggerTasks)) == 1


@stopping
def test_a_stop_whose_tasks_all_end_by_themselves_does_not_fail_the_job(properties):
    job = asked(properties, source_and_sink())
    only = job.begun()
    job.trigger(only)
    job.decline(only, job.job.attempt("source"), CLOSING)
    finish(job, "source")
    finish(job, "sink")
    job.send(call.job_ended(is_finished=True))
    assert job.answers() == {"t": "CHECKPOINT_COORDINATOR_SUSPEND"}
    assert job.take(fx.FailJob) == []
    assert job.take(fx.FinalizeCheckpoint) == []


@stopping
def test_a_stop_without_participants_is_not_written(properties):
    """Every task had ended before the coordinator heard of any."""
    job = asked(properties, source_and_sink())
    only = job.begun()
    job.trigger(only)
    job.decline(only, job.job.attempt("source"), CLOSING)
    for name in ("source", "sink"):
        job.job.set(name, E.FINISHED)
    job.send(call.task_finished(job.job.attempt("source")))
    assert job.take(fx.FinalizeCheckpoint) == []
    job.send(call.task_finished(job.job.attempt("sink")))
    assert job.take(fx.FinalizeCheckpoint) == []


@stopping
def test_a_stop_is_answered_with_the_failure_of_its_task(properties):
    job = asked(properties)
    only = job.begun()
    job.trigger(only)
    job.decline(only, job.job.attempt("rules"), CLOSING)
    job.job.set("rules", E.FAILED)
    job.send(FAILOVER)
    assert job.answers() == {"t": "JOB_FAILOVER_REGION"}
    assert len(job.take(fx.FailJob)) == 1


@stopping
def test_a_stop_waits_for_the_end_of_a_task_whose_operators_close_slowly(properties):
    job = asked(properties)
    only = job.begun()
    job.trigger(only)
    job.decline(only, job.job.attempt("rules"), CLOSING)
    job.advance(10 * FINISHED_ACK_GRACE_MS)
    assert job.take(fx.AbortCheckpoint) == []
    finish(job, "rules")
    assert complete(job, only, "records", "sink")["rules"] is True


@stopping
@pytest.mark.parametrize(
    ("declined_with", "waits_ms", "answer"),
    [
        (CLOSING, CheckpointCoordinatorOptions().timeout_ms, "CHECKPOINT_EXPIRED"),
        (Reason.CHECKPOINT_DECLINED_TASK_NOT_READY, FINISHED_ACK_GRACE_MS, "CHECKPOINT_DECLINED_TASK_CLOSING"),
    ],
)
def test_the_wait_of_a_stop_for_the_end_of_a_task_is_bounded(properties, declined_with, waits_ms, answer):
    job = asked(properties)
    only = job.begun()
    job.trigger(only)
    job.decline(only, job.job.attempt("rules"), declined_with)
    job.advance(waits_ms - 1)
    assert job.answers() == {}
    job.advance(1)
    assert job.answers() == {"t": answer}
    assert len(job.take(fx.FailJob)) == 1, "tasks may stand at their barriers"


def test_late_state_of_a_task_that_was_left_out_is_deleted():
    job = asked(STOP)
    only = job.begun()
    job.trigger(only)
    attempt = finish(job, "rules")
    job.decline(only, attempt, CLOSING)
    job.effects.clear()
    job.ack(only, attempt, state_of(attempt))
    assert len(job.take(fx.DiscardState)) == 1


# While the job starts


@everything
def test_a_request_made_while_tasks_start_begins_when_all_run(properties):
    job = Coordination(two_sources(), interval_ms=0, running=False)
    for name in ("rules", "records", "sink"):
        job.job.set(name, E.INITIALIZING)
    job.request(properties)
    assert job.coordinator.pending_ids == []
    assert job.answers() == {}
    finish(job, "rules")
    for name in ("records", "sink"):
        job.job.set(name, E.RUNNING)
    job.send(call.all_tasks_running())
    assert len(job.take(fx.MakeLocation)) == 1
    assert job.answers() == {}


@everything
def test_the_wait_for_the_start_is_bounded_and_the_answer_names_tasks_that_have_not_started(properties):
    job = Coordination(two_sources(), interval_ms=0, running=False)
    job.job.set("sink", E.INITIALIZING)
    job.request(properties)
    job.advance(MAX_START_WAIT_MS - 1)
    assert job.answers() == {}
    job.advance(1)
    (answer,) = job.take(fx.AnswerRequest)
    assert answer.error.details["failure_reason"] == "NOT_ALL_REQUIRED_TASKS_RUNNING"
    assert "sink (1/1) is INITIALIZING" in str(answer.error)
    assert not job.coordinator.is_stopping
    assert job.take(fx.FailJob) == []


@pytest.mark.parametrize("state", [state for state in E if state is not E.FINISHED])
@everything
def test_a_request_made_while_the_job_starts_or_restarts_begins_when_all_tasks_run(properties, state):
    job = Coordination(two_sources(), interval_ms=0)
    job.send(FAILOVER)
    job.job.set("rules", E.FAILED)
    job.job.set("sink", state)
    job.request(properties)
    assert job.answers() == {}
    job.advance(MAX_START_WAIT_MS - 1)
    job.job.restart()
    job.send(call.all_tasks_running())
    job.trigger(job.begun())
    assert job.answers() == {}


@everything
def test_the_answer_after_a_long_restart_names_a_task_that_does_not_run(properties):
    job = Coordination(two_sources(), interval_ms=0)
    job.send(FAILOVER)
    job.job.set("sink", E.SCHEDULED)
    job.request(properties)
    job.advance(MAX_START_WAIT_MS)
    (answer,) = job.take(fx.AnswerRequest)
    assert "sink (1/1) is SCHEDULED" in str(answer.error)
    assert not job.coordinator.is_stopping


@everything
def test_a_request_that_waits_for_a_restart_is_answered_when_the_job_ends(properties):
    job = Coordination(two_sources(), interval_ms=0)
    job.send(FAILOVER)
    job.job.set("sink", E.CANCELING)
    job.request(properties)
    job.send(call.job_ended(is_finished=False))
    (answer,) = job.take(fx.AnswerRequest)
    assert answer.error is not None
    assert job.coordinator.next_deadline_ms is None


@everything
def test_requests_for_a_job_with_blocking_results_are_refused_even_while_it_starts(properties):
    source = vertex("source", 1, blocking=True)
    job = Coordination(FakeJob(source, vertex("sink", 1, [source]), state=E.SCHEDULED), interval_ms=0, running=False)
    job.request(properties)
    assert job.answers() == {"t": "BLOCKING_OUTPUT_EXIST"}


@stopping
def test_periodic_checkpoints_resume_after_a_stop_that_timed_out(properties):
    job = Coordination(two_sources(), interval_ms=100, running=False)
    job.job.set("sink", E.INITIALIZING)
    job.request(properties)
    job.advance(MAX_START_WAIT_MS)
    job.job.set("sink", E.RUNNING)
    job.send(call.all_tasks_running())
    assert job.begin() == 1


# The bounds


def test_a_request_has_a_limited_number_of_attempts_and_is_answered_with_the_last_reason():
    job = asked(SAVEPOINT)
    for number in range(MAX_TRIES):
        assert job.answers() == {}
        checkpoint_id = job.begun()
        job.trigger(checkpoint_id)
        job.decline(checkpoint_id, job.job.attempt("rules"), ON_ITS_WAY[number % 2])
        job.advance(1_000)
    (answer,) = job.take(fx.AnswerRequest)
    assert answer.error.details["failure_reason"] == ON_ITS_WAY[(MAX_TRIES - 1) % 2].name
    assert str(job.job.attempt("rules")) in str(answer.error)
    assert job.take(fx.MakeLocation) == []
    assert job.coordinator.next_deadline_ms is None


def test_the_pause_between_attempts_doubles_up_to_a_maximum():
    job = asked(SAVEPOINT)
    pauses_ms = []
    for _ in range(7):
        checkpoint_id = job.begun()
        job.trigger(checkpoint_id)
        job.decline(checkpoint_id, job.job.attempt("rules"), CLOSING)
        pauses_ms.append(job.coordinator.next_deadline_ms - job.now_ms)
        job.advance(pauses_ms[-1])
    assert pauses_ms == [50, 100, 200, 400, 800, 1_000, 1_000]


def test_all_attempts_together_take_no_longer_than_the_timeout():
    job = asked(SAVEPOINT, timeout_ms=1_000)
    first = job.begun()
    job.trigger(first)
    job.advance(900)
    job.decline(first, job.job.attempt("rules"), CLOSING)
    job.advance(FIRST_DELAY_MS)
    job.trigger(job.begun())
    job.advance(49)
    assert job.answers() == {}
    job.advance(1)
    assert job.answers() == {"t": "CHECKPOINT_EXPIRED"}


@pytest.mark.parametrize("left_ms", [1, FIRST_DELAY_MS])
def test_a_request_without_time_for_another_attempt_is_answered_with_the_last_reason(left_ms):
    job = asked(SAVEPOINT, timeout_ms=1_000)
    first = job.begun()
    job.trigger(first)
    job.advance(1_000 - left_ms)
    job.decline(first, job.job.attempt("rules"), CLOSING)
    assert job.answers() == {"t": "CHECKPOINT_DECLINED_TASK_CLOSING"}


@everything
def test_failures_for_other_reasons_are_answered_at_once(properties):
    job = asked(properties, tolerable_failures=10)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("sink"), Reason.CHECKPOINT_ASYNC_EXCEPTION)
    assert job.answers() == {"t": "CHECKPOINT_ASYNC_EXCEPTION"}


@staying
def test_a_failover_answers_waiting_requests(properties):
    job = asked(properties)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("rules"), CLOSING)
    job.send(FAILOVER)
    assert job.answers() == {"t": "JOB_FAILOVER_REGION"}
    assert job.coordinator.next_deadline_ms is None


@staying
def test_the_end_of_the_job_answers_waiting_requests(properties):
    job = asked(properties)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("rules"), CLOSING)
    job.send(call.job_ended(is_finished=True))
    assert job.answers() == {"t": "CHECKPOINT_COORDINATOR_SHUTDOWN"}


def test_a_stop_answers_waiting_requests():
    job = asked(SAVEPOINT)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("rules"), CLOSING)
    job.request(STOP, trigger_id="stop")
    assert job.answers() == {"t": "CHECKPOINT_COORDINATOR_SUSPEND"}


@staying
def test_requests_for_a_job_whose_tasks_have_all_finished_are_refused_at_once(properties):
    job = asked(properties, source_and_sink())
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("source"), CLOSING)
    job.job.set("sink", E.FINISHED)
    finish(job, "source")
    assert job.answers() == {"t": "NOT_ALL_REQUIRED_TASKS_RUNNING"}


@pytest.mark.parametrize("after_tasks_finish", [True, False])
def test_without_checkpoints_after_tasks_finish_there_is_no_other_plan(after_tasks_finish):
    job = asked(SAVEPOINT, after_tasks_finish=after_tasks_finish)
    first = job.begun()
    job.trigger(first)
    job.decline(first, job.job.attempt("rules"), CLOSING)
    finish(job, "rules")
    assert job.answers() == ({} if after_tasks_finish else {"t": "NOT_ALL_REQUIRED_TASKS_RUNNING"})


@pytest.mark.parametrize("reason", ON_ITS_WAY)
def test_a_periodic_checkpoint_is_not_retried_and_does_not_count_as_failed(reason):
    job = Coordination(two_sources(), interval_ms=100, tolerable_failures=0)
    job.decline(job.start(), job.job.attempt("rules"), reason)
    assert job.last_failure() == reason.name
    assert job.take(fx.FailJob) == []
    assert job.take(fx.MakeLocation) == []
