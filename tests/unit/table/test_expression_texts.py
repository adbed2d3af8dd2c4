"""Expressions of the Table API have Flink's texts, and Python's operators mean what Flink's functions mean."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ValidationError
from flinkpy.table import DataTypes
from flinkpy.table import expressions as ex
from flinkpy.table.expression import (
    Expression,
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from flinkpy.table.expressions import col, lit

a, b, c = col("a"), col("b"), col("c")

#: As PyFlink's tests of expressions record them.
TEXTS = {
    "equals(a, b)": a == b,
    "notEquals(a, b)": a != b,
    "lessThan(a, b)": a < b,
    "lessThanOrEqual(a, b)": a <= b,
    "greaterThan(a, b)": a > b,
    "greaterThanOrEqual(a, b)": a >= b,
    "and(a, b)": a & b,
    "or(a, b)": a | b,
    "isNotTrue(a)": ~a,
    "plus(a, b)": a + b,
    "plus(2, b)": 2 + b,
    "minus(2, b)": 2 - b,
    "divide(2, b)": 2 / b,
    "mod(2, b)": 2 % b,
    "power(2, b)": 2**b,
    "minusPrefix(a)": -a,
    "abs(a)": abs(a),
    "round(a, b)": a.round(b),
    "between(a, b, c)": a.between(b, c),
    "notBetween(a, b, c)": a.not_between(b, c),
    "ifThenElse(a, b, c)": a.then(b, c),
    "isNull(a)": a.is_null,
    "distinct(a)": a.distinct,
    "sum0(a)": a.sum0,
    "first_value(a)": a.first_value,
    "listAgg(a, ',')": a.list_agg(","),
    "stddevPop(a)": a.stddev_pop,
    "ARRAY_AGG(a)": a.array_agg,
    "as(a, 'a', 'b', 'c')": a.alias("a", "b", "c"),
    "cast(a, INT)": a.cast(DataTypes.INT()),
    "in(a, b, c, 1)": a.in_(b, c, 1),
    "start(a)": a.start,
    "UNHEX(a)": a.unhex,
    "PERCENTILE(a, array(0.1, 0.5), b)": a.percentile(ex.array(0.1, 0.5), b),
    "ASSIGNMENT('x', a)": a.as_argument("x"),
    "substring(a, b, 3)": a.substring(b, 3),
    "trim(true, false, ' ', a)": a.trim_leading(),
    "trim(false, true, ' ', a)": a.trim_trailing(),
    "trim(true, true, ' ', a)": a.trim(),
    "charLength(a)": a.char_length,
    "upper(a)": a.upper_case,
    "initCap(a)": a.init_cap,
    "LIKE(a, 'Jo_n%', '\\')": a.like("Jo_n%", "\\"),
    "overlay(a, b, 6, 2)": a.overlay(b, 6, 2),
    "over(a, 'w')": a.over("w"),
    "splitIndex(a, ',', 3)": a.split_index(",", 3),
    "strToMap(a)": a.str_to_map(),
    "PRINTF('%d %s', a, b)": lit("%d %s").printf(a, b),
    "regexpExtract(a, b, 3)": a.regexp_extract(b, 3),
    "cast(a, DATE)": a.to_date,
    "cast(a, TIME(0))": a.to_time,
    "cast(a, TIMESTAMP(3))": a.to_timestamp,
    "extract(YEAR, a)": a.extract(TimeIntervalUnit.YEAR),
    "floor(a, YEAR)": a.floor(TimeIntervalUnit.YEAR),
    "ceil(a)": a.ceil(),
    "get(a, 'col')": a.get("col"),
    "at(a, 0)": a[0],
    "120": lit(10).years,
    "30": lit(10).quarters,
    "864000000": lit(10).days,
    "10000": lit(10).seconds,
    "10": lit(10).millis,
    "sha2(a, 224)": a.sha2(224),
    "IS_JSON('42', SCALAR)": lit("42").is_json(JsonType.SCALAR),
    "JSON_EXISTS('{}', '$.x', FALSE)": lit("{}").json_exists("$.x", JsonExistsOnError.FALSE),
    "JSON_VALUE('{}', '$.x', INT, DEFAULT, 42, ERROR, null)": lit("{}").json_value(
        "$.x", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 42, JsonValueOnEmptyOrError.ERROR, None
    ),
    "JSON_QUERY('{}', '$.x', STRING, WITHOUT_ARRAY, NULL, EMPTY_ARRAY)": lit("{}").json_query(
        "$.x",
        JsonQueryWrapper.WITHOUT_ARRAY,
        JsonQueryOnEmptyOrError.NULL,
        JsonQueryOnEmptyOrError.EMPTY_ARRAY,
    ),
    "rangeTo(1, 2)": ex.range_(1, 2),
    "and(a, b, c)": ex.and_(a, b, c),
    "UNBOUNDED_ROW": ex.UNBOUNDED_ROW,
    "currentTimestamp()": ex.current_timestamp(),
    "toDate('2018-03-18', 'yyyy-MM-dd')": ex.to_date("2018-03-18", "yyyy-MM-dd"),
    "temporalOverlaps(cast('2:55:00', TIME(0)), 3600000, cast('3:30:00', TIME(0)), 7200000)": ex.temporal_overlaps(
        lit("2:55:00").to_time, lit(1).hours, lit("3:30:00").to_time, lit(2).hours
    ),
    "timestampDiff(DAY, cast('2016-06-15', DATE), cast('2016-06-18', DATE))": ex.timestamp_diff(
        TimePointUnit.DAY, lit("2016-06-15").to_date, lit("2016-06-18").to_date
    ),
    "fromUnixtime(1)": ex.from_unixtime(1),
    "unixTimestamp()": ex.unix_timestamp(),
    "row('key1', 1)": ex.row("key1", 1),
    "map('key1', 1, 'key2', 2)": ex.map_("key1", 1, "key2", 2),
    "4": ex.row_interval(4),
    "null": ex.null_of(DataTypes.BIGINT()),
    "concat_ws(', ', b, c)": ex.concat_ws(", ", b, c),
    "withColumns(a, b, c)": ex.with_columns(a, b, c),
    "a.b.c(a)": ex.call("a.b.c", a),
}


@pytest.mark.parametrize("text", TEXTS)
def test_expression_has_the_text_of_flink(text: str) -> None:
    assert str(TEXTS[text]) == text


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(ValidationError, match=r"Use & \| ~ instead of 'and'"):
        bool(a == b)


def test_expressions_can_be_keys_of_a_dict() -> None:
    known: dict[Expression[int], str] = {a: "a", b: "b"}
    assert known[a] == "a"
