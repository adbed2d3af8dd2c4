"""The parallelism of undecided vertices of a batch job is decided when their inputs are finished."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, batch_vertex, job_graph

from flinkpy.common.ids import JobVertexID
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.job_details import job_details
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive_parallelism import AdaptiveParallelismOptions
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions

MB = 1 << 20


def open_vertex(name, bound, **rest):
    made = batch_vertex(name, -1, **rest)
    made.parallelism_bound = bound
    return made


def source_and_keyed(bound=4, **rest):
    return job_graph(
        batch_vertex("source", 2, results=["data"]),
        open_vertex("keyed", bound, inputs=["data"], **rest),
    )


def scheduler_of(graph, *, restart_strategy=None, **options):
    adaptive = AdaptiveParallelismOptions(**options)
    cluster = Cluster(graph, options=SchedulerOptions(adaptive=adaptive), restart_strategy=restart_strategy)
    cluster.start()
    cluster.add_task_manager("tm1", 8)
    cluster.run_all()
    return cluster


def finish(cluster, name, subtask, *subpartition_bytes):
    """Finishes the task. `subpartition_bytes`: the sizes that it reports for each of its results."""
    vertex = cluster.scheduler.graph.vertex(cluster.attempt(name, subtask).vertex)
    sizes = {str(one.current_id): own for one, own in zip(vertex.produced, subpartition_bytes, strict=True)}
    cluster.send(ev.TaskStateUpdated(vertex.current.attempt_id, E.FINISHED, result_bytes=sizes))
    cluster.run_all()


def parallelism(cluster, name):
    return cluster.scheduler.graph.job_vertices[JobVertexID(name)].parallelism


def reads(cluster, name):
    """Returns for each subtask the (partition, first subpartition, last subpartition) that it reads."""
    vertex = cluster.scheduler.graph.job_vertices[JobVertexID(name)]
    return [
        [
            (partition.index, gate.subpartition_index, gate.subpartition_index + gate.num_subpartitions - 1)
            for gate in task.consumed
            for partition in gate.partitions
        ]
        for task in vertex.task_vertices
    ]


def test_producers_write_as_many_subpartitions_as_there_may_be_consumers() -> None:
    cluster = scheduler_of(source_and_keyed(bound=4))
    assert parallelism(cluster, "keyed") == -1
    partitions = [vertex.produced[0].num_subpartitions for vertex in cluster.scheduler.graph.vertices]
    assert partitions == [4, 4]


def test_nothing_is_decided_before_all_inputs_are_finished() -> None:
    cluster = scheduler_of(source_and_keyed())
    finish(cluster, "source", 0, (MB, MB, MB, MB))
    assert parallelism(cluster, "keyed") == -1
    assert cluster.states() == {"source0": "FINISHED", "source1": "RUNNING"}


def test_a_small_input_gets_one_subtask_that_reads_everything() -> None:
    cluster = scheduler_of(source_and_keyed())
    finish(cluster, "source", 0, (10, 20, 30, 40))
    finish(cluster, "source", 1, (0, 0, 0, 5))
    assert parallelism(cluster, "keyed") == 1
    assert reads(cluster, "keyed") == [[(0, 0, 3), (1, 0, 3)]]
    assert cluster.states()["keyed0"] == "RUNNING"
    finish(cluster, "keyed", 0)
    assert cluster.state is JobState.FINISHED


def test_subpartitions_are_divided_by_their_sizes() -> None:
    cluster = scheduler_of(source_and_keyed(), bytes_per_task=16 * MB)
    finish(cluster, "source", 0, (20 * MB, 1 * MB, 1 * MB, 1 * MB))
    finish(cluster, "source", 1, (0, 1 * MB, 1 * MB, 1 * MB))
    assert parallelism(cluster, "keyed") == 2
    assert reads(cluster, "keyed") == [[(0, 0, 0), (1, 0, 0)], [(0, 1, 3), (1, 1, 3)]]


def test_a_task_is_deployed_with_its_range_and_the_final_parallelism() -> None:
    cluster = scheduler_of(source_and_keyed(), bytes_per_task=MB)
    finish(cluster, "source", 0, (MB, 0, 0, MB))
    cluster.effects.clear()
    vertex = cluster.scheduler.graph.vertex(cluster.attempt("source", 1).vertex)
    sizes = {str(vertex.produced[0].current_id): (0, 0, 0, 0)}
    cluster.send(ev.TaskStateUpdated(vertex.current.attempt_id, E.FINISHED, result_bytes=sizes))
    tasks = [task for effect in cluster.submitted() for task in effect.tasks]
    gates = [(gate.subpartition_index, gate.num_subpartitions) for task in tasks for gate in task.input_gates]
    assert sum(count for _, count in gates) == 4
    assert cluster.scheduler.graph.job_vertices[JobVertexID("keyed")].job_vertex.parallelism == len(tasks) == 2


@pytest.mark.parametrize(("options", "expected"), [({"min_parallelism": 3}, 3), ({"max_parallelism": 2}, 2)])
def test_the_bounds_of_the_configuration_hold(options, expected) -> None:
    cluster = scheduler_of(source_and_keyed(), bytes_per_task=MB, **options)
    width = cluster.scheduler.graph.vertex(cluster.attempt("source").vertex).produced[0].num_subpartitions
    total = 0 if expected == 3 else 40 * MB
    for subtask in range(2):
        finish(cluster, "source", subtask, (total // width,) * width)
    assert parallelism(cluster, "keyed") == expected


def test_a_vertex_behind_a_forward_edge_gets_the_same_parallelism() -> None:
    graph = job_graph(
        batch_vertex("source", 2, results=["data"]),
        open_vertex("keyed", 4, inputs=["data"], results=["forward"], partitioner="FORWARD"),
        open_vertex("next", 4, inputs=["forward"]),
    )
    cluster = scheduler_of(graph, bytes_per_task=MB)
    for subtask in range(2):
        finish(cluster, "source", subtask, (MB,) * 4)
    assert parallelism(cluster, "keyed") == parallelism(cluster, "next") == 4
    assert reads(cluster, "next") == [[(index, 0, 0)] for index in range(4)]


def test_a_vertex_with_its_own_parallelism_waits_for_subtasks_until_its_producer_has_some() -> None:
    graph = job_graph(
        batch_vertex("source", 1, results=["data"]),
        open_vertex("keyed", 4, inputs=["data"], results=["out"]),
        batch_vertex("sink", 2, inputs=["out"]),
    )
    cluster = scheduler_of(graph)
    assert set(cluster.states()) == {"source0"}
    finish(cluster, "source", 0, (1, 1, 1, 1))
    assert set(cluster.states()) == {"source0", "keyed0", "sink0", "sink1"}
    finish(cluster, "keyed", 0, (1, 1))
    cluster.offer("tm1", 1)
    cluster.run_all()
    assert cluster.states()["sink1"] == "RUNNING"


def test_two_inputs_of_a_vertex_are_divided_into_the_same_ranges() -> None:
    graph = job_graph(
        batch_vertex("left", 1, results=["l"]),
        batch_vertex("right", 1, results=["r"]),
        open_vertex("join", 3, inputs=["l", "r"]),
    )
    cluster = scheduler_of(graph, bytes_per_task=4 * MB)
    finish(cluster, "left", 0, (8 * MB, 0, 0))
    finish(cluster, "right", 0, (0, 0, 4 * MB))
    assert parallelism(cluster, "join") == 2
    assert reads(cluster, "join") == [[(0, 0, 1), (0, 0, 1)], [(0, 2, 2), (0, 2, 2)]] or reads(cluster, "join") == [
        [(0, 0, 0), (0, 0, 0)],
        [(0, 1, 2), (0, 1, 2)],
    ]


def test_a_broadcast_input_is_written_once_and_does_not_count() -> None:
    graph = job_graph(
        batch_vertex("small", 1, results=["b"], partitioner="BROADCAST"),
        batch_vertex("large", 1, results=["d"]),
        open_vertex("join", 3, inputs=["d", "b"]),
    )
    cluster = scheduler_of(graph, bytes_per_task=MB)
    finish(cluster, "small", 0, (1000 * MB,))
    finish(cluster, "large", 0, (MB, MB, 0))
    assert parallelism(cluster, "join") == 2
    assert all((0, 0, 0) in own for own in reads(cluster, "join"))


def test_sources_get_as_many_subtasks_as_they_have_splits() -> None:
    graph = job_graph(open_vertex("files", 8), open_vertex("unknown", 8), open_vertex("many", 8))
    cluster = Cluster(graph)
    assert cluster.scheduler.adaptive.source_bounds() == dict.fromkeys(
        map(JobVertexID, ("files", "unknown", "many")), 8
    )
    cluster.scheduler.start_with_sources({JobVertexID("files"): 3, JobVertexID("many"): 99})
    assert [parallelism(cluster, name) for name in ("files", "unknown", "many")] == [3, 8, 8]


def test_sources_have_their_own_default_parallelism() -> None:
    cluster = scheduler_of(job_graph(open_vertex("source", 8)), source_parallelism=2)
    assert parallelism(cluster, "source") == 2


def test_coordinators_are_created_when_the_parallelism_is_decided() -> None:
    cluster = scheduler_of(source_and_keyed(coordinator=b"x"))
    finish(cluster, "source", 0, (1,) * 4)
    vertex = cluster.scheduler.graph.vertex(cluster.attempt("source", 1).vertex)
    cluster.effects.clear()
    effects = cluster.send(ev.TaskStateUpdated(vertex.current.attempt_id, E.FINISHED))
    kinds = [type(effect) for effect in effects]
    assert fx.VerticesInitialized((JobVertexID("keyed"),)) in effects
    assert kinds.index(fx.VerticesInitialized) < kinds.index(fx.SubmitTasks)


def test_a_vertex_that_runs_again_keeps_its_parallelism_and_ranges() -> None:
    cluster = scheduler_of(
        source_and_keyed(), bytes_per_task=16 * MB, restart_strategy=FixedDelayRestartStrategy(3, 10)
    )
    finish(cluster, "source", 0, (20 * MB, 1 * MB, 1 * MB, 1 * MB))
    finish(cluster, "source", 1, (0, 0, 0, 0))
    before = reads(cluster, "keyed")
    cluster.lose("tm1")
    cluster.advance(20)
    cluster.add_task_manager("tm2", 8)
    cluster.run_all()
    for subtask in range(2):  # another amount of data this time
        finish(cluster, "source", subtask, (0, 0, 0, 50 * MB))
    assert reads(cluster, "keyed") == before
    for subtask in range(2):
        finish(cluster, "keyed", subtask)
    assert cluster.state is JobState.FINISHED


def test_a_job_with_undecided_vertices_can_be_canceled() -> None:
    cluster = scheduler_of(source_and_keyed())
    cluster.send(ev.CancelJob())
    cluster.obey_cancels()
    assert cluster.state is JobState.CANCELED


def test_the_job_details_show_decisions_and_their_reasons() -> None:
    cluster = scheduler_of(source_and_keyed())

    def keyed():
        details = job_details(cluster.scheduler, None)
        return next(vertex for vertex in details.vertices if vertex.name == "keyed")

    assert (keyed().parallelism, keyed().parallelism_reason) == (
        -1,
        "decided when its inputs are finished, at most 4",
    )
    for subtask in range(2):
        finish(cluster, "source", subtask, (MB,) * 4)
    assert (keyed().parallelism, keyed().parallelism_reason) == (1, "8.0 MB of input at 16.0 MB per task, at most 4")


def test_adaptive_parallelism_can_be_disabled() -> None:
    cluster = scheduler_of(source_and_keyed(), is_enabled=False)
    assert parallelism(cluster, "keyed") == 4


def test_new_subtasks_whose_inputs_had_finished_before_are_scheduled() -> None:
    graph = job_graph(
        batch_vertex("source", 2, results=["data"], partitioner="RESCALE"), open_vertex("next", 2, inputs=["data"])
    )
    cluster = scheduler_of(graph, min_parallelism=2)
    for subtask in range(2):
        finish(cluster, "source", subtask, (1,))
    cluster.offer("tm1", 2)
    cluster.run_all()
    assert reads(cluster, "next") == [[(0, 0, 0)], [(1, 0, 0)]]
    assert (cluster.states()["next0"], cluster.states()["next1"]) == ("RUNNING", "RUNNING")
