"""Every expression function gives the same results in Spark as with Arrow, or is reported as not expressible."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from column_engines import frame_of, plain

from flinkpy.common import Types
from flinkpy.common.typeinfo import DecimalTypeInfo
from flinkpy.expressions import types as expression_types
from flinkpy.expressions.arrow import Evaluator
from flinkpy.expressions.nodes import (
    Call,
    ColumnReference,
    Expression,
    call,
    coalesce,
    col,
    concat,
    if_then_else,
    lit,
    null_of,
    walk,
)
from flinkpy.records.lanes import type_info_of_schema

pytest.importorskip("pyspark")

from flinkpy.spark.columns.expressions import to_column
from flinkpy.spark.columns.names import NotExpressible, field_types

D = decimal.Decimal
NAN, INF = float("nan"), float("inf")
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [127, -128, 0, None]),
    "short": (pa.int16(), [32767, -7, 3, None]),
    "int": (pa.int32(), [2**31 - 1, -(2**31), 0, 5, None]),
    "long": (pa.int64(), [2**63 - 1, -(2**63), 0, 12, None]),
    "float": (pa.float32(), [0.5, -1.25, NAN, None]),
    "double": (pa.float64(), [2.5, -0.75, NAN, INF, 0.0, None]),
    "money": (pa.decimal128(15, 2), [D("0.05"), D("-1234567890123.99"), D("0.00"), D("7.45"), None]),
    "rate": (pa.decimal128(9, 4), [D("0.0500"), D("-99999.9999"), D("3.0000"), None]),
    "huge": (
        pa.decimal128(38, 6),
        [D("12345678901234567890123456789012.123456"), D("-98765432109876543210987654321098.654321"), None],
    ),
    "text": (pa.string(), ["", " a b ", "äöü%_\\", "line\nbreak", "\U0001f600 x", "abc", None]),
    "word": (pa.string(), ["abc", "b", None]),
    "flag": (pa.bool_(), [True, False, None]),
    "other": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), datetime.date(1998, 12, 1), None]),
    "at": (
        pa.timestamp("us"),
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.datetime(2021, 1, 3, 12, 30, 15), None],
    ),
}
ROWS = 60
NUMBERS = ["byte", "short", "int", "long", "float", "double", "money", "rate", "huge"]
#: Right of each of them.
OTHERS = ["int", "double", "money", "huge"]
LITERALS = [lit(-7), lit(2**40), lit(D("12.345")), lit(0), lit(2.5)]
ARITHMETIC = ("plus", "minus", "times", "divide", "mod")
COMPARISONS = ("equals", "notEquals", "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual")
DAY = datetime.date(1998, 12, 1)
NOON = datetime.datetime(2021, 1, 3, 12, 30, 15)


def table() -> pa.Table:
    """Returns a table in which values of different columns meet in many combinations, because their periods differ."""
    data = {}
    for step, (name, (kind, values)) in enumerate(COLUMNS.items()):
        data[name] = pa.array([values[(row // (1 + step % 3)) % len(values)] for row in range(ROWS)], kind)
    return pa.table(data)


def expressions() -> list[Expression]:
    c = {name: col(name) for name in COLUMNS}
    made: list[Expression] = []
    for function, one, other in itertools.product((*ARITHMETIC, *COMPARISONS), NUMBERS, OTHERS):
        made.append(call(function, c[one], c[other]))
    for function, one, literal in itertools.product((*ARITHMETIC, *COMPARISONS), NUMBERS, LITERALS):
        made.append(call(function, c[one], literal))
    for function, one, literal in itertools.product(ARITHMETIC, NUMBERS, LITERALS):
        made.append(call(function, literal, c[one]))
    for function in COMPARISONS:
        made += [call(function, c["text"], c["word"]), call(function, c["text"], lit("abc"))]
        made += [call(function, c["day"], lit(DAY)), call(function, c["at"], lit(NOON))]
        made += [call(function, c["flag"], c["other"]), call(function, c["double"], lit(NAN))]
    for name in NUMBERS:
        made += [-c[name], c[name].abs, c[name].floor, c[name].ceil]
        made += [c[name].round(places) for places in (0, 1, 3, -1)]
        made += [c[name].in_(3, 5), c[name].in_(lit(127), null_of(Types.INT())), c[name].in_(D("0.05"), D("3.000"))]
        made += [c[name].between(0, 10), c[name].not_between(lit(D("0.04")), lit(D("0.06")))]
        made += [if_then_else(c["flag"], c[name], c["int"]), coalesce(c[name], c["money"], 0), c[name].if_null(1)]
    for name in COLUMNS:
        made += [c[name].is_null, c[name].is_not_null, null_of(Types.LONG()), if_then_else(c["flag"], c[name], c[name])]
    for one, other in (("flag", "other"), ("other", "flag")):
        made += [c[one] & c[other], c[one] | c[other], ~c[one], c[one].is_true, c[one].is_false]
        made += [c[one].is_not_true, c[one].is_not_false, c[one].then(lit("yes"), lit("no"))]
        made += [(c["double"] > c["float"]) & c[one], ~(c["double"] < c["float"]), ~(c["double"] == c["double"])]
    for pattern in ("a%", "%b%", "_b_", "%\\%\\_%", "", "%", "äöü\\%__", "line%break", "a\\b", "x\\"):
        made.append(c["text"].like(pattern))
    for begin, length in ((1, 2), (2, None), (3, 0), (5, 100), (1, None)):
        made.append(c["text"].substring(begin, length))
    made += [c["text"].starts_with(""), c["text"].starts_with(" a"), c["text"].ends_with("x"), c["text"].ends_with("%")]
    made += [c["text"].upper_case, c["text"].lower_case, c["text"].trim, c["text"].char_length]
    made += [concat(c["text"], c["word"], "!"), c["text"].in_("abc", ""), c["text"].in_("abc", null_of(Types.STRING()))]
    made += [c["day"].in_(DAY), c["at"].in_(NOON), lit("x"), lit(1.5), lit(DAY), lit(NOON), lit(True), lit(b"\x00\xff")]
    made += [c["day"].extract(unit) for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")]
    units = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
    made += [c["at"].extract(unit) for unit in units]
    wanted = [Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.STRING()]
    wanted += [Types.BOOLEAN(), DecimalTypeInfo(10, 1), DecimalTypeInfo(38, 10), Types.SQL_DATE()]
    for name, kind in itertools.product(COLUMNS, [*wanted, Types.SQL_TIMESTAMP()]):
        made.append(c[name].cast(kind))
    made.append((lit(1) - c["rate"]) * c["money"] * (lit(1) + c["rate"]))
    return made


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        # Arrow's conversion of a decimal does not always give the nearest float.
        return math.isclose(one, other, rel_tol=1e-15) or (one != one and other != other)
    return one == other


def test_every_function_gives_equal_values_and_types_or_is_not_expressible(session: Any) -> None:
    data = table()
    columns = field_types(type_info_of_schema(data.schema))
    frame, _ = frame_of(session, data)
    native: list[pa.Array] = []
    spark: list[Any] = []
    used: list[Expression] = []
    [batch] = data.combine_chunks().to_batches()
    for expression in expressions():
        try:
            evaluator = Evaluator([expression], columns)
            [values] = evaluator.evaluate(batch)
        except Exception:  # noqa: BLE001 - no expression of the language
            continue
        try:
            spark.append(to_column(expression, columns).alias(f"e{len(spark)}"))
        except NotExpressible:
            continue
        native.append(values)
        used.append(expression)
    wrong = []
    for start in range(0, len(used), 100):
        result = frame.select(*spark[start : start + 100]).toArrow()
        for expression, expected, got in zip(used[start:], native[start:], result.columns):
            if plain(got.type) != plain(expected.type):
                wrong.append(f"{expression}: {got.type} in place of {expected.type}")
            pairs = list(zip(got.to_pylist(), expected.to_pylist()))
            bad = [i for i, pair in enumerate(pairs) if not same(*pair)]
            if bad:
                names = {node.name for node in walk(expression) if isinstance(node, ColumnReference)}
                row = {name: batch.column(name)[bad[0]].as_py() for name in names}
                wrong.append(f"{expression} of {row}: {pairs[bad[0]]} ({len(bad)} rows)")
    assert not wrong, "\n".join(wrong)
    functions = {node.function for each in used for node in walk(each) if isinstance(node, Call)}
    assert set(expression_types._RULES) - functions == {"upper", "lower"}, "these are not expressible"
