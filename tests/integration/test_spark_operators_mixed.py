"""Regions that exchange records with operators outside of Python workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_support import wait_until
from spark_programs import Results, region_of, run_in_spark, session

from flinkpy.common import Row, Types, WatermarkStrategy
from flinkpy.common.accumulators import IntCounter
from flinkpy.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, sum_
from flinkpy.datastream.connectors.file_system import FileSource
from flinkpy.datastream.expressions import col
from flinkpy.datastream.formats.parquet import ParquetColumnarRowInputFormat
from flinkpy.datastream.partition_windowed_stream import Order
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.spark.session_handles import forget_results
from flinkpy.spark.stream_frame import frame_of
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.translation.translator import translate

RECORD = Types.ROW_NAMED(["word", "number"], [Types.STRING(), Types.LONG()])
PAIR = Types.TUPLE([Types.INT(), Types.LONG()])

#: The time limit of a test. The first job of a session compiles code and imports modules in Python workers.
pytestmark = pytest.mark.timeout(300)

__all__ = ["session"]


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._counter = runtime_context.get_int_counter("rows")

    def map(self, value: Any) -> Any:
        self._counter.add(1)
        return Row(value.word, value.number + 1)


def test_sparks_own_operators_and_python_workers_hand_records_to_each_other(session: Any, tmp_path: Path) -> None:
    words = [f"w{i % 3}" for i in range(300)]
    pq.write_table(pa.table({"word": words, "number": list(range(300))}), tmp_path / "in.parquet")

    def build(env: StreamExecutionEnvironment) -> Any:
        source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type=RECORD), str(tmp_path)).build()
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", RECORD)
        kept = rows.filter_batches(col("number") >= 10).map(Counting(), RECORD)
        totals = kept.key_by("word").aggregate(n=count(), total=sum_("number"))
        return totals.map(lambda row: (row.word, row.n, row.total))

    results = run_in_spark(session, build)
    expected = {
        (word, len(numbers), sum(number + 1 for number in numbers))
        for word in ("w0", "w1", "w2")
        if (numbers := [i for i in range(10, 300) if words[i] == word])
    }
    assert set(results.records) == expected
    counter = results.accumulators["rows"]
    assert isinstance(counter, IntCounter)
    assert counter.get_local_value() == 290


@pytest.mark.parametrize("type_info", [PAIR, None], ids=["columns", "objects"])
def test_records_of_native_operators_are_partitioned_as_their_edge_says(session: Any, type_info: Any) -> None:
    def build(env: StreamExecutionEnvironment) -> Any:
        numbers = env.from_collection([(i % 4, i) for i in range(40)], type_info).set_batch_backend("native")
        mapped = numbers.map(lambda t: (t[0], t[1] * 2), type_info)
        keyed = numbers.key_by(lambda t: t[0], Types.INT()).reduce(lambda a, b: (a[0], a[1] + b[1]))
        last = numbers.rebalance().full_window_partition().sort_partition(1, Order.DESCENDING)
        return mapped.map(repr).union(keyed.map(repr), last.map(lambda t: f"sorted {t}")).map(lambda text: text)

    region = region_of(build)
    batches = [Batch([(i % 4, i) for i in range(start, start + 10)]) for start in range(0, 40, 10)]
    inputs = [frame_of(session, batches, type_info) for _ in region.inputs]
    translated = translate(region, session, inputs, JobFacts("a" * 32, "test"))
    results = Results()
    for output in translated.outputs:
        for rows in output.frame.toArrow().to_batches():
            for batch in output.decode(rows, results.take_accumulators):
                results.records += rows_of(batch, output.type_info)
    expected = [repr((i % 4, i * 2)) for i in range(40)]
    expected += [repr((key, sum(i for i in range(40) if i % 4 == key))) for key in range(4)]
    expected += [f"sorted {(i % 4, i)}" for i in range(40)]
    assert sorted(results.records) == sorted(expected)


def test_more_records_than_memory_are_sorted_by_key(session: Any) -> None:
    def build(env: StreamExecutionEnvironment) -> Any:
        numbers = env.from_sequence(1, 60_000).map(lambda x: (x % 7, str(x) * 10))
        return numbers.key_by(lambda t: t[0]).map(lambda t: (t[0], len(t[1])))

    results = run_in_spark(session, build, **{"execution.sorted-inputs.memory": "1 mb"})
    assert len(results.records) == 60_000
    assert sum(length for _, length in results.records) == sum(len(str(x)) * 10 for x in range(1, 60_001))


def test_a_driver_forgets_shuffles_and_frames_that_something_still_refers_to(session: Any) -> None:
    """Otherwise dynamic allocation does not give back the executors that hold them."""
    context = session.sparkContext
    num_computed = context.accumulator(0)

    def compute(value: int) -> tuple[int, int]:
        num_computed.add(1)
        return value % 3, value

    groups = context.parallelize(range(10), 2).map(compute).groupByKey()
    assert [groups.count(), groups.count(), num_computed.value] == [3, 3, 10], "the shuffle is read twice"
    kept = session.range(10).localCheckpoint()
    assert kept.count() == 10 and context._jsc.getPersistentRDDs().size()
    assert len(list(session.range(10).groupBy("id").count().toLocalIterator(prefetchPartitions=True))) == 10
    jobs_of_queries = context._jsc.sc().dagScheduler().activeQueryToJobs()
    assert jobs_of_queries.size(), "Spark keeps jobs that were started after the end of their query"
    forget_results(context._jvm, context._jsc)
    wait_until(lambda: not jobs_of_queries.size(), "Spark's scheduler forgets the jobs")
    assert context._jsc.getPersistentRDDs().size() == 0
    assert [groups.count(), num_computed.value] == [3, 20], "it has to be computed again"
