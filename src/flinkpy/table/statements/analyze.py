"""ANALYZE TABLE ... COMPUTE STATISTICS: one query computes what the catalog stores.

Source: org.apache.flink.table.api.internal.AnalyzeTableUtil,
org.apache.flink.table.planner.operations.SqlNodeToOperationConversion.convertAnalyzeTable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.catalog.catalog_manager import CatalogManager
from flinkpy.table.catalog.catalog_statistics import (
    CatalogColumnStatistics,
    CatalogTableStatistics,
    ColumnStatistics,
)
from flinkpy.table.catalog.catalog_tables import CatalogTable, ContextResolvedTable
from flinkpy.table.catalog.identifiers import quoted
from flinkpy.table.catalog.resolved_schema import Column, ComputedColumn, MetadataColumn
from flinkpy.table.planner.errors import did_you_mean
from flinkpy.table.statements.alterations import literal_text
from flinkpy.table.statements.literals import literal_of
from flinkpy.table.table_result import TableResult

_TEXTS = (lt.CharType, lt.VarCharType)
_ORDERED = (
    lt.TinyIntType,
    lt.SmallIntType,
    lt.IntType,
    lt.BigIntType,
    lt.FloatType,
    lt.DoubleType,
    lt.DecimalType,
    lt.DateType,
    lt.TimeType,
    lt.TimestampType,
    lt.LocalZonedTimestampType,
)
#: The fields of ColumnStatistics that are computed for types, with their aggregates.
_NULLS = (("null_count", "COUNT(*) - COUNT({0})"),)
_OF_BOOLEANS = (
    ("true_count", "COUNT({0}) FILTER (WHERE {0} IS TRUE)"),
    ("false_count", "COUNT({0}) FILTER (WHERE {0} IS FALSE)"),
)
_OF_VALUES = (("distinct_count", "APPROX_COUNT_DISTINCT({0})"), ("minimum", "MIN({0})"), ("maximum", "MAX({0})"))
_OF_TEXTS = (
    ("distinct_count", "APPROX_COUNT_DISTINCT({0})"),
    ("average_length", "AVG(CAST(CHAR_LENGTH({0}) AS DOUBLE))"),
    ("max_length", "MAX(CAST(CHAR_LENGTH({0}) AS BIGINT))"),
)


def analyze_table(
    statement: ast.AnalyzeTable, catalogs: CatalogManager, collect: Callable[[str], Sequence[Sequence[Any]]]
) -> TableResult:
    """Computes and stores the statistics of a table, or of its partitions.

    Args:
        collect: returns the rows of a query in batch mode.

    Raises:
        ValidationError: a column or partition does not fit the table, or it is a view or temporary.
        CatalogError: the catalog stores no statistics.
    """
    table = catalogs.get_table_or_error(statement.table.parts)
    if not isinstance(table.table, CatalogTable):
        raise ValidationError("ANALYZE TABLE for a view is not allowed")
    if table.is_temporary:
        raise ValidationError(f"ANALYZE TABLE needs a table of a catalog, and {table.identifier} is temporary.")
    columns = _columns(table, statement.columns)
    partition_keys = table.table.partition_keys
    _check_partition(statement, table, partition_keys)
    catalog = catalogs.catalog_or_error(table.identifier.catalog_name)
    path = table.identifier.to_object_path()
    if not partition_keys:
        (row,) = collect(_query(table, columns, (), ()))
        counted, found = _statistics(row, columns)
        catalog.alter_table_statistics(path, counted, False)
        if columns:
            known = catalog.get_table_column_statistics(path).get_column_statistics_data()
            catalog.alter_table_column_statistics(path, CatalogColumnStatistics({**known, **found}), False)
        return TableResult.ok()
    wanted = {each.column.last: literal_text(each.value) for each in statement.partition if each.value is not None}
    partitions = [each for each in catalog.list_partitions(path) if wanted.items() <= dict(each).items()]
    if not partitions:
        return TableResult.ok()
    width = len(partition_keys)
    rows = {
        tuple(map(str, row[:width])): row[width:]
        for row in collect(_query(table, columns, partition_keys, tuple(wanted.items())))
    }
    for partition in partitions:
        values = tuple(dict(partition)[key] for key in partition_keys)
        # A partition without rows has no group.
        counted, found = _statistics(rows.get(values, (0,)), columns)
        catalog.alter_partition_statistics(path, partition, counted, False)
        if columns:
            known = catalog.get_partition_column_statistics(path, partition).get_column_statistics_data()
            merged = CatalogColumnStatistics({**known, **found})
            catalog.alter_partition_column_statistics(path, partition, merged, False)
    return TableResult.ok()


def check_analyze_mode(statement: ast.AnalyzeTable, *, is_streaming: bool) -> None:
    """Raises: TableProgramError in streaming mode, in Flink's words."""
    if is_streaming:
        at = statement.position
        raise TableProgramError(
            f"ANALYZE TABLE is not supported for streaming mode now (at line {at.line}, column {at.column})."
        )


def _columns(table: ContextResolvedTable, written: tuple[ast.Identifier | ast.Star, ...]) -> list[Column]:
    """Returns the columns that are analysed. Raises: ValidationError for one that is not stored or unknown."""
    schema = table.resolved_schema
    if any(isinstance(each, ast.Star) for each in written):
        return [each for each in schema.columns if each.is_persisted]
    known = {each.name: each for each in schema.columns}
    found = []
    for each in written:
        assert isinstance(each, ast.Identifier)
        column = known.get(each.last)
        if column is None:
            raise ValidationError(
                f"Column: {each.last} does not exist in the table: {table.identifier}{did_you_mean(each.last, known)}"
            )
        if isinstance(column, (ComputedColumn, MetadataColumn)):
            kind = "computed" if isinstance(column, ComputedColumn) else "metadata"
            raise ValidationError(
                f"Column: {column.name} is a {kind} column, ANALYZE TABLE does not support {kind} column"
            )
        found.append(column)
    return found


def _check_partition(statement: ast.AnalyzeTable, table: ContextResolvedTable, partition_keys: tuple[str, ...]) -> None:
    given = [each.column.last for each in statement.partition]
    if given and not partition_keys:
        raise ValidationError(
            f"Invalid ANALYZE TABLE statement. Table: {table.identifier} is not a partition table, while partition "
            "values are given."
        )
    if sorted(given) != sorted(partition_keys):
        raise ValidationError(
            "Invalid ANALYZE TABLE statement. For partition table, all partition keys should be specified explicitly. "
            f"The given partition keys: [{', '.join(given)}] are not match the target partition keys: "
            f"[{', '.join(partition_keys)}]."
        )


def _aggregates(column: Column) -> tuple[tuple[str, str], ...]:
    """Returns the fields of ColumnStatistics for a type, and the aggregates that compute them."""
    if isinstance(column.type, lt.BooleanType):
        return (*_NULLS, *_OF_BOOLEANS)
    if isinstance(column.type, _TEXTS):
        return (*_NULLS, *_OF_TEXTS)
    return (*_NULLS, *_OF_VALUES) if isinstance(column.type, _ORDERED) else _NULLS


def _query(
    table: ContextResolvedTable,
    columns: Sequence[Column],
    partition_keys: Sequence[str],
    wanted: Sequence[tuple[str, str]],
) -> str:
    keys = [quoted(each) for each in partition_keys]
    aggregates = [text.format(quoted(each.name)) for each in columns for _, text in _aggregates(each)]
    types = {each.name: each.type for each in table.resolved_schema.columns}
    conditions = [f"{quoted(name)} = {literal_of(value, types[name])}" for name, value in wanted]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    groups = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, 'COUNT(*)', *aggregates])} FROM {table.identifier}{where}{groups}"


def _statistics(
    row: Sequence[Any], columns: Sequence[Column]
) -> tuple[CatalogTableStatistics, dict[str, ColumnStatistics]]:
    count, *values = row
    found: dict[str, ColumnStatistics] = {}
    rest = iter(values)
    for column in columns:
        names = [name for name, _ in _aggregates(column)]
        found[column.name] = ColumnStatistics(**{name: next(rest, 0 if "count" in name else None) for name in names})
    return CatalogTableStatistics(count), found
