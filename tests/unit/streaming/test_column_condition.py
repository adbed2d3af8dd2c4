from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.typeinfo import Types
from flinkpy.datastream.expressions import col
from flinkpy.expressions.arrow import as_filter
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.column_selection import ColumnCondition

TYPES = {"a": Types.LONG(), "b": Types.LONG(), "name": Types.STRING()}
PARTS = (
    col("a") < 3,
    col("b") >= 2,
    (col("a") + col("b")) > 4,
    (col("a") + col("b")) < 9,
    col("name") == "x",
    col("name").is_not_null,
)
NUMBERS = st.one_of(st.none(), st.integers(0, 6))
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("name", pa.string())])
RECORDS = st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([None, "x", "y"])), max_size=40)


def batch_of(records, **more):
    columns = [pa.array([record[i] for record in records], kind) for i, kind in enumerate(SCHEMA.types)]
    return Batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), **more)


def joined(parts):
    condition = parts[0]
    for part in parts[1:]:
        condition = condition & part
    return condition


@given(records=RECORDS, parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_only_records_that_fulfil_the_whole_condition_are_kept(records, parts):
    condition = joined(parts)
    timestamps = np.arange(len(records), dtype=np.int64)
    batch = batch_of(records, timestamps=timestamps, kinds=(timestamps % 4).astype(np.int8))
    mask = as_filter(condition, batch.values).to_numpy(zero_copy_only=False)
    left = ColumnCondition(condition, TYPES, None).holding(batch)
    assert left.num_rows == mask.sum()
    if left.num_rows:
        assert left.values.equals(batch.values.filter(pa.array(mask)))
        assert left.timestamps.tolist() == timestamps[mask].tolist()
        assert left.kinds.tolist() == batch.kinds[mask].tolist()


@given(records=RECORDS, parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_needed_columns_are_kept_even_if_the_condition_does_not_use_them(records, parts):
    condition = joined(parts)
    batch = batch_of(records)
    left = ColumnCondition(condition, TYPES, ["b"]).holding(batch)
    wanted = batch.values.filter(as_filter(condition, batch.values)).column("b")
    if left.num_rows:
        assert left.values.column("b").equals(wanted)
    else:
        assert not len(wanted)


def test_a_later_part_gets_only_remaining_records_and_columns_still_needed():
    condition = ColumnCondition((col("a") == 1) & (col("b") > 0) & (col("b") < 5), TYPES, [])
    seen = []
    for step in condition._steps:
        evaluate = step.condition.evaluate
        step.condition.evaluate = lambda columns, evaluate=evaluate: (seen.append(columns), evaluate(columns))[1]
    condition.holding(batch_of([(i % 10, i % 7, "x") for i in range(100)]))
    assert [columns.num_rows for columns in seen] == [100, 10, 10]
    assert [columns.schema.names for columns in seen[1:]] == [["b"], ["b"]]


def test_parts_that_share_a_computation_are_evaluated_together():
    shared = col("a") + col("b")
    apart = ColumnCondition((shared > 4) & (col("name") == "x") & (shared < 9), TYPES, None)
    assert len(apart._steps) == 2


@pytest.mark.parametrize("how_many", [0, 1])
def test_a_batch_in_which_no_record_matches_becomes_empty(how_many):
    condition = ColumnCondition((col("a") > 100) & (col("name") == "x"), TYPES, ["name"])
    assert condition.holding(batch_of([(1, 1, "x")] * how_many)).num_rows == 0
