"""JdbcTableSink: writes rows into a table of a database, by primary key if the table declares one.

Source: org.apache.flink.connector.jdbc.core.table.sink.JdbcDynamicTableSink. Differs: the changes
of a flush are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkpy.common.errors import ValidationError
from flinkpy.connectors.jdbc.change_sink import JdbcChangeSink
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.dialects import dialect_of
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, UPSERT, ChangelogMode
from flinkpy.table.connectors.jdbc_options import TABLE_NAME, execution_of
from flinkpy.table.connectors.jdbc_rows import RowsForDriver
from flinkpy.table.connectors.table_options import SINK_PARALLELISM, TableOptions
from flinkpy.table.connectors.table_sink import DynamicTableSink

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase


@dataclass(frozen=True)
class JdbcTableSink(DynamicTableSink):
    """Adds rows; with a primary key it replaces and deletes them, too. Delivers at least once.

    Attributes:
        keys: the columns of the primary key; none if there is no key.
    """

    options: TableOptions
    connection: JdbcConnectionOptions
    row_type: RowType
    keys: tuple[str, ...]

    @property
    def summary(self) -> str:
        return f"JDBC:{dialect_of(self.connection.url).name}"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        if not self.keys and requested != INSERT_ONLY:
            raise ValidationError(
                f"jdbc: please declare primary key for sink table '{self.options.get(TABLE_NAME)}' when query contains "
                "update/delete record."
            )
        return UPSERT if self.keys else INSERT_ONLY

    def with_row_level_delete(self) -> JdbcTableSink:
        return self._by_key("DELETE")

    def with_row_level_update(self) -> JdbcTableSink:
        return self._by_key("UPDATE")

    def _by_key(self, words: str) -> JdbcTableSink:
        if not self.keys:
            raise ValidationError(
                f"jdbc: {words} changes rows by their key: please declare the primary key of table "
                f"'{self.options.get(TABLE_NAME)}'."
            )
        return self

    def truncation(self) -> Callable[[], None]:
        return self._truncate

    def _truncate(self) -> None:
        """Raises: JdbcError if the database refuses it."""
        sql = dialect_of(self.connection.url).delete_all(self.options.get(TABLE_NAME) or "")
        database = Database(self.connection)
        connection = database.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(sql)
            cursor.close()
            connection.commit()
        except Exception as error:
            raise BatchStatement(database, sql).error(error) from error
        finally:
            connection.close()

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SINK_PARALLELISM)

    def sink(self) -> SinkBase:
        dialect, names, table = dialect_of(self.connection.url), self.row_type.names, self.options.get(TABLE_NAME) or ""
        rows, execution = RowsForDriver(self.row_type, dialect), execution_of(self.options)
        if not self.keys:
            return JdbcChangeSink(dialect.insert(table, names), None, (), rows, self.connection, execution)
        upsert, delete = dialect.upsert(table, names, self.keys), dialect.delete(table, self.keys)
        places = tuple(names.index(name) for name in self.keys)
        return JdbcChangeSink(upsert, delete, places, rows, self.connection, execution)
