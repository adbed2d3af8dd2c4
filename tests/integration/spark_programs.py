"""Runs the Spark region of a program in a Spark session of the test, without a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from java_archives import JAVA_OPTIONS
from requirements import require_spark

from flinkpy.common import Configuration
from flinkpy.common.accumulators import Accumulator
from flinkpy.connector_api.serializer import read_versioned
from flinkpy.connector_api.sink import SinkBase
from flinkpy.datastream import DataStream, StreamExecutionEnvironment
from flinkpy.graph.batch_mode import to_batch_mode
from flinkpy.graph.spark_region import SparkRegion, SparkRegionSpec
from flinkpy.graph.spark_regions import cut_spark_regions
from flinkpy.records.lanes import rows_of
from flinkpy.spark.blocks import FAILED_ATTEMPTS
from flinkpy.spark.translation.translator import JobFacts, Translated, translate
from flinkpy.state import pickling
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

Build = Callable[[StreamExecutionEnvironment], DataStream | None]

_IN_SPARK = {"execution.runtime-mode": "BATCH", "execution.batch.backend": "spark"}


@contextmanager
def spark_session(master: str = "local[2,3]", **conf: str) -> Iterator[Any]:
    """Yields a session with a separate driver. Only one can exist at a time."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # As in the sessions of jobs. Without it, each worker imports Arrow and flinkpy again.
        "spark.python.daemon.module": "flinkpy.spark.worker_daemon",
        # Plans run once here: compiling them would take longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        **conf,
    }
    builder = SparkSession.builder.master(master).appName("flinkpy tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # The workers import the functions of the programs.
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[1]))))
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()


class SharedSession:
    """The session of all tests that need no special one. The next test without Spark ends it first."""

    def __init__(self) -> None:
        self._lifetime = ExitStack()
        self._session: Any = None

    def started(self) -> Any:
        if self._session is None:
            self._session = self._lifetime.enter_context(spark_session())
        return self._session

    def stop(self) -> None:
        self._session = None
        self._lifetime.close()


SHARED_SESSION = SharedSession()


@pytest.fixture
def session() -> Any:
    require_spark()
    return SHARED_SESSION.started()


def region_of(build: Build, parallelism: int = 2, **options: str) -> SparkRegion:
    """Returns the single region of the program. The result of `build` is its output."""
    configuration = Configuration.from_dict({**_IN_SPARK, **options})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    stream = build(env)
    if stream is not None:
        stream.print()  # belongs to the task, so the region has an output
    graph = env._stream_graph("test")
    cut_spark_regions(graph, to_batch_mode(graph, configuration))
    regions = [node.spec.region for node in graph.nodes if isinstance(node.spec, SparkRegionSpec)]
    assert len(regions) == 1, [node.name for node in graph.nodes]
    return regions[0]


def translated(session: Any, build: Build, parallelism: int = 2, **options: str) -> Translated:
    return translate(region_of(build, parallelism, **options), session, [], JobFacts("a" * 32, "test"))


class Results:
    """The results of a region. `accumulators` contains the merged accumulators by name."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.timestamps: list[int | None] = []
        self.accumulators: dict[str, Accumulator] = {}
        self.num_written = 0
        #: The attempts of Spark's tasks that failed and were repeated.
        self.num_failed_attempts = 0

    def take_accumulators(self, accumulators: Any) -> None:
        for name, data in accumulators.items():
            if name == FAILED_ATTEMPTS:
                self.num_failed_attempts += int(data)
                continue
            one = pickling.loads(data)
            if name in self.accumulators:
                self.accumulators[name].merge(one)
            else:
                self.accumulators[name] = one


def run_in_spark(session: Any, build: Build, parallelism: int = 2, **options: str) -> Results:
    """Runs the program: first its outputs, then its sinks."""
    region = region_of(build, parallelism, **options)
    program = translate(region, session, [], JobFacts("a" * 32, "test"))
    results = Results()
    for output in program.outputs:
        for rows in output.frame.toArrow().to_batches():
            for batch in output.decode(rows, results.take_accumulators):
                results.records += rows_of(batch, output.type_info)
                results.timestamps += [None] * len(batch) if batch.timestamps is None else batch.timestamps.tolist()
    for sink in program.sinks:
        results.num_written += sink.write(results.take_accumulators)
    for sink in program.sinks:
        sink.remove_leftovers(may_have_retried=True)
    for sink in program.sinks:
        for node_id, committables in sink.committables():
            spec: Any = region.node(node_id).spec
            commit(spec.sink, committables)
    return results


def commit(sink: SinkBase, committables: Iterable[bytes]) -> None:
    """Commits the committables of a region, as its task does."""
    committer = sink.create_committer()
    assert committer is not None
    due = Committables()
    due.add(
        END_OF_INPUT_ID,
        [read_versioned(sink.committable_serializer, data, "a committable") for data in committables],
    )
    due.commit_up_to(END_OF_INPUT_ID, committer, 0)
    committer.close()


def spark_records(session: Any, build: Build, parallelism: int = 2, **options: str) -> list[Any]:
    return run_in_spark(session, build, parallelism, **options).records
