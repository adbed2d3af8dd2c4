"""Passes emit the rows that Spark moves; tested without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common import Encoder, Types
from flinkpy.common.accumulators import IntCounter
from flinkpy.common.errors import ConfigurationError, FunctionError, SparkError, UnsupportedOperationError
from flinkpy.connector_api.serializer import read_versioned
from flinkpy.connector_api.sink import DeliveryGuarantee
from flinkpy.connectors.collection import CollectionSource
from flinkpy.connectors.kafka.sink import KafkaSink
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.datastream import MapFunction, ProcessFunction, RuntimeContext
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.spark_region import SparkNode
from flinkpy.network.partitioner import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    KeyGroupStreamPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
)
from flinkpy.records.batch import Batch
from flinkpy.spark.blocks import FAILED_ATTEMPTS, SinkReport, decode_block, encode_accumulators, encode_block
from flinkpy.spark.errors import failure_in, worker_failure
from flinkpy.spark.stream_frame import BLOCK_COLUMN, Layout, column_schema, decode_rows, encode_rows, natural_layout
from flinkpy.spark.translation.program import (
    EDGE_COLUMN,
    MARKER_EDGE,
    OUTPUT_COLUMN,
    PRODUCER_COLUMN,
    SINKS,
    SUBTASK_COLUMN,
    TARGET_COLUMN,
    JobFacts,
    Link,
    PassInput,
    PassOperator,
    PassProgram,
    PassWriter,
)
from flinkpy.spark.translation.row_output import consumers_of
from flinkpy.spark.translation.sinks import (
    DeferredSink,
    check_concurrent_attempts,
    check_repeated_stage,
    job_id_of_attempt,
    job_ids_before,
)
from flinkpy.spark.translation.split_assignment import assign_splits
from flinkpy.spark.translation.worker import _threaded, run_program
from flinkpy.streaming.operators.batch_sink_operators import job_id_of_sink

PAIR = Types.TUPLE([Types.INT(), Types.LONG()])
ODD = OutputTag("odd")


class Rows:
    """The rows that a pass emitted."""

    def __init__(self) -> None:
        self.groups: list[pa.RecordBatch] = []

    def blocks(self, output: int | None = None) -> list[tuple[int, Any]]:
        """Pairs of target and content in the order of emission."""
        found = []
        for group in self.groups:
            for out, target, block in zip(
                group.column(OUTPUT_COLUMN).to_pylist(),
                group.column(TARGET_COLUMN).to_pylist(),
                group.column(BLOCK_COLUMN),
            ):
                if output is None or out == output:
                    found.append((target, decode_block(block.as_buffer())))
        return found

    def records(self, output: int = 0) -> dict[int, list[Any]]:
        """The records by target."""
        by_target: dict[int, list[Any]] = {}
        for target, content in self.blocks(output):
            if isinstance(content, Batch):
                by_target.setdefault(target, []).extend(content.values)
        return by_target


def operator(number: int, spec: specs.OperatorSpec, *links: Link) -> PassOperator:
    return PassOperator(f"{number:032x}", f"op{number}", cloudpickle.dumps(spec), links)


def a_pass(
    *operators: PassOperator, writers: tuple[PassWriter, ...] = (), shape: PassInput | None = None, **changes: Any
) -> PassProgram:
    return PassProgram(
        name="a pass",
        job=JobFacts("a" * 32, "job"),
        parallelism=2,
        max_parallelism=128,
        operators=operators,
        writers=writers,
        input=shape or PassInput((0,)),
        **changes,
    )


def exchanged(*contents: tuple[int, Any], subtask: int = 0) -> Iterator[pa.RecordBatch]:
    """Returns the input of a subtask: pairs of an edge and a batch or accumulators."""
    edges = [MARKER_EDGE, *(edge for edge, _ in contents)]
    blocks = [None, *(encode_block(one) if isinstance(one, Batch) else encode_accumulators(one) for _, one in contents)]
    yield pa.RecordBatch.from_pydict(
        {
            SUBTASK_COLUMN: pa.array([subtask] * len(edges), pa.int32()),
            EDGE_COLUMN: pa.array(edges, pa.int32()),
            BLOCK_COLUMN: pa.array(blocks, pa.binary()),
        }
    )


def run(program: PassProgram, rows: Iterable[pa.RecordBatch] = (), subtask: int = 0, attempt: int = 0) -> Rows:
    given = Rows()
    run_program(program, iter(rows), subtask, attempt, given.groups.append)
    return given


def test_records_are_routed_by_the_partitioner_of_the_edge() -> None:
    double = operator(1, specs.MapSpec(_function(lambda x: x * 2)), Link(None, writer=0), Link(None, writer=1))
    writers = (
        PassWriter(0, None, CustomPartitioner(lambda key, count: key % count, lambda x: x), 3),
        PassWriter(1, None, BroadcastPartitioner(), 2),
    )
    rows = run(a_pass(double, writers=writers), exchanged((0, Batch([1, 2, 3]))))
    assert rows.records(0) == {2: [2], 1: [4], 0: [6]}
    assert rows.records(1) == {0: [2, 4, 6], 1: [2, 4, 6]}


def test_connectors_in_a_worker_find_the_options_of_the_job() -> None:
    """A bucket needs the job's keys, and a worker has no configuration of its own."""

    def keys(value: Any) -> Any:
        from flinkpy.checkpoint.storage.file_systems import process_file_systems

        return process_file_systems()._configuration.get_string("s3.access-key", "none")

    job = JobFacts("a" * 32, "job", configuration={"s3.access-key": "the key"})
    look = operator(1, specs.MapSpec(_function(keys)), Link(None, writer=0))
    program = replace(a_pass(look, writers=(PassWriter(0, None, RebalancePartitioner(), 1),)), job=job)
    found: list[Any] = []
    # In a thread, as a worker does, because the file systems belong to it.
    thread = threading.Thread(target=lambda: found.append(run(program, exchanged((0, Batch([1]))))))
    thread.start()
    thread.join()
    assert found[0].records() == {0: ["the key"]}


def _function(function: Any) -> MapFunction:
    class Function(MapFunction):
        def map(self, value: Any) -> Any:
            return function(value)

    return Function()


@pytest.mark.parametrize("key", [7, "a", b"a", None, (1, "x"), 1.5, True, 10**40])
def test_a_key_goes_to_the_subtask_that_owns_its_key_group(key: Any) -> None:
    from flinkpy.common.key_groups import operator_index
    from flinkpy.records.key_hash import hash_key

    writer = PassWriter(0, None, KeyGroupStreamPartitioner(lambda record: record[0]), 5, 128)
    rows = run(a_pass(writers=(writer,)), exchanged((0, Batch([(key, 1)]))))
    assert list(rows.records()) == [operator_index(128, 5, hash_key(key) % 128)]


def test_timestamps_and_columns_travel_with_the_records() -> None:
    columns = pa.RecordBatch.from_pydict({"f0": pa.array([1, 2], pa.int32()), "f1": pa.array([3, 4], pa.int64())})
    batch = Batch(columns, np.array([10, 20], dtype=np.int64))
    rows = run(a_pass(writers=(PassWriter(0, PAIR, RebalancePartitioner(), 1),)), exchanged((0, batch)))
    ((_, content),) = rows.blocks()
    assert content.values.equals(columns)
    assert content.timestamps.tolist() == [10, 20]


def test_broadcast_inputs_are_read_before_the_records() -> None:
    from flinkpy.datastream import BroadcastProcessFunction
    from flinkpy.datastream.state import MapStateDescriptor

    rules = MapStateDescriptor("rules", Types.STRING(), Types.STRING())

    class Look(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value, ctx.get_broadcast_state(rules).get("rule")

        def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            ctx.get_broadcast_state(rules).put("rule", value)
            return iter(())

    spec = specs.BatchSpec(specs.BroadcastProcessSpec(Look(), (rules,)))
    program = a_pass(
        operator(1, spec, Link(None, writer=0)),
        writers=(PassWriter(0, None),),
        shape=PassInput((1, 0)),
        num_inputs=2,
    )
    assert run(program, exchanged((0, Batch(["first"])), (1, Batch([5])))).records() == {0: [(5, "first")]}


def test_side_outputs_and_chained_operators_have_separate_outputs() -> None:
    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            if value % 2:
                yield ODD, value
            else:
                yield value

    split = operator(1, specs.ProcessSpec(Split()), Link("odd", writer=1), Link(None, chained=1))
    text = operator(2, specs.MapSpec(_function(str)), Link(None, writer=0))
    rows = run(
        a_pass(split, text, writers=(PassWriter(0, None), PassWriter(1, None))), exchanged((0, Batch([1, 2, 3])))
    )
    assert rows.records(0) == {0: ["2"]}
    assert rows.records(1) == {0: [1, 3]}


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context
        self._counter = runtime_context.get_int_counter("count")

    def map(self, value: Any) -> Any:
        self._counter.add(value)
        context = self._context
        return (
            context.get_index_of_this_subtask(),
            context.get_number_of_parallel_subtasks(),
            context.get_attempt_number(),
        )


def test_functions_see_their_subtask_and_their_accumulators_travel_with_the_records() -> None:
    program = a_pass(
        operator(1, specs.MapSpec(Counting()), Link(None, writer=0)), writers=(PassWriter(0, None),), report_output=0
    )
    rows = run(program, exchanged((0, Batch([1, 2])), (0, {"earlier": b"one"})), subtask=1, attempt=3)
    assert rows.records() == {0: [(1, 2, 3)] * 2}
    reports = [content for _, content in rows.blocks() if isinstance(content, dict)]
    assert {"earlier": b"one"} in reports
    (mine,) = (report for report in reports if "count" in report)
    counter = cloudpickle.loads(mine["count"])
    assert isinstance(counter, IntCounter)
    assert counter.get_local_value() == 3


def test_a_source_reads_the_splits_of_its_subtask() -> None:
    source = NumberSequenceSource(1, 100)
    program = a_pass(
        operator(1, specs.SourceSpec(source), Link(None, writer=0)),
        writers=(PassWriter(0, Types.LONG()),),
        shape=PassInput(None),
        source_events=assign_splits(source, 2, "numbers"),
    )
    read = []
    for subtask in range(2):
        for _, content in run(program, subtask=subtask).blocks():
            read += content.values.column(0).to_pylist()
    assert sorted(read) == list(range(1, 101))


def test_a_single_subtask_reads_a_collection_with_one_split() -> None:
    events = assign_splits(CollectionSource([1, 2]), 3, "collection")
    assert [len(one.answers) for one in events] == [2, 1, 1]


def test_a_source_that_waits_for_its_readers_is_refused() -> None:
    from flinkpy.connector_api.source import SplitEnumerator

    class Silent(SplitEnumerator):
        def start(self) -> None:
            return

        def handle_split_request(self, subtask_index: int) -> None:
            return

        def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
            return

    class SilentSource(NumberSequenceSource):
        def create_enumerator(self, context: Any) -> SplitEnumerator:
            return Silent()

    with pytest.raises(UnsupportedOperationError, match="the source 'silent' does not assign its splits"):
        assign_splits(SilentSource(1, 2), 2, "silent")


def test_committables_of_a_sink_are_reported_and_not_committed() -> None:
    from flinkpy.connector_api.sink import Committer, SinkBase, SinkWriter

    class Writer(SinkWriter):
        def __init__(self, context: Any) -> None:
            self.rows: list[Any] = []
            self.job_id = context.job_id

        def write(self, batch: Batch) -> None:
            self.rows += batch.values

        def prepare_commit(self) -> list[Any]:
            return [(self.job_id, self.rows)]

    class Refusing(Committer):
        def commit(self, requests: Any) -> None:
            raise AssertionError("the driver commits")

    class Sink(SinkBase):
        def create_writer(self, context: Any) -> SinkWriter:
            return Writer(context)

        def create_committer(self) -> Committer:
            return Refusing()

    program = a_pass(operator(1, specs.SinkSpec(Sink())))
    rows = run(program, exchanged((0, Batch([1, 2]))), subtask=1, attempt=2)
    (_, report), (_, failures) = rows.blocks(SINKS)
    assert failures == {FAILED_ATTEMPTS: b"2"}
    assert isinstance(report, SinkReport)
    assert (report.sink, report.subtask_index, report.attempt_number, report.num_records) == (0, 1, 2, 2)
    (committable,) = report.committables
    # Two attempts never take what the other has prepared for their own.
    job_id = job_id_of_sink("a" * 32, f"{1:032x}")
    assert read_versioned(None, committable, "a committable") == (f"{job_id}-0-2", [1, 2])


def test_leftovers_of_earlier_attempts_are_removed_before_a_writer_starts() -> None:
    from flinkpy.connector_api.sink import Committer, SinkBase, SinkWriter

    made: list[tuple[str, int]] = []

    class Writer(SinkWriter):
        def write(self, batch: Batch) -> None:
            return

    class Nothing(Committer):
        def commit(self, requests: Any) -> None:
            return

    class Sink(SinkBase):
        def create_writer(self, context: Any) -> SinkWriter:
            made.append((context.job_id, context.attempt_number))
            return Writer()

        def create_committer(self) -> Committer:
            return Nothing()

    class Context:
        subtask_index, parallelism, input_type = 1, 2, None

    context: Any = Context()
    sink = DeferredSink(Sink(), [], job_id_of_attempt("job", 0, 2), job_ids_before("job", 0, 2, may_speculate=False))
    assert sink.create_committer() is not None
    sink.create_writer(context)
    assert made == [("job-0-0", 1), ("job-0-1", 1), ("job-0-2", 0)]
    # Another attempt that runs now may be the one that counts.
    assert job_ids_before("job", 0, 2, may_speculate=True) == []
    assert job_ids_before("job", 1, 0, may_speculate=True) == ["job-0-0", "job-0-1", "job-0-2", "job-0-3"]


def test_sinks_that_do_not_support_concurrent_attempts_are_refused_with_speculation(tmp_path: Path) -> None:
    files = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    schema: Any = None
    kafka = KafkaSink(DeliveryGuarantee.EXACTLY_ONCE, {}, "prefix", schema)
    nodes = [
        SparkNode(number, name, "", f"{number:032x}", specs.SinkSpec(sink), 1)
        for number, (name, sink) in enumerate({"files": files, "kafka": kafka}.items())
    ]
    check_concurrent_attempts(nodes[:1])
    with pytest.raises(ConfigurationError, match=r"^kafka: spark\.speculation is on.*set_batch_backend\('native'\)"):
        check_concurrent_attempts(nodes)


def test_a_sink_that_cannot_tell_attempts_apart_is_written_again_after_a_repeated_stage(tmp_path: Path) -> None:
    from flinkpy.connector_api.sink import Committer, SinkBase, SinkWriter

    class Nothing(Committer):
        def commit(self, requests: Any) -> None:
            return

    class WithoutCommitter(SinkBase):
        def create_writer(self, context: Any) -> SinkWriter:
            raise NotImplementedError

    class Prepares(WithoutCommitter):
        def create_committer(self) -> Committer:
            return Nothing()

    files = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    nodes = [
        SparkNode(number, type(sink).__name__, "", f"{number:032x}", specs.SinkSpec(sink), 1)
        for number, sink in enumerate([files, WithoutCommitter(), Prepares()])
    ]
    check_repeated_stage(nodes[:2])
    with pytest.raises(SparkError, match=r"^Prepares: executors were lost while this sink was written"):
        check_repeated_stage(nodes)


def test_an_error_of_a_function_names_the_operator_and_survives_in_sparks_text() -> None:
    program = a_pass(
        operator(1, specs.MapSpec(_function(lambda x: 1 // x)), Link(None, writer=0)), writers=(PassWriter(0, None),)
    )
    with pytest.raises(Exception) as raised:
        list(_threaded(lambda emit: run_program(program, exchanged((0, Batch([0]))), 0, 0, emit), "a pass"))
    failure = failure_in(f"org.apache.spark.SparkException: Job aborted\n{raised.value}\n SQLSTATE: 38000\n\tat java")
    assert isinstance(failure, FunctionError)
    assert "op1: ZeroDivisionError" in failure.message
    assert "lambda x: 1 // x" in failure.remote_traceback


def test_a_text_without_a_valid_marker_has_no_error_of_a_worker() -> None:
    assert failure_in("java.lang.OutOfMemoryError") is None
    text = str(worker_failure(ValueError("x"), "task"))
    assert failure_in(text) is not None
    assert failure_in(text.replace("flinkpy-error:e", "flinkpy-error:f")) is None


def test_a_pass_blocks_while_its_rows_are_not_read_and_ends_when_it_is_abandoned() -> None:
    import threading

    emitted, has_ended = [], threading.Event()

    def produce(emit: Any) -> None:
        try:
            for number in range(1000):
                emit(number)
                emitted.append(number)
        finally:
            has_ended.set()

    reader = _threaded(produce, "a pass")
    assert next(reader) == 0
    reader.close()
    assert has_ended.wait(10)
    assert len(emitted) < 10


def test_pointwise_edges_have_the_same_consumers_as_native_ones() -> None:
    from flinkpy.jobmaster.executiongraph.edge_manager import pointwise_partitions

    for producers in range(1, 7):
        for consumers in range(1, 7):
            for producer in range(producers):
                expected = [
                    one for one in range(consumers) if producer in pointwise_partitions(producers, consumers, one)
                ]
                assert consumers_of(RescalePartitioner(), producer, producers, consumers) == expected
    assert consumers_of(ForwardPartitioner(), 5, 2, 3) == [2]


def test_the_layout_of_a_stream_follows_from_its_type() -> None:
    assert natural_layout(None) is Layout.BLOCKS
    assert natural_layout(PAIR) is Layout.COLUMNS
    assert natural_layout(Types.ROW_NAMED(["__ts"], [Types.LONG()])) is Layout.BLOCKS
    assert natural_layout(Types.BIG_INT()) is Layout.BLOCKS
    assert natural_layout(Types.SQL_TIME()) is Layout.BLOCKS
    assert column_schema(Types.LONG()) == pa.schema([("f0", pa.int64())])


@pytest.mark.parametrize("layout", list(Layout))
def test_batches_are_unchanged_after_encoding_and_decoding(layout: Layout) -> None:
    for times in (None, np.array([5, 6], dtype=np.int64)):
        rows = encode_rows(Batch([(1, 2), (3, 4)], times), PAIR, layout)
        (batch,) = decode_rows(rows, PAIR, layout)
        from flinkpy.records.lanes import rows_of

        assert rows_of(batch, PAIR) == [(1, 2), (3, 4)]
        assert (batch.timestamps is None) if times is None else batch.timestamps.tolist() == [5, 6]


def test_records_without_timestamp_among_others_get_none() -> None:
    parts = [Batch([(1, 1)]), Batch([(2, 2)], np.array([7], dtype=np.int64))]
    rows = pa.concat_batches([encode_rows(part, PAIR, Layout.COLUMNS) for part in parts])
    one, other = decode_rows(rows, PAIR, Layout.COLUMNS)
    assert one.timestamps is None
    assert other.timestamps.tolist() == [7]


def test_the_producer_of_a_block_is_its_subtask() -> None:
    rows = run(a_pass(writers=(PassWriter(0, None),)), exchanged((0, Batch([1]))), subtask=4)
    assert rows.groups[0].column(PRODUCER_COLUMN).to_pylist() == [4]
