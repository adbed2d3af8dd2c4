"""An adaptive job runs with the slots that there are, grows when slots come, and shrinks when TaskExecutors die."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, job_graph, source_and_sink, vertex

from flinkpy._proto import job_pb2
from flinkpy.common.errors import (
    FunctionError,
    InvalidResourceRequirementsError,
    JobMasterLostError,
    NoResourceAvailableError,
)
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy, NoRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive.states import AdaptiveSchedulerOptions
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.scheduler.scheduler_factory import scheduler_class

WAIT_MS, STABLE_MS, COOLDOWN_MS, EXECUTING_STABLE_MS = 300_000, 10_000, 30_000, 60_000


def options(**adaptive):
    return SchedulerOptions(adaptive_scheduler=AdaptiveSchedulerOptions(is_enabled=True, **adaptive))


def cluster_of(graph=None, *, restarts=10, delay_ms=0, num_slots=0, **adaptive):
    strategy = FixedDelayRestartStrategy(restarts, delay_ms) if restarts else NoRestartStrategy()
    cluster = Cluster(graph or source_and_sink(2), options=options(**adaptive), restart_strategy=strategy)
    cluster.start()
    if num_slots:
        cluster.add_task_manager("tm1", num_slots)
    cluster.run_all()
    return cluster


def state(cluster):
    return cluster.scheduler.scheduler_state.name


def parallelism(cluster):
    return {str(key): vertex.parallelism for key, vertex in cluster.scheduler.graph.job_vertices.items()}


def bounds(**wanted):
    return [
        job_pb2.VertexParallelismBounds(vertex_id=key, lower_bound=lower, upper_bound=upper)
        for key, (lower, upper) in wanted.items()
    ]


def require(cluster, **wanted):
    cluster.send(ev.ResourceRequirementsChanged(cluster.scheduler.checked_requirements(bounds(**wanted))))


# -- the start


def test_a_job_with_all_desired_slots_starts_at_once() -> None:
    cluster = cluster_of(num_slots=2)
    assert (state(cluster), cluster.state) == ("Executing", JobState.RUNNING)
    assert set(cluster.states().values()) == {"RUNNING"}


def test_a_job_with_enough_slots_starts_with_fewer_tasks_when_they_are_stable() -> None:
    cluster = cluster_of(num_slots=1)
    assert (state(cluster), cluster.state) == ("WaitingForResources", JobState.CREATED)
    cluster.advance(STABLE_MS - 1)
    assert state(cluster) == "WaitingForResources"
    cluster.advance(1)
    cluster.run_all()
    assert cluster.states() == {"source0": "RUNNING", "sink0": "RUNNING"}


def test_a_job_without_enough_slots_says_how_many_it_lacks_and_of_what() -> None:
    graph = job_graph(vertex("source", 2, results=["data"], group="a"), vertex("sink", 2, inputs=["data"], group="b"))
    cluster = cluster_of(graph, num_slots=1)
    cluster.advance(WAIT_MS)
    assert cluster.state is JobState.FAILED
    assert isinstance(cluster.failure, NoResourceAvailableError)
    words = "needs at least 2 slots (1 for the slot sharing group 'a', 1 for the slot sharing group 'b'), has 1, and"
    assert words in str(cluster.failure)
    assert "lacks 1" in str(cluster.failure)


def test_a_reactive_job_waits_without_end_and_uses_every_slot() -> None:
    reactive = {
        "is_reactive": True,
        "resource_wait_timeout_ms": None,
        "submission_stabilization_timeout_ms": 0,
        "executing_stabilization_timeout_ms": 0,
    }
    cluster = cluster_of(**reactive)
    cluster.advance(10 * WAIT_MS)
    assert state(cluster) == "WaitingForResources"
    cluster.add_task_manager("tm1", 2)
    cluster.run_all()
    assert parallelism(cluster) == {"source": 2, "sink": 2}
    cluster.add_task_manager("tm2", 3)
    cluster.advance(COOLDOWN_MS)
    cluster.obey_cancels()
    cluster.run_all()
    assert parallelism(cluster) == {"source": 5, "sink": 5}
    assert set(cluster.states().values()) == {"RUNNING"}


def test_a_non_parallel_vertex_stays_alone() -> None:
    graph = source_and_sink(2)
    graph.vertices[1].is_non_parallel = True
    cluster = cluster_of(graph, is_reactive=True, submission_stabilization_timeout_ms=100)
    cluster.add_task_manager("tm1", 3)
    cluster.advance(100)
    assert parallelism(cluster) == {"source": 3, "sink": 1}


def test_vertices_with_a_forward_edge_keep_the_same_parallelism() -> None:
    graph = job_graph(
        vertex("source", 4, results=["data"], pointwise=True, partitioner="FORWARD", group="a"),
        vertex("sink", 4, inputs=["data"], group="b"),
    )
    cluster = cluster_of(graph, num_slots=5)
    cluster.advance(STABLE_MS)
    assert parallelism(cluster) == {"source": 2, "sink": 2}


# -- growing


def test_a_job_grows_at_once_when_all_desired_slots_have_come_and_the_cooldown_is_over() -> None:
    cluster = cluster_of(num_slots=1)
    cluster.advance(STABLE_MS)
    cluster.run_all()
    first = cluster.attempt("sink")
    cluster.add_task_manager("tm2", 1)
    cluster.advance(COOLDOWN_MS - 1)
    assert state(cluster) == "Executing"
    cluster.advance(1)
    assert (state(cluster), cluster.state) == ("Restarting", JobState.RESTARTING)
    assert not cluster.submitted(), "no task of the next generation may run beside one of the former"
    cluster.obey_cancels()
    cluster.run_all()
    assert cluster.states() == dict.fromkeys(("source0", "source1", "sink0", "sink1"), "RUNNING")
    assert cluster.attempt("sink").attempt_number == first.attempt_number + 1
    assert cluster.scheduler.num_rescales == 1
    assert cluster.scheduler.num_restarts == 0, "a rescale is not a failure"


def test_a_job_grows_with_fewer_slots_than_desired_when_they_are_stable() -> None:
    cluster = cluster_of(source_and_sink(3), num_slots=1)
    cluster.advance(STABLE_MS)
    cluster.run_all()
    cluster.add_task_manager("tm2", 1)
    cluster.advance(EXECUTING_STABLE_MS - 1)
    assert state(cluster) == "Executing"
    cluster.advance(1)
    cluster.obey_cancels()
    assert parallelism(cluster) == {"source": 2, "sink": 2}


def test_a_rescale_waits_for_a_completed_checkpoint_but_not_for_ever() -> None:
    cluster = cluster_of(num_slots=1, rescale_max_delay_ms=90_000)
    cluster.advance(STABLE_MS)
    cluster.run_all()
    cluster.advance(COOLDOWN_MS)
    cluster.add_task_manager("tm2", 1)
    cluster.advance(89_999)
    assert state(cluster) == "Executing"
    cluster.advance(1)
    assert state(cluster) == "Restarting"


def test_a_completed_checkpoint_lets_the_job_grow_right_away() -> None:
    cluster = cluster_of(num_slots=1, rescale_max_delay_ms=90_000)
    cluster.advance(STABLE_MS)
    cluster.run_all()
    cluster.advance(COOLDOWN_MS)
    cluster.add_task_manager("tm2", 1)
    cluster.scheduler.scheduler_state.on_checkpoint_completed()
    cluster.send(ev.CheckDeadlines())
    assert state(cluster) == "Restarting"


def test_checkpoints_that_fail_in_a_row_let_the_job_grow_too() -> None:
    cluster = cluster_of(num_slots=1, rescale_max_delay_ms=90_000)
    cluster.advance(STABLE_MS)
    cluster.run_all()
    cluster.advance(COOLDOWN_MS)
    cluster.add_task_manager("tm2", 1)
    cluster.scheduler.scheduler_state.on_checkpoint_failed()
    cluster.send(ev.CheckDeadlines())
    assert state(cluster) == "Executing"
    cluster.scheduler.scheduler_state.on_checkpoint_failed()
    cluster.send(ev.CheckDeadlines())
    assert state(cluster) == "Restarting"


def test_coordinators_of_vertices_with_another_parallelism_are_created_anew() -> None:
    graph = source_and_sink(2, coordinator=b"x")
    cluster = cluster_of(graph, num_slots=2)
    assert not cluster.take(fx.RecreateCoordinators), "the first generation has the parallelism of the program"
    require(cluster, source=(1, 1), sink=(1, 2))
    cluster.advance(COOLDOWN_MS)
    cluster.obey_cancels()
    assert [str(one) for effect in cluster.take(fx.RecreateCoordinators) for one in effect.job_vertex_ids] == ["source"]
    assert parallelism(cluster) == {"source": 1, "sink": 2}


# -- shrinking and failing


def test_a_job_shrinks_when_a_task_executor_dies() -> None:
    cluster = cluster_of(submission_stabilization_timeout_ms=0)
    cluster.add_task_manager("tm1", 1)
    cluster.run_all()
    cluster.add_task_manager("tm2", 1)
    cluster.advance(COOLDOWN_MS)
    cluster.obey_cancels()
    cluster.run_all()
    assert parallelism(cluster) == {"source": 2, "sink": 2}
    cluster.lose("tm2")
    cluster.obey_cancels()
    cluster.run_all()
    assert cluster.states() == {"source0": "RUNNING", "sink0": "RUNNING"}
    assert cluster.scheduler.num_restarts == 1


def test_a_failure_restarts_all_tasks_after_the_delay() -> None:
    cluster = cluster_of(num_slots=2, delay_ms=500)
    cluster.update(cluster.attempt("source"), E.FAILED, FunctionError("boom"))
    cluster.obey_cancels()
    assert state(cluster) == "Restarting"
    cluster.advance(499)
    assert state(cluster) == "Restarting"
    cluster.advance(1)
    cluster.run_all()
    assert set(cluster.states().values()) == {"RUNNING"}


def test_a_failure_without_restarts_left_fails_the_job() -> None:
    cluster = cluster_of(num_slots=2, restarts=0)
    cluster.update(cluster.attempt("source"), E.FAILED, FunctionError("boom"))
    assert (state(cluster), cluster.state) == ("Failing", JobState.FAILING)
    cluster.obey_cancels()
    assert (state(cluster), cluster.state) == ("Finished", JobState.FAILED)
    assert cluster.scheduler.slot_pool.num_slots == 0, "all slots are returned"


@pytest.mark.parametrize("num_slots", [0, 1, 2])
def test_a_job_can_be_canceled_in_each_state(num_slots) -> None:
    cluster = cluster_of(num_slots=num_slots)
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    assert (state(cluster), cluster.state) == ("Finished", JobState.CANCELED)


def test_a_suspended_job_ends_without_waiting_for_its_tasks() -> None:
    cluster = cluster_of(num_slots=2)
    cluster.send(ev.SuspendJob(JobMasterLostError("moved")))
    assert (state(cluster), cluster.state) == ("Finished", JobState.SUSPENDED)


def test_a_job_finishes_when_all_its_tasks_have() -> None:
    cluster = cluster_of(num_slots=2)
    cluster.finish("source", "sink")
    assert (state(cluster), cluster.state) == ("Finished", JobState.FINISHED)


# -- requirements


def test_fewer_wanted_subtasks_give_slots_back() -> None:
    cluster = cluster_of(num_slots=2)
    require(cluster, source=(1, 1), sink=(1, 1))
    cluster.advance(COOLDOWN_MS)
    cluster.obey_cancels()
    cluster.run_all()
    assert parallelism(cluster) == {"source": 1, "sink": 1}
    cluster.advance(cluster.scheduler._options.slot_pool.idle_timeout_ms)
    assert len(cluster.take(fx.FreeSlot)) == 1


def test_more_wanted_subtasks_request_slots() -> None:
    cluster = cluster_of(num_slots=2)
    cluster.take(fx.DeclareRequirements)
    require(cluster, source=(1, 4), sink=(1, 3))
    assert [effect.requirements.total for effect in cluster.take(fx.DeclareRequirements)] == [4]
    cluster.offer("tm1", 2)
    cluster.advance(COOLDOWN_MS)
    cluster.obey_cancels()
    assert parallelism(cluster) == {"source": 4, "sink": 3}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"source": (1, 200), "sink": (1, 1)}, "parallelism 200 for the job vertex source exceeds its maximum"),
        ({"source": (3, 2), "sink": (1, 1)}, "lower bound [3] for job vertex [source] is higher than the upper bound"),
        ({"source": (0, 2), "sink": (1, 1)}, "must be greater than zero"),
        ({"source": (1, 2)}, "missing job vertex [sink]"),
        ({"source": (1, 2), "sink": (1, 2), "other": (1, 2)}, "Job vertex [other] was not found in the JobGraph"),
    ],
)
def test_impossible_requirements_are_refused_and_change_nothing(wanted, words) -> None:
    cluster = cluster_of(num_slots=2)
    before = cluster.scheduler.requirements
    with pytest.raises(InvalidResourceRequirementsError) as raised:
        require(cluster, **wanted)
    assert words in str(raised.value)
    assert cluster.scheduler.requirements == before


def test_requirements_of_a_stored_job_survive_its_job_master() -> None:
    graph = source_and_sink(2)
    graph.resource_requirements.vertices.extend(bounds(source=(1, 3), sink=(1, -1)))
    cluster = cluster_of(graph)
    assert cluster.scheduler.num_desired_slots == 128


# -- slots


def test_a_smaller_job_uses_the_task_executor_with_most_slots() -> None:
    cluster = cluster_of(source_and_sink(4))
    cluster.add_task_manager("tm1", 1)
    cluster.add_task_manager("tm2", 2)
    require(cluster, source=(1, 2), sink=(1, 2))
    hosts = {vertex.current.slot.location.resource_id.value for vertex in cluster.scheduler.graph.vertices}
    assert hosts == {"tm2"}


def test_a_restarted_group_returns_to_its_slot() -> None:
    cluster = cluster_of(num_slots=2)
    before = {vertex.id: vertex.current.slot for vertex in cluster.scheduler.graph.vertices}
    cluster.send(ev.GlobalFailure(FunctionError("boom")))
    cluster.obey_cancels()
    assert {vertex.id: vertex.current.slot for vertex in cluster.scheduler.graph.vertices} == before


# -- the choice of the scheduler


def test_a_job_with_stages_keeps_the_scheduler_for_batch_jobs() -> None:
    assert scheduler_class(options(), source_and_sink(2, blocking=True)) is DefaultScheduler
