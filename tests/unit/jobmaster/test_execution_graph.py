from __future__ import annotations

import pytest
from jobmaster_fakes import job_graph, source_and_sink, vertex

from flinkpy.common.errors import InvalidTransitionError, JobSubmissionError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import EXECUTION_TRANSITIONS, JOB_TRANSITIONS, ExecutionState, JobState
from flinkpy.jobmaster.executiongraph.execution import Execution
from flinkpy.jobmaster.executiongraph.execution_graph import ExecutionGraph


def graph_of(*vertices):
    graph = ExecutionGraph(job_graph(*vertices), graph_id="g", now_ms=5)
    graph.validate()
    return graph


def wiring(graph, name):
    """Returns for each consumer subtask the subpartition index and the partitions of each gate."""
    return [
        [(gate.subpartition_index, [partition.index for partition in gate.partitions]) for gate in consumer.consumed]
        for consumer in graph.job_vertices[JobVertexID(name)].task_vertices
    ]


def test_every_job_vertex_has_one_execution_vertex_per_subtask():
    graph = graph_of(vertex("a", 3, results=["d"]), vertex("b", 2, inputs=["d"]))
    assert [v.task_name for v in graph.vertices] == ["a (1/3)", "a (2/3)", "a (3/3)", "b (1/2)", "b (2/2)"]
    assert {v.current.state for v in graph.vertices} == {ExecutionState.CREATED}


def test_all_to_all_consumer_i_reads_subpartition_i_of_every_partition():
    graph = graph_of(vertex("a", 3, results=["d"]), vertex("b", 2, inputs=["d"]))
    assert wiring(graph, "b") == [[(0, [0, 1, 2])], [(1, [0, 1, 2])]]
    producer = graph.job_vertices[JobVertexID("a")].results[0]
    assert [partition.num_subpartitions for partition in producer.partitions] == [2, 2, 2]


def test_pointwise_with_equal_parallelism_connects_neighbours():
    graph = graph_of(vertex("a", 2, results=["d"], pointwise=True), vertex("b", 2, inputs=["d"]))
    assert wiring(graph, "b") == [[(0, [0])], [(0, [1])]]


def test_pointwise_from_wide_to_narrow_spreads_the_producers():
    graph = graph_of(vertex("a", 5, results=["d"], pointwise=True), vertex("b", 2, inputs=["d"]))
    assert wiring(graph, "b") == [[(0, [0, 1])], [(0, [2, 3, 4])]]


def test_pointwise_from_narrow_to_wide_spreads_the_consumers():
    graph = graph_of(vertex("a", 2, results=["d"], pointwise=True), vertex("b", 5, inputs=["d"]))
    assert wiring(graph, "b") == [[(0, [0])], [(1, [0])], [(2, [0])], [(0, [1])], [(1, [1])]]
    producer = graph.job_vertices[JobVertexID("a")].results[0]
    assert [partition.num_subpartitions for partition in producer.partitions] == [3, 2]


def test_vertices_are_ordered_producers_first_whatever_the_order_of_the_graph():
    graph = graph_of(
        vertex("sink", 1, inputs=["d2"]),
        vertex("map", 1, inputs=["d1"], results=["d2"]),
        vertex("src", 1, results=["d1"]),
    )
    assert [str(vertex_id) for vertex_id in graph.job_vertices] == ["src", "map", "sink"]


def test_max_parallelism_is_derived_if_it_is_not_set():
    graph = graph_of(vertex("a", 100))
    assert graph.job_vertices[JobVertexID("a")].max_parallelism == 256
    assert graph.job_vertices[JobVertexID("a")].job_vertex.max_parallelism == 256


def test_a_producer_is_told_the_max_parallelism_of_its_consumer_which_owns_the_key_groups():
    source = vertex("source", 2, results=["data"], max_parallelism=8)
    graph = graph_of(source, vertex("sink", 3, inputs=["data"], max_parallelism=64))
    producer = graph.job_vertices[JobVertexID("source")]
    assert [data_set.consumer_max_parallelism for data_set in producer.job_vertex.results] == [64]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (vertex("a", 0), "parallelism 0"),
        (vertex("a", 8, max_parallelism=4), "more than its max parallelism 4"),
        (vertex("a", 1, max_parallelism=40_000), "between 1 and 32768"),
    ],
)
def test_an_invalid_parallelism_is_rejected_with_its_vertex(bad, message):
    with pytest.raises(JobSubmissionError, match=message):
        graph_of(bad)


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        (
            [vertex("a", 1, inputs=["d2"], results=["d1"]), vertex("b", 1, inputs=["d1"], results=["d2"])],
            "cycle.*'a', 'b'",
        ),
        ([vertex("a", 1, inputs=["nowhere"])], "'a' reads data set nowhere"),
        ([vertex("a", 1), vertex("a", 1)], "defined twice"),
        ([vertex("a", 1, results=["d"]), vertex("b", 1, results=["d"])], "data set d .* defined twice"),
        ([vertex("a", 1, results=["d"]), vertex("b", 1, inputs=["d"]), vertex("c", 1, inputs=["d"])], "one consumer"),
        ([], "no vertices"),
    ],
)
def test_an_invalid_graph_is_rejected_with_its_culprit(vertices, message):
    with pytest.raises(JobSubmissionError, match=message):
        graph_of(*vertices)


def test_only_the_current_attempt_is_found_as_an_execution():
    graph = ExecutionGraph(source_and_sink(), graph_id="g", now_ms=0)
    source = next(graph.vertices)
    first = source.current.attempt_id
    source.current.transition(ExecutionState.CANCELED, 1)
    source.reset_for_new_execution(2)
    assert graph.find_execution(first) is None
    assert graph.find_vertex(first) is source
    assert graph.find_execution(source.current.attempt_id) is source.current
    assert source.current.attempt_id.attempt_number == 1
    assert source.prior_execution(first).state is ExecutionState.CANCELED
    assert graph.find_vertex(ExecutionAttemptID("other", source.id, 0)) is None


def test_prior_attempts_are_bounded():
    graph = ExecutionGraph(source_and_sink(), graph_id="g", now_ms=0, max_prior_attempts=2)
    source = next(graph.vertices)
    for _ in range(5):
        source.current.transition(ExecutionState.CANCELED, 1)
        source.reset_for_new_execution(2)
    assert [prior.attempt_id.attempt_number for prior in source.prior] == [3, 4]


def attempt():
    return Execution(ExecutionAttemptID("g", ExecutionVertexID(JobVertexID("v"), 0), 0), 0)


@pytest.mark.parametrize("start", ExecutionState)
@pytest.mark.parametrize("target", ExecutionState)
def test_an_execution_makes_exactly_the_transitions_of_the_table(start, target):
    execution = attempt()
    execution.state = start
    if (start, target) in EXECUTION_TRANSITIONS:
        execution.transition(target, 7)
        assert execution.state is target
        assert execution.state_timestamps[target] == 7
    else:
        with pytest.raises(InvalidTransitionError, match=f"{start.name} to {target.name}; history: CREATED@0"):
            execution.transition(target, 7)
        assert execution.state is start


@pytest.mark.parametrize("start", JobState)
@pytest.mark.parametrize("target", JobState)
def test_a_job_makes_exactly_the_transitions_of_the_table(start, target):
    graph = ExecutionGraph(source_and_sink(), graph_id="g", now_ms=0)
    graph.state = start
    if (start, target) in JOB_TRANSITIONS:
        graph.transition(target, 9)
        assert graph.state is target
        assert (graph.end_time_ms == 9) == target.is_terminal
    else:
        with pytest.raises(InvalidTransitionError, match="history: INITIALIZING@0"):
            graph.transition(target, 9)
