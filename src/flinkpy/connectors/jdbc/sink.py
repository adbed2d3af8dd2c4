"""JdbcStatementSink, and JdbcWriter for at-least-once delivery.

Source: org.apache.flink.connector.jdbc.internal.JdbcOutputFormat.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.connector_api.sink import Committer, SendMetrics, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.jdbc.database import BatchStatement, Database, number_of_placeholders
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkpy.connectors.ordered_worker import OrderedWorker
from flinkpy.records.batch import Batch


class JdbcStatementSink(SinkBase):
    """Executes a statement for every row.

    Args:
        sql: a statement with one `?` for each field of the rows, in the order of the fields.
        is_exactly_once: True to write with two-phase commit; see `flinkpy.connectors.jdbc.two_phase`.

    Raises: ConfigurationError if the number of placeholders is not the number of fields of `type_info`.
    """

    def __init__(
        self,
        sql: str,
        type_info: RowTypeInfo,
        connection_options: JdbcConnectionOptions,
        execution_options: JdbcExecutionOptions,
        is_exactly_once: bool = False,
    ) -> None:
        if not isinstance(sql, str):
            raise TypeError(f"the SQL statement must be a string, not {sql!r}")
        placeholders, fields = number_of_placeholders(sql), len(type_info.get_field_types())
        if placeholders != fields:
            raise ConfigurationError(f"{sql!r} has {placeholders} placeholders, and the rows have {fields} fields")
        self._sql = sql
        self._database = Database(connection_options)
        self._options = execution_options
        self._is_exactly_once = is_exactly_once

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self.restore_writer(context, [])

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        if self._is_exactly_once:
            from flinkpy.connectors.jdbc.two_phase import TwoPhaseWriter

            return TwoPhaseWriter(self._database, self._sql, self._options, context, states)
        statement = BatchStatement(self._database, self._sql)
        buffer = RowBuffer(statement, context, self._options.get_batch_size())
        return JdbcWriter(self._database, statement, buffer, self._options, context)

    @property
    def commits_at_checkpoints(self) -> bool:
        return self._is_exactly_once

    def create_committer(self) -> Committer | None:
        if not self._is_exactly_once:
            return None
        from flinkpy.connectors.jdbc.two_phase import TwoPhaseCommitter

        return TwoPhaseCommitter(self._database, self._sql)

    def __repr__(self) -> str:
        return f"JdbcSink({self._database.url}, {self._sql!r})"


_logger = logging.getLogger(__name__)

#: DB-API's names of errors that a retry cannot cure.
_HOPELESS = frozenset({"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"})
#: The pause before the first retry. It grows by this much with each further retry.
_RETRY_PAUSE_S = 0.2


def is_hopeless(error: Exception) -> bool:
    return any(base.__name__ in _HOPELESS for base in type(error).__mro__)


class Work(NamedTuple):
    """A statement and the rows to execute it for."""

    statement: BatchStatement
    rows: list[Any]


class ChangeBuffer(ABC):
    """Collects rows until they are written. Thread: task thread."""

    @abstractmethod
    def add(self, batch: Batch) -> None: ...

    @abstractmethod
    def next_work(self, flushes: bool) -> list[Work]:
        """Removes and returns what one transaction writes, in order. Without `flushes`, only a complete batch."""


class RowBuffer(ChangeBuffer):
    """Collects rows for batches of one statement. Thread: task thread."""

    def __init__(self, statement: BatchStatement, context: WriterContext, batch_size: int) -> None:
        self._statement = statement
        self._parameters = statement.parameters
        self._input_type = context.input_type
        self._batch_size = batch_size
        self.rows: list[Any] = []

    def add(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        self.rows += map(self._parameters, rows_of(batch, self._input_type))

    def next_batch(self, flushes: bool) -> list[Any]:
        """Removes and returns the rows of the next batch. Without `flushes`, returns no incomplete batch."""
        size = self._batch_size or len(self.rows)
        is_complete = bool(self._batch_size) and len(self.rows) >= size
        if not self.rows or not (flushes or is_complete):
            return []
        batch, self.rows = self.rows[:size], self.rows[size:]
        return batch

    def next_work(self, flushes: bool) -> list[Work]:
        rows = self.next_batch(flushes)
        return [Work(self._statement, rows)] if rows else []


class JdbcWriter(SinkWriter):
    """Writes each batch in a separate transaction, in the order of the rows, while the task goes on.

    Delivers at least once: rows written after the last checkpoint are written again after a failure. The error of a
    batch is raised by the next `write`, `flush` or timer.

    Thread: task thread. The connection and its retries belong to the thread of an OrderedWorker.

    Args:
        statement: names the sink in errors of the connection.
        buffer: collects the rows.
    """

    def __init__(
        self,
        database: Database,
        statement: BatchStatement,
        buffer: ChangeBuffer,
        options: JdbcExecutionOptions,
        context: WriterContext,
    ) -> None:
        self._database = database
        self._statement = statement
        self._buffer = buffer
        self._max_retries = options.get_max_retries()
        self._interval_ms = options.get_batch_interval_ms()
        self._context = context
        self.send_metrics = self._sends = SendMetrics(num_errors=0, last_send_ms=0)
        self._connection: Any = None
        #: Set when the writer is closed. The worker waits on it between two tries.
        self._closed = threading.Event()
        self._worker = OrderedWorker("jdbc-writer")
        try:
            # Fails at the start, and not at the first row, if the database cannot be reached.
            self._worker.call(lambda: self._with_retries(self._connect))
        except BaseException:
            self.close()
            raise
        if self._interval_ms:
            context.schedule_after(self._interval_ms, self._on_interval)

    def write(self, batch: Batch) -> None:
        self._buffer.add(batch)
        self._write_batches(False)

    def flush(self, end_of_input: bool) -> None:
        self._write_batches(True)
        self.wait_until_written()

    def wait_until_written(self) -> None:
        """Waits for the batches that are complete. Raises: JdbcError of one that could not be written."""
        self._worker.wait_until_done()

    def close(self) -> None:
        self._closed.set()
        self._worker.close(self._close_connection)

    def _close_connection(self) -> None:
        """Thread: the worker's."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _on_interval(self, _: int) -> None:
        self._write_batches(True)
        self._context.schedule_after(self._interval_ms, self._on_interval)

    def _write_batches(self, flushes: bool) -> None:
        while work := self._buffer.next_work(flushes):
            self._worker.submit(partial(self._write_with_retries, work))

    # The methods below run on the worker's thread.

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = self._database.connect()

    def _write_with_retries(self, work: list[Work]) -> None:
        self._with_retries(lambda: self._write(work), work)

    def _write(self, work: list[Work]) -> None:
        self._connect()
        began_s = time.monotonic()
        for statement, rows in work:
            statement.execute(self._connection, rows)
        self._connection.commit()
        self._sends.last_send_ms = int((time.monotonic() - began_s) * 1000)

    def _with_retries(self, action: Any, work: list[Work] | None = None) -> None:
        """Runs `action` until it succeeds. Raises: JdbcError after the last try, or if a retry cannot help."""
        for attempt in range(self._max_retries + 1):
            try:
                action()
                return
            except Exception as error:
                if not _is_driver_error(error):
                    raise
                self._sends.num_errors = (self._sends.num_errors or 0) + sum(len(each.rows) for each in work or ())
                if work is not None and is_hopeless(error):
                    raise self._refused(work, error) from error
                self._abandon_connection()
                if attempt == self._max_retries:
                    raise self._statement.error(error) from error
                _logger.warning("%s: try %d failed: %s", self._database.url, attempt + 1, error)
                if self._closed.wait(_RETRY_PAUSE_S * (attempt + 1)):
                    raise self._statement.error(error) from error

    def _refused(self, work: list[Work], error: Exception) -> Exception:
        """Returns an error that names the first row that the database refuses."""
        self._connection.rollback()
        for statement, rows in work:
            found = statement.culprit(self._connection, rows)
            if found is not None:
                return statement.error(found[1], found[0])
        return self._statement.error(error)

    def _abandon_connection(self) -> None:
        """Closes the connection, which may be broken. Its uncommitted rows are lost."""
        # The error of the connection has been reported already.
        with suppress(Exception):
            self._close_connection()


def _is_driver_error(error: Exception) -> bool:
    """True for an Error of DB-API, and for an error of the operating system."""
    return isinstance(error, OSError) or any(base.__name__ == "Error" for base in type(error).__mro__)
