"""Built-in process table functions in FROM: TO_CHANGELOG, FROM_CHANGELOG and ML_PREDICT.

A function with ROW SEMANTICS sees one row at a time, so that its table argument has no PARTITION BY.

Source: org.apache.flink.table.types.inference.strategies.{ToChangelogTypeStrategy, FromChangelogTypeStrategy}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.common.types import RowKind
from flinkpy.sql.functions.changelog_functions import FromChangelog, ToChangelog
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.arguments import bind_arguments, constant_map, descriptor_names, table_argument
from flinkpy.table.planner.binder.models import ML_PREDICT, bind_ml_predict
from flinkpy.table.planner.binder.scope import Scope
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_regular

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder

_TO, _FROM = "TO_CHANGELOG", "FROM_CHANGELOG"
PROCESS_TABLE_FUNCTIONS = frozenset({_TO, _FROM, ML_PREDICT})
_ARGUMENTS = ("INPUT", "OP", "OP_MAPPING")
_DEFAULT_OP = "op"


def bind_process_table_function(queries: QueryBinder, outer: Scope | None, call: ast.FunctionCall) -> rel.RelNode:
    """Returns the plan of a call. Raises: ValidationError if an argument does not fit."""
    if call.function == ML_PREDICT:
        return bind_ml_predict(queries, outer, call)
    arguments = bind_arguments(call, _ARGUMENTS, required=1)
    table = arguments["INPUT"]
    plan = table_argument(queries, outer, table, f"First argument must be a table for {call.function}.")
    if isinstance(table, ast.TableArgument) and (table.partition_by or table.order_by):
        raise invalid(
            table,
            f"The table argument 'input' of {call.function} has ROW SEMANTICS: each row is converted by itself. "
            "PARTITION BY and ORDER BY belong to table arguments with SET SEMANTICS.",
        )
    column = _op_column(arguments.get("OP"))
    mapping = _mapping(queries, arguments.get("OP_MAPPING"))
    if call.function == _TO:
        return _to_changelog(plan, column, _to_codes(call, mapping))
    return _from_changelog(call, plan, column, mapping)


def _op_column(node: ast.Expression | None) -> str:
    if node is None:
        return _DEFAULT_OP
    message = "The descriptor for argument 'op' must contain exactly one column name."
    names = descriptor_names(node, message)
    if len(names) != 1:
        raise invalid(node, message)
    return names[0]


def _mapping(queries: QueryBinder, node: ast.Expression | None) -> dict[str, str] | None:
    if node is None:
        return None
    return constant_map(queries, node, "The 'op_mapping' argument must be a constant MAP literal.")


def _kind(call: ast.FunctionCall, name: str) -> RowKind:
    known = [kind.name for kind in RowKind]
    if name.strip() not in known:
        raise invalid(
            call,
            f"Invalid target mapping for argument 'op_mapping'. Unknown change operation: '{name.strip()}'. Valid "
            f"values are: {', '.join(known)}.",
        )
    return RowKind[name.strip()]


def _to_codes(call: ast.FunctionCall, mapping: dict[str, str] | None) -> tuple[tuple[RowKind, str], ...]:
    """Returns the codes by kind. A key of the mapping may name several kinds, separated by commas."""
    if mapping is None:
        return tuple((kind, kind.name) for kind in RowKind)
    found: dict[RowKind, str] = {}
    for names, code in mapping.items():
        for name in names.split(","):
            kind = _kind(call, name)
            if kind in found:
                raise invalid(
                    call,
                    f"Invalid target mapping for argument 'op_mapping'. Duplicate change operation: '{kind.name}'.",
                )
            found[kind] = code
    return tuple(found.items())


def _to_changelog(plan: rel.RelNode, column: str, codes: tuple[tuple[RowKind, str], ...]) -> rel.RelNode:
    types = (lt.VarCharType(nullable=False), *(as_regular(each.type) for each in plan.row_type.fields))
    row_type = rel.row_of(rel.unique_names((column, *plan.names)), types)
    shown = ", ".join(f"'{kind.name}', '{code}'" for kind, code in codes)
    invocation = f"{_TO}(TABLE(#0), DESCRIPTOR('{column}'), MAP({shown}))"
    return rel.ProcessTableFunction(plan, ToChangelog(codes), invocation, row_type, True, False)


def _from_changelog(
    call: ast.FunctionCall, plan: rel.RelNode, column: str, mapping: dict[str, str] | None
) -> rel.RelNode:
    if column not in plan.names:
        hint = did_you_mean(column, plan.names)
        raise invalid(call, f"The op column '{column}' does not exist in the input schema.{hint}")
    place = plan.names.index(column)
    kind = plan.type_of(place)
    if not isinstance(kind, (lt.CharType, lt.VarCharType)):
        raise invalid(call, f"The op column '{column}' must be of STRING type, but was '{kind}'.")
    if plan.width == 1:
        raise invalid(call, f"The input of {_FROM} has no column but the op column '{column}'.")
    kinds = _from_codes(call, mapping)
    fields = [each for each in plan.row_type.fields if each.name != column]
    row_type = rel.row_of(tuple(each.name for each in fields), tuple(as_regular(each.type) for each in fields))
    shown = ", ".join(f"'{code}', '{each.name}'" for code, each in kinds)
    invocation = f"{_FROM}(TABLE(#0), DESCRIPTOR('{column}'), MAP({shown}))"
    return rel.ProcessTableFunction(plan, FromChangelog(place, kinds), invocation, row_type, False, True)


def _from_codes(call: ast.FunctionCall, mapping: dict[str, str] | None) -> tuple[tuple[str, RowKind], ...]:
    """Returns the kinds by code. A key of the mapping may have several codes, separated by commas."""
    if mapping is None:
        return tuple((kind.name, kind) for kind in RowKind)
    found: dict[str, RowKind] = {}
    for codes, name in mapping.items():
        kind = _kind(call, name)
        if kind in found.values():
            raise invalid(
                call,
                f"Invalid target mapping for argument 'op_mapping'. Duplicate change operation: '{kind.name}'. Use "
                "comma-separated keys to map multiple codes to the same operation (e.g., MAP['c, r', 'INSERT']).",
            )
        found.update({code.strip(): kind for code in codes.split(",")})
    if RowKind.UPDATE_AFTER in found.values() and RowKind.UPDATE_BEFORE not in found.values():
        raise invalid(
            call,
            "The 'op_mapping' must include UPDATE_BEFORE for retract mode. Upsert mode (without UPDATE_BEFORE) is not "
            "supported in this version.",
        )
    return tuple(found.items())
