from __future__ import annotations

import subprocess
import sys

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common.errors import JobSubmissionError
from flinkpy.graph.validation import validate_job_graph


def operator(number: int, *outputs: job_pb2.OutputDescriptor) -> job_pb2.OperatorDescriptor:
    return job_pb2.OperatorDescriptor(
        operator_id=f"op{number}", name=f"Op {number}", factory_pickle=b"x", outputs=outputs
    )


def data_set(identity: str, partitioner: str = "HASH") -> job_pb2.IntermediateDataSet:
    return job_pb2.IntermediateDataSet(
        id=identity,
        type=job_pb2.PIPELINED_BOUNDED,
        partitioner_pickle=b"x",
        partitioner_name=partitioner,
        distribution=job_pb2.ALL_TO_ALL,
        buffer_timeout_ms=100,
    )


def vertex(number: int, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> job_pb2.JobVertex:
    outputs = [job_pb2.OutputDescriptor(result=index) for index in range(len(writes))]
    return job_pb2.JobVertex(
        id=f"v{number}",
        name=f"V{number}",
        parallelism=1,
        max_parallelism=-1,
        chain=[operator(number, *outputs)],
        inputs=[job_pb2.JobEdge(source_data_set_id=identity) for identity in reads],
        results=[data_set(identity) for identity in writes],
    )


def graph(*vertices: job_pb2.JobVertex) -> job_pb2.JobGraph:
    return job_pb2.JobGraph(job_id="a" * 32, name="job", vertices=vertices)


def good() -> job_pb2.JobGraph:
    return graph(vertex(1, writes=("d1",)), vertex(2, reads=("d1",), writes=("d2",)), vertex(3, reads=("d2",)))


def refused(job_graph: job_pb2.JobGraph) -> str:
    with pytest.raises(JobSubmissionError) as caught:
        validate_job_graph(job_graph)
    return str(caught.value)


def test_good_graph_is_accepted() -> None:
    validate_job_graph(good())


def test_error_of_a_cycle_names_its_vertices() -> None:
    bad = graph(
        vertex(1, writes=("d1",)),
        vertex(2, reads=("d1", "d3"), writes=("d2",)),
        vertex(3, reads=("d2",), writes=("d3",)),
    )

    message = refused(bad)

    assert "cycle" in message
    assert "'V2' -> 'V3' -> 'V2'" in message or "'V3' -> 'V2' -> 'V3'" in message
    assert "V1" not in message.partition(":")[2]


def test_vertex_that_reads_itself_is_a_cycle() -> None:
    assert "'V1' -> 'V1'" in refused(graph(vertex(1, reads=("d1",), writes=("d1",))))


def test_error_of_a_missing_data_set_names_its_reader() -> None:
    bad = good()
    bad.vertices[2].inputs[0].source_data_set_id = "nowhere"

    message = refused(bad)

    assert "'V3' (v3) reads data set nowhere, which no vertex produces" in message
    assert "data set d2 of vertex 'V2' (v2) is consumed by no vertex" in message


def test_missing_vertex_is_a_missing_data_set() -> None:
    bad = good()
    del bad.vertices[0]

    assert "'V2' (v2) reads data set d1" in refused(bad)


@pytest.mark.parametrize("parallelism", [0, -1, 1 << 16])
def test_parallelism_must_be_in_range(parallelism: int) -> None:
    bad = good()
    bad.vertices[1].parallelism = parallelism

    assert f"'V2' (v2) has the parallelism {parallelism}" in refused(bad)


def test_max_parallelism_must_not_be_below_the_parallelism() -> None:
    bad = good()
    bad.vertices[1].parallelism = 4
    bad.vertices[1].max_parallelism = 2

    assert "maximum parallelism 2" in refused(bad)


def test_missing_factory_and_partitioner_are_named() -> None:
    bad = good()
    bad.vertices[0].chain[0].factory_pickle = b""
    bad.vertices[0].results[0].partitioner_pickle = b""

    message = refused(bad)

    assert "operator 'Op 1' of vertex 'V1' (v1) has no factory" in message
    assert "data set d1 of vertex 'V1' (v1) has no partitioner" in message


def test_duplicate_ids_are_named() -> None:
    bad = good()
    bad.vertices[1].id = "v1"
    bad.vertices[1].chain[0].operator_id = "op1"
    bad.vertices[1].results[0].id = "d1"

    message = refused(bad)

    for text in ("vertex id v1 occurs 2 times", "operator id op1 occurs 2 times", "data set id d1 occurs 2 times"):
        assert text in message


def test_output_must_have_a_target() -> None:
    bad = good()
    bad.vertices[0].chain[0].outputs.append(job_pb2.OutputDescriptor())
    bad.vertices[0].chain[0].outputs.append(job_pb2.OutputDescriptor(chained_operator=5))
    bad.vertices[0].chain[0].outputs.append(job_pb2.OutputDescriptor(result=9))

    message = refused(bad)

    assert "an output without a target" in message
    assert "feeds operator number 5" in message
    assert "writes to data set number 9" in message


def test_error_names_a_result_without_a_producer() -> None:
    bad = good()
    del bad.vertices[0].chain[0].outputs[:]

    assert "data set d1 is filled by 0 operator outputs" in refused(bad)


def test_forward_edge_needs_the_same_parallelism() -> None:
    bad = good()
    bad.vertices[0].results[0].partitioner_name = "FORWARD"
    bad.vertices[1].parallelism = 2

    assert "by a forward edge" in refused(bad)


def test_inputs_must_be_numbered_without_a_gap() -> None:
    two = graph(vertex(1, writes=("d1",)), vertex(2, writes=("d2",)), vertex(3, reads=("d1", "d2")))
    validate_job_graph(two)  # a union
    two.vertices[2].inputs[1].input_index = 1
    validate_job_graph(two)
    two.vertices[2].inputs[1].input_index = 2

    assert "vertex 'V3' (v3) has the inputs [0, 2]; they must be numbered from 0 without a gap" in refused(two)


def test_empty_graph_is_rejected() -> None:
    message = refused(job_pb2.JobGraph())

    assert "no job id" in message
    assert "no vertices" in message


def test_list_of_mistakes_is_limited() -> None:
    message = refused(graph(*(vertex(number, reads=("gone",)) for number in range(100))))

    assert "more" in message
    assert len(message.splitlines()) < 30


def test_validation_imports_no_data_path() -> None:
    code = (
        "import sys, flinkpy.graph.validation; "
        "print([name for name in sys.modules if name.split('.')[0] in ('pyarrow', 'numpy', 'cloudpickle')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
