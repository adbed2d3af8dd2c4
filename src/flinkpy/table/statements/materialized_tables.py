"""CREATE, ALTER, DROP, SHOW and SHOW CREATE of materialized tables.

Source: org.apache.flink.table.planner.operations.converters.materializedtable.*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import (
    MATERIALIZED_TABLE_FRESHNESS_CONTINUOUS,
    MATERIALIZED_TABLE_FRESHNESS_FULL,
    MATERIALIZED_TABLE_FRESHNESS_THRESHOLD,
)
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.parser.unparse import unparse
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.catalog.catalog_tables import CatalogTable
from flinkpy.table.catalog.identifiers import ObjectIdentifier
from flinkpy.table.catalog.materialized_table import UNITS_MS, CatalogMaterializedTable, Freshness, RefreshMode
from flinkpy.table.materialized_table_manager import MaterializedTableManager, RefreshSession
from flinkpy.table.planner.errors import invalid
from flinkpy.table.schema import Schema, UnresolvedPhysicalColumn
from flinkpy.table.statements.declarations import options_of
from flinkpy.table.table_result import TableResult

#: The start modes that are those of any job: from the beginning of the sources.
_START_MODES = ("FROM_BEGINNING", "RESUME_OR_FROM_BEGINNING")


class MaterializedTableStatements:
    """Thread: that of the program.

    Args:
        session: has the catalogs and runs jobs.
        declare: returns the table that CREATE TABLE ... AS makes.
        row_type: returns the rows of a query as a table stores them.
        expand: returns the text of a query with all names in full, so that USE does not change what jobs read.
    """

    def __init__(
        self,
        session: RefreshSession,
        declare: Callable[[ast.CreateTable], CatalogTable],
        row_type: Callable[[ast.Query], RowType],
        expand: Callable[[ast.Query], str],
    ) -> None:
        self._catalogs = session.catalogs
        self._configuration = session.configuration
        self._declare = declare
        self._row_type = row_type
        self._expand = expand
        self._manager = MaterializedTableManager(session)

    def create(self, statement: ast.CreateMaterializedTable) -> TableResult:
        """Creates a table and starts its job; with OR ALTER changes the query of one that is there already.

        Raises:
            ValidationError: the name is taken, or a part of the statement is wrong.
            TableProgramError: the query cannot be run, or the table cannot take its changes.
        """
        identifier = self._catalogs.qualify(statement.name.parts)
        if statement.start_mode is not None and statement.start_mode.kind not in _START_MODES:
            raise UnsupportedOperationError(
                f"START_MODE = {statement.start_mode.kind} is not supported: a job reads its sources as their options "
                "say, which is FROM_BEGINNING.",
                details={"start_mode": statement.start_mode.kind},
            )
        declared = self._declared(statement)
        freshness, mode = self._refreshing(statement)
        if statement.or_alter and self._manager.find(statement.name.parts) is not None:
            _, present = self._manager.get(identifier.parts)
            changed = {
                "WITH": declared.options != present.options,
                "COMMENT": statement.comment is not None and declared.comment != present.comment,
                "PARTITIONED BY": bool(statement.partitioned_by) and declared.partition_keys != present.partition_keys,
                "FRESHNESS": statement.freshness is not None and freshness != present.freshness,
                "REFRESH_MODE": statement.refresh_mode is not None and mode is not present.refresh_mode,
            }
            _refuse_changes(identifier, [part for part, is_changed in changed.items() if is_changed])
            return self._change_query(identifier, statement.query)
        table = CatalogMaterializedTable(
            **{each.name: getattr(declared, each.name) for each in fields(CatalogTable)},
            original_query=unparse(statement.query),
            expanded_query=self._expand(statement.query),
            freshness=freshness,
            refresh_mode=mode,
            is_mode_derived=statement.refresh_mode is None,
        )
        self._catalogs.create_table(identifier, table, False)
        self._manager.start(identifier)
        return TableResult.ok()

    def _declared(self, statement: ast.CreateMaterializedTable) -> CatalogTable:
        create = ast.CreateTable(
            statement.name,
            statement.columns,
            statement.constraints,
            statement.watermark,
            statement.comment,
            statement.distribution,
            statement.partitioned_by,
            statement.options,
            query=statement.query,
            column_names=statement.column_names,
            position=statement.position,
        )
        return self._declare(create)

    def _refreshing(self, statement: ast.CreateMaterializedTable) -> tuple[Freshness, RefreshMode]:
        """Returns the freshness and the refresh mode, of which one may follow from the other."""
        configuration = self._configuration
        written = None if statement.refresh_mode is None else RefreshMode[statement.refresh_mode]
        if statement.freshness is None:
            is_full = written is RefreshMode.FULL
            option = MATERIALIZED_TABLE_FRESHNESS_FULL if is_full else MATERIALIZED_TABLE_FRESHNESS_CONTINUOUS
            freshness = _freshness_of(read_option(configuration, option))
        else:
            freshness = _freshness(statement.freshness)
        if written is not None:
            return freshness, written
        is_short = freshness.duration_ms < read_option(configuration, MATERIALIZED_TABLE_FRESHNESS_THRESHOLD)
        return freshness, RefreshMode.CONTINUOUS if is_short else RefreshMode.FULL

    def drop(self, statement: ast.Drop) -> TableResult:
        if self._manager.find(statement.name.parts) is None and statement.if_exists:
            return TableResult.ok()
        identifier, _ = self._manager.get(statement.name.parts)
        self._manager.drop(identifier)
        return TableResult.ok()

    def alter(self, statement: ast.Alter) -> TableResult:
        """Suspends, resumes or refreshes a table, or changes its query.

        Raises:
            ValidationError: there is no such table, or its state does not allow the change.
            UnsupportedOperationError: the change has no meaning here.
        """
        identifier, _ = self._manager.get(statement.name.parts)
        match statement.action:
            case ast.SuspendRefresh():
                self._manager.suspend(identifier)
            case ast.ResumeRefresh(options):
                self._manager.resume(identifier, options_of(options))
            case ast.Refresh(partition):
                return self._manager.refresh(identifier, partition)
            case ast.ChangeQuery(query):
                return self._change_query(identifier, query)
            case action:
                raise UnsupportedOperationError(
                    f"ALTER MATERIALIZED TABLE with {type(action).__name__} is not supported: change the query by AS, "
                    "or drop and create the table."
                )
        return TableResult.ok()

    def _change_query(self, identifier: ObjectIdentifier, query: ast.Query) -> TableResult:
        """Gives a table another query. New columns come behind the others and may be null."""
        _, table = self._manager.get(identifier.parts)
        columns = list(table.schema.columns)
        row_type = self._row_type(query)
        known = {each.name: each for each in columns}
        for place, each in enumerate(row_type.fields):
            old = columns[place] if place < len(columns) else None
            if old is None and each.name not in known:
                columns.append(UnresolvedPhysicalColumn(each.name, None, each.type.as_nullable()))
            elif old is None or old.name != each.name or not _same_type(old, each.type):
                shown = "no column" if old is None else f"the column {old.name}"
                raise invalid(
                    query,
                    "When modifying the query of a materialized table, currently only support appending columns at the "
                    f"end of original schema: the query has {each.name} {each.type} at position {place}, the table "
                    f"{shown}.",
                )
        if len(row_type.fields) < len(table.schema.columns):
            raise invalid(
                query,
                "When modifying the query of a materialized table, columns cannot be dropped: the table has "
                f"{len(table.schema.columns)} columns, the query {len(row_type.fields)}.",
            )
        schema = Schema(tuple(columns), table.schema.watermarks, table.schema.primary_key)
        changed = replace(table, schema=schema, original_query=unparse(query), expanded_query=self._expand(query))
        self._manager.change_query(identifier, changed)
        return TableResult.ok()


def _same_type(column: Any, kind: Any) -> bool:
    declared = getattr(column, "type", None)
    return declared is None or str(declared.as_nullable()) == str(kind.as_nullable())


def _freshness(node: ast.IntervalLiteral) -> Freshness:
    """Returns the freshness of an interval. Raises: ValidationError for other units and numbers."""
    unit = node.qualifier.start
    if unit not in UNITS_MS or node.qualifier.end is not None:
        raise invalid(node, "Materialized table freshness only support SECOND, MINUTE, HOUR, DAY as the time unit.")
    if node.negative or not node.text.strip().isdigit() or int(node.text) <= 0:
        raise invalid(
            node, f"The freshness interval currently only supports positive integer type values. But was: {node.text}"
        )
    return Freshness(int(node.text), unit)


def _freshness_of(duration_ms: int) -> Freshness:
    """Returns a duration in its largest whole unit."""
    for unit, length_ms in reversed(UNITS_MS.items()):
        if duration_ms % length_ms == 0:
            return Freshness(duration_ms // length_ms, unit)
    raise ValidationError(f"A freshness of {duration_ms} ms is not a whole number of seconds.")


def _refuse_changes(identifier: ObjectIdentifier, parts: list[str]) -> None:
    """Raises UnsupportedOperationError if CREATE OR ALTER changes more of a table than its query."""
    if parts:
        raise UnsupportedOperationError(
            f"CREATE OR ALTER MATERIALIZED TABLE cannot change {', '.join(parts)} of the existing table {identifier}: "
            "it changes the query. Drop and create the table.",
            details={"table": str(identifier), "parts": ", ".join(parts)},
        )
