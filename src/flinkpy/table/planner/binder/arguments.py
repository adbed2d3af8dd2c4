"""The arguments of functions that take tables: by position or name, tables, descriptors and constant maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.scope import Scope
from flinkpy.table.planner.constant_values import constant_value
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder


def bind_arguments(call: ast.FunctionCall, names: Sequence[str], required: int) -> dict[str, ast.Expression]:
    """Returns the arguments by name. DEFAULT stands for an argument that is not given.

    Args:
        names: the names in their order, in capitals.
        required: how many of them, from the first, have no default.

    Raises: ValidationError for an unknown, a missing or a second argument of a name.
    """
    found: dict[str, ast.Expression] = {}
    for place, argument in enumerate(call.arguments):
        value = argument
        if isinstance(argument, ast.NamedArgument):
            name, value = argument.name.last.upper(), argument.value
            if name not in names:
                raise invalid(argument, f"{call.function} has no argument {name.lower()}{did_you_mean(name, names)}")
        elif place < len(names):
            name = names[place]
        else:
            raise invalid(argument, f"{call.function} has at most {len(names)} arguments: {_signature(names)}")
        if name in found:
            raise invalid(argument, f"The argument {name.lower()} of {call.function} is given twice.")
        if not isinstance(value, ast.DefaultValue):
            found[name] = value
    for name in names[:required]:
        if name not in found:
            raise invalid(call, f"{call.function} needs the argument {name.lower()}: {_signature(names)}")
    return found


def _signature(names: Sequence[str]) -> str:
    return ", ".join(each.lower() for each in names)


def table_argument(queries: QueryBinder, outer: Scope | None, node: ast.Expression, message: str) -> rel.RelNode:
    """Returns the plan of a table argument: TABLE t, or a query. Raises: ValidationError with `message` otherwise."""
    if not isinstance(node, (ast.TableArgument, ast.ScalarSubquery)):
        raise invalid(node, message)
    return queries.bind(node.query, outer)


def descriptor_names(node: ast.Expression, message: str) -> list[str]:
    """Returns the columns of a DESCRIPTOR. Raises: ValidationError with `message` if it is none."""
    if not isinstance(node, ast.Descriptor) or any(len(each.name.parts) != 1 for each in node.columns):
        raise invalid(node, message)
    return [each.name.last for each in node.columns]


def constant_map(queries: QueryBinder, node: ast.Expression, message: str) -> dict[str, str]:
    """Returns the texts of MAP['key', 'value', ...]. Raises: ValidationError with `message` for other values."""
    if not isinstance(node, ast.CollectionConstructor):
        raise invalid(node, message)
    bound = ExpressionBinder(queries, queries.scope([], None)).bind(node)
    texts = (lt.CharType, lt.VarCharType)
    kind = bound.type
    if not isinstance(kind, lt.MapType) or not (isinstance(kind.key, texts) and isinstance(kind.value, texts)):
        raise invalid(node, message)
    return dict(constant_value(bound, queries.context.settings))
