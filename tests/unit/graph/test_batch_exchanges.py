"""The JobGraph in batch mode: blocking exchanges, shared data sets, slots and committers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from flinkpy._proto import job_pb2
from flinkpy.common import Configuration, Encoder, Types
from flinkpy.common.errors import JobSubmissionError, UnsupportedOperationError
from flinkpy.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.required_slots import required_slots
from flinkpy.graph.validation import validate_job_graph

SHUFFLE_MODE = "execution.batch-shuffle-mode"


def environment(**entries: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(Configuration.from_dict(entries))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(4)
    return env


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(list(range(10)), Types.LONG())


def vertex(graph: job_pb2.JobGraph, name: str) -> job_pb2.JobVertex:
    return next(one for one in graph.vertices if name in one.name)


def build(env: StreamExecutionEnvironment) -> job_pb2.JobGraph:
    graph = env.generate_job_graph()
    validate_job_graph(graph)
    return graph


def test_batch_exchanges_are_blocking_and_flushed_only_when_full() -> None:
    env = environment()
    numbers(env).rebalance().map(lambda x: x).name("mapped").print()
    graph = build(env)
    (result,) = vertex(graph, "Source").results
    assert result.type == job_pb2.BLOCKING
    assert result.buffer_timeout_ms == -1


def test_configuration_can_make_batch_exchanges_pipelined() -> None:
    env = environment(**{SHUFFLE_MODE: "ALL_EXCHANGES_PIPELINED"})
    numbers(env).rebalance().map(lambda x: x).name("mapped").print()
    graph = build(env)
    assert vertex(graph, "Source").results[0].type == job_pb2.PIPELINED_BOUNDED
    assert {one.slot_sharing_group for one in graph.vertices} == {"default"}


@pytest.mark.parametrize("mode", ["ALL_EXCHANGES_HYBRID_FULL", "ALL_EXCHANGES_HYBRID_SELECTIVE"])
def test_hybrid_exchanges_are_rejected_with_the_supported_modes(mode: str) -> None:
    env = environment(**{SHUFFLE_MODE: mode})
    numbers(env).print()
    with pytest.raises(UnsupportedOperationError, match=r"ALL_EXCHANGES_BLOCKING or ALL_EXCHANGES_PIPELINED"):
        env.generate_job_graph()


def test_two_operators_on_one_keyed_stream_read_one_data_set() -> None:
    env = environment()
    keyed = numbers(env).map(lambda x: (x, x)).key_by(lambda pair: pair[0])
    keyed.reduce(lambda a, b: a).name("first").print()
    keyed.map(lambda pair: pair).name("second").print()
    graph = build(env)
    (first,), (second,) = vertex(graph, "first").inputs, vertex(graph, "second").inputs
    assert first.source_data_set_id == second.source_data_set_id
    producer = next(one for one in graph.vertices if first.source_data_set_id in [result.id for result in one.results])
    assert len(producer.results) == 1
    outputs = [output for operator in producer.chain for output in operator.outputs if output.HasField("result")]
    assert len(outputs) == 1, "the producer writes the data once"


def other_parallelism(stream: DataStream) -> Any:
    keyed = stream.key_by(lambda x: x)
    keyed.map(lambda x: x).set_parallelism(2).print()
    return keyed


def other_key(stream: DataStream) -> Any:
    stream.key_by(lambda x: x % 3).map(lambda x: x).print()
    return stream.key_by(lambda x: x)


def other_partitioner(stream: DataStream) -> Any:
    stream.broadcast().map(lambda x: x).print()
    return stream.key_by(lambda x: x)


@pytest.mark.parametrize("build_other", [other_parallelism, other_key, other_partitioner])
def test_streams_with_another_partitioning_have_their_own_data_set(build_other: Any) -> None:
    env = environment()
    build_other(numbers(env)).map(lambda x: x).print()
    graph = build(env)
    consumed = [edge.source_data_set_id for one in graph.vertices for edge in one.inputs]
    assert len(consumed) == len(set(consumed))


def test_every_edge_has_its_own_data_set_in_streaming_mode() -> None:
    env = environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    keyed = numbers(env).key_by(lambda x: x)
    keyed.map(lambda x: x).print()
    keyed.map(lambda x: -x).print()
    graph = build(env)
    consumed = [edge.source_data_set_id for one in graph.vertices for edge in one.inputs]
    assert len(consumed) == len(set(consumed)) == 2


def test_pipelined_data_set_with_two_readers_is_rejected() -> None:
    env = environment()
    keyed = numbers(env).key_by(lambda x: x)
    keyed.map(lambda x: x).print()
    keyed.map(lambda x: -x).print()
    graph = env.generate_job_graph()
    for one in graph.vertices:
        for result in one.results:
            result.type = job_pb2.PIPELINED_BOUNDED
    with pytest.raises(JobSubmissionError, match="has several consumers, but is not blocking"):
        validate_job_graph(graph)


def test_batch_vertices_do_not_share_slots_by_default() -> None:
    env = environment()
    stream = numbers(env).rebalance().map(lambda x: x).name("mapped")
    stream.rebalance().map(lambda x: x).name("own").slot_sharing_group("mine").print()
    graph = build(env)
    groups = [one.slot_sharing_group for one in graph.vertices]
    assert len(set(groups)) == len(groups)
    assert vertex(graph, "own").slot_sharing_group == "mine"


def test_embedded_cluster_has_the_slots_of_the_widest_stage() -> None:
    env = environment()
    numbers(env).rebalance().map(lambda x: x).key_by(lambda x: x).map(lambda x: x).print()
    assert required_slots(env.generate_job_graph()) == 4


def test_committing_sink_has_one_committer_behind_all_writers(tmp_path: Path) -> None:
    env = environment()
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    numbers(env).rebalance().map(str, Types.STRING()).sink_to(sink).name("Files").uid("files")
    graph = build(env)
    writer, committer = vertex(graph, "-> Files"), vertex(graph, "Files: Committer")
    assert committer.is_committer and not writer.is_committer
    assert committer.parallelism == 1
    assert [operator.uid for operator in committer.chain] == ["files: committer"]
    assert committer.inputs[0].source_data_set_id == writer.results[0].id
    found = [type(pickle.loads(operator.factory_pickle)) for operator in (writer.chain[-1], committer.chain[0])]
    assert found == [specs.SinkWriterSpec, specs.SinkCommitterSpec]


def test_exchange_of_committables_is_blocking_even_if_others_are_pipelined(tmp_path: Path) -> None:
    env = environment(**{SHUFFLE_MODE: "ALL_EXCHANGES_PIPELINED"})
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    numbers(env).map(str, Types.STRING()).sink_to(sink).name("Files")
    graph = build(env)
    (result,) = vertex(graph, "-> Files").results if "Files" in graph.vertices[0].name else graph.vertices[-2].results
    assert result.type == job_pb2.BLOCKING


def test_sink_without_a_committer_is_not_split() -> None:
    env = environment()
    numbers(env).print()
    graph = build(env)
    assert not any(one.is_committer for one in graph.vertices)
