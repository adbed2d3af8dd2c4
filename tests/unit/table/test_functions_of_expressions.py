"""Every function of Expression and of the module `expressions` is one of SQL's catalogue of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from flinkpy.sql.functions import registry
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.nodes.base import walk
from flinkpy.table import DataTypes, EnvironmentSettings, TableEnvironment, expressions
from flinkpy.table.expression import (
    Expression,
    JsonExistsOnError,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from flinkpy.table.expressions import col, lit
from flinkpy.table.planner.binder.program_expressions import syntax_of
from flinkpy.table.planner.explain import logical_text

#: Those that operations of tables take apart.
STRUCTURAL = {"alias", "asc", "desc", "flatten", "start", "end", "rowtime", "proctime"}
STRUCTURAL |= {"range_", "with_columns", "without_columns", "source_watermark", "descriptor", "call", "call_sql"}
#: Arguments that are no expressions.
ARGUMENTS: dict[str, Any] = {
    "data_type": DataTypes.STRING(),
    "time_interval_unit": TimeIntervalUnit.DAY,
    "time_point_unit": TimePointUnit.DAY,
    "json_type": JsonType.VALUE,
    "on_null": JsonOnNull.NULL,
    "name": "x",
    "name_or_index": "x",
    "rows": 1,
    "path": "$.x",
    "alias": "w",
}
METHODS = [
    name
    for name, member in inspect.getmembers(Expression)
    if not name.startswith("_") and name not in STRUCTURAL and (callable(member) or isinstance(member, property))
]
FUNCTIONS = [
    name
    for name, member in inspect.getmembers(expressions, inspect.isfunction)
    if not name.startswith("_") and name not in STRUCTURAL and member.__module__ == expressions.__name__
]


def called(function: Callable[..., Any]) -> Any:
    """Returns the expression of a call with an argument per required parameter."""
    required = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind is each.POSITIONAL_OR_KEYWORD and (each.default is each.empty or each.name == "pattern")
    ]
    return function(*(ARGUMENTS.get(each.name, col(each.name)) for each in required))


def check(expression: Expression[Any]) -> None:
    for node in walk(syntax_of(expression.node)):
        if isinstance(node, ast.FunctionCall):
            assert registry.find_function(node.function) is not None, node.function


@pytest.mark.parametrize("name", METHODS)
def test_method_calls_a_function_of_sql(name: str) -> None:
    member = getattr(col("a").count if name in ("over", "distinct") else col("a"), name)
    check(called(member) if callable(member) else member)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_calls_a_function_of_sql(name: str) -> None:
    if name in ("to_timestamp_ltz", "coalesce"):
        check(getattr(expressions, name)(col("a")))
    else:
        check(called(getattr(expressions, name)))


#: Expressions of SQL with the same of the Table API.
SAME: dict[str, Expression[Any]] = {
    "POSITION(c IN 'abc')": col("c").position("abc"),
    "OVERLAY(c PLACING 'x' FROM 2 FOR 1)": col("c").overlay("x", 2, 1),
    "LOCATE(c, 'abc', 2)": col("c").locate("abc", 2),
    "STR_TO_MAP(c)": col("c").str_to_map(),
    "c IS JSON": col("c").is_json(),
    "c IS JSON SCALAR": col("c").is_json(JsonType.SCALAR),
    "JSON_EXISTS(c, '$.x' FALSE ON ERROR)": col("c").json_exists("$.x", JsonExistsOnError.FALSE),
    "JSON_VALUE(c, '$.x' RETURNING STRING NULL ON EMPTY NULL ON ERROR)": col("c").json_value("$.x"),
    "JSON_VALUE(c, '$.x' RETURNING INT DEFAULT 42 ON EMPTY ERROR ON ERROR)": col("c").json_value(
        "$.x", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 42, JsonValueOnEmptyOrError.ERROR, None
    ),
    "JSON_QUERY(c, '$.x' WITH CONDITIONAL WRAPPER EMPTY ARRAY ON EMPTY NULL ON ERROR)": col("c").json_query(
        "$.x", JsonQueryWrapper.CONDITIONAL_ARRAY, JsonQueryOnEmptyOrError.EMPTY_ARRAY
    ),
    "JSON_OBJECT('k' VALUE a NULL ON NULL)": expressions.json_object(JsonOnNull.NULL, "k", col("a")),
    "JSON_ARRAY(a, c ABSENT ON NULL)": expressions.json_array(JsonOnNull.ABSENT, col("a"), col("c")),
    "JSON_STRING(a)": expressions.json_string(col("a")),
    "f IS NOT TRUE": ~col("f"),
    "NOT f": expressions.not_(col("f")),
    "TRIM(LEADING 'x' FROM c)": col("c").trim_leading("x"),
    "TRIM(c)": col("c").trim(),
    "SUBSTRING(c FROM 2 FOR 3)": col("c").substring(2, 3),
    "SUBSTR(c, 2)": col("c").substr(2),
    "LOG(2, d)": col("d").log(2),
    "-a": -col("a"),
    "m['k']": col("m").at("k"),
    "CARDINALITY(arr)": col("arr").cardinality,
    "ELEMENT(arr)": col("arr").element,
    "ARRAY_SLICE(arr, 1, 2)": col("arr").array_slice(1, 2),
    "ARRAY_SORT(arr, TRUE)": col("arr").array_sort(True),
    "MAP_UNION(m, m)": col("m").map_union(col("m")),
    "MAP['x', a]": expressions.map_("x", col("a")),
    "ROW(a, c)": expressions.row(col("a"), col("c")),
    "CONCAT_WS(',', c, c)": expressions.concat_ws(",", col("c"), col("c")),
    "DATE_FORMAT(ts, 'yyyy')": expressions.date_format(col("ts"), "yyyy"),
    "(ts, ts) OVERLAPS (ts, ts)": expressions.temporal_overlaps(col("ts"), col("ts"), col("ts"), col("ts")),
    "TO_TIMESTAMP_LTZ(b, 3)": expressions.to_timestamp_ltz(col("b"), 3),
    "CEIL(ts TO DAY)": col("ts").ceil(TimeIntervalUnit.DAY),
    "FLOOR(d)": col("d").floor(),
    "CURRENT_TIMESTAMP": expressions.current_timestamp(),
    "LOCALTIMESTAMP": expressions.local_timestamp(),
    "CURRENT_DATABASE()": expressions.current_database(),
    "IF(f, a, 1)": expressions.call("IF", col("f"), col("a"), 1),
    "IFNULL(a, 1)": col("a").if_null(1),
    "ELT(1, c, 'x')": lit(1).elt(col("c"), "x"),
    "PRINTF('%d', a)": lit("%d").printf(col("a")),
    "ENCODE(c, 'utf-8')": col("c").encode("utf-8"),
    "SHA2(c, 224)": col("c").sha2(224),
    "REGEXP_EXTRACT(c, 'a', 1)": col("c").regexp_extract("a", 1),
    "c SIMILAR TO 'a'": col("c").similar("a"),
    "c LIKE 'a!%' ESCAPE '!'": col("c").like("a!%", "!"),
    "CAST(NULL AS BIGINT)": expressions.null_of(DataTypes.BIGINT()),
    "RAND_INTEGER(5)": expressions.rand_integer(5),
    "CAST(c AS DATE)": col("c").to_date,
    "PARSE_URL(c, 'HOST')": col("c").parse_url("HOST"),
    "UNIX_TIMESTAMP(c)": expressions.unix_timestamp(col("c")),
    "INITCAP(c)": col("c").init_cap,
    "SPLIT_INDEX(c, ',', 1)": col("c").split_index(",", 1),
    "ATAN2(d, d)": expressions.atan2(col("d"), col("d")),
    "PI()": expressions.pi(),
    "TRUNCATE(d, 2)": col("d").truncate(2),
    "GREATEST(a, 3)": expressions.call("greatest", col("a"), 3),
    "STARTSWITH(c, 'a')": col("c").starts_with("a"),
    "TRANSLATE(c, 'a', 'b')": col("c").translate("a", "b"),
    "a IN (1, 2)": col("a").in_(1, 2),
    "a BETWEEN 1 AND 3": col("a").between(1, 3),
    "ROUND(d, 1)": col("d").round(1),
    "JSON_QUOTE(c)": col("c").json_quote(),
    "UNHEX(c)": col("c").unhex,
    "OBJECT_OF('Point', 'x', a)": expressions.object_of("Point", "x", col("a")),
    "OBJECT_UPDATE(OBJECT_OF('Point', 'x', a), 'x', 1)": (
        expressions.object_of("Point", "x", col("a")).object_update("x", 1)
    ),
    "REPEAT(c, 2)": col("c").repeat(2),
    "LISTAGG(c, ',')": col("c").list_agg(),
    "LISTAGG(c, ';')": col("c").list_agg(";"),
    "COLLECT(a)": col("a").collect,
    "ARRAY_AGG(a)": col("a").array_agg,
    "$SUM0(a)": col("a").sum0,
    "VAR_SAMP(d)": col("d").var_samp,
    "STDDEV_POP(d)": col("d").stddev_pop,
    "FIRST_VALUE(a)": col("a").first_value,
    "COUNT(DISTINCT a)": col("a").count.distinct,
    "JSON_OBJECTAGG(KEY c VALUE a NULL ON NULL)": expressions.json_object_agg(JsonOnNull.NULL, col("c"), col("a")),
    "JSON_ARRAYAGG(a)": expressions.json_array_agg(JsonOnNull.ABSENT, col("a")),
    "JSON_ARRAYAGG(a NULL ON NULL)": expressions.json_array_agg(JsonOnNull.NULL, col("a")),
    "BITMAP_BUILD_AGG(a)": col("a").bitmap_build_agg(),
}


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (a INT, b BIGINT, d DOUBLE, c STRING, f BOOLEAN, m MAP<STRING, INT>, arr ARRAY<INT>, "
        "ts TIMESTAMP(3)) WITH ('connector' = 'datagen')"
    )
    return made


@pytest.mark.parametrize("text", SAME)
def test_expression_is_bound_as_that_of_sql(tables: TableEnvironment, text: str) -> None:
    built = tables.from_path("t").select(SAME[text].alias("x")).operation
    written = tables.sql_query(f"SELECT {text} AS x FROM t").operation
    assert logical_text(built) == logical_text(written)
    assert built.row_type == written.row_type
