"""DELETE and UPDATE: a query of the rows that change, whose rows a sink takes as deletions or updates by key.

All rows are read before the first one is changed, so that no change is seen by the query.

Source: org.apache.flink.table.planner.plan.abilities.sink.{RowLevelDeleteSpec, RowLevelUpdateSpec}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError
from flinkpy.common.types import RowKind
from flinkpy.configuration.table_options import SINK_REQUIRE_ON_CONFLICT, UPSERT_MATERIALIZE
from flinkpy.sql.functions.changelog_functions import Changes
from flinkpy.sql.parser import nodes as ast
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.planner.errors import did_you_mean, invalid
from flinkpy.table.planner.logical import nodes as rel

#: The options of the job: each row is the only change of its key.
JOB_OPTIONS = {
    SINK_REQUIRE_ON_CONFLICT.key: "false",
    UPSERT_MATERIALIZE.key: "NONE",
}


@dataclass(frozen=True)
class WithKind:
    """Gives all rows one RowKind."""

    kind: RowKind

    def process(self, columns: list[Any], kinds: np.ndarray | None) -> Changes:
        return columns, np.full(len(columns[0]), self.kind.value, np.int8)


@dataclass(frozen=True)
class RowLevelChanges:
    """The parts of a DELETE or UPDATE.

    Attributes:
        action: "delete" or "update".
        query: the rows that change, with all columns of the table and their new values.
        kind: what the sink is to do with them.
    """

    action: str
    query: ast.Query
    kind: RowKind

    def plan(self, bound: rel.RelNode) -> rel.RelNode:
        """Returns the changes for the bound query."""
        invocation = f"{self.action.upper()}(TABLE(#0))"
        return rel.RowLevelChange(bound, WithKind(self.kind), invocation, bound.row_type, False, True)


def target_of(statement: ast.Update | ast.Delete) -> ast.NamedTable:
    """Returns the table whose rows a statement changes."""
    table = statement.table
    while isinstance(table, ast.AliasedTable):
        table = table.table
    if not isinstance(table, ast.NamedTable):
        raise invalid(statement, "DELETE and UPDATE change the rows of a table that is named.")
    return table


def changes_of(statement: ast.Update | ast.Delete, table: ContextResolvedTable) -> RowLevelChanges:
    """Returns the changes of a statement. Raises: ValidationError if a column cannot be assigned."""
    columns = [each.name for each in table.resolved_schema.columns if each.is_persisted]
    assigned: dict[str, ast.Expression] = {}
    if isinstance(statement, ast.Update):
        assigned = _assigned(statement, table, columns)
    items = tuple(
        ast.SelectItem(assigned.get(name, ast.Identifier.of(name)), ast.Identifier.of(name)) for name in columns
    )
    query = ast.Select(items, statement.table, statement.where, position=statement.position)
    if isinstance(statement, ast.Update):
        return RowLevelChanges("update", query, RowKind.UPDATE_AFTER)
    return RowLevelChanges("delete", query, RowKind.DELETE)


def _assigned(statement: ast.Update, table: ContextResolvedTable, columns: list[str]) -> dict[str, ast.Expression]:
    found: dict[str, ast.Expression] = {}
    key = table.resolved_schema.primary_key
    for each in statement.assignments:
        name = each.column.last
        if name not in columns:
            raise invalid(each.column, f"Unknown target column '{name}'{did_you_mean(name, columns)}")
        if name in found:
            raise invalid(each.column, f"Target column '{name}' is assigned more than once")
        if key is not None and name in key.columns:
            raise invalid(
                each.column,
                f"The column '{name}' is part of the primary key, by which rows are updated. Insert a row with the new "
                "key and delete the old one.",
            )
        found[name] = each.value
    return found


def check_mode(statement: ast.Statement, words: str, is_streaming: bool) -> None:
    """Raises: TableProgramError in streaming mode, in Flink's words."""
    if is_streaming:
        at = statement.position
        place = f" (at line {at.line}, column {at.column})" if at.line else ""
        raise TableProgramError(f"{words} statement is not supported for streaming mode now{place}.")


def sink_of(sink: DynamicTableSink, action: str, table: ContextResolvedTable) -> DynamicTableSink:
    """Returns the sink that takes the changes. Raises: UnsupportedOperationError if the connector has none."""
    found = sink.with_row_level_delete() if action == "delete" else sink.with_row_level_update()
    if found is None:
        raise _no_ability(action, table, f"SupportsRowLevel{action.capitalize()}")
    return found


def truncate(sink: DynamicTableSink, table: ContextResolvedTable) -> None:
    """Deletes all rows of a table at once. Raises: UnsupportedOperationError if the connector cannot."""
    action = sink.truncation()
    if action is None:
        raise _no_ability("truncate table", table, "SupportsTruncate")
    action()


def _no_ability(action: str, table: ContextResolvedTable, ability: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"Can't perform {action} operation of the table {table.identifier.as_summary_string()} because the "
        f"corresponding dynamic table sink has not yet implemented {ability}.",
        details={"table": table.identifier.as_summary_string()},
    )


def check_no_view(table: ContextResolvedTable, node: ast.Statement) -> None:
    """Raises: ValidationError if the name is that of a view."""
    if not isinstance(table.table, CatalogTable):
        raise invalid(node, f"{table.identifier} is a view: only rows of tables can be changed.")
