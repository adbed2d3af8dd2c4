"""Kernels give the same values for a slice of a batch as for the batch. Slices share buffers and have an offset."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.sql.functions import compile_expressions
from flinkpy.sql.functions.casts import cast
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of

INT, STRING = lt.IntType(), lt.VarCharType()
TYPES: list[lt.LogicalType] = [
    lt.DecimalType(10, 2),
    lt.TimestampType(3),
    lt.ArrayType(STRING),
    lt.MapType(STRING, INT),
    lt.LocalZonedTimestampType(3),
    lt.TimeType(0),
    lt.DoubleType(),
    INT,
]
DECIMAL, TIME, ARRAY, MAP, INSTANT, CLOCK, DOUBLE, NUMBER = (InputRef(kind, i) for i, kind in enumerate(TYPES))
ROWS = 50


def number(value: int) -> Literal:
    return Literal(INT.not_null(), value)


def text(value: str) -> Literal:
    return Literal(STRING.not_null(), value)


def unit(name: str) -> Literal:
    return Literal(lt.SymbolType(nullable=False), name)


DAY = Literal(lt.DayTimeIntervalType("DAY", nullable=False), 86_400_000)
MONTH = Literal(lt.YearMonthIntervalType("MONTH", nullable=False), 1)
NODES: list[RexNode] = [
    call("*", DECIMAL, DECIMAL),
    call("+", DECIMAL, NUMBER),
    call("/", DECIMAL, NUMBER),
    call("MOD", DECIMAL, NUMBER),
    cast(DECIMAL, INT),
    cast(DECIMAL, STRING),
    call("ROUND", DECIMAL, number(1)),
    call("FLOOR", DECIMAL),
    call("SIGN", DECIMAL),
    call("DATE_FORMAT", TIME, text("HH:mm")),
    call("+", TIME, MONTH),
    call("-", TIME, DAY),
    call("EXTRACT", unit("HOUR"), TIME),
    cast(TIME, STRING),
    cast(TIME, lt.DateType()),
    call("FLOOR", INSTANT, unit("MONTH")),
    cast(INSTANT, STRING),
    call("ITEM", ARRAY, number(1)),
    call("ITEM", ARRAY, NUMBER),
    call("CARDINALITY", ARRAY),
    cast(ARRAY, lt.ArrayType(INT)),
    cast(ARRAY, STRING),
    call("ARRAY_REVERSE", ARRAY),
    call("ITEM", MAP, text("b")),
    call("CARDINALITY", MAP),
    cast(MAP, lt.MapType(STRING, lt.BigIntType())),
    call("MAP_KEYS", MAP),
    call("+", CLOCK, DAY),
    cast(CLOCK, STRING),
    cast(DOUBLE, STRING),
    cast(DOUBLE, lt.DecimalType(12, 3)),
    cast(DOUBLE, INT),
    call("ROUND", DOUBLE, number(2)),
    call("LN", DOUBLE),
    call("ARRAY", NUMBER, NUMBER, number(5)),
    call("ROW", NUMBER, DECIMAL),
    call("GREATEST", NUMBER, number(2)),
    call("IN", NUMBER, number(1), number(2)),
    call("HASH_CODE", NUMBER),
]


def batch() -> pa.RecordBatch:
    chance = random.Random(1)
    start = dt.datetime(2020, 1, 1)

    def column(make: Callable[[], Any]) -> list[Any]:
        return [None if chance.random() < 0.2 else make() for _ in range(ROWS)]

    values = [
        column(lambda: Decimal(chance.randint(-(10**9), 10**9)) / 100),
        column(lambda: start + dt.timedelta(hours=chance.randint(0, 9999))),
        column(lambda: [str(chance.randint(0, 9)) for _ in range(chance.randint(0, 3))]),
        column(lambda: [(key, chance.randint(0, 9)) for key in "ab"[: chance.randint(0, 2)]]),
        column(lambda: start + dt.timedelta(hours=chance.randint(0, 9999))),
        column(lambda: dt.time(chance.randint(0, 23), 5)),
        column(lambda: chance.random() * 1e6),
        column(lambda: chance.randint(1, 3)),
    ]
    arrays = [pa.array(each, arrow_type_of(kind)) for each, kind in zip(values, TYPES)]
    return pa.RecordBatch.from_arrays(arrays, [str(index) for index in range(len(TYPES))])


@pytest.mark.parametrize("node", NODES, ids=lambda node: str(node)[:40])
def test_slice_gives_its_part_of_the_values(node: RexNode) -> None:
    compiled, rows = compile_expressions([node]), batch()
    whole = compiled.evaluate(rows)[0].to_pylist()
    assert any(value is not None for value in whole)
    for start, length in ((0, 7), (7, 20), (27, 23), (0, 0)):
        assert compiled.evaluate(rows.slice(start, length))[0].to_pylist() == whole[start : start + length]
