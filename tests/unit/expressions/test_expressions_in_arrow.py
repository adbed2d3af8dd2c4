"""Arrow evaluates expressions with the semantics of SQL."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.expressions import Expression, coalesce, col, concat, if_then_else, lit, null_of
from flinkpy.expressions.arrow import Evaluator, as_filter, evaluate

BATCH = pa.RecordBatch.from_pydict(
    {
        "i": pa.array([7, -7, None, 2**31 - 1], pa.int32()),
        "j": pa.array([2, 2, 0, 0], pa.int32()),
        "d": [1.5, -2.5, None, 0.0],
        "m": pa.array([Decimal("1.25"), Decimal("-0.05"), None, Decimal("99.99")], pa.decimal128(4, 2)),
        "s": ["apple", "Äpfel ", None, "a%b"],
        "b": [True, False, None, True],
        "c": [None, False, None, False],
        "day": [date(2024, 2, 29), date(1969, 12, 31), None, date(2000, 1, 1)],
        "at": [datetime(2024, 2, 29, 23, 59, 58), datetime(1969, 12, 31, 1), None, datetime(2000, 1, 1)],
        "t": ["12", " -3 ", "x", None],
    }
)
D = Decimal


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("i") + 1, [8, -6, None, -(2**31)]),
        (col("i") / col("j"), [3, -3, None, None]),
        (col("i") % col("j"), [1, -1, None, None]),
        (col("d") / 0, [None, None, None, None]),
        (col("d") % 1, [0.5, -0.5, None, 0.0]),
        (10 - col("m"), [D("8.75"), D("10.05"), None, D("-89.99")]),
        (col("m") / 3, [D("0.416667"), D("-0.016667"), None, D("33.330000")]),
        (col("m").round(1), [D("1.3"), D("-0.1"), None, D("100.0")]),
        (col("m").floor, [D(1), D(-1), None, D(99)]),
        (col("m").ceil, [D(2), D(0), None, D(100)]),
        (col("d").round(), [2.0, -3.0, None, 0.0]),
        (-col("m"), [D("-1.25"), D("0.05"), None, D("-99.99")]),
        (col("i").abs, [7, 7, None, 2**31 - 1]),
        (col("m") == D("1.250"), [True, False, None, False]),
        (col("m") > col("d"), [False, True, None, True]),
        (col("m") >= 1, [True, False, None, True]),
        (col("m").in_(D("1.25"), 99, D("99.99")), [True, False, None, True]),
        (col("i").between(-7, 7), [True, True, None, False]),
        (col("i").not_between(-7, 7), [False, False, None, True]),
        (col("b") & col("c"), [None, False, None, False]),
        (col("b") | col("c"), [True, False, None, True]),
        (~col("b"), [False, True, None, False]),
        (col("b").is_true, [True, False, False, True]),
        (col("b").is_not_true, [False, True, True, False]),
        (col("b").is_null, [False, False, True, False]),
        (col("b").is_not_null, [True, True, False, True]),
        (col("s").in_("apple", null_of(Types.STRING())), [True, None, None, None]),
        (if_then_else(col("b"), col("i"), lit(2**40)), [7, 2**40, 2**40, 2**31 - 1]),
        (coalesce(col("i"), col("j")), [7, -7, 0, 2**31 - 1]),
        (col("b").then("yes", "no"), ["yes", "no", "no", "yes"]),
        (col("s").like("%p%e_"), [False, False, None, False]),
        (col("s").like("a\\%b"), [False, False, None, True]),
        (col("s").like("app%"), [True, False, None, False]),
        (col("s").starts_with("a"), [True, False, None, True]),
        (col("s").substring(2, 3), ["ppl", "pfe", None, "%b"]),
        (col("s").substring(2), ["pple", "pfel ", None, "%b"]),
        (col("s").upper_case, ["APPLE", "ÄPFEL ", None, "A%B"]),
        (col("s").trim.char_length, [5, 5, None, 3]),
        (concat(col("s"), "-", col("t")), ["apple-12", "Äpfel - -3 ", None, None]),
        (col("day").extract("YEAR"), [2024, 1969, None, 2000]),
        (col("at").extract("HOUR"), [23, 1, None, 0]),
        (col("t").cast(Types.INT()), [12, -3, None, None]),
        (col("t").cast(Types.DECIMAL(4, 1)), [D("12.0"), D("-3.0"), None, None]),
        (col("d").cast(Types.INT()), [1, -2, None, 0]),
        (col("d").cast(Types.DECIMAL(2, 0)), [D(2), D(-3), None, D(0)]),
        (col("m").cast(Types.INT()), [1, 0, None, 99]),
        (col("m").cast(Types.DECIMAL(3, 1)), [D("1.3"), D("-0.1"), None, None]),
        (col("day").cast(Types.STRING()), ["2024-02-29", "1969-12-31", None, "2000-01-01"]),
        (lit("2024-02-30").cast(Types.SQL_DATE()), [None] * 4),
        (lit("2024-02-29").cast(Types.SQL_DATE()), [date(2024, 2, 29)] * 4),
        (lit("2024-02-29 01:02:03").cast(Types.SQL_TIMESTAMP()), [datetime(2024, 2, 29, 1, 2, 3)] * 4),
        (lit(5), [5] * 4),
    ],
    ids=str,
)
def test_values_follow_the_semantics_of_sql(expression: Expression, expected: list[Any]) -> None:
    assert evaluate(expression, BATCH).to_pylist() == expected
    # Slices of the batch give the same values.
    pieces = [evaluate(expression, BATCH.slice(at, 1)).to_pylist()[0] for at in range(BATCH.num_rows)]
    assert pieces == expected


def test_too_large_doubles_become_the_largest_integer() -> None:
    batch = pa.RecordBatch.from_pydict({"d": [1e30, -1e30, float("nan"), float("inf")]})

    assert evaluate(col("d").cast(Types.INT()), batch).to_pylist() == [2**31 - 1, -(2**31), 0, 2**31 - 1]
    assert evaluate(col("d").cast(Types.LONG()), batch).to_pylist() == [2**63 - 1, -(2**63), 0, 2**63 - 1]


def test_a_null_condition_counts_as_false() -> None:
    assert as_filter(col("b"), BATCH).to_pylist() == [True, False, False, True]


def test_expressions_with_shared_parts_give_the_same_values_as_alone() -> None:
    part = col("m") * (1 - col("m"))
    columns = {"m": Types.DECIMAL(4, 2)}
    together = Evaluator([part, part + 1, part * part], columns).evaluate(BATCH.select(["m"]))

    for result, expression in zip(together, [part, part + 1, part * part]):
        assert result.equals(evaluate(expression, BATCH))


def test_an_impossible_cast_is_an_error_that_names_both_types() -> None:
    with pytest.raises(UserError, match="cannot be cast"):
        evaluate(col("day").cast(Types.DOUBLE()), BATCH)
