"""Full-window partitions: functions over all records of a subtask, and their state."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FunctionError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.functions import AggregateFunction, MapPartitionFunction
from flinkpy.datastream.partition_windowed_stream import Order
from flinkpy.graph.operator_specs import PartitionSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark

RECORD = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.DOUBLE()])
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.float64())])


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def partition_spec(build: Any, type_info: Any = None) -> PartitionSpec:
    """`build(partition windows)` makes the operation."""
    env = StreamExecutionEnvironment.get_execution_environment()
    spec = build(env.from_collection([], type_info).full_window_partition()).transformation.spec
    assert isinstance(spec, PartitionSpec)
    return spec


OPERATIONS: dict[str, Any] = {
    "map": lambda windows: windows.map_partition(lambda values: [sum(values)]),
    "reduce": lambda windows: windows.reduce(lambda one, other: one + other),
    "aggregate": lambda windows: windows.aggregate(Mean()),
    "sort": lambda windows: windows.sort_partition(lambda value: value),
}
ANSWERS: dict[str, Any] = {"map": [15], "reduce": [15], "aggregate": [3.0], "sort": [1, 2, 3, 4, 5]}


def restored(spec: PartitionSpec, *harnesses: OperatorHarness) -> OperatorHarness:
    """Returns one subtask restored from the states of all."""
    files = MemoryStreams()
    snapshot = checkpoint_pb2.TaskStateSnapshot()
    for harness in harnesses:
        state = harness.operator.snapshots(1, OPTIONS)["op0"].operator
        handle = None if state is None else state.write(files)
        if handle is not None:
            snapshot.operators["op0"].operator.append(handle)
    return OperatorHarness(spec, state=FakeTaskStateManager(snapshot, files=files))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_results_come_at_the_end_of_the_input_before_the_watermark(operation: str) -> None:
    harness = OperatorHarness(partition_spec(OPERATIONS[operation]))
    harness.process([5, 1, 4], [1, 2, 3])
    harness.watermark(7)
    harness.process([2, 3])
    assert harness.output.items == []
    harness.operator.finish()
    assert harness.output.rows == ANSWERS[operation]
    assert harness.output.items[-1] == Watermark(7)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_subtask_without_records_emits_no_results(operation: str) -> None:
    harness = OperatorHarness(partition_spec(OPERATIONS[operation]))
    harness.operator.finish()
    assert harness.output.items == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_subtask_resumes_from_the_states_of_several(operation: str) -> None:
    spec = partition_spec(OPERATIONS[operation])
    first, second, idle = (OperatorHarness(spec) for _ in range(3))
    first.process([5, 1])
    second.process([4])
    harness = restored(spec, first, second, idle)
    harness.process([2, 3])
    harness = restored(spec, harness)
    harness.operator.finish()
    assert harness.output.rows == ANSWERS[operation]


def test_a_partition_is_read_lazily_and_results_come_in_several_batches() -> None:
    class Doubling(MapPartitionFunction):
        def map_partition(self, values: Any) -> Any:
            for value in values:
                yield value
                yield value

    harness = OperatorHarness(partition_spec(lambda windows: windows.map_partition(Doubling())))
    for begin in range(0, 10_000, 1000):
        harness.process(list(range(begin, begin + 1000)))
    harness.operator.finish()
    assert harness.output.rows == [value for value in range(10_000) for _ in range(2)]
    assert len(harness.output.items) > 1


def test_an_exception_names_the_operator() -> None:
    def fail(values: Any) -> Any:
        raise ValueError("no")

    harness = OperatorHarness(partition_spec(lambda windows: windows.map_partition(fail)))
    harness.process([1])
    with pytest.raises(FunctionError, match="operator PartitionSpec: ValueError: no"):
        harness.operator.finish()


def test_records_of_a_declared_type_are_kept_as_columns() -> None:
    harness = OperatorHarness(partition_spec(lambda windows: windows.sort_partition("number"), RECORD))
    harness.process(pa.record_batch({"name": ["a", "b"], "number": [2.0, 1.0]}, schema=SCHEMA))
    harness.operator.finish()
    assert isinstance(harness.output.items[0], Batch)
    assert harness.output.items[0].is_columnar
    assert harness.output.rows == [("b", 1.0), ("a", 2.0)]


def test_a_sort_order_must_be_ascending_or_descending() -> None:
    with pytest.raises(TypeError, match="an order must be"):
        partition_spec(lambda windows: windows.sort_partition("number", "down"), RECORD)


SELECTORS: list[Any] = ["name", "number", ("name", "number")]


@cache
def sort_spec(field: int, order: Order) -> PartitionSpec:
    return partition_spec(lambda windows: windows.sort_partition(SELECTORS[field], order), RECORD)


NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False, width=16))
RECORDS = st.lists(st.tuples(st.sampled_from(["b", "a", "", "é", "z", "Z"]), NUMBERS), min_size=1, max_size=30)


@given(
    records=RECORDS, cuts=st.sets(st.integers(1, 29)), order=st.sampled_from(Order), field=st.sampled_from([0, 1, 2])
)
def test_columns_are_sorted_in_pythons_order_for_any_batches(
    records: list[tuple[str, float]], cuts: set[int], order: Order, field: int
) -> None:
    harness = OperatorHarness(sort_spec(field, order))
    borders = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    for begin, end in pairwise(borders):
        names, numbers = zip(*records[begin:end])
        harness.process(pa.record_batch({"name": names, "number": numbers}, schema=SCHEMA))
    harness.operator.finish()
    key: Any = [lambda record: record[0], lambda record: record[1], lambda record: record][field]
    expected = sorted(records, key=key, reverse=order is Order.DESCENDING)
    # Values that are equal but not identical (0.0 and -0.0) must have the same positions too.
    assert [(name, math.copysign(1, number), number) for name, number in harness.output.rows] == [
        (name, math.copysign(1, number), number) for name, number in expected
    ]


@pytest.mark.parametrize("number", [None, math.nan])
def test_columns_without_an_arrow_order_are_sorted_by_python(number: Any) -> None:
    harness = OperatorHarness(partition_spec(lambda windows: windows.sort_partition("number"), RECORD))
    harness.process(pa.record_batch({"name": ["a", "b"], "number": [2.0, number]}, schema=SCHEMA))
    if number is None:
        with pytest.raises(FunctionError, match="TypeError"):
            harness.operator.finish()
    else:
        harness.operator.finish()
        assert [name for name, _ in harness.output.rows] == ["a", "b"]


class Counting(MapPartitionFunction):
    """Emits the number of records and the number of checkpoints so far."""

    def __init__(self) -> None:
        self.checkpoints = 0

    def snapshot_state(self, context: Any) -> None:
        self.checkpoints += 1

    def map_partition(self, values: Any) -> Any:
        yield len(list(values)), self.checkpoints


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_partition_of_a_keyed_stream_is_a_key_and_its_function_is_checkpointed(backend: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([], Types.LONG()).key_by(lambda number: number % 3, Types.LONG())
    spec = keyed.full_window_partition().map_partition(Counting()).transformation.spec  # type: ignore[attr-defined]
    harness = OperatorHarness(spec, configuration={"state.backend.type": backend})
    harness.process(list(range(10)))
    harness.operator.snapshots(1, OPTIONS)["op0"].release()
    harness.watermark(100)
    assert harness.output.rows == []
    harness.watermark(MAX_WATERMARK)
    harness.operator.close()
    assert sorted(harness.output.rows) == [(3, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("memory", ["1 b", "2 kb"])
@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize("order", list(Order))
def test_batch_mode_sorts_records_that_exceed_the_memory_on_disk(memory: str, is_typed: bool, order: Order) -> None:
    rows = [(f"name {number * 7 % 100}", float(number % 10)) for number in range(500)]
    spec = partition_spec(lambda windows: windows.sort_partition("number", order), RECORD if is_typed else None)
    if not is_typed:
        spec = partition_spec(lambda windows: windows.sort_partition(1, order))
    results = []
    for configuration in ({}, {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.memory": memory}):
        harness = OperatorHarness(spec, configuration=configuration)
        for start in range(0, len(rows), 60):
            part = rows[start : start + 60]
            values: Any = (
                pa.RecordBatch.from_arrays(list(map(pa.array, zip(*part))), schema=SCHEMA) if is_typed else part
            )
            harness.operator.process_batch(Batch(values))
        harness.operator.finish()
        results.append([tuple(row) for row in harness.output.rows])
        spills = getattr(harness.operator, "spills", None)
        harness.operator.close()
        assert spills is None or (spills.num_files and not spills.path.exists())

    in_memory, spilled = results
    assert spilled == in_memory


def test_batch_mode_map_partition_reads_its_records_from_disk() -> None:
    spec = partition_spec(lambda windows: windows.map_partition(lambda values: [sum(values)]))
    configuration = {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.memory": "1 kb"}
    harness = OperatorHarness(spec, configuration=configuration)
    for start in range(0, 1_000, 100):
        harness.operator.process_batch(Batch(list(range(start, start + 100))))
    harness.operator.finish()
    harness.operator.close()

    assert harness.output.rows == [sum(range(1_000))]
