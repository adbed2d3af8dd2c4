"""TableSink: writes records to an Iceberg or Delta table, exactly once.

Writers write data files, which no version of the table contains. A committable lists the files of one writer. The
committer makes one version of the table with the files of all committables that it gets. The version names the
committables, so a commit that is repeated finds out that it has been done. See decision 0039.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import CommitError, ConfigurationError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.tables.table_format import DataFileWriter, SinkTable, TableCommittable
from flinkpy.connectors.write_mode import WriteMode

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.connectors.file_sink import FileSink
    from flinkpy.connectors.tables.hive import HiveTable
    from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: A writer writes files when it holds this many bytes of columns. Larger files are read faster, but the writers of a
#: process hold this much each. Compressed, the file is several times smaller.
BUFFER_BYTES = 64 << 20
#: How often a commit is tried again at once if other writers change the table meanwhile. Then the committer waits, as
#: for any other failure.
_MAX_CONFLICTS = 10


class TableSink(SinkBase):
    """Writes to a table that exists. Create it with `for_catalog` or `for_path`.

    The columns of the stream are matched by name. The table may have further columns, if they may be null. In streaming
    mode each checkpoint with records makes one version of the table. In batch mode the job makes one version.

    Args:
        table: the table.
        mode: what happens to the records that the table has.

    Example:
        >>> orders.sink_to(TableSink.for_catalog("lake.sales.orders").build())

    Source: org.apache.iceberg.flink.sink.FlinkSink.
    """

    def __init__(self, table: SinkTable, mode: WriteMode) -> None:
        self.table = table
        self.mode = mode

    @staticmethod
    def for_catalog(identifier: str, properties: Mapping[str, str] | None = None) -> TableSinkBuilder:
        """Writes to an Iceberg table of a catalog, or to a table of a Hive metastore.

        The arguments are those of `TableSource.for_catalog`.
        """
        from flinkpy.connectors.tables.hive import HiveTable, is_hive
        from flinkpy.connectors.tables.iceberg import IcebergSinkTable, IcebergTable

        if properties is not None and is_hive(properties):
            return TableSinkBuilder(HiveTable.of_catalog(identifier, properties))
        return TableSinkBuilder(IcebergSinkTable(IcebergTable.of_catalog(identifier, properties)))

    @staticmethod
    def for_path(table_format: str, path: str, properties: Mapping[str, str] | None = None) -> TableSinkBuilder:
        """Writes to a Delta table at a path or URI. The arguments are those of `TableSource.for_path`."""
        if table_format == "iceberg":
            raise ConfigurationError(
                f"the Iceberg table at {path} cannot be written without a catalog: use TableSink.for_catalog"
            )
        if table_format != "delta":
            raise ConfigurationError(f"{table_format!r} is not a format of tables at paths: use delta")
        from flinkpy.connectors.tables.delta import DeltaLakeTable, DeltaSinkTable

        return TableSinkBuilder(DeltaSinkTable(DeltaLakeTable.of_path(path, properties)))

    @property
    def needs_batch_mode(self) -> bool:
        return self.mode is not WriteMode.APPEND

    @property
    def has_global_committer(self) -> bool:
        return True

    @property
    def supports_concurrent_attempts(self) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return TableWriter(self.table, self.mode, context.job_id.split("-", 1)[0], context.input_type)

    def create_committer(self) -> Committer:
        return TableCommitter(self.table, self.mode)

    def __repr__(self) -> str:
        return f"TableSink({self.table.name})"


class TableSinkBuilder:
    """Builds a TableSink. By default it appends."""

    def __init__(self, table: SinkTable | HiveTable) -> None:
        self._table = table
        self._mode = WriteMode.APPEND

    def append(self) -> TableSinkBuilder:
        """Adds the records to those that the table has."""
        self._mode = WriteMode.APPEND
        return self

    def overwrite(self) -> TableSinkBuilder:
        """Replaces all records of the table by those of the job, in one version. For batch mode."""
        self._mode = WriteMode.OVERWRITE
        return self

    def overwrite_partitions(self) -> TableSinkBuilder:
        """Replaces the partitions for which the job has records, in one version. For batch mode.

        A table without partitions is replaced as a whole.
        """
        self._mode = WriteMode.OVERWRITE_PARTITIONS
        return self

    def build(self) -> TableSink | FileSink:
        """Returns the sink. It is a FileSink for a table of Hive.

        Raises:
            InputNotFoundError: the table does not exist.
            UnsupportedOperationError: a library is missing, or it cannot write to this table.
        """
        from flinkpy.connectors.tables.hive import HiveLayout, HiveTable, HiveTableSink
        from flinkpy.connectors.tables.iceberg import IcebergSinkTable

        table = self._table
        if isinstance(table, HiveTable):
            found = table.find(with_partitions=False)
            if isinstance(found, HiveLayout):
                return HiveTableSink(table, found, self._mode)
            table = IcebergSinkTable(found)
        table.open_writer()
        return TableSink(table, self._mode)


class TableWriter(SinkWriter):
    """Writes data files. Thread: task thread.

    Args:
        input_type: the type of the records.
    """

    def __init__(self, table: SinkTable, mode: WriteMode, job_id: str, input_type: Any) -> None:
        self._table = table
        self._mode = mode
        self._job_id = job_id
        self._input_type = input_type
        self._writer_id = uuid.uuid4().hex[:16]
        self._number = 0
        # Opened for the first record: a writer that is made to remove leftovers needs no table.
        self._files_writer: DataFileWriter | None = None
        self._columns: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        #: Files that belong to no committable yet.
        self._files: list[dict[str, Any]] = []
        self._has_ended = False

    def write(self, batch: Batch) -> None:
        from flinkpy.records.lanes import to_columns

        if batch.kinds is not None and batch.kinds.any():
            raise UnsupportedOperationError(
                f"table {self._table.name}: the sink adds records, and cannot write updates and deletes of a changelog"
            )
        columns = to_columns(batch, self._input_type).values
        assert not isinstance(columns, list)
        self._columns.append(columns)
        self._buffered_bytes += columns.nbytes
        if self._buffered_bytes >= BUFFER_BYTES:
            self._write_out()

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = self._has_ended or end_of_input
        self._write_out()

    def prepare_commit(self) -> list[TableCommittable]:
        # An overwrite without records removes the old ones all the same.
        if not self._files and not (self._mode is not WriteMode.APPEND and self._has_ended and self._number == 0):
            return []
        self._number += 1
        files, self._files = tuple(self._files), []
        layout = self._open().layout
        return [TableCommittable(self._job_id, self._writer_id, self._number, layout, files)]

    def close(self) -> None:
        files, self._files = self._files, []
        if files and self._files_writer is not None:
            try:
                self._files_writer.delete(files)
            except Exception:  # noqa: BLE001 - the files belong to no version of the table
                _LOG.warning("%s: uncommitted files could not be deleted", self._table.name, exc_info=True)

    def _open(self) -> DataFileWriter:
        if self._files_writer is None:
            self._files_writer = self._table.open_writer()
        return self._files_writer

    def _write_out(self) -> None:
        if not self._columns:
            return
        import pyarrow as pa

        writer = self._open()
        columns, self._columns, self._buffered_bytes = self._columns, [], 0
        records = conform_to_table(pa.Table.from_batches(columns), writer.schema, self._table.name)
        self._files.extend(writer.write(records))


def conform_to_table(records: pa.Table, schema: pa.Schema, name: str) -> pa.Table:
    """Returns the records with the columns of a table, matched by name.

    Raises:
        TypeMismatchError: a column is not in the table, is missing, has a null where the table allows none, or a value
            that the type of the table cannot hold. Names the column.
    """
    import pyarrow as pa

    unknown = [column for column in records.column_names if column not in schema.names]
    if unknown:
        raise TypeMismatchError(
            f"table {name} has no column {', '.join(map(repr, unknown))}; its columns are {', '.join(schema.names)}",
            details={"table": name, "field": unknown[0]},
        )
    arrays = []
    for field in schema:
        details = {"table": name, "field": field.name}
        if field.name not in records.column_names:
            if not field.nullable:
                raise TypeMismatchError(
                    f"table {name} needs column {field.name!r}, and the stream has none", details=details
                )
            arrays.append(pa.nulls(records.num_rows, field.type))
            continue
        values = records.column(field.name)
        if values.type != field.type:
            try:
                values = values.cast(field.type)
            except pa.ArrowException as error:
                raise TypeMismatchError(
                    f"table {name}: column {field.name!r} is {field.type}, and the stream has {values.type}: {error}",
                    details=details,
                ) from error
        if not field.nullable and values.null_count:
            raise TypeMismatchError(
                f"table {name}: column {field.name!r} has a null, which it may not", details=details
            )
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=schema)


class TableCommitter(Committer):
    """Makes a version of the table for all committables that no version contains yet. Thread: task thread."""

    def __init__(self, table: SinkTable, mode: WriteMode) -> None:
        self._table = table
        self._mode = mode

    def commit(self, requests: list[CommitRequest]) -> None:
        committables = [request.get_committable() for request in requests]
        for _ in range(_MAX_CONFLICTS):
            with self._table.open() as table:
                done = {(each.writer_id, each.number) for each in table.committed(committables)}
                left = [each for each in committables if (each.writer_id, each.number) not in done]
                if left:
                    failpoint("table_sink.before_commit")
                is_committed = not left or table.try_commit(left, self._mode)
            if is_committed:
                failpoint("table_sink.after_commit")
                for request, committable in zip(requests, committables):
                    if (committable.writer_id, committable.number) in done:
                        request.signal_already_committed()
                return
        raise CommitError(
            f"table {self._table.name}: other writers have changed it during each of {_MAX_CONFLICTS} tries to commit",
            details={"table": self._table.name},
        )
