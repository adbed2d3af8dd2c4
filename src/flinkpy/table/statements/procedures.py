"""CALL and SHOW PROCEDURES.

Source: org.apache.flink.table.planner.operations.PlannerCallProcedureOperation,
org.apache.flink.table.operations.ShowProceduresOperation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import FlinkError, TableRuntimeError
from flinkpy.sql.functions.user_functions import user_function_failed
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.procedure import Procedure, ProcedureContext
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.table_result import TableResult
from flinkpy.table.type_conversion import logical_type_of


def call_procedure(
    statement: ast.Call,
    catalogs: CatalogManager,
    constant: Callable[[ast.Expression], Any],
    context: ProcedureContext,
) -> TableResult:
    """Runs a procedure of a catalog and returns its rows.

    Args:
        constant: returns the value of an expression without columns.

    Raises:
        ValidationError: there is no such procedure, or the arguments do not fit.
        FunctionError: the procedure failed; it has its traceback.
    """
    call = statement.call
    identifier = catalogs.qualify(call.name.parts)
    catalog = catalogs.catalog_or_error(identifier.catalog_name)
    path = identifier.to_object_path()
    known = catalog.list_procedures(path.database_name)
    if path.object_name not in known:
        hint = did_you_mean(path.object_name, known)
        raise invalid(call, f"No match found for function signature {'.'.join(call.name.parts)}{hint}")
    procedure = catalog.get_procedure(path)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in call.arguments:
        if isinstance(each, ast.NamedArgument):
            named[each.name.last] = constant(each.value)
        else:
            positional.append(constant(each))
    try:
        inspect.signature(procedure.call).bind(context, *positional, **named)
    except TypeError as error:
        raise invalid(call, f"Invalid arguments of procedure {path}: {error}") from error
    return _result(procedure, str(path), lambda: procedure.call(context, *positional, **named))


def _result(procedure: Procedure, name: str, run: Callable[[], Any]) -> TableResult:
    kind = logical_type_of(procedure.result_type)
    is_row = isinstance(kind, RowType)
    schema = ResolvedSchema.of_row(kind) if isinstance(kind, RowType) else ResolvedSchema.physical(("result", kind))
    try:
        rows = [tuple(each) if is_row else (each,) for each in run()]
    except FlinkError:
        raise
    except Exception as error:
        raise user_function_failed(name, error) from error
    width = len(schema.columns)
    for row in rows:
        if len(row) != width:
            raise TableRuntimeError(f"The procedure {name} returned a row of {len(row)} values; its type has {width}.")
    return TableResult.of_rows(schema, rows)
