"""Scheduling, deployment, and the life cycle of a job without failures."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, default_slots, job_graph, running, source_and_sink, two_regions, vertex

from flinkpy.common.errors import (
    FunctionError,
    NoResourceAvailableError,
    NotRegisteredError,
    RpcTimeoutError,
    SlotAllocationError,
    TaskSubmissionError,
)
from flinkpy.common.ids import AllocationID, ExecutionAttemptID, ResourceID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions

BOOM = FunctionError("boom")


def deployed_names(effect):
    return [f"{task.vertex_id}{task.subtask_index}" for task in effect.tasks]


def test_a_job_starts_through_created_to_running_and_declares_its_slots():
    cluster = Cluster(source_and_sink(2))
    cluster.start()
    assert cluster.statuses() == ["CREATED", "RUNNING"]
    assert cluster.take(fx.DeclareRequirements) == [fx.DeclareRequirements(default_slots(2))]
    assert cluster.take(fx.StartCoordinators)
    assert set(cluster.states().values()) == {"SCHEDULED"}


def test_vertices_of_one_slot_sharing_group_share_slots():
    cluster = Cluster(job_graph(vertex("a", 3, results=["d"]), vertex("b", 1, inputs=["d"])))
    cluster.start()
    assert cluster.take(fx.DeclareRequirements) == [fx.DeclareRequirements(default_slots(3))]


def test_slot_sharing_groups_do_not_share_slots():
    cluster = Cluster(job_graph(vertex("a", 2, results=["d"]), vertex("b", 2, inputs=["d"], group="other")))
    cluster.start()
    assert cluster.take(fx.DeclareRequirements) == [fx.DeclareRequirements(default_slots(4))]


def test_forward_neighbours_are_deployed_into_one_slot():
    cluster = Cluster(two_regions())
    cluster.start()
    cluster.add_task_manager("tm1", 2)
    for subtask in (0, 1):
        assert cluster.execution("source", subtask).slot == cluster.execution("sink", subtask).slot


def test_a_region_is_deployed_only_when_all_its_slots_are_there():
    cluster = Cluster(source_and_sink(2))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    assert cluster.submitted() == []
    cluster.add_task_manager("tm2", 1)
    assert {effect.location.resource_id.value for effect in cluster.submitted()} == {"tm1", "tm2"}


def test_independent_regions_are_deployed_one_by_one():
    cluster = Cluster(two_regions())
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    (effect,) = cluster.submitted()
    assert deployed_names(effect) == ["source0", "sink0"]
    cluster.offer("tm1", 1)
    (effect,) = cluster.submitted()
    assert deployed_names(effect) == ["source1", "sink1"]


def test_tasks_for_one_task_executor_are_deployed_in_one_call():
    cluster = Cluster(source_and_sink(2))
    cluster.start()
    cluster.add_task_manager("tm1", 2)
    (effect,) = cluster.submitted()
    assert [vertex_id.value for vertex_id in effect.vertices] == ["source", "sink"]
    assert deployed_names(effect) == ["source0", "source1", "sink0", "sink1"]


def test_a_deployment_contains_the_locations_of_all_producers():
    cluster = Cluster(source_and_sink(2))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    cluster.add_task_manager("tm2", 1)
    tasks = {f"{t.vertex_id}{t.subtask_index}": t for effect in cluster.submitted() for t in effect.tasks}
    (gate,) = tasks["sink1"].input_gates
    assert gate.subpartition_index == 1
    assert [(p.partition_index, p.resource_id, p.data_address) for p in gate.partitions] == [
        (0, "tm1", "tm1:2"),
        (1, "tm2", "tm2:2"),
    ]
    (produced,) = tasks["source0"].produced_partitions
    assert produced.num_subpartitions == 2
    assert produced.result_partition_id == gate.partitions[0].result_partition_id == "data#0@g_source_0_0"
    assert tasks["source0"].allocation_id == "tm1-a1"


def test_a_job_finishes_with_its_last_task_and_returns_its_slots():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("source"), E.FINISHED)
    assert cluster.state is JobState.RUNNING
    effects = cluster.update(cluster.attempt("sink"), E.FINISHED)
    assert cluster.state is JobState.FINISHED
    assert [type(effect).__name__ for effect in effects] == [
        "TaskStateChanged",
        "JobStatusChanged",
        "FreeSlot",
        "DeclareRequirements",
        "JobTerminated",
    ]
    assert effects[-1] == fx.JobTerminated(JobState.FINISHED, None)


def test_a_slot_is_kept_while_one_of_its_tasks_runs():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("source"), E.FINISHED)
    cluster.advance(10_000_000)
    assert cluster.take(fx.FreeSlot) == []


def test_a_subtask_with_a_coordinator_is_announced_once_it_can_be_reached():
    cluster = Cluster(source_and_sink(1, coordinator=b"x"))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    cluster.acknowledge_submissions()
    source = cluster.attempt("source")
    assert cluster.scheduler.reachable_execution(source.vertex) is None
    cluster.update(source, E.INITIALIZING)
    cluster.update(source, E.RUNNING)
    assert cluster.take(fx.SubtaskReady) == [fx.SubtaskReady(source.vertex)]
    assert cluster.scheduler.reachable_execution(source.vertex).attempt_id == source


def test_an_operator_event_before_the_state_update_makes_the_task_reachable():
    cluster = Cluster(source_and_sink(1, coordinator=b"x"))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    cluster.acknowledge_submissions()
    source = cluster.attempt("source")
    cluster.send(ev.OperatorEventReceived(source))
    assert cluster.execution("source").state is E.INITIALIZING
    cluster.update(source, E.INITIALIZING)
    assert len(cluster.take(fx.SubtaskReady)) == 1


def test_blocking_results_are_consumed_when_they_are_finished():
    graph = job_graph(vertex("a", 2, results=["d"], blocking=True), vertex("b", 2, inputs=["d"]))
    cluster = Cluster(graph)
    cluster.start()
    assert cluster.states() == {"a0": "SCHEDULED", "a1": "SCHEDULED", "b0": "CREATED", "b1": "CREATED"}
    cluster.add_task_manager("tm1", 2)
    cluster.run_all()
    cluster.update(cluster.attempt("a", 0), E.FINISHED)
    assert cluster.states()["b0"] == "CREATED"
    cluster.update(cluster.attempt("a", 1), E.FINISHED)
    # the slots of the producers serve the consumers
    assert [deployed_names(effect) for effect in cluster.submitted()] == [["b0", "b1"]]


# Cancellation


def test_a_job_is_canceled_when_every_task_is():
    cluster = running(source_and_sink(2))
    cluster.send(ev.CancelJob())
    assert cluster.state is JobState.CANCELLING
    (effect,) = [effect for effect in cluster.effects if isinstance(effect, fx.CancelTasks)]
    assert len(effect.attempts) == 4
    cluster.obey_cancels()
    assert cluster.state is JobState.CANCELED
    assert cluster.take(fx.JobTerminated) == [fx.JobTerminated(JobState.CANCELED, None)]


@pytest.mark.parametrize("events", [[], [ev.JobMasterInitialized()]])
def test_a_job_is_canceled_before_it_was_scheduled(events):
    cluster = Cluster(source_and_sink())
    for event in events:
        cluster.send(event)
    cluster.send(ev.CancelJob())
    assert cluster.state is JobState.CANCELED
    # these events arrive too late
    cluster.send(ev.JobMasterInitialized())
    cluster.send(ev.StartScheduling())
    assert cluster.state is JobState.CANCELED


def test_a_job_that_waits_for_slots_is_canceled_at_once():
    cluster = Cluster(source_and_sink())
    cluster.start()
    cluster.send(ev.CancelJob())
    assert cluster.state is JobState.CANCELED
    assert cluster.take(fx.DeclareRequirements)[-1].requirements.total == 0


def test_a_second_cancellation_has_no_effect():
    cluster = running(source_and_sink(1))
    cluster.send(ev.CancelJob())
    cluster.effects.clear()
    assert cluster.send(ev.CancelJob()) == []


def test_a_cancel_waits_for_the_answer_of_the_submission():
    cluster = Cluster(source_and_sink(1))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    cluster.send(ev.CancelJob())
    assert cluster.take(fx.CancelTasks) == []
    cluster.acknowledge_submissions()
    (effect,) = cluster.take(fx.CancelTasks)
    assert len(effect.attempts) == 2


def test_a_canceled_task_that_starts_is_canceled_again():
    cluster = running(source_and_sink(1))
    cluster.send(ev.CancelJob())
    cluster.effects.clear()
    source = cluster.attempt("source")
    cluster.update(source, E.RUNNING)
    assert [effect.attempts for effect in cluster.take(fx.CancelTasks)] == [(source,)]


def test_tasks_that_finish_while_they_are_cancelled_do_not_finish_the_job():
    cluster = running(source_and_sink(1))
    cluster.send(ev.CancelJob())
    for name in ("source", "sink"):
        cluster.update(cluster.attempt(name), E.FINISHED)
    assert cluster.state is JobState.CANCELED


def test_a_suspended_job_releases_everything_at_once():
    cluster = running(source_and_sink(1))
    effects = cluster.send(ev.SuspendJob(TaskSubmissionError("the Dispatcher is lost")))
    assert cluster.state is JobState.SUSPENDED
    assert {type(effect).__name__ for effect in effects} >= {"CancelTasks", "FreeSlot", "JobTerminated"}
    assert set(cluster.states().values()) == {"CANCELED"}


# Late, repeated and stale messages


def test_the_same_state_twice_changes_nothing():
    cluster = running(source_and_sink(1))
    assert cluster.update(cluster.attempt("source"), E.RUNNING) == []
    cluster.update(cluster.attempt("source"), E.FINISHED)
    assert cluster.update(cluster.attempt("source"), E.FINISHED) == []


def test_states_that_arrive_in_the_wrong_order_do_not_go_back():
    cluster = running(source_and_sink(1))
    assert cluster.update(cluster.attempt("source"), E.INITIALIZING) == []
    assert cluster.execution("source").state is E.RUNNING
    cluster.update(cluster.attempt("source"), E.FINISHED)
    assert cluster.update(cluster.attempt("source"), E.RUNNING) == []


def test_an_update_of_an_unknown_attempt_is_ignored():
    cluster = running(source_and_sink(1))
    foreign = ExecutionAttemptID("of another leadership", cluster.attempt("source").vertex, 0)
    assert cluster.update(foreign, E.FAILED, BOOM) == []


def test_an_update_of_a_former_attempt_cancels_it_if_it_runs():
    cluster = running(source_and_sink(1), restart_strategy=FixedDelayRestartStrategy(1, 0))
    former = cluster.attempt("source")
    cluster.update(former, E.FAILED, BOOM)
    cluster.obey_cancels()
    assert cluster.attempt("source").attempt_number == 1
    cluster.effects.clear()
    assert cluster.update(former, E.FINISHED) == []
    assert [effect.attempts for effect in cluster.update(former, E.RUNNING)] == [(former,)]


def test_updates_after_the_end_of_the_job_change_nothing():
    cluster = running(source_and_sink(1))
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    cluster.effects.clear()
    for state in (E.FINISHED, E.FAILED, E.CANCELED):
        cluster.update(cluster.attempt("source"), state, BOOM)
    assert cluster.state is JobState.CANCELED
    assert cluster.effects == []


def test_late_answers_to_submissions_are_ignored():
    cluster = running(source_and_sink(1), restart_strategy=FixedDelayRestartStrategy(1, 0))
    former = cluster.attempt("source")
    cluster.update(former, E.FAILED, BOOM)
    cluster.obey_cancels()
    cluster.effects.clear()
    assert cluster.send(ev.TasksSubmitted((former,), ((former, TaskSubmissionError("late")),))) == []


def test_slots_of_an_unregistered_task_manager_are_an_error_and_change_nothing():
    cluster = Cluster(source_and_sink(1))
    cluster.start()
    with pytest.raises(NotRegisteredError):
        cluster.send(ev.SlotsOffered(ResourceID("nobody"), ((AllocationID("a"), 0),)))
    assert set(cluster.states().values()) == {"SCHEDULED"}


# Submissions that fail


def test_a_rejected_task_fails():
    cluster = Cluster(source_and_sink(1))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    (effect,) = cluster.submitted()
    rejection = (cluster.attempt("sink"), TaskSubmissionError("no such slot"))
    cluster.send(ev.TasksSubmitted(effect.attempts, (rejection,)))
    assert cluster.states()["sink0"] == "FAILED"
    cluster.obey_cancels()
    assert cluster.state is JobState.FAILED
    assert "no such slot" in str(cluster.failure)


def test_an_unanswered_submission_fails_and_cancels_its_tasks():
    cluster = Cluster(source_and_sink(1))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    (effect,) = cluster.submitted()
    lost = RpcTimeoutError("no answer")
    cluster.send(ev.TasksSubmitted(effect.attempts, tuple((attempt, lost) for attempt in effect.attempts)))
    assert cluster.state is JobState.FAILED
    assert {attempt for cancel in cluster.take(fx.CancelTasks) for attempt in cancel.attempts} == set(effect.attempts)


# Missing and lost slots


def options(request_timeout_ms=500, idle_timeout_ms=50):
    return SchedulerOptions(slot_pool=SlotPoolOptions(request_timeout_ms, idle_timeout_ms))


def test_a_job_without_slots_fails_after_the_timeout_and_says_how_many_were_missing():
    cluster = Cluster(source_and_sink(3), options=options())
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    cluster.advance(499)
    assert cluster.state is JobState.RUNNING
    cluster.advance(1)
    assert cluster.state is JobState.FAILED
    assert isinstance(cluster.failure, NoResourceAvailableError)
    assert "needs 3 slots, but only 1 were available within slot.request.timeout (500 ms)" in str(cluster.failure)
    assert "has its own packages" not in str(cluster.failure)


def test_the_slot_timeout_of_a_job_with_its_own_packages_names_the_reason():
    graph = source_and_sink(1)
    graph.artifacts.add(name="requirements.txt", kind="PYTHON_REQUIREMENTS", blob_key="ab")
    cluster = Cluster(graph, options=options())
    cluster.start()
    cluster.advance(500)
    assert "The job has its own packages or archives, so it gets no slots of TaskExecutors that run other jobs." in str(
        cluster.failure
    )


def test_a_slot_that_fails_fails_its_tasks():
    cluster = running(source_and_sink(1), slots=[("tm1", 1)])
    slot = cluster.execution("source").slot
    cluster.send(ev.SlotFailed(ResourceID("tm1"), slot.allocation_id, SlotAllocationError("slot timed out")))
    assert cluster.state is JobState.FAILED
    assert "slot timed out" in str(cluster.failure)


def test_an_unused_slot_is_returned_after_the_idle_timeout():
    graph = job_graph(vertex("a", 1), vertex("b", 1, group="other"))
    cluster = running(graph, options=options(), slots=[("tm1", 2)])
    cluster.update(cluster.attempt("a"), E.FINISHED)
    assert cluster.take(fx.DeclareRequirements) == [fx.DeclareRequirements(default_slots(1))]
    cluster.advance(49)
    assert cluster.take(fx.FreeSlot) == []
    cluster.advance(1)
    assert len(cluster.take(fx.FreeSlot)) == 1
    assert cluster.scheduler.next_deadline_ms is None


# Heartbeats


def test_a_task_that_its_task_executor_lost_fails_after_the_grace_period():
    cluster = running(source_and_sink(1))
    report = ev.DeploymentsReported(ResourceID("tm1"), frozenset({cluster.attempt("sink")}))
    cluster.send(report)
    cluster.now_ms += 9_999
    cluster.send(report)
    assert cluster.state is JobState.RUNNING
    cluster.now_ms += 1
    cluster.send(report)
    assert cluster.execution("source").state is E.FAILED
    assert "TaskExecutor tm1 does not run source (1/1) any more" in str(cluster.failure)


def test_a_task_that_is_seen_again_is_not_missing():
    cluster = running(source_and_sink(1))
    everything = frozenset({cluster.attempt("source"), cluster.attempt("sink")})
    for attempts in (frozenset(), everything, frozenset()):
        cluster.send(ev.DeploymentsReported(ResourceID("tm1"), attempts))
        cluster.now_ms += 9_000
    assert cluster.state is JobState.RUNNING


def test_a_task_whose_submission_is_not_answered_is_not_missed():
    cluster = Cluster(source_and_sink(1))
    cluster.start()
    cluster.add_task_manager("tm1", 1)
    for _ in range(3):
        cluster.send(ev.DeploymentsReported(ResourceID("tm1"), frozenset()))
        cluster.now_ms += 10_000
    assert set(cluster.states().values()) == {"DEPLOYING"}


def test_a_canceled_task_that_is_missing_counts_as_canceled():
    cluster = running(source_and_sink(1))
    cluster.send(ev.CancelJob())
    for _ in range(2):
        cluster.send(ev.DeploymentsReported(ResourceID("tm1"), frozenset()))
        cluster.now_ms += 10_000
    assert cluster.state is JobState.CANCELED


def test_unknown_tasks_are_canceled_at_their_task_executor():
    cluster = running(source_and_sink(1))
    stranger = ExecutionAttemptID("g", cluster.attempt("source").vertex, 7)
    known = {cluster.attempt("source"), cluster.attempt("sink")}
    (effect,) = cluster.send(ev.DeploymentsReported(ResourceID("tm1"), frozenset({stranger, *known})))
    assert effect.attempts == (stranger,)
    assert effect.location.resource_id == ResourceID("tm1")


def test_a_finished_task_that_is_still_there_is_left_alone():
    cluster = running(source_and_sink(1))
    source = cluster.attempt("source")
    cluster.update(source, E.FINISHED)
    report = ev.DeploymentsReported(ResourceID("tm1"), frozenset({source, cluster.attempt("sink")}))
    assert cluster.send(report) == []
