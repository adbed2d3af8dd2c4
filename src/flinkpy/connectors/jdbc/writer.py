"""JdbcWriter: rows in batches, each a transaction. At least once: what came after the last checkpoint comes again.

Source: org.apache.flink.connector.jdbc.internal.JdbcOutputFormat.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any

from flinkpy.connector_api.sink import SinkWriter, WriterContext
from flinkpy.connectors.jdbc.batch_statement import BatchStatement
from flinkpy.connectors.jdbc.database import Database
from flinkpy.connectors.jdbc.options import JdbcExecutionOptions
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of

_logger = logging.getLogger(__name__)

#: DB-API's names of errors that come again however often one tries.
_HOPELESS = frozenset({"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"})
#: Before the second try, and so much longer before each further one.
_RETRY_PAUSE_S = 0.2


def is_hopeless(error: Exception) -> bool:
    return any(base.__name__ in _HOPELESS for base in type(error).__mro__)


class RowBuffer:
    """Rows until there are enough of them for a batch. Thread: task thread."""

    def __init__(self, statement: BatchStatement, context: WriterContext, batch_size: int) -> None:
        self._parameters = statement.parameters
        self._input_type = context.input_type
        self._batch_size = batch_size
        self.rows: list[Any] = []

    def add(self, batch: Batch) -> None:
        self.rows += map(self._parameters, rows_of(batch, self._input_type))

    def next_batch(self, whatever_there_is: bool) -> list[Any]:
        """Rows to be written now, which are no longer kept here; none: not yet enough."""
        size = self._batch_size or len(self.rows)
        if not self.rows or (not whatever_there_is and (not self._batch_size or len(self.rows) < size)):
            return []
        batch, self.rows = self.rows[:size], self.rows[size:]
        return batch


class JdbcWriter(SinkWriter):
    def __init__(self, database: Database, sql: str, options: JdbcExecutionOptions, context: WriterContext) -> None:
        self._database = database
        self._statement = BatchStatement(database, sql)
        self._buffer = RowBuffer(self._statement, context, options.get_batch_size())
        self._max_retries = options.get_max_retries()
        self._interval_ms = options.get_batch_interval_ms()
        self._context = context
        self._connection: Any = None
        #: Never set: to wait a little between two tries.
        self._pause = threading.Event()
        # A database that cannot be reached is known before the first row comes.
        self._with_retries(self._connect)
        if self._interval_ms:
            context.schedule_after(self._interval_ms, self._on_interval)

    def write(self, batch: Batch) -> None:
        self._buffer.add(batch)
        self._write_batches(False)

    def flush(self, end_of_input: bool) -> None:
        self._write_batches(True)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _on_interval(self, _: int) -> None:
        self._write_batches(True)
        self._context.schedule_after(self._interval_ms, self._on_interval)

    def _write_batches(self, whatever_there_is: bool) -> None:
        while rows := self._buffer.next_batch(whatever_there_is):
            self._with_retries(lambda rows=rows: self._write(rows), rows)

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._database.connect()

    def _write(self, rows: list[Any]) -> None:
        self._connect()
        self._statement.execute(self._connection, rows)
        self._connection.commit()

    def _with_retries(self, action: Any, rows: list[Any] | None = None) -> None:
        """Raises: JdbcError, after the last try, or at once where trying again is no use."""
        for attempt in range(self._max_retries + 1):
            try:
                action()
                return
            except Exception as error:
                if not _is_of_driver(error):
                    raise
                if rows is not None and is_hopeless(error):
                    raise self._refused(rows, error) from error
                self._abandon_connection()
                if attempt == self._max_retries:
                    raise self._statement.error(error) from error
                _logger.warning("%s: try %d failed: %s", self._database.url, attempt + 1, error)
                self._pause.wait(_RETRY_PAUSE_S * (attempt + 1))

    def _refused(self, rows: list[Any], error: Exception) -> Exception:
        """What the database has against the rows: the first of them that it does not take."""
        self._connection.rollback()
        found = self._statement.culprit(self._connection, rows)
        return self._statement.error(error) if found is None else self._statement.error(found[1], found[0])

    def _abandon_connection(self) -> None:
        """It may be broken; what it had not committed is gone with it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # What is wrong with it has been reported already.
            with suppress(Exception):
                connection.close()


def _is_of_driver(error: Exception) -> bool:
    """Whether it is an Error of DB-API, or of the operating system below it."""
    return isinstance(error, OSError) or any(base.__name__ == "Error" for base in type(error).__mro__)
