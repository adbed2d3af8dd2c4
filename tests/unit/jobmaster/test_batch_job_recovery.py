"""The next JobMaster of a batch job runs only the missing tasks again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jobmaster_fakes import Cluster, batch_vertex, job_graph
from test_adaptive_scheduling import MB, finish, open_vertex, parallelism, reads

from flinkpy._proto import job_event_pb2
from flinkpy.common.errors import CorruptStateError
from flinkpy.common.ids import JobVertexID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.job_event_store import job_events
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.adaptive_parallelism import AdaptiveParallelismOptions
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions

OPTIONS = SchedulerOptions(
    records_events=True,
    releases_partitions_during_execution=False,
    adaptive=AdaptiveParallelismOptions(bytes_per_task=MB),
)


def three_stages(source_coordinator=b"", partitioner="HASH"):
    return job_graph(
        batch_vertex("source", 2, results=["a"], coordinator=source_coordinator, partitioner=partitioner),
        open_vertex("middle", 4, inputs=["a"], results=["b"]),
        batch_vertex("last", 2, inputs=["b"]),
    )


class Life:
    """A JobMaster of the job with the events that it records."""

    def __init__(self, graph, recorded=(), held=None, graph_id="first"):
        self.graph = graph
        self.cluster = Cluster(graph, options=OPTIONS, graph_id=graph_id)
        scheduler = self.cluster.scheduler
        coordinated = [vertex.id for vertex in scheduler.graph.job_vertices.values() if vertex.has_coordinators]
        job = job_events.replay(recorded, coordinated)
        scheduler.adaptive.replay(job.decisions)
        scheduler.start_with_sources({})
        if recorded:
            ids = {partition_id for execution in job.finished.values() for partition_id in execution.result_bytes}
            scheduler.recover(job, frozenset(ids if held is None else held(ids)))
        self.events = [*recorded, job_events.started(scheduler.graph.job_id, graph_id)]
        self.cluster.start()
        self.started = list(self.cluster.effects)
        self.cluster.add_task_manager("tm", 8)
        self.cluster.run_all()

    def finish(self, name, subtask, *sizes):
        finish(self.cluster, name, subtask, *sizes)
        self.cluster.offer("tm", 1)
        self.cluster.run_all()

    def recorded(self):
        """Returns all events so far, serialized and parsed again as from the disk."""
        self.events += [effect.event for effect in self.cluster.take(fx.RecordJobEvent)]
        return [job_event_pb2.JobEvent.FromString(event.SerializeToString()) for event in self.events]

    def running(self):
        return sorted(name for name, state in self.cluster.states().items() if state in ("RUNNING", "SCHEDULED"))

    def dies(self, held=None):
        return Life(self.graph, self.recorded(), held, graph_id="second")


def after_two_stages(**rest):
    life = Life(three_stages(**rest))
    for subtask in range(2):
        life.finish("source", subtask, (MB, MB, 0, 0))
    assert parallelism(life.cluster, "middle") == 4 or parallelism(life.cluster, "middle") == 2
    for subtask in range(parallelism(life.cluster, "middle")):
        life.finish("middle", subtask, (10, 10))
    return life


def test_finished_tasks_do_not_run_again() -> None:
    life = after_two_stages()
    second = life.dies()
    assert second.running() == ["last0", "last1"]
    for subtask in range(2):
        second.finish("last", subtask)
    assert second.cluster.state is JobState.FINISHED


def test_consumers_read_the_results_of_the_former_job_master() -> None:
    life = Life(three_stages())
    for subtask in range(2):
        life.finish("source", subtask, (MB, MB, 0, 0))
    first = [vertex.produced[0].current_id for vertex in life.cluster.scheduler.graph.vertices if vertex.produced][:2]
    second = Life(life.graph, life.recorded(), graph_id="second")
    vertices = second.cluster.scheduler.graph.job_vertices
    consumed = {
        partition.current_id
        for task in vertices[JobVertexID("middle")].task_vertices
        for gate in task.consumed
        for partition in gate.partitions
    }
    assert consumed == set(first)
    assert {str(one.producer.execution_graph_id) for one in consumed} == {"first"}


def test_a_recovered_vertex_keeps_its_parallelism_and_ranges() -> None:
    life = Life(three_stages())
    for subtask in range(2):
        life.finish("source", subtask, (3 * MB, MB, 0, 0))
    second = life.dies()
    assert parallelism(second.cluster, "middle") == parallelism(life.cluster, "middle")
    assert reads(second.cluster, "middle") == reads(life.cluster, "middle")


def test_a_job_whose_end_was_not_reported_finishes_at_once() -> None:
    life = after_two_stages()
    for subtask in range(2):
        life.finish("last", subtask)
    second = life.dies()
    assert second.cluster.state is JobState.FINISHED
    assert not second.cluster.take(fx.SubmitTasks)


def test_a_lost_result_with_a_waiting_consumer_is_produced_again() -> None:
    life = after_two_stages()
    lost = str(life.cluster.scheduler.graph.vertex(life.cluster.attempt("middle", 0).vertex).produced[0].current_id)
    second = life.dies(lambda ids: ids - {lost})
    assert second.running() == ["middle0"]


def test_the_lost_inputs_of_a_repeated_producer_are_produced_again() -> None:
    life = after_two_stages()
    second = life.dies(lambda ids: frozenset())
    assert second.running() == ["source0", "source1"]
    assert second.cluster.attempt("source").attempt_number == 1


def test_a_lost_result_with_an_undecided_consumer_is_produced_again() -> None:
    life = Life(three_stages())
    life.finish("source", 0, (MB, MB, 0, 0))
    second = life.dies(lambda ids: frozenset())
    assert second.running() == ["source0", "source1"]
    for subtask in range(2):
        second.finish("source", subtask, (MB, MB, 0, 0))
    assert [name for name in second.running() if name.startswith("middle")] != []


def test_lost_results_without_waiting_consumers_are_not_produced_again() -> None:
    life = after_two_stages()
    second = life.dies(lambda ids: {one for one in ids if one.startswith("b#")})
    assert second.running() == ["last0", "last1"]


def test_finished_consumers_run_again_if_their_records_may_differ() -> None:
    life = Life(three_stages(partitioner="REBALANCE"))
    for subtask in range(2):
        life.finish("source", subtask, (MB, MB, 0, 0))
    life.finish("middle", 0, (1, 1))
    second = life.dies(lambda ids: {one for one in ids if one.startswith("b#")})
    assert second.running() == ["source0", "source1"]
    assert second.cluster.states()["middle0"] == "CREATED"


def test_a_task_whose_restart_was_recorded_runs_again() -> None:
    life = Life(three_stages())
    for subtask in range(2):
        life.finish("source", subtask, (MB, MB, 0, 0))
    attempt = life.cluster.attempt("source", 0)
    recorded = [*life.recorded(), job_events.reset([attempt])]
    second = Life(life.graph, recorded, graph_id="second")
    assert second.running() == ["source0"]


def test_a_source_counts_as_finished_after_a_snapshot_of_its_coordinator() -> None:
    life = Life(three_stages(source_coordinator=b"x"))
    life.finish("source", 0, (MB, 0, 0, 0))
    without = life.recorded()
    assert Life(life.graph, without, graph_id="second").running() == ["source0", "source1"]

    snapshot = job_events.snapshot(JobVertexID("source"), {"source-op": b"state"})
    second = Life(life.graph, [*without, snapshot], graph_id="second")
    assert second.running() == ["source1"]
    assert fx.RestoreCoordinators(JobVertexID("source"), {"source-op": b"state"}) in second.started
    resets = [effect.vertex_id.subtask_index for effect in second.started if isinstance(effect, fx.SubtaskReset)]
    assert resets == [1]


def test_a_snapshot_does_not_cover_a_source_subtask_that_its_job_master_runs_again() -> None:
    """The coordinator of the second JobMaster gives the splits of the first subtask to others."""
    first = Life(three_stages(source_coordinator=b"x"))
    first.finish("source", 0, (MB, 0, 0, 0))
    second = first.dies()
    assert second.running() == ["source0", "source1"]
    second.finish("source", 1, (MB, 0, 0, 0))
    snapshot = job_events.snapshot(JobVertexID("source"), {"source-op": b"state"})
    recorded = [*second.recorded(), snapshot]
    third = Life(first.graph, recorded, graph_id="third")
    assert third.running() == ["source0"]

    third.finish("source", 0, (MB, 0, 0, 0))
    fourth = Life(first.graph, [*third.recorded(), snapshot], graph_id="fourth")
    assert [name for name in fourth.running() if name.startswith("source")] == []


def test_decisions_of_another_job_are_rejected() -> None:
    decision = job_events.Decision(JobVertexID("source"), 2, "why", None)
    cluster = Cluster(three_stages(), options=OPTIONS)
    with pytest.raises(CorruptStateError, match="another job"):
        cluster.scheduler.adaptive.replay([decision])


def test_late_updates_about_former_attempts_are_ignored() -> None:
    life = after_two_stages()
    second = life.dies()
    stale = life.cluster.attempt("last", 0)
    second.cluster.send(ev.TaskStateUpdated(stale, ExecutionState.FINISHED))
    assert "last0" in second.running()


@pytest.mark.parametrize(("records", "released"), [(True, 0), (False, 1)])
def test_inputs_of_a_sink_are_kept_while_the_job_can_be_recovered(records, released) -> None:
    options = replace(OPTIONS, records_events=records, releases_partitions_during_execution=True)
    writer = batch_vertex("writer", 1, results=["files"])
    committer = batch_vertex("committer", 1, inputs=["files"])
    cluster = Cluster(job_graph(writer, committer, batch_vertex("busy", 1)), options=options)
    cluster.start()
    cluster.add_task_manager("tm", 2)
    cluster.run_all()
    finish(cluster, "writer", 0, (1,))
    cluster.take(fx.ReleasePartitions)
    finish(cluster, "committer", 0)
    assert len(cluster.take(fx.ReleasePartitions)) == released
    assert cluster.states() == {"writer0": "FINISHED", "committer0": "FINISHED", "busy0": "RUNNING"}
