"""A rescale stops only the vertices that it concerns, right after a checkpoint that it triggers itself."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, job_graph, vertex

from flinkpy._proto import job_pb2
from flinkpy.checkpoint.coordinator import effects as cfx
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.common.errors import FunctionError
from flinkpy.common.ids import JobVertexID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive.connected_vertices import with_connected_vertices
from flinkpy.jobmaster.scheduler.adaptive.states import AdaptiveSchedulerOptions
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions


def two_pipelines(group="default"):
    """source -> sink and, with nothing in common but perhaps slots, left -> right."""
    return job_graph(
        vertex("source", 2, results=["data"], coordinator=b"x"),
        vertex("sink", 2, inputs=["data"]),
        vertex("left", 2, results=["others"], coordinator=b"x", group=group),
        vertex("right", 2, inputs=["others"], group=group),
    )


def running(graph=None, *, num_slots=3, interval_ms=0, max_delay_ms=0):
    adaptive = AdaptiveSchedulerOptions(
        is_enabled=True,
        submission_stabilization_timeout_ms=5,
        executing_cooldown_ms=0,
        rescale_max_delay_ms=max_delay_ms,
    )
    options = SchedulerOptions(
        adaptive_scheduler=adaptive,
        checkpoints=CheckpointCoordinatorOptions(interval_ms=interval_ms, tolerable_failures=10),
    )
    cluster = Cluster(graph or two_pipelines(), options=options, restart_strategy=FixedDelayRestartStrategy(10, 0))
    cluster.start()
    for number in range(num_slots):
        cluster.add_task_manager(f"tm{number}", 1)
    cluster.advance(5)
    cluster.run_all()
    cluster.effects.clear()
    return cluster


def rescale(cluster, **uppers):
    bounds = [
        job_pb2.VertexParallelismBounds(vertex_id=str(key), lower_bound=1, upper_bound=uppers.get(str(key), 2))
        for key in cluster.scheduler.graph.job_vertices
    ]
    cluster.send(ev.ResourceRequirementsChanged(cluster.scheduler.checked_requirements(bounds)))
    if cluster.scheduler.num_desired_slots > cluster.scheduler._slots.num_held:
        cluster.add_task_manager("another", 1)
    cluster.advance(0)


def attempts(cluster, *names):
    found = [task.current.attempt_id for task in cluster.scheduler.graph.vertices if task.job_vertex.name in names]
    return {str(attempt) for attempt in found}


def test_vertices_that_exchange_data_belong_together() -> None:
    graph = running().scheduler.graph
    found = with_connected_vertices(graph, [JobVertexID("sink")])
    assert {str(one) for one in found} == {"source", "sink"}
    assert with_connected_vertices(graph, []) == frozenset()


@pytest.mark.parametrize("group", ["default", "another"])
def test_a_rescale_stops_only_what_exchanges_data_with_the_changed_vertices(group) -> None:
    cluster = running(two_pipelines(group), num_slots=4)
    others = attempts(cluster, "left", "right")
    rescale(cluster, source=3, sink=3)
    assert cluster.state is JobState.RESTARTING
    cancels = [effect for effect in cluster.effects if isinstance(effect, fx.CancelTasks)]
    canceled = {str(attempt) for effect in cancels for attempt in effect.attempts}
    assert canceled == attempts(cluster, "source", "sink")
    cluster.obey_cancels()
    cluster.run_all()
    assert cluster.state is JobState.RUNNING
    assert attempts(cluster, "left", "right") == others
    assert set(cluster.states().values()) == {"RUNNING"} and len(cluster.states()) == 10
    reset = [str(one.job_vertex_id) for one in cluster.take(fx.ResetCoordinators)]
    assert "left" not in reset, "the coordinators of tasks that go on go on, too"
    assert [str(one) for effect in cluster.take(fx.RecreateCoordinators) for one in effect.job_vertex_ids] == ["source"]


def test_a_failure_of_a_task_that_goes_on_restarts_everything() -> None:
    cluster = running()
    others = attempts(cluster, "left", "right")
    rescale(cluster, source=3, sink=3)
    cluster.update(cluster.attempt("left"), E.FAILED, FunctionError("boom"))
    cluster.obey_cancels()
    cluster.run_all()
    assert cluster.scheduler.num_restarts == 1
    assert not attempts(cluster, "left", "right") & others
    assert set(cluster.states().values()) == {"RUNNING"}


def test_a_task_executor_that_dies_in_a_rescale_takes_all_tasks_back_to_the_checkpoint() -> None:
    cluster = running()
    rescale(cluster, source=3, sink=3)
    host = cluster.execution("left").slot.location.resource_id
    cluster.lose(host.value)
    cluster.obey_cancels()
    cluster.advance(cluster.scheduler.adaptive_options.resource_wait_timeout_ms // 2)
    cluster.obey_cancels()
    cluster.run_all()
    assert cluster.state is JobState.RUNNING
    assert set(cluster.states().values()) == {"RUNNING"}
    assert cluster.scheduler.num_restarts == 1


def test_a_rescale_that_finds_another_change_stops_more_vertices() -> None:
    cluster = running()
    rescale(cluster, source=1, sink=1)
    assert cluster.state is JobState.RESTARTING
    rescale(cluster, source=1, sink=1, left=1, right=1)
    cluster.obey_cancels()
    cluster.obey_cancels()
    cluster.run_all()
    assert cluster.states() == dict.fromkeys(("source0", "sink0", "left0", "right0"), "RUNNING")
    assert cluster.scheduler.num_restarts == 0


def test_a_canceled_job_cancels_the_tasks_that_went_on_through_a_rescale() -> None:
    cluster = running()
    rescale(cluster, source=3, sink=3)
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    assert cluster.state is JobState.CANCELED


# -- the checkpoint


def test_a_wanted_rescale_triggers_a_checkpoint_at_once_and_waits_for_it() -> None:
    cluster = running(interval_ms=600_000, max_delay_ms=1_800_000)
    rescale(cluster, source=3, sink=3)
    assert len(cluster.take(cfx.MakeLocation)) == 1, "the next periodic checkpoint would come minutes later"
    cluster.advance(1_000)
    assert cluster.state is JobState.RUNNING
    assert not cluster.take(cfx.MakeLocation), "one is enough"
    cluster.scheduler.scheduler_state.on_checkpoint_completed()
    cluster.send(ev.CheckDeadlines())
    assert cluster.state is JobState.RESTARTING


def test_a_failed_checkpoint_is_followed_by_another() -> None:
    cluster = running(interval_ms=600_000, max_delay_ms=1_800_000)
    rescale(cluster, source=3, sink=3)
    (first,) = cluster.take(cfx.MakeLocation)
    fail = FunctionError("the disk is full")
    cluster.send(ev.CheckpointCall(lambda at, now_ms: at.location_failed(now_ms, first.checkpoint_id, fail)))
    assert cluster.state is JobState.RUNNING
    assert len(cluster.take(cfx.MakeLocation)) == 1


def test_a_job_without_checkpoints_triggers_none() -> None:
    cluster = running(max_delay_ms=1_000)
    rescale(cluster, source=3, sink=3)
    cluster.advance(999)
    assert cluster.state is JobState.RUNNING
    assert not cluster.take(cfx.MakeLocation)
