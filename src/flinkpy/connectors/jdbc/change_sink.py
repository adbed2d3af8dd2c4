"""JdbcChangeSink: writes the rows of a changelog into a table, by a key if there is one.

Source: org.apache.flink.connector.jdbc.internal.TableJdbcUpsertOutputFormat and
org.apache.flink.connector.jdbc.internal.executor.TableBufferReducedStatementExecutor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkpy.connectors.jdbc.sink import ChangeBuffer, JdbcWriter, Work
from flinkpy.records.batch import Batch
from flinkpy.records.last_changes import HeldChanges, is_deletion, last_changes

if TYPE_CHECKING:
    import pyarrow as pa


class JdbcChangeSink(SinkBase):
    """Delivers at least once. By key, rows that are written again after a failure change nothing.

    Args:
        insert: the statement for a row, with a `?` per column.
        delete: the statement that deletes the row with a key; None if rows are only inserted.
        keys: the positions of the key columns.
        rows_of: returns the rows of columns as tuples of values that the driver takes. Pickled into the job.
    """

    def __init__(
        self,
        insert: str,
        delete: str | None,
        keys: tuple[int, ...],
        rows_of: Callable[[pa.RecordBatch], list[tuple[Any, ...]]],
        connection_options: JdbcConnectionOptions,
        execution_options: JdbcExecutionOptions,
    ) -> None:
        self._insert = insert
        self._delete = delete
        self._keys = keys
        self._rows_of = rows_of
        self._database = Database(connection_options)
        self._options = execution_options

    def create_writer(self, context: WriterContext) -> SinkWriter:
        insert = BatchStatement(self._database, self._insert)
        delete = None if self._delete is None else BatchStatement(self._database, self._delete)
        buffer = LastChangeBuffer(insert, delete, self._keys, self._rows_of, self._options.get_batch_size())
        return JdbcWriter(self._database, insert, buffer, self._options, context)

    def __repr__(self) -> str:
        return f"JdbcChangeSink({self._database.url}, {self._insert!r})"


class LastChangeBuffer(ChangeBuffer):
    """Collects changes, of which only the last one of each key is written. Without keys, all rows are written.

    Thread: task thread.

    Args:
        max_rows: the changes after which a batch is complete; 0: no limit.
    """

    def __init__(
        self,
        insert: BatchStatement,
        delete: BatchStatement | None,
        keys: tuple[int, ...],
        rows_of: Callable[[pa.RecordBatch], list[tuple[Any, ...]]],
        max_rows: int,
    ) -> None:
        self._insert = insert
        self._delete = delete
        self._keys = keys
        self._rows_of = rows_of
        self._max_rows = max_rows
        #: The changes that no transaction has taken yet.
        self._held = HeldChanges()

    def add(self, batch: Batch) -> None:
        self._held.add(batch)

    def next_work(self, flushes: bool) -> list[Work]:
        num_rows = self._held.num_rows
        is_complete = bool(self._max_rows) and num_rows >= self._max_rows
        if not num_rows or not (flushes or is_complete):
            return []
        taken = self._held.take(self._max_rows or num_rows)
        if self._delete is None:
            return [Work(self._insert, [row for batch in taken for row in self._parameters(batch)])]
        last = last_changes(taken, self._keys)
        assert last.kinds is not None
        is_deleted = is_deletion(last.kinds)
        # No key is in both, so their order does not matter.
        upserted = self._parameters(last.take(np.flatnonzero(~is_deleted)))
        deleted: Any = last.take(np.flatnonzero(is_deleted)).values
        keys = [tuple(row[place] for place in self._keys) for row in self._rows_of(deleted)]
        work = [Work(self._insert, upserted), Work(self._delete, list(map(self._delete.parameters, keys)))]
        return [each for each in work if each.rows]

    def _parameters(self, batch: Batch) -> list[Any]:
        rows: Any = batch.values
        return [self._insert.parameters(row) for row in self._rows_of(rows)]
