"""Operators that run in Spark are cut out of the graph as regions."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkpy._proto import job_pb2
from flinkpy.common import Configuration, Encoder, Types
from flinkpy.common.errors import FunctionSerializationError, UnsupportedOperationError
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.async_data_stream import AsyncDataStream
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.functions import AsyncFunction
from flinkpy.graph import spark_choice
from flinkpy.graph.spark_region import SparkRegion

Build = Callable[[StreamExecutionEnvironment], Any]


def environment(**options: str) -> StreamExecutionEnvironment:
    settings = {"execution.runtime-mode": "BATCH", "parallelism.default": "2", **options}
    return StreamExecutionEnvironment(Configuration.from_dict(settings))


def job_graph(build: Build, backend: str = "spark", **options: str) -> job_pb2.JobGraph:
    env = environment(**{"execution.batch.backend": backend, **options})
    build(env)
    return env.generate_job_graph()


def hosts(graph: job_pb2.JobGraph) -> list[job_pb2.JobVertex]:
    return [vertex for vertex in graph.vertices if vertex.task_kind == "SPARK"]


def region_of(vertex: job_pb2.JobVertex) -> SparkRegion:
    region: SparkRegion = pickle.loads(vertex.chain[0].factory_pickle).region
    return region


def names(vertex: job_pb2.JobVertex) -> list[str]:
    return [node.name for node in region_of(vertex).nodes]


def test_connected_operators_become_one_vertex_of_parallelism_one() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).map(str).key_by(len).reduce(max).print()

    graph = job_graph(build)
    (host,) = hosts(graph)
    assert names(host) == ["Source: Collection Source", "Map", "Keyed Reduce"]
    assert host.parallelism == 1
    assert [vertex.name for vertex in graph.vertices if not vertex.task_kind] == ["Sink: Print to Std. Out"]
    assert host.description.endswith("(execution.batch.backend is spark)")


def test_a_region_that_records_leave_and_enter_again_becomes_two() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        first = env.from_collection([1]).map(str).name("first")
        outside = first.map(str).name("outside").set_batch_backend("native")
        first.union(outside).map(str).name("last").print()

    graph = job_graph(build)
    assert [names(host) for host in hosts(graph)] == [["Source: Collection Source", "first"], ["last"]]
    produced = {data_set.id for vertex in graph.vertices for data_set in vertex.results}
    assert {edge.source_data_set_id for vertex in graph.vertices for edge in vertex.inputs} == produced


@pytest.mark.parametrize("is_printed", [False, True])
def test_a_committing_sink_runs_in_spark_only_if_nothing_else_reads_its_region(
    tmp_path: Path, is_printed: bool
) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        words = env.from_collection(["a"], Types.STRING())
        words.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()).name("File")
        if is_printed:
            words.print()

    graph = job_graph(build)
    (host,) = hosts(graph)
    assert any("File" in name for name in names(host)) is not is_printed
    # Its committer is a vertex that never runs again, wherever the writer runs.
    assert [vertex.is_committer for vertex in graph.vertices].count(True) == 1


def test_a_native_task_commits_each_sink_of_a_region(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        words = env.from_collection(["a"], Types.STRING()).map(str.upper, Types.STRING())
        for name in ("first", "second"):
            sink = FileSink.for_row_format(str(tmp_path / name), Encoder.simple_string_encoder()).build()
            words.sink_to(sink).name(name)

    graph = job_graph(build)
    (host,) = hosts(graph)
    region = region_of(host)
    assert [region.node(sink).name for sink in region.committables] == ["first: Writer", "second: Writer"]
    assert region.outputs == ()
    committers = [vertex for vertex in graph.vertices if vertex.is_committer]
    assert [vertex.name for vertex in committers] == ["first: Committer", "second: Committer"]
    # Each reads a result of the region of its own, which is kept: what fails is the commit, and not the region.
    results = {data_set.id: data_set for data_set in host.results}
    read = [edge.source_data_set_id for vertex in committers for edge in vertex.inputs]
    assert len(set(read)) == 2 and set(read) == results.keys()
    assert all(vertex.parallelism == 1 and not vertex.task_kind for vertex in committers)


def test_a_stream_that_enters_a_region_twice_is_one_input() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        source = env.from_collection([1]).set_batch_backend("native")
        source.map(str).union(source.map(repr)).map(str).print()

    (host,) = hosts(job_graph(build))
    region = region_of(host)
    assert len(host.inputs) == len(region.inputs) == 1
    assert [edge.source for node in region.nodes[:2] for edge in node.inputs] == [-1, -1]
    assert [edge.source for edge in region.nodes[2].inputs] == [region.nodes[0].id, region.nodes[1].id]


def test_edges_keep_their_partitioning_inside_and_outside_a_region() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        stream = env.from_collection([1], Types.INT()).map(lambda value: value, Types.INT())
        stream.broadcast().map(str).name("all").set_batch_backend("native").print()
        stream.key_by(lambda value: value).reduce(max).print()

    (host,) = hosts(job_graph(build))
    region = region_of(host)
    assert [edge.partitioning_kind for node in region.nodes for edge in node.inputs] == ["REBALANCE", "HASH"]
    assert {data_set.partitioner_name for data_set in host.results} == {"BROADCAST", "REBALANCE"}
    assert region.outputs[0].type_info == Types.INT()
    assert region.nodes[-1].max_parallelism == 128


def test_nodes_have_their_operator_ids_and_specs_of_batch_mode() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).key_by(lambda value: value).reduce(max).uid("reduced").print()

    from flinkpy.graph.operator_hashes import id_of_uid

    node = region_of(hosts(job_graph(build))[0]).nodes[-1]
    assert (node.uid, node.operator_id) == ("reduced", id_of_uid("reduced"))
    assert type(node.spec).__name__ == "BatchSpec"


def test_a_program_of_regions_works_without_generated_uids() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).uid("source").map(str).uid("map").print().uid("sink")

    assert len(hosts(job_graph(build, **{"pipeline.auto-generate-uids": "false"}))) == 1


def test_no_region_is_cut_in_streaming_mode_or_with_the_native_backend() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).map(str).print()

    assert hosts(job_graph(build, backend="native")) == []
    assert hosts(job_graph(build, **{"execution.runtime-mode": "STREAMING"})) == []


def test_a_function_in_a_region_that_cannot_be_pickled_is_named() -> None:
    import threading

    lock = threading.Lock()

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).map(lambda value: lock).name("Locked").print()

    with pytest.raises(FunctionSerializationError, match="Locked"):
        job_graph(build)


class Ask(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def test_an_operator_that_spark_cannot_run_is_named_if_the_backend_is_spark() -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        from flinkpy.common import Time

        source = env.from_collection([1], Types.INT())
        AsyncDataStream.unordered_wait(source, Ask(), Time.seconds(1), 2, Types.INT()).name("Ask").print()

    with pytest.raises(UnsupportedOperationError, match=r"operator 'Ask' cannot run in Spark .*: asynchronous calls"):
        job_graph(build)
    assert hosts(job_graph(build, "auto")) == []


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="Map: the backend must be one of auto, native, spark, not 'flink'"):
        environment().from_collection([1]).map(str).set_batch_backend("flink")


# -- auto ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file_of_columns(tmp_path: Path) -> str:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"number": list(range(1000))}), path)
    return str(path)


def plan_of(path: str, monkeypatch: pytest.MonkeyPatch, obstacle: str | None, **options: str) -> tuple[str, str]:
    """Returns the backend and its reason for the map function after the file source."""
    import json

    monkeypatch.setattr(spark_choice, "spark_obstacle", lambda configuration: obstacle)
    env = environment(**options)
    from flinkpy.common import WatermarkStrategy

    source = env.from_source(FileSource.for_parquet(path), WatermarkStrategy.no_watermarks(), "numbers")
    source.map(str).print()
    node = json.loads(env.get_execution_plan())["nodes"][1]
    return node["backend"], node["backend_reason"]


def test_auto_chooses_spark_from_an_input_size_on(file_of_columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, reason = plan_of(file_of_columns, monkeypatch, None)
    assert backend == "native" and reason.endswith("execution.batch.spark.min-input-size is 4 gb")
    backend, reason = plan_of(file_of_columns, monkeypatch, None, **{"execution.batch.spark.min-input-size": "1 kb"})
    assert backend == "spark" and reason.startswith("auto: its sources have ")


def test_auto_stays_native_without_spark(file_of_columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, reason = plan_of(
        file_of_columns, monkeypatch, "there is no Java", **{"execution.batch.spark.min-input-size": "1 kb"}
    )
    assert backend == "native" and reason.endswith(", but there is no Java")


def test_auto_stays_native_with_pipelined_exchanges(file_of_columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "execution.batch.spark.min-input-size": "1 kb",
        "execution.batch-shuffle-mode": "ALL_EXCHANGES_PIPELINED",
    }
    backend, reason = plan_of(file_of_columns, monkeypatch, None, **options)
    assert backend == "native" and "exchanges are not blocking" in reason
