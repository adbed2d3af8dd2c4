"""Bulk formats that a FileSink can write: Parquet and CSV, straight from columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.serialization import BulkWriterFactory
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.csv_format import CsvOptions, HeaderMode

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

#: A row group is written when so much has been gathered: small enough to hold in memory for each open file, large
#: enough that its columns compress well and its metadata does not matter.
ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20


class BulkWriter(Protocol):
    """Writes one file. Thread: task thread."""

    def add(self, batch: Batch) -> None: ...

    def finish(self) -> None:
        """Write what is left and the file's end. The file itself is the caller's."""
        ...

    def discard(self) -> None:
        """The file will be deleted: let go of it. Called instead of `finish`, or after it failed."""
        ...


class BatchWriterFactory(BulkWriterFactory):
    """Makes a writer per file. Subclass it for another format. Beyond PyFlink.

    Attributes:
        is_concatenable: two files one behind the other are a file of this format with the records of both.
    """

    is_concatenable = False

    @abstractmethod
    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        """Args:
        input_type: TypeInformation of the stream's records, or None.
        """


class ColumnBulkWriterFactory(BatchWriterFactory):
    """Makes a writer per file, of a format of columns. Subclass it for another one. Beyond PyFlink.

    Args:
        row_type: the columns of the files; None: those of the stream.
    """

    def __init__(self, row_type: RowTypeInfo | None) -> None:
        super().__init__()
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo | None:
        return self._row_type

    def columns_of(self, batch: Batch, input_type: Any) -> Any:
        """The batch as `RecordBatch[schema=arrow_schema(row_type)]`.

        Raises:
            TypeMismatchError: a row does not match; names it.
        """
        from flinkpy.records.batch import Batch as BatchClass
        from flinkpy.records.lanes import has_columns, to_columns

        wanted = self._row_type or (input_type if has_columns(input_type) else None)
        if batch.is_columnar and wanted is None:
            columns = batch
        elif wanted is None:
            raise TypeMismatchError(
                "a bulk file format needs rows of a declared type: give the last function an output_type"
            )
        else:
            columns = to_columns(BatchClass(batch.values, batch.timestamps, batch.kinds), wanted)
        if columns.kinds is not None and columns.kinds.any():
            raise UnsupportedOperationError("a file can only be appended to: the stream has updates or deletions")
        return columns.values


class ParquetBulkWriterFactory(ColumnBulkWriterFactory):
    """Parquet files, compressed with Snappy as Flink's are."""

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _ParquetBulkWriter(self, file, input_type)


class _ParquetBulkWriter:
    def __init__(self, factory: ColumnBulkWriterFactory, file: BinaryIO, input_type: Any) -> None:
        self._factory = factory
        self._input_type = input_type
        self._groups = RowGroupWriter(file)

    def add(self, batch: Batch) -> None:
        self._groups.add(self._factory.columns_of(batch, self._input_type))

    def finish(self) -> None:
        self._groups.finish()

    def discard(self) -> None:
        self._groups.discard()


class RowGroupWriter:
    """Gathers columns to row groups of a Parquet file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._pending_rows = 0

    def add(self, columns: Any) -> None:
        self._pending.append(columns)
        self._pending_bytes += columns.nbytes
        self._pending_rows += columns.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS:
            self._write_row_group()

    def _write_row_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._pending:
            table = pa.Table.from_batches(self._pending)
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._file, table.schema, compression="snappy")
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending = []
        self._pending_bytes = self._pending_rows = 0

    def finish(self) -> None:
        self._write_row_group()
        if self._writer is not None:
            self._writer.close()

    def discard(self) -> None:
        import pyarrow as pa

        self._pending = []
        if self._writer is not None:
            try:
                self._writer.close()
            except (OSError, pa.ArrowException):
                # Most likely what made the file worthless before: a full disk.
                return


class CsvBulkWriterFactory(ColumnBulkWriterFactory):
    """CSV files. A header line is written where the options have one."""

    def __init__(self, row_type: RowTypeInfo | None, options: CsvOptions, line_separator: str = "\n") -> None:
        super().__init__(row_type)
        self._options = options
        self._line_separator = line_separator
        self.is_concatenable = options.header is HeaderMode.NONE

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _CsvBulkWriter(self, self._options, self._line_separator, file, input_type)


class _CsvBulkWriter:
    def __init__(
        self,
        factory: ColumnBulkWriterFactory,
        options: CsvOptions,
        line_separator: str,
        file: BinaryIO,
        input_type: Any,
    ) -> None:
        from flinkpy.formats.csv_writer import CsvLineWriter

        self._factory = factory
        self._input_type = input_type
        self._file = file
        self._lines = CsvLineWriter(options, line_separator)
        self._writes_header = options.header is not HeaderMode.NONE

    def add(self, batch: Batch) -> None:
        columns = self._factory.columns_of(batch, self._input_type)
        if self._writes_header:
            self._writes_header = False
            self._file.write(self._lines.header(columns.schema.names))
        self._file.write(self._lines.rows(columns))

    def finish(self) -> None:
        return

    def discard(self) -> None:
        return


class JsonBulkWriterFactory(ColumnBulkWriterFactory):
    """Files of one JSON object a line. Beyond PyFlink."""

    is_concatenable = True

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        row_type = self._row_type or input_type
        if not isinstance(row_type, RowTypeInfo):
            raise TypeMismatchError("JSON lines need rows with names: give a row type, or a stream of Types.ROW_NAMED")
        return _JsonBulkWriter(self, file, input_type, row_type)


class _JsonBulkWriter:
    def __init__(self, factory: JsonBulkWriterFactory, file: BinaryIO, input_type: Any, row_type: RowTypeInfo) -> None:
        from flinkpy.formats.json_writer import JsonWriter

        self._factory = factory
        self._file = file
        self._input_type = input_type
        self._lines = JsonWriter(row_type)

    def add(self, batch: Batch) -> None:
        lines = self._lines.texts(self._factory.columns_of(batch, self._input_type))
        if lines:
            self._file.write(("\n".join(lines) + "\n").encode())

    def finish(self) -> None:
        return

    def discard(self) -> None:
        return
