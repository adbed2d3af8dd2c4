"""Tasks whose work is committed, or about to be, never run again: after no failure, and under no other JobMaster."""

from __future__ import annotations

import pytest
from jobmaster_fakes import Cluster, E, batch_vertex, job_graph
from test_batch_failover import BOOM, DELAY_MS, batch, restarted

from flinkpy._proto import job_event_pb2
from flinkpy.common.states import JobState
from flinkpy.jobmaster.failover.settled_vertices import settled_vertices
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions


def committer(name, *data_sets):
    made = batch_vertex(name, 1, inputs=data_sets)
    made.is_committer = True
    return made


def one_sink():
    """Returns a job source -> writers -> committer."""
    return (
        batch_vertex("source", 2, results=["records"]),
        batch_vertex("writer", 2, inputs=["records"], results=["committables"], partitioner="GLOBAL"),
        committer("committer", "committables"),
    )


def sink_and_reader():
    """The task of the writer also has another consumer, over an edge that may distribute the records differently."""
    return (
        batch_vertex("source", 2, results=["records"]),
        with_committables(batch_vertex("writer", 2, inputs=["records"], results=["more"], partitioner="REBALANCE")),
        committer("committer", "committables"),
        batch_vertex("reader", 2, inputs=["more"]),
    )


def with_committables(vertex):
    result = vertex.results.add(id="committables", partitioner_name="GLOBAL")
    result.type, result.distribution = vertex.results[0].type, vertex.results[0].distribution
    return vertex


TWO_HOSTS = (("tm1", 4), ("tm2", 4))


def deployments(cluster, name):
    """Returns the deployments of a vertex since the last call."""
    return [task for effect in cluster.submitted() for task in effect.tasks if task.vertex_id == name]


def recorded(cluster):
    """Returns the events, serialized and parsed again as from the disk."""
    events = [effect.event for effect in cluster.effects if isinstance(effect, fx.RecordJobEvent)]
    return [job_event_pb2.JobEvent.FromString(event.SerializeToString()) for event in events]


def stored(cluster):
    """Returns the ids of the stored partitions."""
    return frozenset(partition_id for event in recorded(cluster) for partition_id in event.final.result_partition_ids)


def test_committables_are_stored_and_fetched_at_the_job_master() -> None:
    cluster = batch(*one_sink())
    cluster.finish("source")
    writers = [vertex.produced[0] for vertex in cluster.scheduler.graph.vertices if vertex.job_vertex.name == "writer"]
    cluster.effects.clear()
    for number in range(2):
        cluster.update(cluster.attempt("writer", number), E.FINISHED)
    (deployment,) = deployments(cluster, "committer")
    (gate,) = deployment.input_gates
    assert gate.is_kept_by_job_master
    assert [one.result_partition_id for one in gate.partitions] == [str(one.current_id) for one in writers]
    assert {one.data_address for one in gate.partitions} == {""}
    assert stored(cluster) == {str(one.current_id) for one in writers}


def test_the_loss_of_every_task_executor_repeats_only_the_committer() -> None:
    cluster = batch(*one_sink(), slots=TWO_HOSTS)
    cluster.finish("source")
    cluster.finish("writer")
    assert cluster.states()["committer0"] == "RUNNING"
    cluster.lose("tm1")
    cluster.lose("tm2")
    assert restarted(cluster) == {"committer0"}
    cluster.add_task_manager("tm3", 4)
    cluster.finish("committer")
    assert cluster.state is JobState.FINISHED


def test_the_stored_committables_of_one_writer_survive_while_another_one_writes() -> None:
    cluster = batch(*one_sink(), slots=TWO_HOSTS)
    cluster.finish("source")
    cluster.finish("writer0")
    cluster.lose(str(cluster.execution("writer", 0).slot.location.resource_id))
    assert "writer0" not in restarted(cluster)


@pytest.mark.parametrize("strategy", ["region", "full"])
def test_a_failure_of_the_whole_job_repeats_nothing_that_is_settled(strategy) -> None:
    options = SchedulerOptions(failover_strategy=strategy)
    cluster = batch(*one_sink(), batch_vertex("busy", 1), options=options)
    cluster.finish("source")
    cluster.finish("writer")
    cluster.send(ev.GlobalFailure(BOOM))
    assert restarted(cluster) == {"committer0", "busy0"}
    settled = settled_vertices(cluster.scheduler.graph)
    assert {str(vertex_id) for vertex_id in settled} == {"source", "writer"}


def test_a_writer_that_runs_again_for_another_reader_drops_its_records() -> None:
    cluster = batch(*sink_and_reader(), slots=TWO_HOSTS)
    cluster.finish("source")
    cluster.finish("writer")
    assert len(stored(cluster)) == 2
    cluster.lose("tm1")
    cluster.lose("tm2")
    assert {"writer0", "writer1", "reader0", "reader1", "committer0"} <= restarted(cluster)
    cluster.effects.clear()
    cluster.add_task_manager("tm3", 8)
    cluster.finish("source")
    cluster.finish("writer")
    assert stored(cluster) == frozenset(), "the result was final before"
    cluster.finish("committer")
    cluster.finish("reader")
    assert cluster.state is JobState.FINISHED


def test_the_deployment_of_such_a_writer_says_so() -> None:
    cluster = batch(*sink_and_reader())
    cluster.finish("source")
    cluster.run_all()
    for number in range(2):
        cluster.update(cluster.attempt("writer", number), E.FINISHED)
    cluster.run_all()
    cluster.effects.clear()
    cluster.lose("tm1")
    cluster.advance(DELAY_MS)
    cluster.add_task_manager("tm2", 8)
    sources = [task for effect in cluster.take(fx.SubmitTasks) for task in effect.tasks]
    assert {task.vertex_id for task in sources} == {"source", "committer"}
    for task in sources:
        attempt = cluster.attempt(task.vertex_id, task.subtask_index)
        cluster.send(ev.TasksSubmitted((attempt,)))
        cluster.update(attempt, E.INITIALIZING)
        cluster.update(attempt, E.RUNNING)
    for number in range(2):
        cluster.update(cluster.attempt("source", number), E.FINISHED)
    writers = deployments(cluster, "writer")
    flags = [[(one.is_kept_by_job_master, one.is_final) for one in task.produced_partitions] for task in writers]
    assert flags == [[(False, False), (True, True)]] * 2


def test_without_committers_nothing_is_recorded() -> None:
    cluster = batch(batch_vertex("source", 2, results=["records"]), batch_vertex("reader", 2, inputs=["records"]))
    cluster.finish("source")
    assert recorded(cluster) == []


# The next JobMaster


def next_job_master(cluster, graph, held=None):
    """Returns a cluster whose JobMaster has replayed the events of `cluster`, without job recovery."""
    events = recorded(cluster)
    made = Cluster(graph, graph_id="second")
    made.scheduler.start_with_sources({})
    made.scheduler.recover(job_events.replay(events, ()), stored(cluster) if held is None else held)
    made.start()
    made.add_task_manager("tm9", 8)
    made.run_all()
    return made


def test_the_next_job_master_repeats_only_the_committer() -> None:
    cluster = batch(*one_sink())
    cluster.finish("source")
    cluster.finish("writer")
    second = next_job_master(cluster, job_graph(*one_sink()))
    assert second.states() == {
        "source0": "FINISHED",
        "source1": "FINISHED",
        "writer0": "FINISHED",
        "writer1": "FINISHED",
        "committer0": "RUNNING",
    }
    second.finish("committer")
    assert second.state is JobState.FINISHED


def test_the_next_job_master_starts_over_if_a_writer_had_not_finished() -> None:
    cluster = batch(*one_sink())
    cluster.finish("source")
    cluster.finish("writer0")
    second = next_job_master(cluster, job_graph(*one_sink()), frozenset())
    assert second.states()["source0"] == "RUNNING"
    assert second.states()["writer0"] == "CREATED"


def test_a_result_stays_final_under_all_further_job_masters() -> None:
    cluster = batch(*sink_and_reader())
    cluster.finish("source")
    cluster.finish("writer")
    final = stored(cluster)
    graph = job_graph(*sink_and_reader())
    second = next_job_master(cluster, graph)
    assert second.states()["writer0"] == "CREATED", "the reader needs its records again"
    assert second.states()["committer0"] == "RUNNING"
    (result,) = [
        result for vertex in second.scheduler.graph.job_vertices.values() for result in vertex.results if result.is_kept
    ]
    assert {str(partition_id) for partition_id in result.final_ids} == final
