"""The plan of a job says where each operator runs, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkpy.common import Configuration, Encoder, Types, WatermarkStrategy
from flinkpy.connectors.file_source import FileSource
from flinkpy.connectors.tables.table_source import TableSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import sum_
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.explained_programs import ExplainedJob, explaining
from flinkpy.datastream.expressions import col
from flinkpy.graph.job_plan import plan_lines

BATCH = {"execution.runtime-mode": "BATCH", "parallelism.default": "2"}
SPARK = {**BATCH, "execution.batch.backend": "spark"}


def build(directory: Path, **options: str) -> StreamExecutionEnvironment:
    """Builds a program with columns, functions, a file sink, and a sink of the program."""
    path = directory / "lines.parquet"
    pq.write_table(pa.table({"k": ["a"], "i": [1], "m": [1.5], "unused": ["x"]}), path)
    env = StreamExecutionEnvironment(Configuration.from_dict(options))
    lines = env.from_source(FileSource.for_parquet(str(path)), WatermarkStrategy.no_watermarks(), "lines")
    sums = lines.filter_batches(col("i") > 0).key_by("k").aggregate(total=sum_("m"), emit="FINAL")
    texts = sums.map(str, Types.STRING()).name("As text")
    texts.sink_to(FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build())
    texts.print()
    return env


def explained(env: StreamExecutionEnvironment) -> list[ExplainedJob]:
    with explaining() as jobs:
        env.execute("sums")
    return jobs


def lines_of(directory: Path, **options: str) -> list[str]:
    (job,) = explained(build(directory, **options))
    return plan_lines(job.plan)


def test_a_program_in_spark_alone_is_explained_in_full(tmp_path: Path) -> None:
    assert lines_of(tmp_path, **{**BATCH, "execution.target": "spark"}) == [
        "Job 'sums', batch mode",
        "",
        "Task 1: Spark, because execution.target is spark",
        "  1  Source: lines            Catalyst       partitions of Spark",
        "  2  Filter                   Catalyst       partitions of Spark  <- 1 FORWARD",
        "  3  Keyed Aggregation        Catalyst       partitions of Spark  <- 2 HASH",
        "  4  As text                  Python worker  parallelism 2  <- 3 FORWARD",
        "       because it calls a function of the program",
        "  5  Sink: Writer             Python worker  parallelism 2  <- 4 chained",
        "       because Spark cannot do it itself: files of other formats than Parquet",
        "",
        "Task 2: in Spark's driver",
        "  6  Sink: Print to Std. Out  driver         <- 4 REBALANCE blocking",
        "       because it belongs to the program, so Spark's driver runs it",
        "",
        "Task 3: in Spark's driver",
        "  7  Sink: Committer          driver         <- 5 GLOBAL blocking",
        "       because it commits what its sink has written",
    ]


def test_native_tasks_have_their_chains_and_what_sources_read(tmp_path: Path) -> None:
    shown = lines_of(tmp_path, **BATCH)
    assert shown[2:10] == [
        "Task 1: native, parallelism 2 at most",
        "  1  Source: lines            native  parallelism 2 at most",
        "       because auto: its sources have 1177 bytes, execution.batch.spark.min-input-size is 4 gb",
        "       columns: k, i, m",
        "       where: (i > 0)",
        "  2  Filter                   native  parallelism 2 at most  <- 1 chained",
        "       columns: k, m",
        "  3  Local Aggregation        native  parallelism 2 at most  <- 2 chained",
    ]


def test_streaming_jobs_are_explained_too(tmp_path: Path) -> None:
    shown = lines_of(tmp_path, **{"parallelism.default": "2"})
    assert shown[0] == "Job 'sums', streaming mode"
    assert "  3  Keyed Aggregation        native  parallelism 2  <- 2 HASH" in shown
    assert not any("because" in line for line in shown)


def test_an_operator_behind_a_function_goes_on_in_its_python_worker(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment(Configuration.from_dict(SPARK))
    row = Types.ROW_NAMED(["k", "i"], [Types.STRING(), Types.LONG()])
    mapped = env.from_collection([("a", 1)], row).set_parallelism(1).map(lambda one: one, row).set_parallelism(1)
    mapped.filter_batches(col("i") > 0).set_parallelism(1).print()
    (job,) = explained(env)
    reasons = {operator.name: (operator.engine, operator.engine_reason) for operator in job.plan.operators}
    assert reasons == {
        "Source: Collection Source": ("python", "Spark cannot do it itself: a CollectionSource"),
        "Map": ("python", "it calls a function of the program"),
        "Filter": ("python", "it goes on in the Python worker of 'Source: Collection Source'"),
        "Sink: Print to Std. Out": ("native", ""),
    }


def test_the_execution_plan_tells_the_same_as_explain(tmp_path: Path) -> None:
    env = build(tmp_path, **SPARK)
    nodes = json.loads(env.get_execution_plan())["nodes"]
    (job,) = explained(env)
    told = [(node["type"], node["backend"], node["backend_reason"], node.get("engine_reason", "")) for node in nodes]
    assert told == [(one.name, one.backend, one.backend_reason, one.engine_reason) for one in job.plan.operators]
    inputs = [[(edge["id"], edge["ship_strategy"]) for edge in node.get("predecessors", ())] for node in nodes]
    assert inputs == [[(edge.operator, edge.exchange) for edge in one.inputs] for one in job.plan.operators]


def test_without_pyspark_the_plan_only_says_that_spark_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec

    def without_pyspark(name: str, package: str | None = None) -> Any:
        return None if name == "pyspark" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_pyspark)
    (job,) = explained(build(tmp_path, **SPARK))
    assert {operator.engine for operator in job.plan.operators} == {"spark", "native"}


def test_an_explained_program_goes_on_with_empty_results() -> None:
    env = StreamExecutionEnvironment(Configuration.from_dict(BATCH))
    with explaining() as jobs:
        assert list(env.from_sequence(1, 3).map(abs).execute_and_collect()) == []
        env.from_sequence(1, 3).print()
        client = env.execute_async("second")
        assert client.get_job_execution_result().result().get_all_accumulator_results() == {}
        with pytest.raises(Exception, match="runs no jobs"):
            client.trigger_savepoint("/savepoints")
    assert [job.plan.job_name for job in jobs] == ["Flink Streaming Job", "second"]


@pytest.mark.parametrize("has_connector", [True, False])
def test_a_table_is_read_by_spark_if_its_settings_name_the_connector(tmp_path: Path, has_connector: bool) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "orders"), pa.table({"k": ["a"], "i": [1]}))
    connector = {
        "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    conf = {f"execution.batch.spark.conf.{key}": value for key, value in connector.items() if has_connector}
    env = StreamExecutionEnvironment(Configuration.from_dict({**SPARK, **conf}))
    source = TableSource.for_path("delta", str(tmp_path / "orders")).build()
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
    orders.filter_batches(col("i") > 0).print()
    (job,) = explained(env)
    source_of_plan, filtered, *_ = job.plan.operators
    assert source_of_plan.name == "Source: orders"
    if has_connector:
        assert (source_of_plan.engine, filtered.engine) == ("catalyst", "catalyst")
    else:
        assert source_of_plan.engine == "python"
        assert "tables of delta without spark.jars.packages with delta-spark" in source_of_plan.engine_reason
