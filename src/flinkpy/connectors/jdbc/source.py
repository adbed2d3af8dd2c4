"""JdbcSource: reads the results of a query as a bounded source, in parallel if the query has parameters.

Source: org.apache.flink.connector.jdbc.core.datastream.source.JdbcSource (FLIP-239), and
org.apache.flink.connector.jdbc.split.JdbcNumericBetweenParametersProvider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from flinkpy.common.errors import ConfigurationError, FlinkError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.common.types import Row
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.jdbc.database import BatchStatement, Database, number_of_placeholders
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.records.batch import Batch

#: The number of rows that are fetched at a time if the program sets no other.
DEFAULT_FETCH_SIZE = 1024


class JdbcParameterValuesProvider(Protocol):
    """Provides the parameters of the queries that together read the data."""

    def get_parameter_values(self) -> list[tuple[Any, ...]]:
        """Returns the values for the placeholders of each query."""
        ...


class JdbcNumericBetweenParametersProvider:
    """Divides a range of integers, both ends included, for queries with `BETWEEN ? AND ?`.

    Example:
        >>> JdbcNumericBetweenParametersProvider(1, 10).of_batch_num(3).get_parameter_values()
        [(1, 4), (5, 7), (8, 10)]
    """

    def __init__(self, min_val: int, max_val: int) -> None:
        if min_val > max_val:
            raise ValueError(f"the smallest value, {min_val}, is greater than the largest, {max_val}")
        self._min, self._max = min_val, max_val
        self._num = 1

    def of_batch_num(self, batch_num: int) -> JdbcNumericBetweenParametersProvider:
        """Sets the number of queries."""
        if batch_num < 1:
            raise ValueError(f"the number of queries must be positive, not {batch_num}")
        self._num = batch_num
        return self

    def of_batch_size(self, batch_size: int) -> JdbcNumericBetweenParametersProvider:
        """Sets the largest number of values that a query covers."""
        if batch_size < 1:
            raise ValueError(f"the number of values per query must be positive, not {batch_size}")
        self._num = -(-(self._max - self._min + 1) // batch_size)
        return self

    def get_parameter_values(self) -> list[tuple[Any, ...]]:
        count = self._max - self._min + 1
        num = min(self._num, count)
        size, larger = divmod(count, num)
        values, start = [], self._min
        for index in range(num):
            end = start + size + (index < larger)
            values.append((start, end - 1))
            start = end
        return values


@dataclass(frozen=True, slots=True)
class JdbcSourceSplit:
    """A query with its parameters, and the number of its rows that have been emitted."""

    split_id: str
    parameters: tuple[Any, ...]
    rows_done: int = 0


class JdbcSource(SourceBase):
    """Reads the rows of a query. Create it with `builder`.

    Each query is a split. A restored job runs its queries again and drops the rows that it has emitted. So with
    checkpoints the query needs an ORDER BY, and the rows must not change meanwhile. Batch mode has no such condition.
    """

    boundedness = Boundedness.BOUNDED

    def __init__(
        self,
        connection_options: JdbcConnectionOptions,
        sql: str,
        row_type: RowTypeInfo,
        parameters: Sequence[tuple[Any, ...]],
        fetch_size: int,
    ) -> None:
        self._database = Database(connection_options)
        self._sql = sql
        self._row_type = row_type
        self._parameters = tuple(parameters)
        self._fetch_size = fetch_size

    @staticmethod
    def builder() -> JdbcSourceBuilder:
        return JdbcSourceBuilder()

    @property
    def produced_type(self) -> RowTypeInfo:
        return self._row_type

    def infer_parallelism(self, upper_bound: int) -> int | None:
        return max(1, min(upper_bound, len(self._parameters)))

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.list_splits)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self.list_splits, state=state)

    def list_splits(self) -> list[JdbcSourceSplit]:
        """Returns a split per query."""
        return [JdbcSourceSplit(str(number), values) for number, values in enumerate(self._parameters, 1)]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _JdbcReader(context, self._database, self._sql, self._row_type, self._fetch_size, self.columns_of)

    def columns_of(self, rows: list[Any]) -> Any:
        """Returns rows of the driver as columns of `produced_type`."""
        from flinkpy.records.lanes import columns_of

        return columns_of([Row(*row) for row in rows], self._row_type)

    def __repr__(self) -> str:
        return f"JdbcSource({self._database.url}, {self._sql!r})"


class JdbcSourceBuilder:
    """Builds a JdbcSource. The connection, the query and the type of its rows are required."""

    def __init__(self) -> None:
        self._options: JdbcConnectionOptions | None = None
        self._sql = ""
        self._row_type: RowTypeInfo | None = None
        self._provider: JdbcParameterValuesProvider | None = None
        self._fetch_size = DEFAULT_FETCH_SIZE

    def set_connection_options(self, options: JdbcConnectionOptions) -> JdbcSourceBuilder:
        """Sets the database."""
        self._options = options
        return self

    def set_sql(self, sql: str) -> JdbcSourceBuilder:
        """Sets the query, with a `?` for each parameter."""
        self._sql = sql
        return self

    def set_type_information(self, type_info: RowTypeInfo) -> JdbcSourceBuilder:
        """Sets the type of the rows, with a field per column of the result."""
        self._row_type = type_info
        return self

    def set_jdbc_parameter_values_provider(self, provider: JdbcParameterValuesProvider) -> JdbcSourceBuilder:
        """Sets the parameters of each query; queries run in parallel. By default there is one without parameters."""
        self._provider = provider
        return self

    def set_result_set_fetch_size(self, fetch_size: int) -> JdbcSourceBuilder:
        """Sets the number of rows that are fetched at a time."""
        if fetch_size < 1:
            raise ValueError(f"the fetch size must be positive, not {fetch_size}")
        self._fetch_size = fetch_size
        return self

    def build(self) -> JdbcSource:
        """Returns the source. Raises: ConfigurationError if a setting is missing, or the parameters do not fit."""
        if self._options is None or not self._sql or self._row_type is None:
            raise ConfigurationError("a JdbcSource needs connection options, a query, and the type of its rows")
        parameters = [()] if self._provider is None else [tuple(each) for each in self._provider.get_parameter_values()]
        placeholders = number_of_placeholders(self._sql)
        for values in parameters:
            if len(values) != placeholders:
                raise ConfigurationError(
                    f"{self._sql!r} has {placeholders} placeholders, and the parameters are {values!r}"
                )
        return JdbcSource(self._options, self._sql, self._row_type, parameters, self._fetch_size)


class _JdbcReader(SequentialSplitReader):
    def __init__(
        self,
        context: SourceReaderContext,
        database: Database,
        sql: str,
        row_type: RowTypeInfo,
        fetch_size: int,
        columns_of: Callable[[list[Any]], Any],
    ) -> None:
        super().__init__(context)
        self._database = database
        self._statement = BatchStatement(database, sql)
        self._row_type = row_type
        self._fetch_size = fetch_size
        self._columns_of = columns_of
        self._connection: Any = None

    def open_split(self, split: JdbcSourceSplit) -> OpenSplit:
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            return _OpenQuery(
                split,
                self._statement,
                self._connection,
                self._row_type,
                self._fetch_size,
                self._database,
                self._columns_of,
            )
        except FlinkError:
            raise
        except Exception as error:
            raise self._statement.error(error) from error

    def close(self) -> None:
        super().close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _OpenQuery:
    """A query whose rows are being fetched."""

    def __init__(
        self,
        split: JdbcSourceSplit,
        statement: BatchStatement,
        connection: Any,
        row_type: RowTypeInfo,
        fetch_size: int,
        database: Database,
        columns_of: Callable[[list[Any]], Any],
    ) -> None:
        self._split = split
        self._statement = statement
        self._connection = connection
        self._row_type = row_type
        self._fetch_size = fetch_size
        self._columns_of = columns_of
        self._num_read = 0
        # PostgreSQL's driver holds the whole result in memory, unless the cursor has a name.
        self._cursor = connection.cursor(name="flinkpy") if database.is_postgresql else connection.cursor()
        statement.query(self._cursor, split.parameters)

    def read_batch(self) -> Batch | None:
        while True:
            try:
                rows = self._cursor.fetchmany(self._fetch_size)
            except Exception as error:
                raise self._statement.error(error) from error
            if not rows:
                return None
            fields = len(self._row_type.get_field_names())
            if len(rows[0]) != fields:
                raise ConfigurationError(f"{self._statement.sql!r} returns {len(rows[0])} columns, not {fields}")
            dropped = min(max(self._split.rows_done - self._num_read, 0), len(rows))
            self._num_read += len(rows)
            if dropped < len(rows):
                return Batch(self._columns_of(rows[dropped:]))

    def rest(self, rows_back: int) -> JdbcSourceSplit:
        return replace(self._split, rows_done=max(self._num_read - rows_back, self._split.rows_done))

    def close(self) -> None:
        self._cursor.close()
        # A cursor of the next query needs a new transaction in PostgreSQL, which is also free of earlier locks.
        self._connection.rollback()
