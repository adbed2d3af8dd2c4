"""Failover: the tasks that restart, the time of the restart, and the errors that users see."""

from __future__ import annotations

from jobmaster_fakes import Cluster, E, job_graph, running, source_and_sink, two_regions, vertex

from flinkpy.common.errors import (
    CommitError,
    CommittablesLostError,
    FunctionError,
    InputNotFoundError,
    PartitionConnectionError,
    PartitionNotFoundError,
    TaskManagerLostError,
)
from flinkpy.common.ids import ExecutionVertexID, JobVertexID, ResourceID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import (
    ExponentialDelayOptions,
    ExponentialDelayRestartStrategy,
    FixedDelayRestartStrategy,
)
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import PARTITION_DETAIL, SchedulerOptions
from flinkpy.jobmaster.scheduler.deployment_reconciler import UNEXPLAINED_CANCEL_GRACE_MS

BOOM = FunctionError("map (1/2): ValueError: boom", remote_traceback="user traceback")


def restarting(graph, *, attempts=3, delay_ms=100, **arguments):
    return running(graph, restart_strategy=FixedDelayRestartStrategy(attempts, delay_ms), **arguments)


def attempt_numbers(cluster):
    return {
        f"{v.job_vertex.name}{v.subtask_index}": v.current.attempt_id.attempt_number
        for v in cluster.scheduler.graph.vertices
    }


def test_without_a_restart_strategy_the_job_fails_with_the_original_error():
    cluster = running(source_and_sink(2))
    cluster.update(cluster.attempt("source", 0), E.FAILED, BOOM)
    assert cluster.state is JobState.FAILING
    cluster.obey_cancels()
    assert cluster.state is JobState.FAILED
    assert cluster.failure is BOOM
    assert cluster.statuses() == ["FAILING", "FAILED"]
    assert cluster.take(fx.JobTerminated) == [fx.JobTerminated(JobState.FAILED, BOOM)]


def test_lost_records_of_a_sink_anywhere_in_the_causes_fail_the_job():
    cluster = restarting(source_and_sink(2), attempts=100)
    failure = CommitError("1 of 1 cannot be committed")
    failure.__cause__ = CommittablesLostError("the transaction was rolled back")
    cluster.update(cluster.attempt("sink", 0), E.FAILED, failure)
    assert cluster.state is JobState.FAILING
    cluster.obey_cancels()
    assert cluster.state is JobState.FAILED
    assert cluster.failure is failure


def test_a_failure_whose_cause_was_raised_from_itself_restarts_the_job():
    cluster = restarting(source_and_sink(2))
    failure = CommitError("the broker does not answer")
    failure.__cause__ = cause = ValueError("raised from itself")
    cause.__cause__ = cause
    cluster.update(cluster.attempt("sink", 0), E.FAILED, failure)
    assert cluster.state is JobState.RESTARTING


def test_a_commit_that_failed_and_may_succeed_later_restarts_the_job():
    cluster = restarting(source_and_sink(2))
    cluster.update(cluster.attempt("sink", 0), E.FAILED, CommitError("the broker does not answer"))
    assert cluster.state is JobState.RESTARTING


def test_a_restart_waits_for_the_delay_and_for_every_task_to_be_terminal():
    cluster = restarting(source_and_sink(2))
    cluster.update(cluster.attempt("source", 0), E.FAILED, BOOM)
    assert cluster.state is JobState.RESTARTING
    cluster.advance(1_000)
    assert cluster.state is JobState.RESTARTING  # the delay is over, but three tasks still run
    assert cluster.scheduler.next_deadline_ms is None
    cluster.obey_cancels()
    assert cluster.state is JobState.RUNNING
    assert set(attempt_numbers(cluster).values()) == {1}


def test_a_restart_does_not_come_before_its_delay():
    cluster = restarting(source_and_sink(2), delay_ms=100)
    cluster.update(cluster.attempt("source", 0), E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.advance(99)
    assert cluster.state is JobState.RESTARTING
    cluster.advance(1)
    assert cluster.state is JobState.RUNNING


def test_restarted_tasks_come_back_to_the_slots_they_had():
    cluster = restarting(source_and_sink(3), slots=[("tm1", 1), ("tm2", 2)])
    before = [cluster.execution("source", i).slot for i in range(3)]
    cluster.update(cluster.attempt("sink", 1), E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.advance(100)
    assert [cluster.execution("source", i).slot for i in range(3)] == before
    assert len(cluster.submitted()) == 2


def test_only_the_region_of_the_failed_task_restarts():
    cluster = restarting(two_regions())
    untouched = cluster.attempt("sink", 1)
    cluster.update(cluster.attempt("sink", 0), E.FAILED, BOOM)
    (cancel,) = cluster.take(fx.CancelTasks)
    assert cancel.attempts == (cluster.attempt("source", 0),)
    cluster.update(cluster.attempt("source", 0), E.CANCELED)
    cluster.advance(100)
    assert attempt_numbers(cluster) == {"source0": 1, "source1": 0, "sink0": 1, "sink1": 0}
    assert cluster.execution("sink", 1).attempt_id == untouched
    # the source has a coordinator, which is notified that only this subtask restarts
    assert cluster.take(fx.SubtaskReset) == [fx.SubtaskReset(ExecutionVertexID(JobVertexID("source"), 0))]
    assert cluster.take(fx.ResetCoordinators) == []


def test_full_failover_restarts_all_tasks_and_resets_coordinators_to_the_beginning():
    cluster = restarting(two_regions(), options=SchedulerOptions(failover_strategy="full"))
    cluster.update(cluster.attempt("sink", 0), E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.advance(100)
    assert set(attempt_numbers(cluster).values()) == {1}
    assert cluster.take(fx.ResetCoordinators) == [fx.ResetCoordinators(JobVertexID("source"))]
    assert cluster.take(fx.SubtaskReset) == []


def test_coordinators_are_reset_before_the_new_attempts_are_deployed():
    cluster = restarting(source_and_sink(1, coordinator=b"x"))
    cluster.update(cluster.attempt("sink"), E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.effects.clear()
    cluster.advance(100)
    kinds = [type(effect) for effect in cluster.effects]
    assert kinds.index(fx.ResetCoordinators) < kinds.index(fx.SubmitTasks)


def test_a_failure_of_another_region_restarts_it_on_its_own():
    cluster = restarting(two_regions())
    cluster.update(cluster.attempt("sink", 0), E.FAILED, BOOM)
    cluster.advance(50)
    cluster.update(cluster.attempt("sink", 1), E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.advance(50)
    assert attempt_numbers(cluster) == {"source0": 1, "source1": 0, "sink0": 1, "sink1": 0}
    assert cluster.state is JobState.RESTARTING
    cluster.advance(50)
    assert set(attempt_numbers(cluster).values()) == {1}
    assert cluster.state is JobState.RUNNING


def test_a_global_failure_takes_over_restarts_that_wait():
    cluster = restarting(two_regions())
    cluster.update(cluster.attempt("sink", 0), E.FAILED, BOOM)
    cluster.advance(60)
    cluster.send(ev.GlobalFailure(FunctionError("enumerator")))
    cluster.obey_cancels()
    cluster.advance(99)
    assert set(attempt_numbers(cluster).values()) == {0}
    cluster.advance(1)
    assert set(attempt_numbers(cluster).values()) == {1}
    assert cluster.scheduler.num_restarts == 2


def test_consumers_of_a_blocking_result_restart_with_its_producer_but_not_the_other_way_round():
    graph = job_graph(vertex("a", 1, results=["d"], blocking=True), vertex("b", 1, inputs=["d"]))
    cluster = restarting(graph)
    cluster.update(cluster.attempt("a"), E.FINISHED)
    cluster.run_all()
    cluster.update(cluster.attempt("b"), E.FAILED, BOOM)
    cluster.advance(100)
    assert attempt_numbers(cluster) == {"a0": 0, "b0": 1}


def test_a_consumer_that_cannot_read_its_input_restarts_the_producer_too():
    graph = job_graph(vertex("a", 1, results=["d"], blocking=True), vertex("b", 1, inputs=["d"]))
    cluster = restarting(graph)
    cluster.update(cluster.attempt("a"), E.FINISHED)
    cluster.run_all()
    lost = PartitionNotFoundError("gone", details={PARTITION_DETAIL: f"d#0@{cluster.attempt('a')}"})
    cluster.update(cluster.attempt("b"), E.FAILED, lost)
    cluster.effects.clear()
    cluster.advance(100)
    assert attempt_numbers(cluster) == {"a0": 1, "b0": 1}
    assert cluster.states() == {"a0": "DEPLOYING", "b0": "CREATED"}
    (release,) = cluster.take(fx.ReleasePartitions)
    assert release.partition_ids == ("d#0@g_a_0_0",)


def test_the_job_fails_when_the_restart_strategy_gives_up():
    cluster = restarting(source_and_sink(1), attempts=1)
    for _ in range(2):
        cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
        cluster.obey_cancels()
        cluster.advance(100)
        cluster.run_all()
    assert cluster.state is JobState.FAILED
    assert cluster.failure is BOOM
    assert cluster.scheduler.num_restarts == 1


def test_an_error_that_would_happen_again_is_not_retried():
    cluster = restarting(source_and_sink(1))
    cluster.update(cluster.attempt("source"), E.FAILED, InputNotFoundError("no such file"))
    cluster.obey_cancels()
    assert cluster.state is JobState.FAILED


def test_failures_while_a_restart_is_due_count_as_one_with_exponential_delay():
    strategy = ExponentialDelayRestartStrategy(
        ExponentialDelayOptions(jitter_factor=0.0), Cluster(source_and_sink()).random
    )
    cluster = running(two_regions(), restart_strategy=strategy)
    cluster.update(cluster.attempt("sink", 0), E.FAILED, BOOM)
    cluster.update(cluster.attempt("sink", 1), E.FAILED, BOOM)
    cluster.obey_cancels()
    assert cluster.scheduler.num_restarts == 1
    cluster.advance(1_000)
    assert set(attempt_numbers(cluster).values()) == {1}


# A lost TaskExecutor


def test_the_error_of_a_lost_task_manager_names_it():
    cluster = running(source_and_sink(2), slots=[("tm1", 1), ("tm2", 1)])
    cluster.lose("tm2")
    cluster.obey_cancels()
    assert cluster.state is JobState.FAILED
    assert isinstance(cluster.failure, TaskManagerLostError)
    assert cluster.scheduler.exception_history.entries[0].location.resource_id == ResourceID("tm2")


def test_a_lost_task_manager_counts_as_one_failure_of_a_region():
    cluster = restarting(source_and_sink(4), attempts=1, slots=[("tm1", 2), ("tm2", 2)])
    cluster.lose("tm2")
    cluster.obey_cancels()
    cluster.advance(100)
    assert cluster.state is JobState.RUNNING
    assert cluster.scheduler.num_restarts == 1
    # the two slots of tm1 are reused, and two more are required
    assert cluster.take(fx.DeclareRequirements)[-1].requirements.total == 4
    cluster.add_task_manager("tm3", 2)
    cluster.run_all()
    assert set(cluster.states().values()) == {"RUNNING"}


def test_nothing_is_sent_to_a_task_manager_that_is_lost():
    cluster = running(source_and_sink(2), slots=[("tm1", 2)])
    cluster.lose("tm1")
    assert cluster.take(fx.CancelTasks) == []
    assert cluster.state is JobState.FAILED


def test_a_task_manager_lost_during_a_cancellation_ends_it():
    cluster = running(source_and_sink(2), slots=[("tm1", 1), ("tm2", 1)])
    cluster.send(ev.CancelJob())
    cluster.lose("tm1")
    assert cluster.state is JobState.CANCELLING
    cluster.lose("tm2")
    assert cluster.state is JobState.CANCELED


def test_a_task_manager_lost_between_offer_and_deployment_starts_the_wait_again():
    cluster = Cluster(source_and_sink(2), restart_strategy=FixedDelayRestartStrategy(5, 0))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    cluster.lose("tm1")
    assert cluster.state is JobState.RUNNING
    assert set(cluster.states().values()) == {"SCHEDULED"}
    cluster.add_task_manager("tm2", 2)
    cluster.run_all()
    assert set(cluster.states().values()) == {"RUNNING"}


# The failure that users see


def test_the_users_error_wins_over_the_broken_connection_it_caused():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("sink"), E.FAILED, PartitionConnectionError("reset by peer"))
    assert cluster.state is JobState.FAILING
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    assert cluster.state is JobState.FAILED
    assert cluster.failure is BOOM


def test_the_lost_process_wins_over_the_broken_connection_it_caused():
    cluster = running(source_and_sink(2), slots=[("tm1", 1), ("tm2", 1)])
    cluster.update(cluster.attempt("sink", 0), E.FAILED, PartitionConnectionError("reset by peer"))
    cluster.lose("tm2")
    cluster.obey_cancels()
    assert isinstance(cluster.failure, TaskManagerLostError)


def test_the_first_error_is_kept_if_later_ones_are_not_closer_to_the_root():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    cluster.update(cluster.attempt("sink"), E.FAILED, FunctionError("close() failed"))
    assert cluster.failure is BOOM


def test_a_task_that_cancelled_itself_is_explained_by_the_failure_that_follows():
    cluster = restarting(source_and_sink(1))
    cluster.update(cluster.attempt("sink"), E.CANCELED)
    assert cluster.state is JobState.RUNNING
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    cluster.advance(100)
    assert set(attempt_numbers(cluster).values()) == {1}
    cluster.run_all()
    cluster.advance(UNEXPLAINED_CANCEL_GRACE_MS)
    assert cluster.state is JobState.RUNNING
    assert cluster.scheduler.num_restarts == 1


def test_a_task_that_canceled_itself_without_a_reported_failure_fails():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("sink"), E.CANCELED)
    cluster.advance(UNEXPLAINED_CANCEL_GRACE_MS - 1)
    assert cluster.state is JobState.RUNNING
    cluster.advance(1)
    assert cluster.state is JobState.FAILING
    assert "without a reason" in str(cluster.failure)


def test_the_exception_history_is_bounded_and_newest_first():
    cluster = restarting(source_and_sink(1), attempts=100, options=SchedulerOptions(exception_history_size=2))
    for number in range(4):
        cluster.update(cluster.attempt("source"), E.FAILED, FunctionError(f"failure {number}"))
        cluster.obey_cancels()
        cluster.advance(100)
        cluster.run_all()
    entries = cluster.scheduler.exception_history.entries
    assert [str(entry.error) for entry in entries] == ["failure 3", "failure 2"]
    assert entries[0].task_name == "source (1/1)"
    assert entries[0].location.resource_id == ResourceID("tm1")
    assert cluster.scheduler.exception_history.is_truncated


# Coordinators


def test_a_coordinator_that_cannot_be_created_fails_the_job_before_it_is_scheduled():
    cluster = Cluster(source_and_sink(1))
    cluster.send(ev.InitializationFailed(BOOM))
    assert cluster.statuses() == ["FAILED"]
    assert cluster.failure is BOOM
    assert cluster.take(fx.JobTerminated) == [fx.JobTerminated(JobState.FAILED, BOOM)]


def test_a_lost_operator_event_fails_its_task():
    cluster = restarting(source_and_sink(1))
    source = cluster.attempt("source")
    cluster.send(ev.OperatorEventsLost((source,), TaskManagerLostError("no answer")))
    assert cluster.execution("source").state is E.FAILED
    assert source in cluster.take(fx.CancelTasks)[0].attempts
    # a repeated update, or one of a former attempt, has no effect
    assert cluster.send(ev.OperatorEventsLost((source,), TaskManagerLostError("no answer"))) == []


def test_cancelling_a_job_that_waits_for_its_restart_cancels_it_at_once():
    cluster = restarting(source_and_sink(1))
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.send(ev.CancelJob())
    assert cluster.state is JobState.CANCELED
    assert cluster.failure is None
    assert cluster.scheduler.next_deadline_ms is None


def test_cancelling_a_failing_job_ends_as_canceled():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    assert cluster.state is JobState.CANCELED
