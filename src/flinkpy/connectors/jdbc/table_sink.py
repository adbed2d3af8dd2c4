"""JdbcTableSink: writes the rows of a changelog into a table, by a key if there is one.

Source: org.apache.flink.connector.jdbc.internal.TableJdbcUpsertOutputFormat and
org.apache.flink.connector.jdbc.internal.executor.TableBufferReducedStatementExecutor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkpy.common.types import RowKind
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.jdbc.database import BatchStatement, Database
from flinkpy.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkpy.connectors.jdbc.sink import ChangeBuffer, JdbcWriter, Work
from flinkpy.records.batch import Batch

if TYPE_CHECKING:
    import pyarrow as pa

_DELETIONS = frozenset({RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value})


class JdbcTableSink(SinkBase):
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
        return f"JdbcTableSink({self._database.url}, {self._insert!r})"


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
        #: The changes that no transaction has taken yet: (is a deletion, row).
        self._changes: list[tuple[bool, tuple[Any, ...]]] = []

    def add(self, batch: Batch) -> None:
        rows: Any = batch.values
        kinds = [RowKind.INSERT.value] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
        self._changes += ((kind in _DELETIONS, row) for kind, row in zip(kinds, self._rows_of(rows), strict=True))

    def next_work(self, flushes: bool) -> list[Work]:
        size = self._max_rows or len(self._changes)
        is_complete = bool(self._max_rows) and len(self._changes) >= size
        if not self._changes or not (flushes or is_complete):
            return []
        taken, self._changes = self._changes[:size], self._changes[size:]
        if self._delete is None:
            return [Work(self._insert, [self._insert.parameters(row) for _, row in taken])]
        last = {self._key(change[1]): change for change in taken}
        # No key is in both, so their order does not matter.
        upserted = [self._insert.parameters(row) for is_deletion, row in last.values() if not is_deletion]
        deleted = [self._delete.parameters(key) for key, (is_deletion, _) in last.items() if is_deletion]
        work = [Work(self._insert, upserted), Work(self._delete, deleted)]
        return [each for each in work if each.rows]

    def _key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[place] for place in self._keys)
