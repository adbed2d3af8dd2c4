"""Turns the expressions of the Table API into syntax trees of SQL, which the binder binds.

A function has the name of Flink's Table API, such as `stddevPop`. The function of SQL has the same name in capitals,
STDDEV_POP, unless a table below says otherwise.

Source: org.apache.flink.table.planner.expressions.converter.{DirectConvertRule, CustomizedConvertRule,
OverConvertRule}, org.apache.flink.table.expressions.resolver.LookupCallResolver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import Literal
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.expression_nodes import (
    ExpressionNode,
    SqlCall,
    TableReference,
    TableSymbol,
    TypeLiteral,
    UnresolvedCall,
    UnresolvedReference,
    ValueLiteral,
)
from flinkpy.table.planner.binder import literals
from flinkpy.table.planner.binder.program_nodes import (
    BoundQuery,
    ColumnReference,
    Constant,
    FunctionReference,
    Interval,
    ResolvedType,
)

_Nodes = tuple[ExpressionNode, ...]
_Syntax = Callable[[_Nodes], ast.Expression]

#: Functions of SQL whose name does not follow from that of the Table API.
_NAMES = {
    "ifNull": "IFNULL",
    "initCap": "INITCAP",
    "listAgg": "LISTAGG",
    "localTime": "LOCALTIME",
    "localTimestamp": "LOCALTIMESTAMP",
    "timestampDiff": "TIMESTAMPDIFF",
}
_BINARY = {
    "equals": "=",
    "notEquals": "<>",
    "lessThan": "<",
    "greaterThan": ">",
    "lessThanOrEqual": "<=",
    "greaterThanOrEqual": ">=",
    "plus": "+",
    "minus": "-",
    "times": "*",
    "divide": "/",
    "mod": "%",
}
_TESTS = {
    "isNull": ("NULL", False),
    "isNotNull": ("NULL", True),
    "isTrue": ("TRUE", False),
    "isFalse": ("FALSE", False),
    "isNotTrue": ("TRUE", True),
    "isNotFalse": ("FALSE", True),
}
#: The properties of group windows.
WINDOW_PROPERTIES = {"start": "START", "end": "END", "rowtime": "ROWTIME", "proctime": "PROCTIME"}
#: Calls that operations of tables take apart, so that they have no value of their own.
_STRUCTURAL = {
    "as": "An alias can only be given to a whole expression of select(), not to a part of one.",
    "asc": "asc can only be used in order_by().",
    "desc": "desc can only be used in order_by().",
    "flatten": "flatten can only be used as a whole expression of select().",
    "withColumns": "with_columns can only be used where several columns may stand.",
    "withoutColumns": "without_columns can only be used where several columns may stand.",
    "rangeTo": "range_ can only be used in with_columns and without_columns.",
    **dict.fromkeys(WINDOW_PROPERTIES, "Window properties can only be used on windowed tables."),
}


def syntax_of(node: ExpressionNode) -> ast.Expression:
    """Returns the syntax tree of an expression. Raises: ValidationError for what has no value."""
    match node:
        case UnresolvedReference(name=name):
            return ColumnReference.named(name)
        case ValueLiteral():
            return _constant(node)
        case TableSymbol(name=name):
            return ast.TimeUnit(name)
        case SqlCall(text=text):
            return _parsed(text)
        case TableReference(operation=operation):
            return ast.ScalarSubquery(BoundQuery(operation))
        case UnresolvedCall(function=str() as name, arguments=arguments):
            return _lookup(name, arguments) if node.is_lookup else _builtin(name, arguments)
        case UnresolvedCall(function=function, arguments=arguments):
            return ast.FunctionCall(FunctionReference.to(function), _all(arguments))
    raise ValidationError(f"{node} cannot be used as a value.")


def _all(nodes: _Nodes) -> tuple[ast.Expression, ...]:
    return tuple(map(syntax_of, nodes))


def _builtin(name: str, arguments: _Nodes) -> ast.Expression:
    if name in _STRUCTURAL:
        raise ValidationError(_STRUCTURAL[name])
    if name in _BINARY:
        return ast.BinaryOperation(_BINARY[name], *_all(arguments))
    if name in _TESTS:
        test, negated = _TESTS[name]
        return ast.IsPredicate(syntax_of(arguments[0]), test, negated)
    special = _SPECIAL.get(name)
    return special(arguments) if special is not None else _function(name, *_all(arguments))


def _lookup(name: str, arguments: _Nodes) -> ast.Expression:
    """Returns the call of a function that the program names: a registered one, or a built-in one by either name."""
    parts = tuple(name.split("."))
    if len(parts) == 1 and (name in _BINARY or name in _TESTS or name in _SPECIAL or name in _NAMES):
        return _builtin(name, arguments)
    return ast.FunctionCall(ast.Identifier.of(*parts), _all(arguments))


def _function(name: str, *arguments: ast.Expression) -> ast.FunctionCall:
    return ast.FunctionCall(ast.Identifier.of(sql_name(name)), arguments)


def sql_name(name: str) -> str:
    """Returns the name that SQL has for a function of the Table API."""
    return _NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


# -- constants -------------------------------------------------------------------------------------------------------


def _constant(node: ValueLiteral) -> ast.Expression:
    if isinstance(node.type, (lt.DayTimeIntervalType, lt.YearMonthIntervalType)):
        return Constant(Literal(node.type.as_nullable(node.value is None), node.value))
    return Constant(literal_of(node.value), node.type)


def literal_of(value: Any) -> Literal:
    """Returns the typed constant of a Python value.

    Raises: ValidationError for a value without a type.

    Source: org.apache.flink.table.types.utils.ValueDataTypeConverter.
    """
    match value:
        case None:
            return Literal(lt.NullType(), None)
        case bool():
            return Literal(lt.BooleanType(nullable=False), value)
        case int():
            return literals.integer(value)
        case float():
            return Literal(lt.DoubleType(nullable=False), value)
        case str():
            return Literal(lt.CharType(len(value), nullable=False), value)
        case bytes() | bytearray():
            return Literal(lt.BinaryType(len(value), nullable=False), bytes(value))
        case Decimal():
            return _decimal(value)
        case datetime():
            precision = _precision(value.microsecond)
            if value.tzinfo is not None:
                return Literal(lt.LocalZonedTimestampType(precision, nullable=False), value)
            return Literal(lt.TimestampType(precision, nullable=False), value)
        case date():
            return Literal(lt.DateType(nullable=False), value)
        case time():
            return Literal(lt.TimeType(_precision(value.microsecond), nullable=False), value)
    raise ValidationError(
        f"Cannot derive a data type for value '{value!r:.80}'. The data type must be specified explicitly."
    )


def _decimal(value: Decimal) -> Literal:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValidationError(f"Cannot derive a data type for value '{value}': DECIMAL has finite numbers only.")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > lt.MAX_DECIMAL_PRECISION:
        raise ValidationError(f"The decimal {value} has more than {lt.MAX_DECIMAL_PRECISION} digits.")
    return Literal(lt.DecimalType(precision, scale, nullable=False), value)


def _precision(microseconds: int) -> int:
    if not microseconds:
        return 0
    return 6 if microseconds % 1000 else 3


def _value(node: ExpressionNode) -> Any:
    """Returns the value of a constant argument."""
    if not isinstance(node, ValueLiteral):
        raise ValidationError(f"{node} must be a constant here.")
    return node.value


def _parsed(text: str) -> ast.Expression:
    from flinkpy.common.errors import SqlParseError
    from flinkpy.sql.parser import parse_query

    try:
        query = parse_query(f"SELECT {text}")
    except SqlParseError as error:
        raise ValidationError(f"Invalid SQL expression: {text}\n{error.message}") from error
    if not isinstance(query, ast.Select) or len(query.items) != 1 or query.from_ is not None:
        raise ValidationError(f"Invalid SQL expression: {text}")
    # Places in the text begin after SELECT, which the user has not written.
    return without_positions(query.items[0].expression)


def without_positions(node: Any) -> Any:
    """Returns a syntax tree that knows no places in a text."""

    def cleared(value: Any) -> Any:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(cleared(each) for each in value)
        return without_positions(value) if isinstance(value, ast.Node) else value

    changes = {each.name: cleared(getattr(node, each.name)) for each in fields(node) if each.name != "position"}
    return replace(node, **changes, position=ast.NO_POSITION)


# -- functions with a syntax of their own ----------------------------------------------------------------------------


def _logical(operator: str) -> _Syntax:
    return lambda nodes: ast.LogicalOperation(operator, _all(nodes))


def _in(nodes: _Nodes) -> ast.Expression:
    operand = syntax_of(nodes[0])
    if len(nodes) == 2 and isinstance(nodes[1], TableReference):
        return ast.InSubquery(operand, BoundQuery(nodes[1].operation))
    return ast.InList(operand, _all(nodes[1:]))


def _cast(nodes: _Nodes) -> ast.Expression:
    return _cast_to(nodes, is_try=False)


def _try_cast(nodes: _Nodes) -> ast.Expression:
    return _cast_to(nodes, is_try=True)


def _cast_to(nodes: _Nodes, *, is_try: bool) -> ast.Expression:
    operand, target = nodes
    if not isinstance(target, TypeLiteral):
        raise ValidationError(f"The second argument of a cast must be a type, not {target}.")
    if isinstance(target.type, (lt.DayTimeIntervalType, lt.YearMonthIntervalType)):
        return Interval(syntax_of(operand), target.type)
    return ast.Cast(syntax_of(operand), ResolvedType(target.type), is_try)


def _like(operator: str) -> _Syntax:
    def make(nodes: _Nodes) -> ast.Expression:
        operand, pattern, *escape = _all(nodes)
        return ast.Like(operand, pattern, escape[0] if escape else None, operator=operator)

    return make


def _between(*, negated: bool) -> _Syntax:
    def make(nodes: _Nodes) -> ast.Expression:
        operand, low, high = _all(nodes)
        return ast.Between(operand, low, high, negated)

    return make


def _get(nodes: _Nodes) -> ast.Expression:
    operand, key = syntax_of(nodes[0]), _value(nodes[1])
    if isinstance(key, str):
        return ast.FieldAccess(operand, ast.Identifier.of(key))
    return ast.ElementAccess(operand, ast.IntegerLiteral(key + 1))


def _over(nodes: _Nodes) -> ast.Expression:
    aggregate, alias = syntax_of(nodes[0]), _value(nodes[1])
    if not isinstance(aggregate, ast.FunctionCall):
        raise ValidationError("Over can only using with aggregate expression.")
    return replace(aggregate, over=ast.Identifier.of(alias))


def _distinct(nodes: _Nodes) -> ast.Expression:
    aggregate = syntax_of(nodes[0])
    if not isinstance(aggregate, ast.FunctionCall):
        raise ValidationError("Distinct modifier cannot be applied to " + str(nodes[0]))
    return replace(aggregate, quantifier="DISTINCT")


def _trim(nodes: _Nodes) -> ast.Expression:
    mode = {(True, False): "LEADING", (False, True): "TRAILING"}.get((_value(nodes[0]), _value(nodes[1])), "BOTH")
    return ast.Trim(syntax_of(nodes[3]), mode, syntax_of(nodes[2]))


def _overlaps(nodes: _Nodes) -> ast.Expression:
    left, right = (ast.RowConstructor(_all(pair), explicit=False) for pair in (nodes[:2], nodes[2:]))
    return ast.BinaryOperation("OVERLAPS", left, right)


def _assignment(nodes: _Nodes) -> ast.Expression:
    return ast.NamedArgument(ast.Identifier.of(_value(nodes[0])), syntax_of(nodes[1]))


def _descriptor(nodes: _Nodes) -> ast.Expression:
    return ast.Descriptor(tuple(ast.DescriptorColumn(ColumnReference.named(str(each))) for each in nodes))


def _is_json(nodes: _Nodes) -> ast.Expression:
    kind = str(nodes[1]) if len(nodes) > 1 else "VALUE"
    return ast.IsPredicate(syntax_of(nodes[0]), f"JSON {kind}")


def _behavior(symbol: ExpressionNode, default: ExpressionNode | None = None) -> ast.JsonBehavior:
    kind = str(symbol).replace("_", " ")
    has_default = kind == "DEFAULT" and default is not None
    return ast.JsonBehavior(kind, syntax_of(default) if has_default and default is not None else None)


def _json_exists(nodes: _Nodes) -> ast.Expression:
    document, path, *rest = nodes
    return ast.JsonExists(syntax_of(document), syntax_of(path), _behavior(rest[0]) if rest else None)


def _json_value(nodes: _Nodes) -> ast.Expression:
    document, path, returning, on_empty, empty, on_error, error = nodes
    assert isinstance(returning, TypeLiteral)
    return ast.JsonValue(
        syntax_of(document),
        syntax_of(path),
        ResolvedType(returning.type),
        _behavior(on_empty, empty),
        _behavior(on_error, error),
    )


def _json_query(nodes: _Nodes) -> ast.Expression:
    document, path, _, wrapper, on_empty, on_error = nodes
    kept = str(wrapper).removesuffix("_ARRAY")
    return ast.JsonQuery(syntax_of(document), syntax_of(path), None, kept, _behavior(on_empty), _behavior(on_error))


def _json_object(nodes: _Nodes) -> ast.Expression:
    values = _all(nodes[1:])
    if len(values) % 2:
        raise ValidationError("json_object needs keys and values, which take turns.")
    entries = tuple(ast.JsonEntry(key, value) for key, value in zip(values[0::2], values[1::2]))
    return ast.JsonObject(entries, str(nodes[0]) == "ABSENT")


def _json_array(nodes: _Nodes) -> ast.Expression:
    return ast.JsonArray(_all(nodes[1:]), str(nodes[0]) == "ABSENT")


def _json_aggregate(name: str) -> _Syntax:
    """JSON aggregates get JSON texts, see `json_calls`."""

    def make(nodes: _Nodes) -> ast.Expression:
        *keys, value = _all(nodes)
        is_absent = name.endswith("ABSENT_ON_NULL")
        if keys:
            return ast.JsonObject((ast.JsonEntry(keys[0], value),), is_absent, is_aggregate=True)
        return ast.JsonArray((value,), is_absent, is_aggregate=True)

    return make


_SPECIAL: dict[str, _Syntax] = {
    "and": _logical("AND"),
    "or": _logical("OR"),
    "not": lambda nodes: ast.UnaryOperation("NOT", syntax_of(nodes[0])),
    "minusPrefix": lambda nodes: ast.UnaryOperation("-", syntax_of(nodes[0])),
    "between": _between(negated=False),
    "notBetween": _between(negated=True),
    "in": _in,
    "LIKE": _like("LIKE"),
    "similar": _like("SIMILAR TO"),
    "cast": _cast,
    "TRY_CAST": _try_cast,
    "get": _get,
    "at": lambda nodes: ast.ElementAccess(*_all(nodes)),
    "array": lambda nodes: ast.CollectionConstructor("ARRAY", _all(nodes)),
    "map": lambda nodes: ast.CollectionConstructor("MAP", _all(nodes)),
    "row": lambda nodes: ast.RowConstructor(_all(nodes)),
    "ifThenElse": lambda nodes: ast.Case(
        None, (ast.WhenBranch((syntax_of(nodes[0]),), syntax_of(nodes[1])),), syntax_of(nodes[2])
    ),
    "over": _over,
    "distinct": _distinct,
    "trim": _trim,
    "temporalOverlaps": _overlaps,
    "ASSIGNMENT": _assignment,
    "DESCRIPTOR": _descriptor,
    "IS_JSON": _is_json,
    "JSON_EXISTS": _json_exists,
    "JSON_VALUE": _json_value,
    "JSON_QUERY": _json_query,
    "JSON_OBJECT": _json_object,
    "JSON_ARRAY": _json_array,
    **{
        name: _json_aggregate(name)
        for kind in ("JSON_OBJECTAGG", "JSON_ARRAYAGG")
        for name in (f"{kind}_NULL_ON_NULL", f"{kind}_ABSENT_ON_NULL")
    },
}
