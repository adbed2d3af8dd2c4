"""Types of expressions are checked when a program is built."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import TypeInformation, Types
from flinkpy.datastream.expressions import (
    Expression,
    TimeIntervalUnit,
    and_,
    coalesce,
    col,
    concat,
    if_then_else,
    lit,
    null_of,
    or_,
)
from flinkpy.expressions.types import result_type

COLUMNS: dict[str, TypeInformation] = {
    "i": Types.INT(),
    "l": Types.LONG(),
    "f": Types.FLOAT(),
    "d": Types.DOUBLE(),
    "m": Types.DECIMAL(15, 2),
    "big": Types.BIG_DEC(),
    "s": Types.STRING(),
    "b": Types.BOOLEAN(),
    "day": Types.SQL_DATE(),
    "at": Types.SQL_TIMESTAMP(),
}


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (col("i") + col("l"), Types.LONG()),
        (col("i") / 2, Types.INT()),
        (col("i") * col("d"), Types.DOUBLE()),
        (col("f") + col("l"), Types.FLOAT()),
        (col("m") * col("d"), Types.DOUBLE()),
        # The figures of Spark and SQL Server.
        (col("m") + col("m"), Types.DECIMAL(16, 2)),
        (1 - col("m"), Types.DECIMAL(16, 2)),
        (col("m") * (1 - col("m")), Types.DECIMAL(32, 4)),
        (col("m") * (1 - col("m")) * (1 + col("m")), Types.DECIMAL(38, 6)),
        (col("m") / col("m"), Types.DECIMAL(33, 18)),
        (col("m") % 7, Types.DECIMAL(3, 2)),
        (col("big") / col("big"), Types.DECIMAL(38, 6)),
        (col("m") + col("l"), Types.DECIMAL(23, 2)),
        (col("m").floor, Types.DECIMAL(14, 0)),
        (col("m").round(1), Types.DECIMAL(15, 1)),
        (-col("m"), Types.DECIMAL(15, 2)),
        (col("m") > 5, Types.BOOLEAN()),
        (col("day") == date(2024, 1, 1), Types.BOOLEAN()),
        (col("s").in_("a", "b"), Types.BOOLEAN()),
        (col("s").is_null & ~col("b"), Types.BOOLEAN()),
        (if_then_else(col("b"), col("m"), 0), Types.DECIMAL(15, 2)),
        (coalesce(col("i"), col("l"), 3), Types.LONG()),
        (null_of(Types.LONG()), Types.LONG()),
        (concat(col("s"), "x"), Types.STRING()),
        (col("s").char_length, Types.INT()),
        (col("at").extract(TimeIntervalUnit.HOUR), Types.LONG()),
        (col("s").cast(Types.INT()), Types.INT()),
        (lit(Decimal("0.05")), Types.DECIMAL(2, 2)),
        (lit(2**40), Types.LONG()),
    ],
    ids=str,
)
def test_the_type_of_an_expression_follows_from_the_columns(expression: Expression, kind: TypeInformation) -> None:
    assert result_type(expression, COLUMNS) == kind


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (col("nope") + 1, "there is no column 'nope'; the columns are 'i', 'l', 'f'"),
        (col("s") + 1, "s is a String, not a number"),
        (col("s") > 1, "cannot be compared: s is a String, 1 is a Integer"),
        (col("day") == "2024-01-01", "cannot be compared"),
        (col("i") & col("b"), "i is a Integer, not a Boolean"),
        (if_then_else(col("i"), 1, 2), "the condition i is a Integer, not a BOOLEAN"),
        (if_then_else(col("b"), 1, "x"), "have no common type"),
        (col("i").like("x%"), "i is a Integer, not a String"),
        (col("day").extract("HOUR"), "has no HOUR"),
        (col("i").in_(col("l")), "in_ takes only literals"),
        (col("i").asc, "there is no function"),
    ],
    ids=str,
)
def test_a_type_error_names_the_expression(expression: Expression, said: str) -> None:
    with pytest.raises(UserError) as error:
        result_type(expression, COLUMNS)
    assert said in error.value.message


@pytest.mark.parametrize("use", [bool, lambda e: e and 1, lambda e: 1 < e < 2, lambda e: not e])
def test_an_expression_has_no_truth_value(use: Any) -> None:
    with pytest.raises(ValueError, match="use & for and"):
        use(col("a"))


def test_an_expression_reads_as_sql_and_survives_pickling() -> None:
    expression = and_(col("a") >= 1, or_(col("b").like("x%"), col("c") == "y"), ~col("d")).alias("it")

    assert str(expression) == "(((a >= 1) AND (like(b, x%) OR (c = 'y'))) AND not(d)) AS it"
    assert pickle.loads(pickle.dumps(expression)).is_same(expression)
    assert not expression.is_same(expression.alias("other"))


@pytest.mark.parametrize("value", [object(), [1], None, Decimal("NaN"), Decimal(10**40)])
def test_a_value_without_column_type_cannot_be_a_literal(value: Any) -> None:
    with pytest.raises(TypeError):
        lit(value)


def test_substring_counts_from_one() -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        col("s").substring(0, 2)
