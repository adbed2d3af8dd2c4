"""JobDetails: what a JobMaster tells of its vertices, attempts, operators and failures."""

from __future__ import annotations

import pickle

import pytest
from jobmaster_fakes import batch_vertex, job_graph, running, source_and_sink, vertex

from flinkpy._proto import common_pb2, job_pb2
from flinkpy.common.accumulators import IntCounter
from flinkpy.common.errors import FunctionError, PartitionConnectionError
from flinkpy.common.states import ExecutionState as E
from flinkpy.jobmaster import accumulators
from flinkpy.jobmaster.accumulators import final_accumulators
from flinkpy.jobmaster.failover.execution_failure_handler import MAX_CONCURRENT_FAILURES
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.job_details import DetailParts, aggregated_state, job_details
from flinkpy.jobmaster.scheduler.default_scheduler import SchedulerOptions

BOOM = FunctionError("boom")


def restarting(graph, **arguments):
    return running(graph, restart_strategy=FixedDelayRestartStrategy(9, 100), **arguments)


def details_of(cluster, **arguments):
    return job_details(cluster.scheduler, common_pb2.Configuration(), **arguments)


def test_a_vertex_has_the_state_and_times_of_its_subtasks_together():
    cluster = running(source_and_sink(2))
    source, sink = details_of(cluster).vertices
    assert source.state == E.RUNNING.value
    assert (source.start_time_ms, source.end_time_ms) == (cluster.now_ms, -1)
    started = cluster.now_ms
    cluster.advance(70)
    cluster.finish("source0")
    assert details_of(cluster).vertices[0].state == E.RUNNING.value
    cluster.advance(30)
    cluster.finish("source1")
    source, sink = details_of(cluster).vertices
    assert (source.state, source.start_time_ms, source.end_time_ms) == (E.FINISHED.value, started, started + 100)
    assert sink.end_time_ms == -1


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, E.CREATED),
        ({E.SCHEDULED: 2}, E.CREATED),
        ({E.INITIALIZING: 1, E.RUNNING: 1}, E.INITIALIZING),
        ({E.RUNNING: 1, E.FINISHED: 1}, E.RUNNING),
        ({E.FINISHED: 1, E.CREATED: 1}, E.RUNNING),
        ({E.FINISHED: 2}, E.FINISHED),
        ({E.CANCELED: 1, E.FINISHED: 1}, E.CANCELED),
        ({E.CANCELING: 1, E.CANCELED: 1}, E.CANCELING),
        ({E.FAILED: 1, E.CANCELING: 1}, E.FAILED),
    ],
)
def test_the_state_of_a_vertex_follows_from_the_states_of_its_subtasks(counts, expected):
    assert aggregated_state(counts, 2) is expected


def test_a_subtask_tells_where_it_runs_and_its_former_attempts_newest_first():
    cluster = restarting(source_and_sink(1))
    for _ in range(2):
        cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
        cluster.obey_cancels()
        cluster.advance(100)
        cluster.run_all()
    (subtask,) = details_of(cluster).vertices[0].subtasks
    assert (subtask.attempt_number, subtask.endpoint, subtask.resource_id) == (2, "tm1:2", "tm1")
    assert [prior.attempt_number for prior in subtask.prior_attempts] == [1, 0]
    assert {prior.state for prior in subtask.prior_attempts} == {E.FAILED.value}
    assert subtask.prior_attempts[0].state_timestamps["FAILED"] == cluster.now_ms - 100


def test_callers_choose_the_vertices_whose_subtasks_they_get():
    cluster = running(source_and_sink(2))

    def num_subtasks(**request):
        parts = DetailParts.of(job_pb2.JobDetailsRequest(**request))
        return [len(one.subtasks) for one in details_of(cluster, parts=parts).vertices]

    assert num_subtasks() == [2, 2]
    assert num_subtasks(without_subtasks=True) == [0, 0]
    assert num_subtasks(without_subtasks=True, vertex_ids=["sink", "missing"]) == [0, 2]
    without = details_of(cluster, parts=DetailParts(has_subtasks=False)).vertices[1]
    assert dict(without.tasks_per_state) == {"RUNNING": 2}


def test_operators_tell_their_inputs_from_other_vertices_and_inside_the_chain():
    source = batch_vertex("source", 1, results=["data"])
    source.chain.add(operator_id="map-op", name="map", description="map(f)")
    source.chain[0].outputs.add(chained_operator=1)
    source.chain[1].outputs.add(result=0)
    graph = job_graph(source, vertex("sink", 1, inputs=["data"], group="of the sink"))
    first, sink = details_of(running(graph)).vertices
    head, mapped = first.operators
    assert not head.inputs and mapped.description == "map(f)"
    assert [(one.operator_id, one.ship_strategy, one.vertex_id) for one in mapped.inputs] == [
        ("source-op", "FORWARD", "")
    ]
    (read,) = sink.operators[0].inputs
    assert (read.operator_id, read.ship_strategy, read.vertex_id) == ("map-op", "HASH", "source")
    assert read.exchange == job_pb2.BLOCKING
    assert sink.slot_sharing_group == "of the sink"


def test_failures_of_tasks_that_are_restarted_anyway_are_concurrent():
    cluster = restarting(source_and_sink(2))
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    cluster.update(cluster.attempt("sink"), E.FAILED, PartitionConnectionError("the source is gone"))
    (failure,) = details_of(cluster).exception_history
    assert (failure.task_name, failure.endpoint, failure.resource_id) == ("source (1/2)", "tm1:2", "tm1")
    assert [(other.task_name, other.error.type) for other in failure.concurrent] == [
        ("sink (1/2)", "PartitionConnectionError")
    ]


def test_a_lost_task_executor_is_one_failure_with_the_tasks_that_it_ran():
    cluster = restarting(source_and_sink(2))
    cluster.lose("tm1")
    (failure,) = details_of(cluster).exception_history
    assert failure.error.type == "TaskManagerLostError"
    assert len(failure.concurrent) == 3
    assert len({failure.task_name, *(other.task_name for other in failure.concurrent)}) == 4


def test_a_concurrent_failure_that_is_closer_to_the_root_cause_becomes_the_root():
    cluster = running(source_and_sink(1))
    cluster.update(cluster.attempt("sink"), E.FAILED, PartitionConnectionError("the source is gone"))
    cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
    assert cluster.failure is BOOM
    (failure,) = details_of(cluster).exception_history
    assert failure.error.message == "boom"
    assert [other.error.type for other in failure.concurrent] == ["PartitionConnectionError"]


def test_the_concurrent_failures_of_an_entry_are_bounded():
    width = MAX_CONCURRENT_FAILURES + 5
    cluster = restarting(source_and_sink(width), slots=[("tm1", width)])
    cluster.lose("tm1")
    (failure,) = details_of(cluster).exception_history
    assert len(failure.concurrent) == MAX_CONCURRENT_FAILURES


def test_the_details_say_whether_earlier_failures_are_forgotten():
    cluster = restarting(source_and_sink(1), options=SchedulerOptions(exception_history_size=1))
    for is_truncated in (False, True):
        cluster.update(cluster.attempt("source"), E.FAILED, BOOM)
        assert details_of(cluster).is_exception_history_truncated is is_truncated
        cluster.obey_cancels()
        cluster.advance(100)
        cluster.run_all()


def _reports(width=2):
    def report(value):
        counter = IntCounter()
        counter.add(value)
        return {"n": pickle.dumps(counter)}

    return {(name, index): report(index + 1) for name in ("a", "b") for index in range(width)}


def test_an_ended_job_keeps_its_accumulators_per_vertex_and_subtask_as_text():
    final = final_accumulators(_reports())
    details = job_pb2.JobDetails(
        vertices=[
            job_pb2.VertexDetails(id="a", subtasks=[job_pb2.SubtaskDetails(subtask_index=i) for i in range(2)]),
            job_pb2.VertexDetails(id="c"),
        ]
    )
    final.add_to(details)
    assert [pickle.loads(one.value_pickle) for one in final.job] == [6]
    first, other = details.vertices
    assert [(one.name, one.value, one.value_pickle) for one in first.accumulators] == [("n", "3", b"")]
    assert [one.accumulators[0].value for one in first.subtasks] == ["1", "2"]
    assert not other.accumulators


def test_the_kept_accumulators_of_subtasks_are_bounded(monkeypatch):
    monkeypatch.setattr(accumulators, "MAX_KEPT_TEXT_BYTES", 60)
    final = final_accumulators(_reports(50))
    assert set(final.vertices) == {"a", "b"}
    assert 0 < len(final.subtasks) < 5
