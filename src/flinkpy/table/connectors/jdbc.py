"""The connector `jdbc`: a table of a database is scanned, in partitions if asked, looked up by key, or written.

Source: org.apache.flink.connector.jdbc.core.table.{JdbcDynamicTableFactory, source.JdbcDynamicTableSource}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, ValidationError
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.dialects import dialect_of
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions
from flinkpy.connectors.jdbc.source import (
    DEFAULT_FETCH_SIZE,
    JdbcNumericBetweenParametersProvider,
    JdbcSource,
)
from flinkpy.graph.table_specs import LookupCacheOptions
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowField, RowType
from flinkpy.table.connectors.jdbc_filters import JdbcCondition, condition_of
from flinkpy.table.connectors.jdbc_options import (
    FETCH_SIZE,
    JDBC_OPTIONS,
    LOWER_BOUND,
    PARTITION_COLUMN,
    PARTITION_NUM,
    TABLE_NAME,
    UPPER_BOUND,
    URL,
    check_partitions,
    connection_of,
)
from flinkpy.table.connectors.jdbc_rows import check_columns, columns_of_results
from flinkpy.table.connectors.jdbc_sink import JdbcTableSink
from flinkpy.table.connectors.lookup_options import MAX_RETRIES, lookup_cache_of
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SCAN_PARALLELISM, TableOptions
from flinkpy.table.connectors.table_source import (
    DynamicTableSource,
    FilterPushDown,
    LookupFunction,
    LookupTableSource,
    ScanTableSource,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.connector_api.source import SourceBase
    from flinkpy.sql.rex import RexNode
    from flinkpy.table.connectors.table_sink import DynamicTableSink


class JdbcTableFactory(TableFactory):
    """`'connector' = 'jdbc'`."""

    identifier = "jdbc"
    required_options = (URL, TABLE_NAME)
    optional_options = JDBC_OPTIONS

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        row_type = context.table.resolved_schema.to_physical_row_type()
        check_partitions(context.options, row_type)
        return JdbcTableSource(context.options, _checked(context, row_type), row_type)

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        schema = context.table.resolved_schema
        row_type = schema.to_physical_row_type()
        keys = () if schema.primary_key is None else tuple(schema.primary_key.columns)
        return JdbcTableSink(context.options, _checked(context, row_type), row_type, keys)


def _checked(context: FactoryContext, row_type: RowType) -> JdbcConnectionOptions:
    """Returns the address of the database. Raises: ValidationError about it or a column."""
    connection = connection_of(context.options)
    try:
        Database(connection)
    except FlinkError as error:
        raise ValidationError(f"jdbc: {error.message}", details={"option": URL.key}) from error
    check_columns(row_type)
    return connection


class _TableJdbcSource(JdbcSource):
    """A JdbcSource whose records have the Arrow types of a logical row type."""

    def columns_of(self, rows: list[Any]) -> Any:
        row_type: Any = self.produced_type
        return columns_of_results(rows, row_type.row_type)


class JdbcLookupFunction(LookupFunction):
    """Looks up rows by one query per key. Thread: task thread.

    Args:
        sql: a query with a `?` for each key column.
        max_retries: how often a failed query is repeated, on a new connection.
    """

    def __init__(self, connection: JdbcConnectionOptions, sql: str, row_type: RowType, max_retries: int) -> None:
        self._options = connection
        self._sql = sql
        self._row_type = row_type
        self._max_retries = max_retries
        self._connection: Any = None
        self._statement: BatchStatement | None = None

    def lookup(self, keys: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
        import numpy as np

        rows: list[Any] = []
        positions: list[int] = []
        for place, key in enumerate(zip(*(column.to_pylist() for column in keys.columns))):
            if None in key:
                continue  # nothing equals null
            found = self._rows(key)
            rows += found
            positions += [place] * len(found)
        return np.array(positions, np.int64), columns_of_results(rows, self._row_type)

    def _rows(self, key: tuple[Any, ...]) -> list[Any]:
        for attempt in range(self._max_retries + 1):
            try:
                if self._statement is None:
                    database = Database(self._options)
                    self._connection, self._statement = database.connect(), BatchStatement(database, self._sql)
                cursor = self._connection.cursor()
                try:
                    self._statement.query(cursor, key)
                    return list(cursor.fetchall())
                finally:
                    cursor.close()
                    # The next lookup sees rows that others have committed since.
                    self._connection.rollback()
            except Exception:
                self.close()
                if attempt == self._max_retries:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        connection, self._connection, self._statement = self._connection, None, None
        if connection is not None:
            connection.close()


@dataclass(frozen=True)
class JdbcTableSource(ScanTableSource, LookupTableSource):
    """Reads the columns that are asked for.

    Attributes:
        row_type: the columns that are read.
        conditions: rows for which one is not true are not read.
        limit: the largest number of rows that a partition sends; None: all.
    """

    options: TableOptions
    connection: JdbcConnectionOptions
    row_type: RowType
    conditions: tuple[JdbcCondition, ...] = ()
    limit: int | None = None

    @property
    def summary(self) -> str:
        return f"JDBC:{Database(self.connection).url}"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SCAN_PARALLELISM)

    @property
    def _select(self) -> str:
        return dialect_of(self.connection.url).select(self.options.get(TABLE_NAME) or "", self.row_type.names)

    def source(self) -> SourceBase:
        conditions, parameters = [each.sql for each in self.conditions], [()]
        column, number = self.options.get(PARTITION_COLUMN), self.options.get(PARTITION_NUM)
        lower, upper = self.options.get(LOWER_BOUND), self.options.get(UPPER_BOUND)
        if column is not None and number is not None and lower is not None and upper is not None:
            conditions.insert(0, f"{dialect_of(self.connection.url).quoted(column)} BETWEEN ? AND ?")
            provider = JdbcNumericBetweenParametersProvider(lower, upper).of_batch_num(number)
            parameters = provider.get_parameter_values()
        sql = self._select
        if conditions:
            sql += f" WHERE {' AND '.join(f'({each})' for each in conditions)}"
        if self.limit is not None:
            sql += f" LIMIT {self.limit}"
        constants = [value for each in self.conditions for value in each.parameters]
        parameters = [(*values, *constants) for values in parameters]
        row_type: Any = InternalTypeInfo(self.row_type)
        fetch_size = self.options.get(FETCH_SIZE) or DEFAULT_FETCH_SIZE
        return _TableJdbcSource(self.connection, sql, row_type, parameters, fetch_size)

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        condition = dialect_of(self.connection.url).equal([self.row_type.names[place] for place in keys])
        sql = f"{self._select} WHERE {condition}"
        return JdbcLookupFunction(self.connection, sql, self.row_type, self.options.get(MAX_RETRIES))

    @property
    def lookup_cache(self) -> LookupCacheOptions | None:
        return lookup_cache_of(self.options)

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        if not paths:
            return None  # a query has columns
        fields = tuple(
            RowField(self.row_type.names[path[0]], each.type) for path, each in zip(paths, produced_type.fields)
        )
        return replace(self, row_type=RowType(fields, nullable=False))

    def with_filters(self, filters: tuple[RexNode, ...]) -> FilterPushDown | None:
        dialect = dialect_of(self.connection.url)
        found = {each: condition_of(each, self.row_type, dialect) for each in filters}
        known = tuple(condition for condition in found.values() if condition is not None)
        if not known:
            return None
        accepted = tuple(each for each, condition in found.items() if condition is not None)
        # As in Flink, the query evaluates them all again: databases may compare otherwise.
        return FilterPushDown(replace(self, conditions=known), accepted, filters)

    def with_limit(self, limit: int) -> ScanTableSource | None:
        return replace(self, limit=limit)
