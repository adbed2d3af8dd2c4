"""Logical types as Arrow columns, and the Python values of rows of tables."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row, RowKind
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import arrow_schema, columns_of, conform, rows_of, to_columns
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of, row_type_of, schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.type_infos import logical_type_of_type_info, type_info_of

EVERYTHING = lt.RowType.of(
    ("id", lt.BigIntType(nullable=False)),
    ("text", lt.VarCharType(10)),
    ("price", lt.DecimalType(10, 2)),
    ("time_3", lt.TimestampType(3)),
    ("instant_9", lt.LocalZonedTimestampType(9)),
    ("clock", lt.TimeType()),
    ("days", lt.DayTimeIntervalType()),
    ("months", lt.YearMonthIntervalType()),
    ("array", lt.ArrayType(lt.IntType())),
    ("map", lt.MapType(lt.VarCharType(), lt.IntType())),
    ("multiset", lt.MultisetType(lt.VarCharType())),
    ("row", lt.RowType.of(("x", lt.IntType()), ("y", lt.DoubleType()))),
    ("raw", lt.RawType()),
    ("variant", lt.VariantType()),
    ("nothing", lt.NullType()),
    ("day", lt.DateType()),
)
VALUES = Row(
    1,
    "x",
    Decimal("1.01"),
    dt.datetime(2020, 1, 1, 2, 3, 4, 567000),
    Instant(5, 6),
    dt.time(1, 2, 3),
    dt.timedelta(days=1),
    14,
    [1, None],
    {"k": 1},
    {"e": 2},
    Row(x=1, y=2.5),
    {1, 2},
    {"q": [1]},
    None,
    dt.date(2020, 1, 2),
)


def test_rows_of_every_type_come_back_from_columns() -> None:
    info = InternalTypeInfo(EVERYTHING)
    empty = Row(2, *[None] * 15)
    columns = columns_of([VALUES, empty], info)
    assert columns.schema == schema_of(EVERYTHING) == arrow_schema(info)
    back = rows_of(Batch(columns), info)
    assert [list(row) for row in back] == [list(VALUES), list(empty)]
    assert back[0].id == 1


def test_row_kinds_pass_between_rows_and_columns() -> None:
    info = InternalTypeInfo(lt.RowType.of(("a", lt.IntType())))
    deleted = Row(a=1)
    deleted.set_row_kind(RowKind.DELETE)
    batch = to_columns(Batch([deleted]), info)
    assert rows_of(batch, info)[0].get_row_kind() is RowKind.DELETE


def test_rows_of_a_table_become_rows_of_a_data_stream() -> None:
    row_type = lt.RowType.of(("t", lt.TimestampType(3)), ("d", lt.DecimalType(5, 1)))
    columns = columns_of([Row(dt.datetime(2020, 1, 1), Decimal("1.5"))], InternalTypeInfo(row_type))
    stream_type = type_info_of(row_type)
    assert stream_type == Types.ROW_NAMED(["t", "d"], [Types.SQL_TIMESTAMP(), Types.DECIMAL(5, 1)])
    assert list(rows_of(Batch(conform(columns, stream_type)), stream_type)[0]) == [
        dt.datetime(2020, 1, 1),
        Decimal("1.5"),
    ]


def test_value_that_does_not_fit_names_its_field_and_type() -> None:
    info = InternalTypeInfo(lt.RowType.of(("price", lt.DecimalType(3, 1))))
    with pytest.raises(TypeMismatchError, match=r"field price.*DECIMAL\(3, 1\).*more than 2 digits"):
        columns_of([Row(Decimal("100"))], info)


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 6), (30, 29)])
def test_decimals_of_all_digits_are_kept(precision: int, scale: int) -> None:
    digits = "9" * precision
    number = Decimal(f"-{digits[scale:]}.{digits[:scale]}")
    info = InternalTypeInfo(lt.RowType.of(("price", lt.DecimalType(precision, scale))))
    assert rows_of(Batch(columns_of([Row(number)], info)), info) == [Row(number)]


def test_internal_type_info_is_equal_after_pickling() -> None:
    info = InternalTypeInfo(EVERYTHING)
    copy = pickle.loads(pickle.dumps(info))
    assert copy == info
    assert hash(copy) == hash(info)
    assert info != InternalTypeInfo(lt.RowType.of(("a", lt.IntType())))


@pytest.mark.parametrize(
    ("kind", "arrow_type"),
    [
        (lt.TimestampType(0), pa.timestamp("ms")),
        (lt.TimestampType(6), pa.timestamp("us")),
        (lt.TimestampType(9), pa.timestamp("ns")),
        (lt.LocalZonedTimestampType(3), pa.timestamp("ms", "UTC")),
        (lt.TimeType(0), pa.time32("ms")),
        (lt.TimeType(6), pa.time64("us")),
    ],
)
def test_precision_chooses_the_unit(kind: lt.LogicalType, arrow_type: pa.DataType) -> None:
    assert arrow_type_of(kind) == arrow_type


def test_types_of_expressions_only_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="SYMBOL"):
        arrow_type_of(lt.SymbolType())


def test_arrow_schema_becomes_a_row_type() -> None:
    schema = pa.schema([("a", pa.uint32()), ("b", pa.list_(pa.string())), ("c", pa.timestamp("us", "Asia/Tokyo"))])
    assert row_type_of(schema) == lt.RowType.of(
        ("a", lt.BigIntType()), ("b", lt.ArrayType(lt.VarCharType())), ("c", lt.LocalZonedTimestampType(6))
    )


def test_type_information_of_streams_has_a_logical_type() -> None:
    info = Types.TUPLE([Types.INT(), Types.LIST(Types.STRING()), Types.PICKLED_BYTE_ARRAY(), Types.INSTANT()])
    assert logical_type_of_type_info(info) == lt.RowType.of(
        ("f0", lt.IntType()),
        ("f1", lt.ArrayType(lt.VarCharType())),
        ("f2", lt.RawType()),
        ("f3", lt.LocalZonedTimestampType(9)),
    )
