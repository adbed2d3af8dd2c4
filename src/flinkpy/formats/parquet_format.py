"""ParquetFormat: rows of Parquet files in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, TypeMismatchError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FilePosition, FileSourceSplit
from flinkpy.formats.input_files import not_found_error, open_arrow_file

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class ParquetFormat(BulkFormat):
    """Reads the columns of `row_type`, found by name; batches are `RecordBatch[schema=arrow_schema(row_type)]`.

    A split owns the row groups whose first byte is in its range, so that no one has to read the files' footers to make
    the splits.

    Source: org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat.
    """

    def __init__(self, row_type: RowTypeInfo, batch_size: int | None = None, is_case_sensitive: bool = True) -> None:
        self.row_type = row_type
        self._batch_size = batch_size
        self._is_case_sensitive = is_case_sensitive

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def is_splittable(self, path: str) -> bool:
        return True

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        batch_rows = min(self._batch_size or max_batch_rows, max_batch_rows)
        return _ParquetReader(split, self.row_type, batch_rows, self._is_case_sensitive)


class _ParquetReader:
    """Thread: task thread."""

    def __init__(self, split: FileSourceSplit, row_type: RowTypeInfo, batch_rows: int, is_case_sensitive: bool) -> None:
        self._path = split.path
        self._row_type = row_type
        self._file = open_parquet(split.path)
        self._columns = self._find_columns(is_case_sensitive)
        first = split.reading_offset or 0
        self._groups = [
            group
            for group in range(self._file.num_row_groups)
            if split.offset <= self._first_byte(group) < split.end and group >= first
        ]
        self._batches = self._file.iter_batches(
            batch_rows, row_groups=self._groups, columns=self._columns, use_threads=False
        )
        #: Of the batch last read: which of the split's row groups, and how many rows of that come before it.
        self._position = (0, 0)
        self._rows_of_batch = 0

    @property
    def batch_position(self) -> FilePosition:
        """Offsets are numbers of row groups in the file."""
        index, row = self._position
        return FilePosition(self._groups[index], row)

    def _advance(self, rows: int) -> None:
        """A batch of `rows` has been read: a batch may hold the end of one group and the start of the next."""
        index, row = self._position
        row += self._rows_of_batch
        while row >= (in_group := self._file.metadata.row_group(self._groups[index]).num_rows):
            index, row = index + 1, row - in_group
        self._position, self._rows_of_batch = (index, row), rows

    def _first_byte(self, group: int) -> int:
        column = self._file.metadata.row_group(group).column(0)
        dictionary = column.dictionary_page_offset
        return min(dictionary, column.data_page_offset) if dictionary else column.data_page_offset

    def _find_columns(self, is_case_sensitive: bool) -> list[str]:
        names = self._file.schema_arrow.names
        by_key = {name if is_case_sensitive else name.lower(): name for name in names}
        found = []
        for wanted in self._row_type.get_field_names():
            name = by_key.get(wanted if is_case_sensitive else wanted.lower())
            if name is None:
                raise InputFormatError(
                    f"{self._path} has no column {wanted!r}; it has {names}",
                    details={"path": self._path, "column": wanted},
                )
            found.append(name)
        return found

    def read_batch(self) -> Batch | None:
        import pyarrow as pa

        from flinkpy.records.batch import Batch
        from flinkpy.records.lanes import conform

        while True:
            try:
                columns = next(self._batches, None)
                if columns is None:
                    return None
                if columns.num_rows:
                    self._advance(columns.num_rows)
                    # They come in the file's order.
                    return Batch(conform(columns.select(self._columns), self._row_type))
            except (pa.ArrowException, OSError, TypeMismatchError) as error:
                raise InputFormatError(f"{self._path}: {error}", details={"path": self._path}) from error

    def close(self) -> None:
        self._file.close()


def open_parquet(path: str) -> Any:
    """The `pyarrow.parquet.ParquetFile`.

    Raises:
        InputNotFoundError: missing or unreadable.
        InputFormatError: no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = open_arrow_file(path)
    try:
        return pq.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise InputFormatError(f"{path} is not a Parquet file: {error}", details={"path": path}) from error
    except OSError as error:
        raise not_found_error(path, error) from error


def parquet_row_type(path: str, columns: list[str] | None) -> RowTypeInfo:
    """The type of a file's rows, or of some of its columns in the given order."""
    from flinkpy.formats.row_types import row_type_of

    file = open_parquet(path)
    try:
        schema = file.schema_arrow
    finally:
        file.close()
    if columns is None:
        return row_type_of(schema)
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputFormatError(f"{path} has no columns {missing}; it has {schema.names}", details={"path": path})
    return row_type_of({name: schema.field(name).type for name in columns})
