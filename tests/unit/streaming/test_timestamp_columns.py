"""Event time from a column: equal in both lanes, and errors name values that cannot be a time."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.time import Duration, Instant
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark

UTC = datetime.UTC


def by_column(column: str | int, input_type=None) -> OperatorHarness:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_column(column)
    return OperatorHarness(specs.TimestampsAndWatermarksSpec(strategy, input_types=(input_type,)))


def stamps(column: str | int, rows, input_type=None) -> list[int]:
    harness = by_column(column, input_type)
    harness.operator.process_batch(Batch(rows))
    return harness.output.timestamps


def columns(**arrays: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(arrays)


def test_a_column_of_milliseconds_is_the_event_time_and_makes_the_watermarks():
    harness = by_column("ts")
    harness.process(columns(a=pa.array(["x", "y"]), ts=pa.array([100, -5])))
    harness.advance(201)

    assert harness.output.timestamps == [100, -5]
    assert harness.output.elements == [Watermark(89)]
    assert harness.output.items[0].is_columnar


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1_000), ("ns", 1_000_000)])
def test_timestamps_of_every_unit_are_rounded_down_to_milliseconds(unit, factor):
    raw = [int(-2_000 * factor), int(5_000 * factor), int(-2_000 * factor) - 1]
    array = pa.array(raw, pa.timestamp(unit, tz="UTC"))

    assert stamps(1, columns(a=pa.array([1, 2, 3]), ts=array))[:2] == [-2_000, 5_000]
    assert stamps("ts", columns(ts=array))[2] == {"s": -3_000}.get(unit, -2_001)


def test_narrow_integers_and_slices_are_read_as_milliseconds():
    whole = columns(ts=pa.array([1, 2, 3, 4], pa.uint32()))

    assert stamps("ts", whole.slice(2)) == [3, 4]


@pytest.mark.parametrize("column", ["ts", 1])
def test_rows_give_the_same_timestamps_as_their_columns(column):
    kind = Types.ROW_NAMED(["a", "ts"], [Types.STRING(), Types.LONG()])

    assert stamps(column, [Row("x", 7), Row("y", 8)], kind) == [7, 8]
    assert stamps(column, columns(a=pa.array(["x", "y"]), ts=pa.array([7, 8])), kind) == [7, 8]


def test_fields_of_tuples_dicts_and_named_rows_are_read():
    assert stamps("f1", [("x", 7)], Types.TUPLE([Types.STRING(), Types.LONG()])) == [7]
    assert stamps(1, [("x", 7)]) == [7]
    assert stamps("at", [{"at": 9}, Row(at=3)]) == [9, 3]
    assert stamps(0, [np.int64(4), 5], Types.LONG()) == [4, 5]


def test_python_times_without_a_zone_are_utc():
    naive = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_500)
    aware = datetime.datetime(1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))

    assert stamps(0, [(naive,), (aware,), (Instant(2, 5_999_999),)]) == [-1, 3_600_000, 2_005]


@pytest.mark.parametrize(
    ("column", "rows", "reason"),
    [
        ("ts", columns(a=pa.array([1])), r"column 'ts': the records have only the columns \['a'\]"),
        (3, columns(a=pa.array([1])), r"column 3: the records have only the columns \['a'\]"),
        ("ts", columns(ts=pa.array([1, None])), "it is null in record 1 of the batch"),
        ("ts", columns(ts=pa.array([1.5])), "its type is double, but event time must be an int64 in milliseconds"),
        ("ts", columns(ts=pa.array([1 << 63], pa.uint64())), "out of bounds|out of range|not in range"),
        (0, [(1,), (None,)], "it is null in record 1 of the batch"),
        (0, [("soon",)], r"it is 'soon' \(str\) in record 0 of the batch"),
        (0, [(True,)], r"it is True \(bool\) in record 0 of the batch"),
        (0, [(1 << 63,)], "an int of 64 bits"),
        ("ts", [{"other": 1}], "a record of type dict has no such field: KeyError: 'ts'"),
    ],
)
def test_a_value_that_is_not_a_time_is_named(column, rows, reason):
    with pytest.raises(TypeMismatchError, match=reason) as caught:
        stamps(column, rows)
    assert "operator TimestampsAndWatermarksSpec: cannot read the event time from column" in str(caught.value)


def test_a_column_that_the_type_does_not_have_is_refused_before_the_first_record():
    with pytest.raises(TypeMismatchError, match=r"only the fields \['a'\]"):
        by_column("ts", Types.ROW_NAMED(["a"], [Types.LONG()]))
    with pytest.raises(TypeMismatchError, match=r"only the fields \['f0', 'f1'\]"):
        by_column(2, Types.TUPLE([Types.LONG(), Types.LONG()]))


def test_the_last_set_of_assigner_and_column_counts():
    class Seven(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return 7

    base = WatermarkStrategy.no_watermarks()
    assert base.with_timestamp_assigner(Seven()).with_timestamp_column("ts").timestamp_assigner is None
    assert base.with_timestamp_column("ts").with_timestamp_assigner(Seven()).timestamp_column is None
    assert base.does_nothing
    assert not base.with_timestamp_column(0).does_nothing


def test_an_alignment_without_a_name_or_without_an_interval_is_refused():
    base = WatermarkStrategy.no_watermarks()
    assert base.with_watermark_alignment("g", Duration.of_millis(5)).alignment == ("g", 5, 1_000)
    with pytest.raises(ValueError, match="the watermark group must be a non-empty str, not ''"):
        base.with_watermark_alignment("", Duration.of_millis(5))
    with pytest.raises(ValueError, match="The update interval of watermark alignment must be positive"):
        base.with_watermark_alignment("g", Duration.of_millis(5), Duration.of_millis(0))


@pytest.mark.parametrize("column", [True, 1.0, None])
def test_a_timestamp_column_must_be_a_name_or_a_position(column):
    with pytest.raises(TypeError, match="a timestamp column must be a name or a position"):
        WatermarkStrategy.no_watermarks().with_timestamp_column(column)
    with pytest.raises(ValueError, match="cannot be negative"):
        WatermarkStrategy.no_watermarks().with_timestamp_column(-1)
