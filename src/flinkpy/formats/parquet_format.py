"""ParquetFormat: reads rows of Parquet files as columns, and skips row groups by their statistics."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ExternalError, InputFormatError, TypeMismatchError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import FAIL, BadRecord
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FilePosition, FileSourceSplit
from flinkpy.formats.input_files import is_remote, not_found_error, open_arrow_file
from flinkpy.formats.pruning import Bounds, may_be_true
from flinkpy.formats.row_types import project_row_type

if TYPE_CHECKING:
    from flinkpy.expressions.nodes import Expression
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch

#: Number of attempts to open a remote file if the connection breaks.
_MAX_TRIES = 3
#: Bytes per value below which a column is taken to have a small dictionary.
_REPEATED_BYTES = 2
#: Mark of a broken connection in the errors of Arrow's file systems. They have no other mark.
_CONNECTION_BROKE = "NETWORK_CONNECTION"


class ParquetFormat(BulkFormat):
    """Reads the columns of `row_type` by name. Batches are `RecordBatch[schema=arrow_schema(row_type)]`.

    A split owns the row groups whose first byte is in its range, so splits can be made without reading the footers of
    files. A damaged row group counts as one bad record.

    Source: org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat.
    """

    def __init__(self, row_type: RowTypeInfo, batch_size: int | None = None, is_case_sensitive: bool = True) -> None:
        self.row_type = row_type
        self._batch_size = batch_size
        self._is_case_sensitive = is_case_sensitive
        #: An expression. Row groups are skipped if their statistics show that it is true for none of their records.
        self.predicate: Any = None
        #: (path, size, metadata) of the last file. A large file has many splits and a long footer.
        self._footer: tuple[str, int, Any] = ("", 0, None)

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def is_splittable(self, path: str) -> bool:
        return True

    def projected_to(self, columns: list[str]) -> ParquetFormat | None:
        # Without other columns, a damaged row group might not be found, which would change the bad records.
        if self.on_error != FAIL:
            return None
        changed = copy.copy(self)
        changed.row_type = project_row_type(self.row_type, columns)
        return changed

    def filtered_by(self, predicate: Any) -> ParquetFormat | None:
        if self.on_error != FAIL:
            return None
        changed = copy.copy(self)
        changed.predicate = predicate
        return changed

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        batch_rows = min(self._batch_size or max_batch_rows, max_batch_rows)
        path, size_bytes, metadata = self._footer
        if (path, size_bytes) == (split.path, split.file_size):
            file = open_parquet(split.path, metadata)
        else:
            file = open_parquet(split.path)
            self._footer = (split.path, split.file_size, file.metadata)
        columns = find_columns(
            split.path, file.schema_arrow.names, self.row_type.get_field_names(), self._is_case_sensitive
        )
        repeated = _repeated_texts(file, columns)
        if repeated:
            file = open_parquet(split.path, file.metadata, repeated)
        groups = RowGroups(split, file, columns, batch_rows, self.on_error == FAIL)
        if self.predicate is not None:
            names = dict(zip(self.row_type.get_field_names(), columns))
            groups.keep(lambda group: may_have_records(file, group, self.predicate, self.row_type, names))
        return _ParquetReader(groups, self.row_type)


class RowGroups:
    """Reads the row groups of a split in batches. Thread: task thread.

    Args:
        split: the split.
        file: the `pyarrow.parquet.ParquetFile`.
        columns: names of the columns to read.
        batch_rows: largest number of rows of a batch.
        fails: raise for a damaged row group. Otherwise it is a bad record.
    """

    def __init__(self, split: FileSourceSplit, file: Any, columns: list[str], batch_rows: int, fails: bool) -> None:
        self.path = split.path
        self._file = file
        self._columns = columns
        self._batch_rows = batch_rows
        self._fails = fails
        self._first = split.reading_offset
        first = self._first or 0
        #: Row groups that have not been started.
        self._groups = [
            group
            for group in range(file.num_row_groups)
            if split.offset <= self._first_byte(group) < split.end and group >= first
        ]
        self._batches: Any = iter(())
        self._group = 0
        self._next_row = 0
        #: Position of the last batch.
        self.position = FilePosition(0, 0)
        self.bad_records: list[PlacedBadRecord] = []

    def keep(self, is_wanted: Callable[[int], bool]) -> None:
        """Skips unwanted row groups, but not the one that a restored reader resumes: its records must be counted."""
        self._groups = [group for group in self._groups if group == self._first or is_wanted(group)]

    def read(self) -> Any:
        """Returns a RecordBatch with the columns in the given order, or None at the end. It is empty for a bad record.

        Raises: InputFormatError.
        """
        import pyarrow as pa

        self.bad_records = []
        while True:
            try:
                columns = next(self._batches, None)
            except (pa.ArrowException, OSError) as error:
                return self._pass_damage(error)
            if columns is None:
                if not self._groups:
                    return None
                self._begin_group()
            elif columns.num_rows:
                self.position = FilePosition(self._group, self._next_row)
                self._next_row += columns.num_rows
                # pyarrow returns columns in the order of the file.
                return columns.select(self._columns)

    def _begin_group(self) -> None:
        self._group, self._next_row = self._groups.pop(0), 0
        self._batches = self._file.iter_batches(
            self._batch_rows, row_groups=[self._group], columns=self._columns, use_threads=False
        )

    def _pass_damage(self, error: BaseException) -> Any:
        import pyarrow as pa

        row = self._next_row
        what = f"{self.path}, row group {self._group}, from row {row} on: {error}"
        if self._fails:
            details = {"path": self.path, "row_group": str(self._group)}
            raise InputFormatError(f"{what}; the file is damaged", details=details) from error
        self._batches = iter(())
        self.position = FilePosition(self._group, row)
        self._next_row += 1
        self.bad_records = [(0, BadRecord(b"", what))]
        return pa.RecordBatch.from_pylist([], pa.schema([]))

    def _first_byte(self, group: int) -> int:
        metadata = self._file.metadata.row_group(group)
        if not metadata.num_columns:
            return 0
        column = metadata.column(0)
        dictionary = column.dictionary_page_offset
        return min(dictionary, column.data_page_offset) if dictionary else int(column.data_page_offset)

    def close(self) -> None:
        self._file.close()


class _ParquetReader:
    """Reads one split. Thread: task thread."""

    def __init__(self, groups: RowGroups, row_type: RowTypeInfo) -> None:
        self._groups = groups
        self._row_type = row_type

    @property
    def batch_position(self) -> FilePosition:
        """Position of the last batch. Its offset is the number of a row group."""
        return self._groups.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._groups.bad_records

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch
        from flinkpy.records.lanes import conform

        columns = self._groups.read()
        if columns is None:
            return None
        if self._groups.bad_records:
            return Batch([])
        try:
            return Batch(conform(columns, self._row_type))
        except TypeMismatchError as error:
            raise InputFormatError(f"{self._groups.path}: {error}", details={"path": self._groups.path}) from error

    def close(self) -> None:
        self._groups.close()


def find_columns(path: str, names: list[str], wanted: list[str], is_case_sensitive: bool = True) -> list[str]:
    """Returns the names of the wanted columns in the file. Raises: InputFormatError that names a missing column."""
    by_key = {name if is_case_sensitive else name.lower(): name for name in names}
    found = []
    for column in wanted:
        name = by_key.get(column if is_case_sensitive else column.lower())
        if name is None:
            raise InputFormatError(
                f"{path} has no column {column!r}; it has {names}", details={"path": path, "column": column}
            )
        found.append(name)
    return found


def _repeated_texts(file: Any, columns: list[str]) -> list[str]:
    """Returns the text columns with few different values in the first row group. Each value is decoded once."""
    if not file.num_row_groups:
        return []
    group = file.metadata.row_group(0)
    found = []
    for place in range(group.num_columns):
        column = group.column(place)
        is_text = column.physical_type == "BYTE_ARRAY" and column.path_in_schema in columns
        if is_text and column.total_uncompressed_size < _REPEATED_BYTES * column.num_values:
            found.append(column.path_in_schema)
    return found


def open_parquet(path: str, metadata: Any = None, read_dictionary: list[str] | None = None) -> Any:
    """Opens a file as `pyarrow.parquet.ParquetFile`.

    Args:
        path: path or URI of the file.
        metadata: metadata of the same file, which is then not read again.
        read_dictionary: columns of texts to return with a dictionary.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
        InputFormatError: the file is not a Parquet file.
        ExternalError: the connection to the remote file broke repeatedly.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for attempt in range(_MAX_TRIES):
        file = open_arrow_file(path)
        try:
            # A remote file is read in a few large reads instead of one per column.
            return pq.ParquetFile(file, metadata=metadata, read_dictionary=read_dictionary, pre_buffer=is_remote(path))
        except pa.ArrowInvalid as error:
            raise InputFormatError(f"{path} is not a Parquet file: {error}", details={"path": path}) from error
        except OSError as error:
            if error.errno is not None:
                raise not_found_error(path, error) from error
            if _CONNECTION_BROKE not in str(error):
                raise InputFormatError(f"{path} is not a Parquet file: {error}", details={"path": path}) from error
            if attempt + 1 == _MAX_TRIES:
                raise ExternalError(f"{path} cannot be read: {error}", details={"path": path}) from error
    raise AssertionError("the last attempt returns or raises")


def parquet_row_type(path: str, columns: list[str] | None) -> RowTypeInfo:
    """Returns the type of a file's rows, or of the given columns in their order."""
    file = open_parquet(path)
    try:
        return projected_type(path, file.schema_arrow, columns)
    finally:
        file.close()


def projected_type(path: str, schema: Any, columns: list[str] | None) -> RowTypeInfo:
    """Returns the row type of an Arrow schema, or of some of its columns. Raises: InputFormatError."""
    from flinkpy.formats.row_types import row_type_of

    if columns is None:
        return row_type_of(schema)
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputFormatError(f"{path} has no columns {missing}; it has {schema.names}", details={"path": path})
    return row_type_of({name: schema.field(name).type for name in columns})


def may_have_records(
    file: Any, group: int, predicate: Expression, row_type: RowTypeInfo, names: Mapping[str, str]
) -> bool:
    """False if the statistics of the row group show that the predicate is true for none of its records.

    Args:
        file: the `pyarrow.parquet.ParquetFile`.
        group: number of the row group.
        predicate: the condition.
        row_type: the type of the records.
        names: column of the type -> column of the file.
    """
    return may_be_true(predicate, _RowGroupStatistics(file, group, row_type, names).bounds_of)


class _RowGroupStatistics:
    def __init__(self, file: Any, group: int, row_type: RowTypeInfo, names: Mapping[str, str]) -> None:
        self._schema = file.schema_arrow
        self._metadata = file.metadata.row_group(group)
        self._types = dict(zip(row_type.get_field_names(), row_type.get_field_types()))
        self._names = names
        self._places = {
            self._metadata.column(place).path_in_schema: place for place in range(self._metadata.num_columns)
        }

    def bounds_of(self, column: str) -> Bounds | None:
        statistics = self._statistics(column)
        if statistics is None:
            return None
        has_nulls, has_values = True, True
        if statistics.has_null_count:
            has_nulls, has_values = statistics.null_count > 0, statistics.null_count < self._metadata.num_rows
        low, high = (statistics.min, statistics.max) if statistics.has_min_max and has_values else (None, None)
        return Bounds(low, high, has_nulls, has_values)

    def _statistics(self, column: str) -> Any:
        from flinkpy.records.lanes import type_info_of_arrow

        name = self._names.get(column)
        # A value that is converted on reading may compare differently from its stored form.
        if (
            name is None
            or name not in self._places
            or type_info_of_arrow(self._schema.field(name).type) != self._types[column]
        ):
            return None
        return self._metadata.column(self._places[name]).statistics
