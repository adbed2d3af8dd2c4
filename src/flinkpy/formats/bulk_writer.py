"""Writers of bulk formats for a FileSink: Parquet, CSV and JSON, directly from columns."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.serialization import BulkWriterFactory
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.csv_format import CsvOptions, HeaderMode
from flinkpy.formats.row_types import project_row_type

if TYPE_CHECKING:
    from flinkpy.formats.json_values import TimeForm
    from flinkpy.formats.json_writer import JsonWriter
    from flinkpy.records.batch import Batch

#: Size of a row group: small enough to keep in memory for each open file, large enough that columns compress well and
#: metadata is negligible.
ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20


class BulkWriter(Protocol):
    """Writes one file. Thread: task thread."""

    def add(self, batch: Batch) -> None: ...

    def finish(self) -> None:
        """Writes the remaining data and the end of the file. The caller closes the file."""
        ...

    def discard(self) -> None:
        """Releases resources, because the file will be deleted. Called instead of `finish`, or after it failed."""
        ...


class BatchWriterFactory(BulkWriterFactory):
    """Creates a writer per file. Subclass it for another format. Beyond PyFlink.

    Attributes:
        is_concatenable: True if the concatenation of two files is a file with the records of both.
    """

    is_concatenable = False

    @abstractmethod
    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        """Returns a writer for one file.

        Args:
            file: the open file.
            input_type: TypeInformation of the stream's records, or None.
        """


class ColumnBulkWriterFactory(BatchWriterFactory):
    """Creates writers of a columnar format. Subclass it for another format. Beyond PyFlink.

    Args:
        row_type: the columns of the files; None means those of the stream.
    """

    def __init__(self, row_type: RowTypeInfo | None) -> None:
        super().__init__()
        self._row_type = row_type

    def get_row_type(self) -> RowTypeInfo | None:
        return self._row_type

    def without(self, columns: Sequence[str]) -> ColumnBulkWriterFactory:
        """Returns a factory for files without these columns."""
        if self._row_type is None:
            return self
        changed = copy.copy(self)
        names = [name for name in self._row_type.get_field_names() if name not in columns]
        changed._row_type = project_row_type(self._row_type, names)
        return changed

    def columns_of(self, batch: Batch, input_type: Any) -> Any:
        """Returns the batch as `RecordBatch[schema=arrow_schema(row_type)]`.

        Raises:
            TypeMismatchError: a row does not match the type. The error names the row.
        """
        from flinkpy.records.batch import Batch as BatchClass
        from flinkpy.records.lanes import has_columns, to_columns

        wanted = self._row_type or (input_type if has_columns(input_type) else None)
        if batch.is_columnar and wanted is None:
            columns = batch
        elif wanted is None:
            raise TypeMismatchError(
                "a bulk file format needs rows of a declared type: pass output_type to the last function"
            )
        else:
            columns = to_columns(BatchClass(batch.values, batch.timestamps, batch.kinds), wanted)
        if columns.kinds is not None and columns.kinds.any():
            raise UnsupportedOperationError("the stream has updates or deletions, which cannot be written to files")
        return columns.values


class ParquetBulkWriterFactory(ColumnBulkWriterFactory):
    """Writes Parquet files, compressed with Snappy like Flink's."""

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
    """Collects columns and writes them as row groups of a Parquet file."""

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
                # The file is discarded, most likely because of the same error, e.g. a full disk.
                return


class CsvBulkWriterFactory(ColumnBulkWriterFactory):
    """Writes CSV files, with a header line if the options have one."""

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
    """Writes files with one JSON object per line. Beyond PyFlink.

    Args:
        row_type: as in ColumnBulkWriterFactory.
        time_form: the TimeForm of times; None for RFC 3339.
    """

    is_concatenable = True
    #: A factory that an earlier release has pickled has no such attribute.
    _time_form: TimeForm | None = None
    _leaves_out_nulls = False

    def __init__(
        self, row_type: RowTypeInfo | None, time_form: TimeForm | None = None, leaves_out_nulls: bool = False
    ) -> None:
        super().__init__(row_type)
        self._time_form = time_form
        self._leaves_out_nulls = leaves_out_nulls

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        row_type = self._row_type or input_type
        if not isinstance(row_type, RowTypeInfo):
            raise TypeMismatchError("JSON lines need rows with field names: pass a row type, or use Types.ROW_NAMED")
        from flinkpy.formats.json_values import TimeForm
        from flinkpy.formats.json_writer import JsonWriter

        lines = JsonWriter(row_type, self._time_form or TimeForm.RFC_3339, self._leaves_out_nulls)
        return _JsonBulkWriter(self, file, input_type, lines)


class _JsonBulkWriter:
    def __init__(self, factory: JsonBulkWriterFactory, file: BinaryIO, input_type: Any, lines: JsonWriter) -> None:
        self._factory = factory
        self._file = file
        self._input_type = input_type
        self._lines = lines

    def add(self, batch: Batch) -> None:
        lines = self._lines.texts(self._factory.columns_of(batch, self._input_type))
        if lines:
            self._file.write(("\n".join(lines) + "\n").encode())

    def finish(self) -> None:
        return

    def discard(self) -> None:
        return
