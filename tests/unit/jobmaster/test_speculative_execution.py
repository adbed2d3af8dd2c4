"""A slow task gets a speculative attempt on another TaskExecutor. The first attempt to finish wins."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, batch_vertex, job_graph

from flinkpy.common.errors import TaskSubmissionError
from flinkpy.common.ids import ResourceID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.scheduler.scheduler_factory import scheduler_class
from flinkpy.jobmaster.scheduler.slow_task_detector import (
    SlowTaskDetectorOptions,
    SpeculativeExecutionOptions,
)
from flinkpy.jobmaster.scheduler.speculative_scheduler import SpeculativeScheduler

OPTIONS = SchedulerOptions(
    speculative=SpeculativeExecutionOptions(
        is_enabled=True,
        block_slow_node_duration_ms=60_000,
        detector=SlowTaskDetectorOptions(
            check_interval_ms=100, baseline_lower_bound_ms=500, baseline_ratio=0.75, baseline_multiplier=1.5
        ),
    )
)


class SpeculativeCluster(Cluster):
    def __init__(self, graph, **arguments):
        super().__init__(graph, options=OPTIONS, **arguments)
        self.scheduler = SpeculativeScheduler(
            graph,
            graph_id="g",
            options=OPTIONS,
            restart_strategy=arguments.get("restart_strategy") or FixedDelayRestartStrategy(3, 10),
            now_ms=self.now_ms,
        )

    def attempts_of(self, name, subtask):
        vertex = self.scheduler.graph.vertex(self.attempt(name, subtask).vertex)
        return {one.attempt_id.attempt_number: one.state.name for one in (vertex.current, *vertex.speculative)}

    def other_attempt(self, name, subtask):
        vertex = self.scheduler.graph.vertex(self.attempt(name, subtask).vertex)
        return vertex.speculative[0]


def graph_of(parallelism=4, *, twice=True, **rest):
    work = batch_vertex("work", parallelism, results=["out"], **rest)
    work.supports_concurrent_attempts = twice
    return job_graph(work, batch_vertex("end", 1, inputs=["out"]))


def with_a_slow_task(graph=None):
    """Three of four tasks finished after 1000 ms. The fourth runs on the TaskExecutor `slow`."""
    cluster = SpeculativeCluster(graph or graph_of())
    cluster.start()
    cluster.add_task_manager("slow", 4)
    cluster.run_all()
    cluster.now_ms += 1_000
    for subtask in range(3):
        cluster.update(cluster.attempt("work", subtask), E.FINISHED)
    return cluster


def attempted_again():
    cluster = with_a_slow_task()
    cluster.advance(700)
    cluster.register("fast")
    cluster.offer("fast", 1)
    cluster.acknowledge_submissions()
    for state in (E.INITIALIZING, E.RUNNING):
        cluster.update(cluster.other_attempt("work", 3).attempt_id, state)
    return cluster


def test_a_slow_task_gets_a_speculative_attempt() -> None:
    cluster = with_a_slow_task()
    cluster.advance(400)
    assert cluster.attempts_of("work", 3) == {0: "RUNNING"}
    cluster.advance(300)
    assert cluster.attempts_of("work", 3) == {0: "RUNNING", 1: "SCHEDULED"}
    declared = cluster.take(fx.DeclareRequirements)[-1]
    assert declared.blocked == {ResourceID("slow")}


def test_a_task_executor_is_blocked_for_a_limited_time() -> None:
    cluster = attempted_again()
    cluster.update(cluster.other_attempt("work", 3).attempt_id, E.FINISHED)
    cluster.obey_cancels()
    cluster.run_all()
    cluster.take(fx.DeclareRequirements)
    cluster.now_ms += 61_000
    cluster.update(cluster.attempt("end"), E.FINISHED)
    assert cluster.take(fx.DeclareRequirements)[-1].blocked == frozenset()


def test_a_speculative_attempt_uses_no_slot_of_the_slow_task_executor() -> None:
    cluster = with_a_slow_task()
    cluster.advance(700)
    assert cluster.attempts_of("work", 3) == {0: "RUNNING", 1: "SCHEDULED"}, "`slow` has free slots"
    cluster.register("fast")
    cluster.offer("fast", 1)
    assert cluster.attempts_of("work", 3) == {0: "RUNNING", 1: "DEPLOYING"}
    assert [effect.location.resource_id.value for effect in cluster.submitted()][-1] == "fast"


def test_the_number_of_attempts_is_limited() -> None:
    cluster = attempted_again()
    cluster.advance(60_000)
    assert len(cluster.attempts_of("work", 3)) == 2


def test_no_task_is_slow_before_enough_tasks_have_finished() -> None:
    cluster = SpeculativeCluster(graph_of())
    cluster.start()
    cluster.add_task_manager("tm", 4)
    cluster.run_all()
    for subtask in range(2):
        cluster.update(cluster.attempt("work", subtask), E.FINISHED)
    cluster.advance(10_000)
    assert cluster.attempts_of("work", 3) == {0: "RUNNING"}


@pytest.mark.parametrize("graph", [graph_of(twice=False), graph_of(coordinator=b"x")], ids=["unsafe", "coordinated"])
def test_ineligible_tasks_get_no_speculative_attempt(graph) -> None:
    cluster = with_a_slow_task(graph)
    cluster.advance(60_000)
    assert cluster.attempts_of("work", 3) == {0: "RUNNING"}


def test_consumers_read_the_result_of_a_winning_second_attempt() -> None:
    cluster = attempted_again()
    first = cluster.execution("work", 3)
    winner = cluster.other_attempt("work", 3)
    cluster.update(winner.attempt_id, E.FINISHED)
    assert cluster.execution("work", 3) is winner
    assert first.state is E.CANCELING
    assert first.attempt_id in [one for effect in cluster.take(fx.CancelTasks) for one in effect.attempts]
    submitted = [task for effect in cluster.submitted() for task in effect.tasks if task.vertex_id == "end"]
    assert submitted, "consumers do not wait for the losing attempt"
    read = [partition.result_partition_id for gate in submitted[0].input_gates for partition in gate.partitions]
    assert sum(str(winner.attempt_id) in one for one in read) == 1
    assert not any(str(first.attempt_id) in one for one in read)
    cluster.update(first.attempt_id, E.CANCELED)
    cluster.run_all()
    cluster.update(cluster.attempt("end"), E.FINISHED)
    assert cluster.state is JobState.FINISHED


def test_the_first_attempt_can_win() -> None:
    cluster = attempted_again()
    second = cluster.other_attempt("work", 3)
    cluster.update(cluster.attempt("work", 3), E.FINISHED)
    assert second.state is E.CANCELING
    cluster.obey_cancels()
    cluster.run_all()
    cluster.update(cluster.attempt("end"), E.FINISHED)
    assert cluster.state is JobState.FINISHED


def test_results_of_the_later_attempt_are_released() -> None:
    cluster = attempted_again()
    first, winner = cluster.execution("work", 3), cluster.other_attempt("work", 3)
    cluster.update(winner.attempt_id, E.FINISHED)
    cluster.take(fx.ReleasePartitions)
    cluster.update(first.attempt_id, E.FINISHED)
    released = [one for effect in cluster.take(fx.ReleasePartitions) for one in effect.partition_ids]
    assert len(released) == 1 and str(first.attempt_id) in released[0]


def test_a_failed_attempt_beside_another_does_not_fail_the_task() -> None:
    cluster = attempted_again()
    second = cluster.other_attempt("work", 3)
    cluster.update(second.attempt_id, E.FAILED, TaskSubmissionError("broken"))
    assert cluster.attempts_of("work", 3) == {0: "RUNNING"}
    assert (cluster.state, cluster.scheduler.num_restarts) == (JobState.RUNNING, 0)


def test_the_loss_of_the_slow_task_executor_does_not_fail_the_task() -> None:
    cluster = attempted_again()
    second = cluster.other_attempt("work", 3)
    cluster.lose("slow")
    assert cluster.execution("work", 3) is second
    assert second.state is E.RUNNING


def test_the_first_attempt_survives_the_loss_of_the_other_task_executor() -> None:
    cluster = attempted_again()
    cluster.lose("fast")
    assert cluster.attempts_of("work", 3)[0] == "RUNNING"
    assert (cluster.state, cluster.scheduler.num_restarts) == (JobState.RUNNING, 0)


def test_a_rejected_attempt_is_dropped() -> None:
    cluster = with_a_slow_task()
    cluster.advance(700)
    cluster.register("fast")
    cluster.offer("fast", 1)
    second = cluster.other_attempt("work", 3).attempt_id
    cluster.send(ev.TasksSubmitted((second,), ((second, TaskSubmissionError("no")),)))
    assert cluster.attempts_of("work", 3) == {0: "RUNNING"}


def test_a_canceled_job_cancels_all_attempts() -> None:
    cluster = attempted_again()
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    assert cluster.state is JobState.CANCELED


def test_an_attempt_without_a_slot_cancels_its_request_when_the_task_ends() -> None:
    cluster = with_a_slow_task()
    cluster.advance(700)
    cluster.update(cluster.attempt("work", 3), E.FINISHED)
    assert cluster.attempts_of("work", 3) == {0: "FINISHED"}
    assert not cluster.scheduler.slot_pool.waiting_requests


def test_each_attempt_has_its_own_number() -> None:
    cluster = attempted_again()
    cluster.lose("slow")
    cluster.lose("fast")
    cluster.advance(100)
    assert cluster.attempt("work", 3).attempt_number == 2


def test_a_task_with_a_larger_input_gets_more_time() -> None:
    work = batch_vertex("work", 4, inputs=["in"])
    work.supports_concurrent_attempts = True
    graph = job_graph(batch_vertex("source", 1, results=["in"]), work)
    cluster = SpeculativeCluster(graph)
    cluster.start()
    cluster.add_task_manager("tm", 1)
    cluster.run_all()
    source = cluster.scheduler.graph.vertex(cluster.attempt("source").vertex)
    sizes = {str(source.produced[0].current_id): (10, 10, 10, 30)}
    cluster.send(ev.TaskStateUpdated(source.current.attempt_id, E.FINISHED, result_bytes=sizes))
    cluster.offer("tm", 4)
    cluster.run_all()
    cluster.now_ms += 1_000
    for subtask in range(3):
        cluster.update(cluster.attempt("work", subtask), E.FINISHED)
    cluster.advance(3_000)
    assert len(cluster.attempts_of("work", 3)) == 1
    cluster.advance(1_000)
    assert len(cluster.attempts_of("work", 3)) == 2


def test_a_job_without_speculation_has_the_default_scheduler() -> None:
    assert scheduler_class(SchedulerOptions(), job_graph()) is DefaultScheduler
    assert scheduler_class(OPTIONS, job_graph()) is SpeculativeScheduler
