"""The common type of several types, decimal arithmetic, and casting rules. Expected types are those of Flink 2.3.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types import merging
from flinkpy.sql.types.casting import supports_avoiding_cast, supports_explicit_cast, supports_implicit_cast

INT, LONG, DOUBLE, FLOAT, STRING = lt.IntType(), lt.BigIntType(), lt.DoubleType(), lt.FloatType(), lt.VarCharType()
NULL = lt.NullType()


def decimal(precision: int, scale: int) -> lt.DecimalType:
    return lt.DecimalType(precision, scale)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([INT, LONG, decimal(2, 2)], decimal(21, 2)),
        ([INT, LONG], LONG),
        ([lt.TinyIntType(), lt.SmallIntType()], lt.SmallIntType()),
        ([decimal(10, 2), decimal(5, 4)], decimal(12, 4)),
        ([decimal(38, 0), decimal(10, 10)], decimal(38, 0)),
        ([decimal(10, 2), FLOAT], FLOAT),
        ([FLOAT, decimal(10, 2)], DOUBLE),
        ([LONG, DOUBLE], DOUBLE),
        ([lt.CharType(3), lt.CharType(3)], lt.CharType(3)),
        ([lt.CharType(3), lt.CharType(5)], lt.VarCharType(5)),
        ([lt.CharType(3), STRING], STRING),
        ([lt.BinaryType(2), lt.VarBinaryType(1)], lt.VarBinaryType(2)),
        ([lt.TimestampType(3), lt.LocalZonedTimestampType(6)], lt.LocalZonedTimestampType(6)),
        ([lt.DateType(), lt.TimestampType(3)], lt.DateType()),
        ([lt.DateType(), lt.DayTimeIntervalType()], lt.DateType()),
        ([lt.DayTimeIntervalType("HOUR"), lt.DayTimeIntervalType("SECOND")], lt.DayTimeIntervalType("HOUR_TO_SECOND")),
        ([NULL, INT], INT),
        ([lt.ArrayType(INT), lt.ArrayType(LONG)], lt.ArrayType(LONG)),
        ([lt.RowType.of(("a", INT)), lt.RowType.of(("b", DOUBLE))], lt.RowType.of(("a", DOUBLE))),
        ([STRING, INT], None),
        ([NULL, NULL], None),
        ([lt.BooleanType(), INT], None),
    ],
)
def test_common_type(types: list[lt.LogicalType], common: lt.LogicalType | None) -> None:
    assert merging.find_common_type(types) == common


def test_common_type_is_not_null_if_no_type_is_nullable() -> None:
    assert merging.find_common_type([INT.not_null(), LONG.not_null()]) == LONG.not_null()
    assert merging.find_common_type([INT.not_null(), LONG]) == LONG


def test_decimal_arithmetic_keeps_digits_before_the_decimal_point() -> None:
    left, right = decimal(10, 2), decimal(5, 3)
    assert merging.find_addition_decimal_type(left, right) == decimal(12, 3).not_null()
    assert merging.find_multiplication_decimal_type(left, right) == decimal(16, 5).not_null()
    assert merging.find_division_decimal_type(left, right) == decimal(19, 8).not_null()
    assert merging.find_modulo_decimal_type(left, right) == decimal(5, 3).not_null()
    assert merging.find_addition_decimal_type(decimal(38, 8), decimal(32, 8)) == decimal(38, 7).not_null()
    assert merging.find_multiplication_decimal_type(LONG, decimal(3, 3)) == decimal(23, 3).not_null()


def test_sum_and_average_of_decimals_have_38_digits() -> None:
    assert merging.find_sum_agg_type(decimal(10, 2)) == decimal(38, 2)
    assert merging.find_avg_agg_type(decimal(10, 2)) == decimal(38, 6)
    assert merging.find_sum_agg_type(INT.not_null()) == INT.not_null()


def test_implicit_casts_widen_only() -> None:
    assert supports_implicit_cast(INT, LONG)
    assert not supports_implicit_cast(LONG, INT)
    assert not supports_implicit_cast(INT, LONG.not_null())
    assert supports_implicit_cast(lt.TimestampType(3), lt.LocalZonedTimestampType(3))
    assert not supports_implicit_cast(STRING, INT)


def test_explicit_casts_of_constructed_types_cast_their_parts() -> None:
    assert supports_explicit_cast(lt.ArrayType(STRING), lt.ArrayType(INT))
    assert not supports_explicit_cast(lt.ArrayType(lt.DateType()), lt.ArrayType(INT))
    assert supports_explicit_cast(lt.ArrayType(INT), STRING)
    assert not supports_explicit_cast(lt.ArrayType(INT), INT)
    assert not supports_explicit_cast(STRING, lt.ArrayType(INT))


def test_intervals_of_one_unit_cast_to_numbers() -> None:
    assert supports_explicit_cast(lt.DayTimeIntervalType("HOUR"), LONG)
    assert not supports_explicit_cast(lt.DayTimeIntervalType("DAY_TO_SECOND"), LONG)


def test_no_cast_is_needed_if_only_lengths_grow_or_names_differ() -> None:
    assert supports_avoiding_cast(lt.CharType(2), lt.VarCharType(3))
    assert not supports_avoiding_cast(lt.VarCharType(2), lt.CharType(3))
    assert supports_avoiding_cast(lt.RowType.of(("a", INT.not_null())), lt.RowType.of(("b", INT)))
    assert not supports_avoiding_cast(INT, LONG)


RULES = [line.split("|") for line in (Path(__file__).parent / "flink_type_rules.txt").read_text().splitlines()]
TYPES = [
    lt.CharType(3),
    lt.VarCharType(5),
    lt.BooleanType(),
    lt.BinaryType(3),
    lt.VarBinaryType(5),
    decimal(10, 2),
    lt.TinyIntType(),
    lt.SmallIntType(),
    INT,
    LONG,
    FLOAT,
    DOUBLE,
    lt.DateType(),
    lt.TimeType(0),
    lt.TimestampType(3),
    lt.LocalZonedTimestampType(3),
    lt.YearMonthIntervalType("MONTH"),
    lt.YearMonthIntervalType(),
    lt.DayTimeIntervalType("HOUR"),
    lt.DayTimeIntervalType(),
    lt.ArrayType(INT),
    lt.MultisetType(INT),
    lt.MapType(INT, INT),
    lt.RowType.of(("a", INT)),
    NULL,
    lt.VariantType(),
    lt.BitmapType(),
]


@pytest.mark.parametrize("row", range(len(TYPES)), ids=str)
def test_rules_equal_those_that_flink_answered(row: int) -> None:
    """The file has a line per source type. Its parts have an entry per target type.

    The parts: I for implicit, E for explicit, - for no cast; A where no cast is needed; the common type.
    """
    _, casts, avoided, common = RULES[row]
    source = TYPES[row]
    ours = "".join(
        "I" if supports_implicit_cast(source, target) else "E" if supports_explicit_cast(source, target) else "-"
        for target in TYPES
    )
    assert ours == casts
    assert "".join("A" if supports_avoiding_cast(source, target) else "-" for target in TYPES) == avoided
    found = [merging.find_common_type([source, target]) for target in TYPES]
    assert ["none" if kind is None else str(kind) for kind in found] == common.split(";")[:-1]
