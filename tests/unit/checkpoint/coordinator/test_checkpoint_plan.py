"""The plan of a checkpoint: the tasks that take part and their roles."""

from __future__ import annotations

import pytest
from coordinator_fakes import FakeJob, source_and_sink, vertex

from flinkpy.checkpoint.coordinator.checkpoint_plan import calculate_plan, may_have_plan_later
from flinkpy.common.errors import CheckpointError
from flinkpy.common.states import ExecutionState as E


def names(attempts):
    return sorted(f"{a.vertex.job_vertex_id}{a.vertex.subtask_index}" for a in attempts)


def plan(job, after_tasks_finish=True):
    return calculate_plan(job, after_tasks_finish=after_tasks_finish)


def reason(job, **arguments):
    with pytest.raises(CheckpointError) as raised:
        plan(job, **arguments)
    return raised.value.details["failure_reason"]


def test_sources_are_triggered_and_all_tasks_are_waited_for():
    found = plan(source_and_sink(2))
    assert names(found.tasks_to_trigger) == ["source0", "source1"]
    assert names(found.tasks_to_wait_for) == ["sink0", "sink1", "source0", "source1"]
    assert found.tasks_to_commit_to == found.tasks_to_wait_for
    assert not found.finished_tasks


@pytest.mark.parametrize("state", [E.CREATED, E.SCHEDULED, E.DEPLOYING, E.INITIALIZING, E.CANCELING, E.FAILED])
def test_a_task_that_does_not_run_prevents_the_checkpoint(state):
    job = source_and_sink(2)
    job.set("sink", state, 1)
    assert reason(job) == "NOT_ALL_REQUIRED_TASKS_RUNNING"


def test_a_finished_task_is_left_out():
    job = source_and_sink(2)
    job.set("source", E.FINISHED, 0)
    found = plan(job)
    assert names(found.tasks_to_trigger) == ["source1"]
    assert names(found.tasks_to_wait_for) == ["sink0", "sink1", "source1"]
    assert [str(task) for task in found.finished_tasks] == ["source_0"]


def test_a_finished_task_prevents_the_checkpoint_if_it_cannot_be_left_out():
    job = source_and_sink(2)
    job.set("source", E.FINISHED, 0)
    assert reason(job, after_tasks_finish=False) == "NOT_ALL_REQUIRED_TASKS_RUNNING"


def test_a_task_whose_producers_have_all_finished_is_triggered():
    job = source_and_sink(2)
    job.set("source", E.FINISHED, 0)
    job.set("source", E.FINISHED, 1)
    assert names(plan(job).tasks_to_trigger) == ["sink0", "sink1"]


def test_only_tasks_behind_a_finished_one_are_triggered_over_pointwise_edges():
    source = vertex("source", 2)
    middle = vertex("middle", 2, [source], pointwise=True)
    job = FakeJob(source, middle, vertex("sink", 2, [middle], pointwise=True))
    job.set("source", E.FINISHED, 0)
    assert names(plan(job).tasks_to_trigger) == ["middle0", "source1"]
    job.set("middle", E.FINISHED, 0)
    assert names(plan(job).tasks_to_trigger) == ["sink0", "source1"]


def test_a_task_with_one_running_input_is_not_triggered():
    left, right = vertex("left", 1), vertex("right", 1)
    job = FakeJob(left, right, vertex("join", 1, [left, right]))
    job.set("left", E.FINISHED)
    assert names(plan(job).tasks_to_trigger) == ["right0"]


def test_a_job_that_has_finished_takes_no_checkpoint():
    job = source_and_sink()
    job.set("source", E.FINISHED)
    job.set("sink", E.FINISHED)
    assert reason(job) == "NOT_ALL_REQUIRED_TASKS_RUNNING"


def test_a_blocking_result_prevents_the_checkpoint():
    source = vertex("source", 1, blocking=True)
    assert reason(FakeJob(source, vertex("sink", 1, [source]))) == "BLOCKING_OUTPUT_EXIST"


@pytest.mark.parametrize(
    ("states", "after_tasks_finish", "may_come"),
    [
        ((E.SCHEDULED, E.CREATED), True, True),
        ((E.SCHEDULED, E.CREATED), False, True),
        ((E.FINISHED, E.CANCELED), True, True),
        ((E.FINISHED, E.CANCELED), False, False),
        ((E.FINISHED, E.FINISHED), True, False),
        ((E.FINISHED, E.FINISHED), False, False),
    ],
)
def test_a_starting_job_is_waited_for_unless_finished_tasks_rule_a_checkpoint_out(states, after_tasks_finish, may_come):
    job = source_and_sink()
    job.set("source", states[0])
    job.set("sink", states[1])
    assert may_have_plan_later(job, after_tasks_finish=after_tasks_finish) is may_come


def test_a_starting_job_with_a_blocking_result_is_not_waited_for():
    source = vertex("source", 1, blocking=True)
    job = FakeJob(source, vertex("sink", 1, [source]), state=E.SCHEDULED)
    assert not may_have_plan_later(job, after_tasks_finish=True)
