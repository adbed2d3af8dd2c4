"""Calls of JSON functions, which have a syntax of their own: keywords become SYMBOL arguments.

Source: org.apache.flink.table.planner.functions.sql.SqlJsonUtils.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.sql.functions import registry
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.data_types import logical_type

Bind = Callable[[ast.Expression], RexNode]
_NULL = Literal(lt.NullType(), None)


def json_call(node: ast.Expression, bind: Bind) -> RexNode | None:
    """Returns the call that a JSON node stands for; None for any other node, and for aggregates."""
    if isinstance(node, ast.JsonExists):
        arguments = [bind(node.document), bind(node.path)]
        if node.on_error is not None:
            arguments.append(_symbol(node.on_error.kind))
        return registry.call("JSON_EXISTS", *arguments)
    if isinstance(node, ast.JsonValue):
        call = registry.call(
            "JSON_VALUE",
            bind(node.document),
            bind(node.path),
            *_behavior(node.on_empty, bind),
            *_behavior(node.on_error, bind),
        )
        if node.returning is None:
            return call
        return RexCall(logical_type(node.returning).as_nullable(), call.function, call.arguments)
    if isinstance(node, ast.JsonQuery):
        symbols = [node.wrapper or "WITHOUT"]
        symbols += ["NULL" if each is None else each.kind for each in (node.on_empty, node.on_error)]
        call = registry.call("JSON_QUERY", bind(node.document), bind(node.path), *map(_symbol, symbols))
        if node.returning is not None and isinstance(logical_type(node.returning), lt.ArrayType):
            return registry.call("JSON_TEXTS", call)
        return call
    if isinstance(node, ast.JsonObject) and not node.is_aggregate:
        pairs = [each for entry in node.entries for each in (bind(entry.key), _value(entry.value, bind))]
        return registry.call("JSON_OBJECT", _symbol("ABSENT" if node.absent_on_null else "NULL"), *pairs)
    if isinstance(node, ast.JsonArray) and not node.is_aggregate:
        is_absent = node.absent_on_null is None or node.absent_on_null
        values = [_value(each, bind) for each in node.values]
        return registry.call("JSON_ARRAY", _symbol("ABSENT" if is_absent else "NULL"), *values)
    return None


def json_aggregate(node: ast.Node) -> ast.FunctionCall | None:
    """Returns JSON_OBJECTAGG or JSON_ARRAYAGG as a call of a function of texts; None for any other node.

    The values are JSON texts: those of JSON_OBJECT and JSON_ARRAY as they are, others as JSON_STRING writes them.
    """
    if not isinstance(node, (ast.JsonObject, ast.JsonArray)) or not node.is_aggregate:
        return None
    values: tuple[ast.Expression, ...]
    if isinstance(node, ast.JsonObject):
        name, is_absent = "JSON_OBJECTAGG", bool(node.absent_on_null)
        values = (node.entries[0].key, _text(node.entries[0].value))
    else:
        name, is_absent = "JSON_ARRAYAGG", node.absent_on_null is None or node.absent_on_null
        values = (_text(node.values[0]),)
    called = ast.Identifier.of(f"{name}_{'ABSENT' if is_absent else 'NULL'}_ON_NULL")
    return ast.FunctionCall(called, values, filter=node.filter, over=node.over, position=node.position)


def _text(node: ast.Expression) -> ast.Expression:
    if isinstance(node, (ast.JsonObject, ast.JsonArray)):
        return node
    return ast.FunctionCall(ast.Identifier.of("JSON_STRING"), (node,), position=node.position)


def _value(node: ast.Expression, bind: Bind) -> RexNode:
    """Returns a value of JSON_OBJECT or JSON_ARRAY. JSON(...) and JSON that is constructed are documents, not texts."""
    if isinstance(node, ast.FunctionCall) and node.function == "JSON" and len(node.arguments) == 1:
        return registry.call("JSON", bind(node.arguments[0]))
    value = bind(node)
    is_document = isinstance(value, RexCall) and value.function in ("JSON_OBJECT", "JSON_ARRAY")
    return registry.call("JSON", value) if is_document else value


def _symbol(name: str) -> Literal:
    return Literal(lt.SymbolType(nullable=False), name)


def _behavior(behavior: ast.JsonBehavior | None, bind: Bind) -> tuple[RexNode, RexNode]:
    if behavior is None:
        return _symbol("NULL"), _NULL
    return _symbol(behavior.kind), _NULL if behavior.value is None else bind(behavior.value)
