"""Every function of Expression and of the module `expressions` is one of SQL's catalogue of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from flinkpy.common.errors import FlinkError
from flinkpy.sql.functions import registry
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.nodes.base import walk
from flinkpy.table import DataTypes, expressions
from flinkpy.table.expression import Expression, JsonOnNull, JsonType, TimeIntervalUnit, TimePointUnit
from flinkpy.table.expressions import col
from flinkpy.table.planner.binder.program_expressions import syntax_of

#: Those that operations of tables take apart, and those that are not there.
STRUCTURAL = {"alias", "asc", "desc", "flatten", "start", "end", "rowtime", "proctime", "object_update", "object_of"}
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


@pytest.mark.parametrize("call", [lambda: expressions.object_of("X"), lambda: syntax_of(col("a").object_update().node)])
def test_structured_types_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(FlinkError, match="no structured types"):
        call()
