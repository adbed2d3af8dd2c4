"""The connector `print` writes values as Flink does, which prints java.time objects."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.types import RowKind
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.table.row_texts import RowTexts

UTC = datetime.UTC


def printed(kind: lt.LogicalType, values: list[Any]) -> list[str]:
    """Returns the texts of rows of one column, which is a slice of a longer one."""
    column = pa.array([values[0], *values, values[-1]], arrow_type_of(kind)).slice(1, len(values))
    rows = pa.RecordBatch.from_arrays([column], names=["c"])
    return [line[3:-1] for line in RowTexts(lt.RowType((lt.RowField("c", kind),)))(Batch(rows, None, None))]


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (lt.BooleanType(), [True, None, False], ["true", "null", "false"]),
        (lt.BigIntType(), [1, None, -2], ["1", "null", "-2"]),
        (lt.FloatType(), [110.1, 1e10, None, 0.5], ["110.1", "1.0E10", "null", "0.5"]),
        (lt.DoubleType(), [110.1, 1e-4, None], ["110.1", "1.0E-4", "null"]),
        (lt.DecimalType(10, 2), [Decimal("1.50"), None], ["1.50", "null"]),
        (lt.VarCharType(), ["a, b", None, ""], ["a, b", "null", ""]),
        (lt.VarBinaryType(), [b"a\xff", None, b""], ["[97, -1]", "null", "[]"]),
        (lt.DateType(), [datetime.date(2020, 1, 1), None], ["2020-01-01", "null"]),
        (lt.TimeType(0), [datetime.time(10, 0), None, datetime.time(1, 2, 3)], ["10:00", "null", "01:02:03"]),
        (
            lt.TimestampType(3),
            [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 1, 2, 0, 5000), None],
            ["2020-01-01T00:00", "2020-01-01T01:02:00.005", "null"],
        ),
        (lt.TimestampType(6), [datetime.datetime(1969, 12, 31, 23, 59, 59, 1)], ["1969-12-31T23:59:59.000001"]),
        (
            lt.LocalZonedTimestampType(3),
            [datetime.datetime(1970, 1, 1, tzinfo=UTC), None, datetime.datetime(1970, 1, 1, 0, 0, 1, 1000, tzinfo=UTC)],
            ["1970-01-01T00:00:00Z", "null", "1970-01-01T00:00:01.001Z"],
        ),
        (lt.ArrayType(lt.FloatType()), [[1.1, None], None, []], ["[1.1, null]", "null", "[]"]),
        (
            lt.MapType(lt.VarCharType(), lt.DateType()),
            [[("a", datetime.date(2020, 1, 1)), ("b", None)], None, []],
            ["{a=2020-01-01, b=null}", "null", "{}"],
        ),
        (lt.MultisetType(lt.VarCharType()), [[("a", 2)], None], ["{a=2}", "null"]),
        (
            lt.RowType((lt.RowField("x", lt.IntType()), lt.RowField("y", lt.FloatType()))),
            [{"x": 1, "y": 1.1}, None, {"x": None, "y": None}],
            ["+I[1, 1.1]", "null", "+I[null, null]"],
        ),
    ],
    ids=lambda value: str(value.root.name) if isinstance(value, lt.LogicalType) else "",
)
def test_values_are_printed_as_flink_prints_them(kind: lt.LogicalType, values: list[Any], texts: list[str]) -> None:
    assert printed(kind, values) == texts


def test_each_row_is_printed_with_its_kind() -> None:
    row_type = lt.RowType((lt.RowField("a", lt.IntType()), lt.RowField("b", lt.VarCharType())))
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int32()), pa.array(["x", None])], names=["a", "b"])
    kinds = np.array([RowKind.UPDATE_AFTER.value, RowKind.DELETE.value], np.int8)
    assert RowTexts(row_type)(Batch(rows, None, kinds)) == ["+U[1, x]", "-D[2, null]"]
