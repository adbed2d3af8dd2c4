"""Operators of expressions over columns: selections, filters, global aggregates and sorts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from memory_checkpoints import MemoryStreams
from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.expressions import col
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import ColumnAggregate
from flinkpy.records.batch import Batch

INPUT = Types.ROW_NAMED(["k", "x"], [Types.STRING(), Types.INT()])


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int32())],
        names=["k", "x"],
    )


def select(predicate: Any = None) -> specs.SelectSpec:
    output = Types.ROW_NAMED(["twice"], [Types.INT()])
    return specs.SelectSpec(((col("x") * 2).alias("twice"),), predicate, input_types=(INPUT,), output_type=output)


def restored(harness: OperatorHarness, spec: specs.OperatorSpec, *others: OperatorHarness) -> OperatorHarness:
    """Returns an operator restored from these snapshots."""
    merged = checkpoint_pb2.OperatorSubtaskState()
    files = MemoryStreams()
    for each in (harness, *others):
        snapshot = each.operator.snapshot_state(1, checkpoint_pb2.CheckpointOptions())
        if snapshot.operator is not None:
            merged.operator.append(snapshot.operator.write(files))
    state = checkpoint_pb2.TaskStateSnapshot()
    state.operators["op0"].CopyFrom(merged)
    return OperatorHarness(spec, state=FakeTaskStateManager(state, files=files))


def test_a_selection_keeps_the_timestamps_and_kinds_of_selected_records() -> None:
    harness = OperatorHarness(select(col("k") == "a"))
    kinds = np.array([0, 2, 3], np.int8)

    harness.operator.process_batch(Batch(batch(("a", 1), ("b", 2), ("a", None)), np.array([10, 20, 30]), kinds))
    harness.operator.process_batch(Batch(batch(("b", 1))))

    (emitted,) = harness.output.items
    assert emitted.values.to_pydict() == {"twice": [2, None]}
    assert emitted.timestamps.tolist() == [10, 30]
    assert emitted.kinds.tolist() == [0, 3]


def test_select_accepts_python_rows() -> None:
    assert OperatorHarness(select()).process([("a", 1), ("b", 2)]) == [2, 4]


def test_an_expression_filter_keeps_matching_records() -> None:
    spec = specs.FilterBatchesSpec(None, col("x") > 1, input_types=(INPUT,), output_type=INPUT)
    harness = OperatorHarness(spec)

    assert harness.process(batch(("a", 1), ("b", 2), ("c", None)), [1, 2, 3]) == [("b", 2)]
    assert harness.output.timestamps == [2]


def test_expressions_need_columns() -> None:
    with pytest.raises(UnsupportedOperationError, match="declared ROW or TUPLE"):
        OperatorHarness(specs.FilterBatchesSpec(None, col("x") > 1))


def totals() -> specs.GlobalColumnAggregateSpec:
    aggregates = (ColumnAggregate("n", "COUNT"), ColumnAggregate("s", "SUM", "x"), ColumnAggregate("top", "MAX", "k"))
    output = Types.ROW_NAMED(["n", "s", "top"], [Types.LONG(), Types.LONG(), Types.STRING()])
    return specs.GlobalColumnAggregateSpec(aggregates, input_types=(INPUT,), output_type=output)


def test_a_global_aggregate_emits_one_row_even_without_records() -> None:
    empty, some = OperatorHarness(totals()), OperatorHarness(totals())
    some.process(batch(("a", 1), ("b", None)))
    some.process(batch(("c", 5)))
    for harness in (empty, some):
        harness.operator.finish()

    assert empty.output.rows == [(0, None, None)]
    assert some.output.rows == [(3, 6, "c")]


def test_a_global_aggregate_resumes_from_the_snapshots_of_several_subtasks() -> None:
    one, other = OperatorHarness(totals()), OperatorHarness(totals())
    one.process(batch(("a", 1)))
    other.process(batch(("z", 10), ("b", None)))

    again = restored(one, totals(), other)
    again.process(batch(("c", 100)))
    again.operator.finish()

    assert again.output.rows == [(4, 111, "z")]


def test_final_results_are_not_emitted_again_after_a_failure() -> None:
    for spec in (totals(), order()):
        harness = OperatorHarness(spec)
        harness.process(batch(("a", 1)))
        harness.operator.finish()
        assert harness.operator.snapshot_state(1, checkpoint_pb2.CheckpointOptions()).operator is None


def order(*keys: tuple[str, str], limit: int | None = None) -> specs.SortColumnsSpec:
    return specs.SortColumnsSpec(keys or (("x", "ascending"),), limit, input_types=(INPUT,), output_type=INPUT)


def test_nulls_come_first_in_ascending_and_last_in_descending_order() -> None:
    rows = batch(("a", 2), ("b", None), ("a", 1), (None, 3))
    for keys, expected in (
        ([("x", "ascending")], [None, 1, 2, 3]),
        ([("x", "descending")], [3, 2, 1, None]),
        ([("k", "descending"), ("x", "ascending")], [None, 1, 2, 3]),
    ):
        harness = OperatorHarness(order(*keys))
        harness.process(rows)
        assert harness.output.rows == []
        harness.operator.finish()
        assert [row[1] for row in harness.output.rows] == expected


def test_a_limited_sort_keeps_few_extra_rows_in_memory() -> None:
    harness = OperatorHarness(order(limit=3))
    for start in range(1_000_000, 0, -50_000):
        numbers = np.arange(start, start - 50_000, -1, dtype=np.int32)
        harness.process(pa.record_batch({"k": ["x"] * 50_000, "x": numbers}))
        assert harness.operator._num_rows < 250_000
    harness.operator.finish()

    assert [row[1] for row in harness.output.rows] == [1, 2, 3]


def test_rows_with_equal_keys_keep_their_order_of_arrival() -> None:
    harness = OperatorHarness(order(("k", "ascending"), ("k", "descending")))
    for start in (0, 3):
        harness.process(batch(*(("same", start + i) for i in range(3))))
    harness.operator.finish()

    assert [row[1] for row in harness.output.rows] == [0, 1, 2, 3, 4, 5]


def test_a_sort_resumes_from_a_snapshot() -> None:
    harness = OperatorHarness(order())
    harness.process(batch(("a", 2), ("b", 9)))
    again = restored(harness, order())
    again.process(batch(("c", 5)))
    again.operator.finish()

    assert again.output.rows == [("a", 2), ("c", 5), ("b", 9)]


def test_nan_is_the_largest_number() -> None:
    kind = Types.ROW_NAMED(["d"], [Types.DOUBLE()])
    spec = specs.SortColumnsSpec((("d", "ascending"),), None, input_types=(kind,), output_type=kind)
    harness = OperatorHarness(spec)
    harness.process(pa.record_batch({"d": [float("nan"), 1.0, None, -0.0, float("-inf"), 0.0]}))
    harness.operator.finish()

    assert [str(row) for row in harness.output.rows] == ["None", "-inf", "-0.0", "0.0", "1.0", "nan"]


def test_decimals_are_summed_exactly_in_a_global_aggregate() -> None:
    kind = Types.ROW_NAMED(["m"], [Types.BIG_DEC()])
    spec = specs.GlobalColumnAggregateSpec((ColumnAggregate("s", "SUM", "m"),), input_types=(kind,), output_type=kind)
    harness = OperatorHarness(spec)
    for value in (Decimal("12345678901234567890.123456789012345678"), Decimal("0.000000000000000001")):
        harness.process(pa.record_batch({"m": pa.array([value], pa.decimal128(38, 18))}))
    harness.operator.finish()

    (total,) = harness.output.items[0].values.column(0).to_pylist()
    assert str(total) == "12345678901234567890.123456789012345679"
