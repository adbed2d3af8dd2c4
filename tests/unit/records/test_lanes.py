from __future__ import annotations

import datetime
import decimal
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common import Instant, Row, RowKind, Types
from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import (
    arrow_schema,
    columns_of,
    conform,
    declared_rows,
    has_exact_columns,
    rows_of,
    to_columns,
    to_rows,
    type_info_of_schema,
)

ROUND_TRIPS = [
    (Types.LONG(), [1, None, -(2**63), 2**63 - 1]),
    (Types.DOUBLE(), [1.5, None, float("inf")]),
    (Types.BOOLEAN(), [True, None, False]),
    (Types.STRING(), ["a", "", None, "žluť"]),
    (Types.CHAR(), ["a", "é"]),
    (Types.BIG_INT(), [10**75, -1, None]),
    (Types.BIG_DEC(), [decimal.Decimal("1.5"), None]),
    (Types.INSTANT(), [Instant(-5, 999_999_000), None, Instant(10**10, 0)]),
    (Types.SQL_DATE(), [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    (Types.SQL_TIME(), [datetime.time(23, 59, 59, 999_999), None]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(1969, 1, 1, 0, 0, 0, 1), None]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\0x", None]),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), [[1, 2], [], None]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None], None]),
    (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), [[Row(1), None], []]),
    (Types.LIST(Types.LIST(Types.INT())), [[[1], None, []], None]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1, "b": None}, {}, None]),
    (Types.MAP(Types.LIST(Types.INT()), Types.INT()), [{(1, 2): 1, (): 2}, None]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (None, None)]),
    (Types.ROW([Types.INT(), Types.TUPLE([Types.LONG()])]), [Row(1, (2,)), Row(None, None)]),
    (Types.ROW_NAMED(["x"], [Types.PICKLED_BYTE_ARRAY()]), [Row(x={1, 2}), Row(x=None)]),
    (Types.ROW([]), [Row(), Row()]),
]


@pytest.mark.parametrize(("type_info", "rows"), ROUND_TRIPS, ids=lambda value: str(value)[:40])
def test_columns_restore_the_records_unchanged(type_info: TypeInformation, rows: list[object]) -> None:
    columns = columns_of(rows, type_info)

    assert columns.schema == arrow_schema(type_info)
    assert columns.num_rows == len(rows)
    assert rows_of(Batch(columns), type_info) == rows
    assert rows_of(Batch(columns.slice(1)), type_info) == rows[1:]


@pytest.mark.parametrize(("type_info", "rows"), ROUND_TRIPS, ids=lambda value: str(value)[:40])
def test_empty_lists_can_be_columns(type_info: TypeInformation, rows: list[object]) -> None:
    columns = columns_of([], type_info)

    assert columns.schema == arrow_schema(type_info)
    assert rows_of(Batch(columns), type_info) == []


@pytest.mark.parametrize(
    ("type_info", "value", "wrapped"),
    [
        (Types.SHORT(), 43878, -21658),
        (Types.INT(), 9147483648, 557549056),
        (Types.BYTE(), 200, -56),
        (Types.INT(), True, 1),
        (Types.INT(), np.int64(2**31), -(2**31)),
    ],
)
def test_integers_too_wide_for_their_type_wrap_around(type_info: TypeInformation, value: int, wrapped: int) -> None:
    assert rows_of(Batch(columns_of([value], type_info)), type_info) == [wrapped]
    assert rows_of(Batch(columns_of([value, None], type_info)), type_info) == [wrapped, None]


def test_decimals_keep_38_digits_with_18_after_the_point() -> None:
    rows = [decimal.Decimal("1000000000000000000.05999999999999999899999999999"), decimal.Decimal(7), 3]

    back = rows_of(Batch(columns_of(rows, Types.BIG_DEC())), Types.BIG_DEC())

    assert str(back[0]) == "1000000000000000000.059999999999999999"
    assert back[1:] == [7, 3]


EXACT_DECIMALS = ["1000000000000000000.05999999999999999899999999999", "3", "3.10", "-0.00", "1E+30"]


@pytest.mark.parametrize(
    ("type_info", "wrap"),
    [
        (Types.BIG_DEC(), lambda value: value),
        (Types.LIST(Types.BIG_DEC()), lambda value: [value, None]),
        (Types.TUPLE([Types.STRING(), Types.BIG_DEC()]), lambda value: ("a", value)),
        (Types.ROW_NAMED(["d"], [Types.MAP(Types.STRING(), Types.BIG_DEC())]), lambda value: Row(d={"k": value})),
    ],
)
def test_records_keep_every_digit_of_a_big_decimal(type_info: TypeInformation, wrap: Any) -> None:
    rows = [wrap(decimal.Decimal(text)) for text in EXACT_DECIMALS]

    assert str(declared_rows(rows, type_info)) == str(rows)
    assert not has_exact_columns(type_info)


def test_declared_rows_have_the_values_of_their_type_and_their_kinds() -> None:
    row = Row(43878, 3)
    row.set_row_kind(RowKind.DELETE)

    [declared] = declared_rows([row], Types.ROW([Types.SHORT(), Types.BIG_DEC()]))

    assert (declared[0], str(declared[1])) == (-21658, "3")
    assert declared.get_row_kind() is RowKind.DELETE


def test_declared_rows_name_the_value_that_is_not_of_its_type() -> None:
    with pytest.raises(TypeMismatchError, match=r"record 1, field f1: 'x' \(str\) is not a"):
        declared_rows([(1, decimal.Decimal(1)), (1, "x")], Types.TUPLE([Types.INT(), Types.BIG_DEC()]))
    with pytest.raises(TypeMismatchError, match="it is not a finite number"):
        declared_rows([decimal.Decimal("NaN")], Types.BIG_DEC())


def test_types_without_big_decimals_have_exact_columns() -> None:
    assert has_exact_columns(Types.ROW([Types.DECIMAL(10, 2), Types.LIST(Types.STRING())]))
    assert not has_exact_columns(Types.PICKLED_BYTE_ARRAY())


def test_float_is_kept_with_32_bits() -> None:
    assert rows_of(Batch(columns_of([0.1, 1], Types.FLOAT())), Types.FLOAT()) == [float(np.float32(0.1)), 1.0]


MISMATCHES = [
    (Types.LONG(), [1, "x"], "record 1: 'x' (str) is not a Long"),
    (Types.LONG(), [1, 2.0], "record 1: 2.0 (float) is not a Long"),
    (Types.LONG(), [1, 2**63], "more than 64 bits"),
    (Types.STRING(), ["a", 5], "record 1: 5 (int) is not a String"),
    (Types.STRING(), ["\ud800"], "is not a String"),
    (Types.CHAR(), ["ab"], "not one character"),
    (Types.BOOLEAN(), [True, 1], "record 1: 1 (int) is not a Boolean"),
    (Types.DOUBLE(), [1.0, "x"], "record 1: 'x' (str) is not a Double"),
    (Types.BIG_INT(), [10**76], "more than 76 digits"),
    (Types.BIG_DEC(), [decimal.Decimal(10) ** 21], "more than 20 digits before the decimal point"),
    (Types.SQL_DATE(), [datetime.date(2024, 1, 1), "2024-01-01"], "record 1: '2024-01-01' (str)"),
    (Types.SQL_TIMESTAMP(), [datetime.date(2024, 1, 1)], "record 0"),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (2, 3)], "record 1, field f1: 3 (int) is not a String"),
    (Types.TUPLE([Types.INT()]), [(1,), (1, 2)], "record 1: (1, 2) (tuple)"),
    (Types.TUPLE([Types.INT()]), [(1,), 5], "record 1: 5 (int)"),
    (Types.ROW_NAMED(["a"], [Types.INT()]), [Row(b=1)], "it has no field ['a']"),
    (Types.ROW_NAMED(["a"], [Types.INT()]), [{"b": 1}], "it has unknown fields ['b']"),
    (Types.ROW_NAMED(["a"], [Types.INT()]), [Row(1), None], "record 1: None (NoneType)"),
    (Types.LIST(Types.INT()), [[1], [2, "q"]], "record 1, field [1]: 'q' (str) is not a Integer"),
    (Types.LIST(Types.INT()), [[1], 5], "record 1: 5 (int)"),
    (Types.MAP(Types.STRING(), Types.INT()), [{}, {"a": 1, "b": "x"}], "record 1, field [1]: 'x' (str)"),
    (Types.MAP(Types.STRING(), Types.INT()), [{None: 1}], "a map key cannot be None"),
    (
        Types.ROW_NAMED(["a"], [Types.LIST(Types.ROW_NAMED(["b"], [Types.INT()]))]),
        [Row(a=[]), Row(a=[Row(b=1), Row(b="x")])],
        "record 1, field a.[1].b: 'x' (str) is not a Integer",
    ),
]


@pytest.mark.parametrize(("type_info", "rows", "message"), MISMATCHES)
def test_error_names_a_value_that_does_not_match(type_info: TypeInformation, rows: list[object], message: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        columns_of(rows, type_info)

    assert message in str(caught.value)
    assert caught.value.details["record"] == str(len(rows) - 1)


def test_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(TypeMismatchError) as caught:
        columns_of(["x" * 10_000], Types.INT())

    assert len(str(caught.value)) < 300


def test_object_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(TypeMismatchError, match=r"record 0, field f0.*cannot be pickled"):
        columns_of([(threading.Lock(),)], Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]))


def test_rows_with_names_are_matched_by_name() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    expected = [Row(a=1, b="x")]

    for rows in ([Row(b="x", a=1)], [Row(1, "x")], [(1, "x")], [{"b": "x", "a": 1}], [Row(a=1, b="x", c=0)]):
        assert rows_of(Batch(columns_of(rows, type_info)), type_info) == expected


def test_row_with_names_fits_a_type_that_has_only_positions() -> None:
    type_info = Types.ROW([Types.INT(), Types.STRING()])

    assert rows_of(Batch(columns_of([Row(a=1, b="x")], type_info)), type_info) == [Row(f0=1, f1="x")]


def test_kinds_of_rows_are_kept_beside_the_columns() -> None:
    type_info = Types.ROW([Types.INT()])
    rows = [Row(1), Row.of_kind(RowKind.DELETE, 2)]

    columns = to_columns(Batch(rows), type_info)

    assert columns.kinds is not None
    assert columns.kinds.tolist() == [0, 3]
    assert to_rows(columns, type_info).values == rows
    assert to_columns(Batch([Row(1)]), type_info).kinds is None


def test_rows_do_not_change_in_the_row_lane() -> None:
    rows = [1, 2]
    batch = Batch(rows)

    assert rows_of(batch, Types.LONG()) is rows
    assert to_rows(batch, None) is batch


def test_untyped_columns_become_rows_of_their_schema() -> None:
    columns = pa.record_batch({"a": [1, 2], "b": ["x", None]})

    assert rows_of(Batch(columns)) == [Row(a=1, b="x"), Row(a=2, b=None)]


def test_pickled_type_has_no_columns() -> None:
    assert arrow_schema(None) is None
    assert arrow_schema(Types.PICKLED_BYTE_ARRAY()) is None
    with pytest.raises(UnsupportedOperationError):
        columns_of([1], Types.PICKLED_BYTE_ARRAY())


def test_columns_are_reordered_and_cast() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    columns = pa.record_batch({"b": pa.array(["x"], pa.large_string()), "extra": [0], "a": [2**32 + 5]})

    conformed = conform(columns, type_info)

    assert conformed.schema == arrow_schema(type_info)
    assert conformed.to_pylist() == [{"a": 5, "b": "x"}]
    assert conform(conformed, type_info) is conformed


def test_error_names_columns_that_do_not_fit() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])

    with pytest.raises(TypeMismatchError, match=r"do not have \['b'\]"):
        conform(pa.record_batch({"a": [1]}), type_info)
    with pytest.raises(TypeMismatchError, match="column 'a' is string"):
        conform(pa.record_batch({"a": ["x"], "b": ["x"]}), type_info)


def test_supported_arrow_types_have_a_type() -> None:
    schema = pa.schema(
        [
            ("i", pa.int32()),
            ("u", pa.uint32()),
            ("s", pa.large_string()),
            ("d", pa.dictionary(pa.int8(), pa.string())),
            ("t", pa.timestamp("ms")),
            ("z", pa.timestamp("ns", tz="Europe/Berlin")),
            ("l", pa.list_(pa.float32())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("r", pa.struct([("x", pa.bool_())])),
            ("n", pa.decimal128(10, 2)),
            ("b", pa.binary()),
        ]
    )

    type_info = type_info_of_schema(schema)

    assert type_info == Types.ROW_NAMED(
        list(schema.names),
        [
            Types.INT(),
            Types.LONG(),
            Types.STRING(),
            Types.STRING(),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
            Types.LIST(Types.FLOAT()),
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.ROW_NAMED(["x"], [Types.BOOLEAN()]),
            Types.DECIMAL(10, 2),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
        ],
    )


def test_unsupported_arrow_type_is_an_error_that_names_the_column() -> None:
    with pytest.raises(UnsupportedOperationError, match="column 'x'"):
        type_info_of_schema(pa.schema([("x", pa.month_day_nano_interval())]))


@pytest.mark.parametrize(
    ("number", "rounded"), [("1.5", "2"), ("-1.5", "-2"), ("1.49", "1"), ("2.5", "3"), ("0.5", "1"), ("98.7", "99")]
)
def test_decimal_columns_are_rounded_half_up_to_a_smaller_scale(number: str, rounded: str) -> None:
    columns = pa.record_batch({"d": pa.array([decimal.Decimal(number), None], pa.decimal128(38, 18))})

    conformed = conform(columns, Types.ROW_NAMED(["d"], [Types.DECIMAL(2, 0)]))

    assert conformed.column(0).to_pylist() == [decimal.Decimal(rounded), None]


def test_decimal_that_does_not_fit_is_rejected() -> None:
    columns = pa.record_batch({"d": pa.array([decimal.Decimal("99.5")], pa.decimal128(4, 2))})
    with pytest.raises(TypeMismatchError, match="column 'd'"):
        conform(columns, Types.ROW_NAMED(["d"], [Types.DECIMAL(2, 0)]))
