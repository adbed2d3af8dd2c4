"""A JobMaster continues the tasks of a lost one, or restores a checkpoint if one of them does not fit."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, job_graph, location, vertex

from flinkpy._proto import common_pb2, taskexecutor_pb2
from flinkpy.common.errors import FunctionError
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.task_reconciliation import LocatedReport

E = ExecutionState


def graph():
    return job_graph(vertex("source", 2, results=["a"], coordinator=b"c"), vertex("sink", 2, inputs=["a"]))


def reports_of_a_running_job() -> list[LocatedReport]:
    """Returns what two TaskExecutors with a slot each report about the job of a lost JobMaster."""
    former = Cluster(graph(), graph_id="g1")
    former.start()
    former.add_task_manager("tm1", 1)
    former.add_task_manager("tm2", 1)
    reports = {}
    for submission in former.submitted():
        name = str(submission.location.resource_id)
        report = taskexecutor_pb2.TaskReport(resource_id=name, data_address=f"{name}:2")
        for task in submission.tasks:
            report.tasks.add(
                execution_attempt_id=task.execution_attempt_id,
                allocation_id=task.allocation_id,
                state=common_pb2.EXECUTION_RUNNING,
                consumed_partition_ids=[p.result_partition_id for gate in task.input_gates for p in gate.partitions],
            )
        reports[name] = LocatedReport(f"{name}:1", report)
    return [reports["tm1"], reports["tm2"]]


def successor() -> Cluster:
    return Cluster(graph(), graph_id="g2", restart_strategy=FixedDelayRestartStrategy(10, 0))


def adopted() -> Cluster:
    cluster = successor()
    decision = cluster.scheduler.reconcile(reports_of_a_running_job())
    assert not decision.reason
    for name in ("tm1", "tm2"):
        cluster.register(name)
    cluster.send(ev.JobMasterInitialized())
    cluster.send(ev.TasksAdopted(decision.tasks))
    return cluster


def refusal(reports: list[LocatedReport]) -> str:
    decision = successor().scheduler.reconcile(reports)
    assert not decision.tasks
    return decision.reason


def test_tasks_that_fit_go_on_in_their_slots_without_being_deployed():
    cluster = adopted()
    assert cluster.state is JobState.RUNNING
    assert set(cluster.states().values()) == {"RUNNING"}
    assert cluster.submitted() == []
    assert cluster.take(fx.FreeSlot) == []
    assert [effect.requirements.total for effect in cluster.take(fx.DeclareRequirements)] == [2]
    assert {cluster.attempt("source").execution_graph_id, cluster.attempt("sink", 1).execution_graph_id} == {"g1"}
    assert {cluster.execution("sink", i).slot.location for i in range(2)} == {location("tm1"), location("tm2")}


def test_coordinators_learn_of_continued_subtasks_before_they_start():
    kinds = [type(effect) for effect in adopted().effects]
    assert (kinds.count(fx.AdoptSubtasks), kinds.count(fx.SubtaskReady)) == (1, 2)
    assert kinds.index(fx.AdoptSubtasks) < kinds.index(fx.StartCoordinators)
    assert kinds.index(fx.StartCoordinators) < kinds.index(fx.SubtaskReady)


def test_a_continued_task_that_fails_is_replaced_by_an_attempt_of_the_new_job_master():
    cluster = adopted()
    cluster.update(cluster.attempt("sink"), E.FAILED, FunctionError("boom"))
    cluster.obey_cancels()
    cluster.advance(10)
    attempts = [task.execution_attempt_id for effect in cluster.submitted() for task in effect.tasks]
    assert sorted(attempts) == ["g2_sink_0_1", "g2_sink_1_1", "g2_source_0_1", "g2_source_1_1"]


def test_a_continued_job_ends_when_its_tasks_have_finished():
    cluster = adopted()
    for attempt in cluster.attempts(E.RUNNING):
        cluster.update(attempt, E.FINISHED)
    assert cluster.state is JobState.FINISHED


def test_a_task_that_finished_before_is_not_run_again():
    reports = reports_of_a_running_job()
    for located in reports:
        for task in located.report.tasks:
            if "_source_0_" in task.execution_attempt_id:
                task.state = common_pb2.EXECUTION_FINISHED
    cluster = successor()
    decision = cluster.scheduler.reconcile(reports)
    for name in ("tm1", "tm2"):
        cluster.register(name)
    cluster.send(ev.JobMasterInitialized())
    cluster.send(ev.TasksAdopted(decision.tasks))
    assert cluster.states() == {"source0": "FINISHED", "source1": "RUNNING", "sink0": "RUNNING", "sink1": "RUNNING"}


def test_nothing_is_decided_before_all_tasks_are_reported():
    decision = successor().scheduler.reconcile(reports_of_a_running_job()[:1])
    assert decision.may_change
    assert "2 tasks do not run" in decision.reason


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (common_pb2.EXECUTION_FAILED, "is FAILED"),
        (common_pb2.EXECUTION_INITIALIZING, "is INITIALIZING"),
        (common_pb2.EXECUTION_CANCELING, "is CANCELING"),
    ],
)
def test_a_task_that_does_not_run_makes_the_job_restore(state, reason):
    reports = reports_of_a_running_job()
    reports[0].report.tasks[0].state = state
    assert reason in refusal(reports)


def test_a_task_with_an_obstacle_makes_the_job_restore():
    reports = reports_of_a_running_job()
    reports[1].report.tasks[0].obstacle = "it may wait for the end of a stop-with-savepoint"
    assert "stop-with-savepoint" in refusal(reports)


def test_a_task_that_knows_a_later_checkpoint_makes_the_job_restore():
    reports = reports_of_a_running_job()
    reports[0].report.tasks[0].events_since = 3
    assert "checkpoint 3" in refusal(reports)


def test_tasks_of_two_executions_of_the_job_make_it_restore():
    """A region was restarted, and its consumer at another TaskExecutor has not noticed yet."""
    reports = reports_of_a_running_job()
    (source,) = [one for one in reports[0].report.tasks if "_source_" in one.execution_attempt_id]
    source.execution_attempt_id = source.execution_attempt_id[:-1] + "1"
    assert "has been replaced" in refusal(reports)


def test_two_running_attempts_of_a_subtask_make_the_job_restore():
    reports = reports_of_a_running_job()
    second = reports[1].report.tasks.add()
    second.CopyFrom(reports[0].report.tasks[0])
    second.execution_attempt_id = second.execution_attempt_id[:-1] + "1"
    assert "run at the same time" in refusal(reports)


def test_tasks_in_a_slot_that_they_should_not_share_make_the_job_restore():
    reports = reports_of_a_running_job()
    moved = reports[1].report.tasks.pop()
    moved.allocation_id = reports[0].report.tasks[0].allocation_id
    reports[0].report.tasks.append(moved)
    assert "slot" in refusal(reports)


def test_events_since_the_restored_checkpoint_are_passed_on():
    reports = reports_of_a_running_job()
    for located in reports:
        for task in located.report.tasks:
            if "_source_0_" in task.execution_attempt_id:
                task.events.add(operator_id="source-op", payload_pickle=b"x", after_checkpoint_id=0)
    tasks = successor().scheduler.reconcile(reports).tasks
    events = {str(task.attempt_id.vertex): task.events for task in tasks if task.events}
    assert events == {"source_0": (("source-op", b"x"),)}
