"""Column aggregates in batch mode: one row per key at the end, and fewer rows before an exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streaming_fakes import OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.compiled import compiled_aggregate
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark

BATCH = {"execution.runtime-mode": "BATCH"}
TINY = {**BATCH, "execution.batch.column-operator.memory": "2 kb"}
KEY = specs.FieldKeySelector(("key",))


def aggregate_spec(*aggregates: specs.ColumnAggregate, **more: Any) -> specs.ColumnAggregateSpec:
    return specs.ColumnAggregateSpec(KEY, aggregates, emit="FINAL", **more)


def numbers(start: int, count: int, num_keys: int) -> pa.RecordBatch:
    n = np.arange(start, start + count)
    return pa.RecordBatch.from_pydict({"key": n % num_keys, "n": n})


def rows(harness: OperatorHarness) -> list[tuple[Any, ...]]:
    batches = [item.values for item in harness.output.items if isinstance(item, Batch)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


SUM = specs.ColumnAggregate("total", "SUM", "n")
COUNT = specs.ColumnAggregate("rows", "COUNT")


@pytest.mark.parametrize("configuration", [BATCH, TINY])
def test_every_key_has_one_row_at_the_end_before_the_watermark(configuration: dict[str, str]) -> None:
    harness = OperatorHarness(aggregate_spec(COUNT, SUM), configuration=configuration)
    for start in range(0, 4_000, 500):
        harness.operator.process_batch(Batch(numbers(start, 500, 700)))
    harness.operator.process_element(Watermark(MAX_WATERMARK))
    assert harness.output.items == []
    harness.operator.finish()
    spills = harness.operator._spills
    harness.operator.close()

    expected: dict[int, list[int]] = {}
    for n in range(4_000):
        expected.setdefault(n % 700, []).append(n)
    assert rows(harness) == [(key, len(ns), sum(ns)) for key, ns in sorted(expected.items())]
    assert harness.output.items[-1] == Watermark(MAX_WATERMARK)
    assert (spills.num_files > 0) == (configuration is TINY)
    assert not list(spills.path.glob("*.spill"))


def test_a_compiled_aggregate_that_spills_adds_in_order() -> None:
    pytest.importorskip("numba")
    digits = compiled_aggregate(
        "n",
        initial=0,
        add=lambda total, n: (total * 3 + n) % 1_000_003,
        result=lambda total: total,
        output_type=Types.LONG(),
    ).renamed("digits")
    given = []
    for configuration in (BATCH, TINY):
        harness = OperatorHarness(aggregate_spec(digits, COUNT), configuration=configuration)
        for start in range(0, 2_000, 250):
            harness.operator.process_batch(Batch(numbers(start, 250, 90)))
        harness.operator.finish()
        given.append(rows(harness))
        harness.operator.close()

    in_memory, spilled = given
    assert spilled == in_memory
    expected: dict[int, int] = {}
    for n in range(2_000):
        expected[n % 90] = (expected.get(n % 90, 0) * 3 + n) % 1_000_003
    assert [row[:2] for row in in_memory] == sorted(expected.items())


def test_rows_become_columns_and_dictionary_columns_their_values() -> None:
    record = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
    harness = OperatorHarness(aggregate_spec(SUM, input_types=(record,)), configuration=BATCH)
    harness.process([("a", 1), ("b", 2), ("a", 3)])
    harness.operator.finish()
    assert rows(harness) == [("a", 4), ("b", 2)]

    harness = OperatorHarness(aggregate_spec(SUM), configuration=BATCH)
    for names in (["a", "b"], ["c", "a"]):
        columns = pa.RecordBatch.from_pydict({"key": pa.array(names).dictionary_encode(), "n": [1, 2]})
        harness.operator.process_batch(Batch(columns))
    harness.operator.finish()
    assert rows(harness) == [("a", 3), ("b", 2), ("c", 1)]


def test_unsupported_aggregates_are_refused() -> None:
    harness = OperatorHarness(aggregate_spec(SUM), configuration=BATCH)
    with pytest.raises(TypeMismatchError, match="no column 'n'"):
        harness.operator.process_batch(Batch(pa.RecordBatch.from_pydict({"key": [1]})))
    with pytest.raises(UnsupportedOperationError, match="only inserts"):
        harness.operator.process_batch(Batch(numbers(0, 2, 2), None, np.array([0, 3], dtype=np.int8)))
    with pytest.raises(UnsupportedOperationError, match="batch mode"):
        harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())
    harness.operator.close()


def test_a_final_aggregate_in_streaming_mode_keeps_its_state() -> None:
    harness = OperatorHarness(aggregate_spec(SUM))
    harness.operator.process_batch(Batch(numbers(0, 4, 2)))

    assert harness.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())["op0"].keyed is not None


def pre_aggregated(num_keys: int, configuration: dict[str, str], count: int = 350_000) -> OperatorHarness:
    spec = specs.PreAggregateSpec(KEY, (COUNT, SUM))
    harness = OperatorHarness(spec, configuration=configuration)
    for start in range(0, count, 50_000):
        harness.operator.process_batch(Batch(numbers(start, 50_000, num_keys)))
    return harness


def test_pre_aggregation_emits_few_keys_at_the_end() -> None:
    harness = pre_aggregated(10, BATCH)
    assert harness.output.items == []
    harness.operator.finish()

    assert [row[1] for row in rows(harness)] == [35_000] * 10


def test_pre_aggregation_emits_partial_results_that_fill_the_memory() -> None:
    harness = pre_aggregated(20_000, {**BATCH, "execution.batch.column-operator.memory": "1 mb"})
    before_the_end = len(rows(harness))
    harness.operator.finish()

    assert before_the_end
    assert sum(row[1] for row in rows(harness)) == 350_000
    assert sum(row[2] for row in rows(harness)) == sum(range(350_000))


def test_pre_aggregation_stops_grouping_if_keys_hardly_repeat() -> None:
    harness = pre_aggregated(1 << 40, BATCH)

    assert rows(harness) == [(n, 1, n) for n in range(350_000)]
