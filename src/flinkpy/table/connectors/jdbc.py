"""The connector `jdbc` for reading: a table of a database is scanned, in partitions if asked, or looked up by key.

Source: org.apache.flink.connector.jdbc.core.table.{JdbcDynamicTableFactory, source.JdbcDynamicTableSource}. Differs:
conditions are not pushed into the database, and tables cannot be written yet.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions
from flinkpy.connectors.jdbc.source import (
    DEFAULT_FETCH_SIZE,
    JdbcNumericBetweenParametersProvider,
    JdbcSource,
)
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SCAN_PARALLELISM, TableOptions
from flinkpy.table.connectors.table_source import (
    DynamicTableSource,
    LookupFunction,
    LookupTableSource,
    ScanTableSource,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.connector_api.source import SourceBase

_STRING, _INT = OptionType.STRING, OptionType.INT

URL: ConfigOption[str | None] = ConfigOption("url", _STRING, None, "The JDBC URL, such as jdbc:postgresql://db/orders.")
TABLE_NAME: ConfigOption[str | None] = ConfigOption("table-name", _STRING, None, "The table of the database.")
DRIVER: ConfigOption[str | None] = ConfigOption("driver", _STRING, None, "The Python module of the driver.")
USERNAME: ConfigOption[str | None] = ConfigOption("username", _STRING, None, "The name of the user.")
PASSWORD: ConfigOption[str | None] = ConfigOption("password", _STRING, None, "The password of the user.")
PARTITION_COLUMN: ConfigOption[str | None] = ConfigOption(
    "scan.partition.column", _STRING, None, "The column by which the rows are divided."
)
PARTITION_NUM: ConfigOption[int | None] = ConfigOption(
    "scan.partition.num", _INT, None, "The number of partitions.", minimum=1
)
LOWER_BOUND: ConfigOption[int | None] = ConfigOption(
    "scan.partition.lower-bound", _INT, None, "The smallest value of the first partition."
)
UPPER_BOUND: ConfigOption[int | None] = ConfigOption(
    "scan.partition.upper-bound", _INT, None, "The largest value of the last partition."
)
FETCH_SIZE = ConfigOption("scan.fetch-size", _INT, 0, "The rows fetched at a time; 0: a default.", minimum=0)
CACHE = ConfigOption(
    "lookup.cache", OptionType.ENUM, "NONE", "Whether found rows are kept.", choices=("NONE", "PARTIAL")
)
CACHE_ROWS: ConfigOption[int | None] = ConfigOption(
    "lookup.partial-cache.max-rows", _INT, None, "The largest number of rows kept.", minimum=1
)
CACHE_AFTER_WRITE: ConfigOption[int | None] = ConfigOption(
    "lookup.partial-cache.expire-after-write", OptionType.DURATION, None, "How long a row is kept."
)
CACHE_AFTER_ACCESS: ConfigOption[int | None] = ConfigOption(
    "lookup.partial-cache.expire-after-access", OptionType.DURATION, None, "How long an unused row is kept."
)
CACHE_MISSING = ConfigOption(
    "lookup.partial-cache.cache-missing-key", OptionType.BOOL, True, "True to keep that a key has no row."
)
MAX_RETRIES = ConfigOption("lookup.max-retries", _INT, 3, "How often a failed lookup is repeated.", minimum=0)

_PARTITION_OPTIONS = (PARTITION_COLUMN, PARTITION_NUM, LOWER_BOUND, UPPER_BOUND)


class JdbcTableFactory(TableFactory):
    """`'connector' = 'jdbc'`."""

    identifier = "jdbc"
    required_options = (URL, TABLE_NAME)
    optional_options: Sequence[ConfigOption[Any]] = (
        DRIVER,
        USERNAME,
        PASSWORD,
        *_PARTITION_OPTIONS,
        FETCH_SIZE,
        CACHE,
        CACHE_ROWS,
        CACHE_AFTER_WRITE,
        CACHE_AFTER_ACCESS,
        CACHE_MISSING,
        MAX_RETRIES,
    )

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        options = context.options
        row_type = context.table.resolved_schema.to_physical_row_type()
        _check_partitions(options, row_type)
        connection = _connection(options)
        try:
            Database(connection)
        except FlinkError as error:
            raise ValidationError(f"jdbc: {error.message}", details={"option": URL.key}) from error
        for field in row_type.fields:
            if type(field.type) not in _CONVERTERS:
                raise ValidationError(f"jdbc: column '{field.name}' cannot be {field.type}")
        return JdbcTableSource(options, connection, row_type)


def _connection(options: TableOptions) -> JdbcConnectionOptions:
    url = options.get(URL)
    assert url is not None
    return JdbcConnectionOptions(url, options.get(DRIVER), options.get(USERNAME), options.get(PASSWORD))


def _check_partitions(options: TableOptions, row_type: RowType) -> None:
    given = [option for option in _PARTITION_OPTIONS if options.contains(option)]
    if given and len(given) < len(_PARTITION_OPTIONS):
        raise ValidationError(
            "Either all or none of the following options should be provided:\n"
            + "\n".join(option.key for option in _PARTITION_OPTIONS)
        )
    lower, upper = options.get(LOWER_BOUND), options.get(UPPER_BOUND)
    if lower is not None and upper is not None and lower > upper:
        raise ValidationError(f"'{LOWER_BOUND.key}'='{lower}' must not be larger than '{UPPER_BOUND.key}'='{upper}'.")
    column = options.get(PARTITION_COLUMN)
    if column is not None and column not in row_type.names:
        raise ValidationError(
            f"'{PARTITION_COLUMN.key}' is '{column}', but the columns are {', '.join(row_type.names)}",
            details={"option": PARTITION_COLUMN.key, "value": column},
        )


def quoted(name: str, url: str) -> str:
    """Returns an identifier in the quotes of the database, which an embedded quote cannot end."""
    quote = "`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"'
    return quote + name.replace(quote, quote * 2) + quote


def _select(options: TableOptions, row_type: RowType) -> str:
    url, table = options.get(URL) or "", options.get(TABLE_NAME) or ""
    columns = ", ".join(quoted(name, url) for name in row_type.names)
    # A name may have the schema before a dot.
    return f"SELECT {columns} FROM {'.'.join(quoted(part, url) for part in table.split('.'))}"


def _text_or(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Returns a converter for values that some databases, such as SQLite, have as text."""
    return lambda value: parse(value) if isinstance(value, str) else value


def _decimal(value: Any) -> decimal.Decimal:
    return value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))


def _same(value: Any) -> Any:
    return value


#: How a value of a driver becomes one of the type.
_CONVERTERS: dict[type[LogicalType], Callable[[Any], Any]] = {
    types.BooleanType: bool,
    types.TinyIntType: int,
    types.SmallIntType: int,
    types.IntType: int,
    types.BigIntType: int,
    types.FloatType: float,
    types.DoubleType: float,
    types.DecimalType: _decimal,
    types.CharType: str,
    types.VarCharType: str,
    types.BinaryType: bytes,
    types.VarBinaryType: bytes,
    types.DateType: _text_or(datetime.date.fromisoformat),
    types.TimeType: _text_or(datetime.time.fromisoformat),
    types.TimestampType: _text_or(datetime.datetime.fromisoformat),
}


def columns_of_results(rows: Sequence[Sequence[Any]], row_type: RowType) -> pa.RecordBatch:
    """Returns the rows of a driver as RecordBatch with the columns of a row type."""
    import pyarrow as pa

    schema = schema_of(row_type)
    arrays = []
    for place, field in enumerate(row_type.fields):
        convert = _CONVERTERS[type(field.type)]
        values = [None if row[place] is None else convert(row[place]) for row in rows]
        arrays.append(pa.array(values, schema.field(place).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
    """

    options: TableOptions
    connection: JdbcConnectionOptions
    row_type: RowType

    @property
    def summary(self) -> str:
        return f"JDBC:{Database(self.connection).url}"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SCAN_PARALLELISM)

    def source(self) -> SourceBase:
        sql, parameters = _select(self.options, self.row_type), [()]
        column, number = self.options.get(PARTITION_COLUMN), self.options.get(PARTITION_NUM)
        lower, upper = self.options.get(LOWER_BOUND), self.options.get(UPPER_BOUND)
        if column is not None and number is not None and lower is not None and upper is not None:
            sql += f" WHERE {quoted(column, self.connection.url)} BETWEEN ? AND ?"
            provider = JdbcNumericBetweenParametersProvider(lower, upper).of_batch_num(number)
            parameters = provider.get_parameter_values()
        row_type: Any = InternalTypeInfo(self.row_type)
        fetch_size = self.options.get(FETCH_SIZE) or DEFAULT_FETCH_SIZE
        return _TableJdbcSource(self.connection, sql, row_type, parameters, fetch_size)

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        names = [quoted(self.row_type.names[place], self.connection.url) for place in keys]
        sql = f"{_select(self.options, self.row_type)} WHERE {' AND '.join(f'{name} = ?' for name in names)}"
        return JdbcLookupFunction(self.connection, sql, self.row_type, self.options.get(MAX_RETRIES))

    @property
    def lookup_cache(self) -> tuple[int | None, int | None, int | None, bool] | None:
        options = self.options
        if options.get(CACHE) == "NONE":
            return None
        expiry = (options.get(CACHE_AFTER_ACCESS), options.get(CACHE_AFTER_WRITE))
        return (options.get(CACHE_ROWS), *expiry, options.get(CACHE_MISSING))

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        if not paths:
            return None  # a query has columns
        fields = tuple(
            RowField(self.row_type.names[path[0]], each.type) for path, each in zip(paths, produced_type.fields)
        )
        return replace(self, row_type=RowType(fields, nullable=False))
