"""FileSource: reads files of a format, either a fixed set or new files as they appear.

Paths are URIs, or local paths that every process of the cluster can read: on a local disk if there is one host, on a
network mount if there are several. The JobMaster lists the files, once at the start or periodically.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputNotFoundError, StateRestoreError
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.continuous_file_enumerator import ContinuousFileEnumerator, PendingSplitsCheckpoint
from flinkpy.connectors.split_enumerator import StaticEnumeratorState, StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.formats.bad_records import FAIL, BadRecordReporter
from flinkpy.formats.csv_format import CsvFormat, CsvOptions, HeaderMode
from flinkpy.formats.file_format import (
    NO_OFFSET,
    BulkFormat,
    FileBatchReader,
    FileFormat,
    FilePosition,
    FileSourceSplit,
    StreamFormat,
)
from flinkpy.formats.input_files import input_path, is_compressed, is_remote, list_remote_files, not_found_error
from flinkpy.formats.json_format import JsonFormat
from flinkpy.formats.partitioned_format import PartitionedFormat, is_partition, partition_type_of
from flinkpy.formats.row_types import project_row_type, row_type_of

if TYPE_CHECKING:
    from flinkpy.common.time import Duration
    from flinkpy.common.typeinfo import RowTypeInfo
    from flinkpy.records.batch import Batch

#: The input is divided into about this many splits per subtask, so that all subtasks finish at about the same time.
SPLITS_PER_SUBTASK = 8
#: The smallest split. Requesting it takes little time in comparison to reading it.
MIN_SPLIT_BYTES = 1 << 20
#: The largest split. A split that a failed subtask gives back is soon read again.
MAX_SPLIT_BYTES = 32 << 20
#: The number of rows that a format decodes at a time. The reader emits them in smaller batches if asked to.
READ_BATCH_ROWS = 65_536


def is_visible(name: str) -> bool:
    """True if a file or directory of this name is read."""
    return not name.startswith((".", "_"))


class FileEnumeratorProvider:
    """Selects whether several subtasks may read one file at the same time."""

    def __init__(self, splittable: bool) -> None:
        self._splittable = splittable

    @property
    def is_splittable(self) -> bool:
        return self._splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Splits files whose format allows it."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Makes each file one split."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider:
    """The order in which splits are assigned. There is only one: the subtask that asks gets the next split."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Assigns splits in the order of the paths, because flinkpy knows no locality of files."""
        return FileSplitAssignerProvider()


class FileSource(SourceBase):
    """Reads every file under the paths once.

    Create it with `for_record_stream_format` or `for_bulk_file_format` or, beyond PyFlink, with `for_csv`, `for_json`,
    `for_avro`, `for_parquet` or `for_orc`.

    A directory stands for all files below it. Files and directories whose names begin with a dot or an underscore are
    skipped. A checkpoint contains the position of each split, between two records.

    Directories may have values of columns in their names, as in `year=2024/month=07/part-0.parquet`. These columns are
    declared as `partition_columns`: by a list of names, for strings, or with types. They come after the columns of the
    files. Files of partitions that a filter behind the source excludes are not read.

    Args:
        file_format: decodes the files.
        paths: files and directories, as local paths or URIs.
        is_splittable: True if several subtasks may read one file, where the format allows it.
        discovery_interval_ms: how often to look for new files, without end; None to read the files that exist at the
            start.

    Example:
        >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/logs").build()
        >>> lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "logs")

    Source: org.apache.flink.connector.file.src.FileSource.
    """

    def __init__(
        self,
        file_format: FileFormat,
        paths: Sequence[str],
        is_splittable: bool = True,
        discovery_interval_ms: int | None = None,
    ) -> None:
        if not paths:
            raise ValueError("FileSource needs at least one path")
        self._format = file_format
        self._paths = tuple(map(input_path, paths))
        self._is_splittable = is_splittable
        self._discovery_interval_ms = discovery_interval_ms

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Reads files record by record, for example lines of text or CSV.

        Args:
            stream_format: such as `StreamFormat.text_line_format()` or a CsvReaderFormat.
            paths: files and directories.

        Returns:
            A builder of the source.
        """
        if not isinstance(stream_format, StreamFormat):
            raise TypeError(f"{stream_format!r} is not a StreamFormat")
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Reads files in blocks of records, for example Parquet.

        Args:
            bulk_format: such as a ParquetColumnarRowInputFormat.
            paths: files and directories.

        Returns:
            A builder of the source.
        """
        if not isinstance(bulk_format, BulkFormat):
            raise TypeError(f"{bulk_format!r} is not a BulkFormat")
        return FileSourceBuilder(bulk_format, paths)

    @staticmethod
    def for_csv(
        *paths: str,
        schema: Any = None,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        null_values: Sequence[str] = (),
        header: bool = True,
        newlines_in_values: bool = False,
        on_error: Any = FAIL,
        partition_columns: Any = None,
        spark_reader: bool = False,
    ) -> FileSource:
        """Reads CSV files as typed columns. Beyond PyFlink.

        Args:
            schema: `Types.ROW_NAMED(...)`, a `pyarrow.Schema`, or a dict from column name to type. If the files have a
                header, the schema may contain some of the columns, in any order. None to infer the types from the
                first megabyte of the first file, which this process must be able to read. A later value of another
                type then fails the job, so give a schema if the beginning of the file is not typical.
            columns: the columns to read, in this order; None for all. Other columns are not converted.
            delimiter: the character between fields.
            null_values: texts that mean null, such as `("NA",)`. If there are any, an empty field is null in all
                columns. If there are none, an empty field is null in all columns except STRING columns.
            header: True if the first line of each file contains the column names.
            newlines_in_values: True if quoted fields may contain newlines. Files are then not split among subtasks.
            on_error: what happens to rows that cannot be read: "fail", "skip" or an OutputTag.
            partition_columns: names, or a dict from name to type, of columns in the names of directories.
            spark_reader: True to let Spark parse the files itself where the source runs in Spark, without Python
                workers. Some texts are read otherwise (docs/spark.md).

        Raises:
            InputNotFoundError, InputFormatError: there is no `schema`, and the first file cannot be read.
            ValueError: `columns` contains a column that is not in the schema.

        Example:
            >>> orders = FileSource.for_csv("/data/orders", schema={"id": Types.LONG(), "price": Types.DOUBLE()})
        """
        mode = HeaderMode.USE if header else HeaderMode.NONE
        options = CsvOptions(
            delimiter,
            null_values=(*null_values, "") if null_values else (),
            header=mode,
            newlines_in_values=newlines_in_values,
        )
        if schema is None:
            from flinkpy.formats.csv_reader import infer_row_type

            first, size_bytes = _first_file(paths, partition_columns)
            row_type = infer_row_type(first, options, size_bytes)
        else:
            row_type = row_type_of(schema)
        wanted = _columns_of_files(row_type, columns, partition_columns)
        if wanted is not None:
            if not header:
                options = replace(options, file_columns=tuple(row_type.get_field_names()))
            row_type = project_row_type(row_type, wanted)
        file_format = CsvFormat(row_type, options).with_on_error(on_error)
        if spark_reader:
            file_format = file_format.with_spark_reader()
        return FileSource(_with_partitions(file_format, columns, partition_columns), paths)

    @staticmethod
    def for_json(
        *paths: str, schema: Any, on_error: Any = FAIL, partition_columns: Any = None, spark_reader: bool = False
    ) -> FileSource:
        """Reads files with one JSON object per line as typed columns. Beyond PyFlink.

        Args:
            schema: `Types.ROW_NAMED(...)`, a `pyarrow.Schema`, or a dict from field name to type. Other fields of the
                objects are ignored, and missing fields are null.
            on_error: what happens to lines that cannot be read: "fail", "skip" or an OutputTag.
            partition_columns: names, or a dict from name to type, of columns in the names of directories.
            spark_reader: True to let Spark parse the files itself, as for `for_csv`.
        """
        file_format = JsonFormat(row_type_of(schema)).with_on_error(on_error)
        if spark_reader:
            file_format = file_format.with_spark_reader()
        return FileSource(_with_partitions(file_format, None, partition_columns), paths)

    @staticmethod
    def for_avro(*paths: str, schema: Any = None, as_rows: bool = False, on_error: Any = FAIL) -> FileSource:
        """Reads Avro files as dicts or Rows. Beyond PyFlink, which has AvroInputFormat.

        Args:
            schema: an AvroSchema; None for the schema of the first file, which this process must be able to read.
            as_rows: True to emit Rows, False to emit dicts.
            on_error: what happens to records and blocks that cannot be read: "fail", "skip" or an OutputTag.
        """
        from flinkpy.formats.avro_format import AvroFormat, avro_schema_of_file

        if schema is None:
            schema = avro_schema_of_file(_first_file(paths)[0])
        return FileSource(AvroFormat(schema, as_rows).with_on_error(on_error), paths)

    @staticmethod
    def for_parquet(
        *paths: str, columns: Sequence[str] | None = None, on_error: Any = FAIL, partition_columns: Any = None
    ) -> FileSource:
        """Reads Parquet files as typed columns. Beyond PyFlink.

        The types are those of the first file, which this process must be able to read. The other files must have the
        same columns.

        Args:
            columns: the columns to read, in this order; None for all.
            on_error: what happens to row groups that cannot be read: "fail", "skip" or an OutputTag. A row group counts
                as one bad record.
            partition_columns: names, or a dict from name to type, of columns in the names of directories. A column of
                the same name in the files is not read.

        Example:
            >>> source = FileSource.for_parquet("/data/sales", partition_columns={"year": Types.INT()})
        """
        from flinkpy.formats.parquet_format import ParquetFormat, parquet_row_type

        row_type = _type_of_files(paths, columns, partition_columns, parquet_row_type)
        file_format = ParquetFormat(row_type).with_on_error(on_error)
        return FileSource(_with_partitions(file_format, columns, partition_columns), paths)

    @staticmethod
    def for_orc(
        *paths: str, columns: Sequence[str] | None = None, on_error: Any = FAIL, partition_columns: Any = None
    ) -> FileSource:
        """Reads ORC files as typed columns, as `for_parquet` does, with stripes for row groups. Beyond PyFlink."""
        from flinkpy.formats.orc_format import OrcFormat, orc_row_type

        row_type = _type_of_files(paths, columns, partition_columns, orc_row_type)
        file_format = OrcFormat(row_type).with_on_error(on_error)
        return FileSource(_with_partitions(file_format, columns, partition_columns), paths)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._discovery_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> Any:
        return self._format.produced_type

    def infer_parallelism(self, upper_bound: int) -> int | None:
        if self._discovery_interval_ms is not None:
            return None
        return max(1, min(upper_bound, len(self.list_splits(upper_bound))))

    def projected_to(self, columns: list[str]) -> FileSource | None:
        return self._with_format(self._format.projected_to(columns))

    def filtered_by(self, predicate: Any) -> FileSource | None:
        return self._with_format(self._format.filtered_by(predicate))

    def _with_format(self, file_format: FileFormat | None) -> FileSource | None:
        if file_format is None:
            return None
        return FileSource(file_format, self._paths, self._is_splittable, self._discovery_interval_ms)

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self._enumerator(context, None)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return self._enumerator(context, state)

    def _enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        interval_ms = self._discovery_interval_ms
        parallelism = context.parallelism
        if interval_ms is None and isinstance(state, StaticEnumeratorState | None):
            return StaticSplitEnumerator(context, lambda: self.list_splits(parallelism), blocking=True, state=state)
        if interval_ms is not None and isinstance(state, PendingSplitsCheckpoint | None):
            return ContinuousFileEnumerator(
                context,
                self.list_files,
                lambda files, first_id: self._splits_of(files, parallelism, first_id),
                interval_ms,
                state,
            )
        raise StateRestoreError(
            f"{self!r}: the checkpoint is of a source with another kind of discovery. A source of a fixed set of files "
            "cannot be restored as one that discovers files, nor the other way round."
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FileReader(context, self.reading_format)

    def list_splits(self, parallelism: int) -> list[FileSourceSplit]:
        """Returns the splits of all files in the order of the paths. Blocks.

        Raises:
            InputNotFoundError: a path does not exist or cannot be read.
        """
        return self._splits_of(self.list_files(), parallelism, 0)

    def estimated_size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.list_files())

    @property
    def paths(self) -> tuple[str, ...]:
        """The files and directories of the program, as absolute local paths or URIs."""
        return self._paths

    @property
    def file_format(self) -> FileFormat:
        return self._format

    @property
    def reading_format(self) -> FileFormat:
        """The format by which readers decode files. A subclass may change its records."""
        return self._format

    @property
    def addition(self) -> str | None:
        """Names columns that the source adds to those of `file_format`, or a rule by which it leaves out files."""
        return None

    def list_files(self, is_seen: Callable[[str], bool] = is_visible) -> list[tuple[str, int]]:
        """Returns the files with their sizes, without those of partitions that hold no record of the pushed predicate.

        Blocks.

        Args:
            is_seen: returns True for the name of a file or directory that is visible.

        Raises:
            InputNotFoundError: a path does not exist or cannot be read.
            InputFormatError: a file is not in a directory with the values of the partition columns.
        """
        file_format = self._format
        if not isinstance(file_format, PartitionedFormat):
            return [file for path in self._paths for file in list_files(path, is_seen)]
        names = file_format.partition_type.get_field_names()
        found = [
            file
            for path in self._paths
            for file in list_files(
                path, lambda name: is_seen(name) or is_partition(name, names), file_format.may_have_records
            )
        ]
        for path, _ in found:
            file_format.values_of(path)
        return found

    def _splits_of(self, files: list[tuple[str, int]], parallelism: int, first_id: int) -> list[FileSourceSplit]:
        total = sum(size_bytes for _, size_bytes in files)
        wanted = total // (SPLITS_PER_SUBTASK * parallelism)
        split_bytes = min(max(wanted, MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
        splits: list[FileSourceSplit] = []
        for path, size_bytes in files:
            splittable = self._is_splittable and self._format.is_splittable(path)
            # The parts have equal sizes, because a remainder of a few bytes is not worth a split.
            parts = max(1, size_bytes // split_bytes) if splittable else min(1, size_bytes)
            for part in range(parts if size_bytes else 0):
                start, end = size_bytes * part // parts, size_bytes * (part + 1) // parts
                splits.append(FileSourceSplit(str(first_id + len(splits) + 1), path, start, end - start, size_bytes))
        return splits

    def __repr__(self) -> str:
        return f"FileSource({', '.join(self._paths)})"


class FileSourceBuilder:
    """Builds a FileSource. By default it reads the files that exist at the start."""

    def __init__(self, file_format: FileFormat, paths: Sequence[str]) -> None:
        self._format = file_format
        self._paths = paths
        self._is_splittable = True
        self._discovery_interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Makes the source look for new files periodically, without end.

        A file is read as it is when it is discovered, so it must not have a visible name before it is complete. Empty
        files are checked again.

        Args:
            discovery_interval: the time between two looks.
        """
        interval_ms = discovery_interval.to_millis()
        if interval_ms <= 0:
            raise ValueError(f"the discovery interval must be positive, not {discovery_interval!r}")
        self._discovery_interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Makes the source read the files that exist at the start of the job, and then end. The default."""
        self._discovery_interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Sets whether several subtasks may read one file."""
        self._is_splittable = file_enumerator.is_splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Has no effect: there is only one assigner."""
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeError(f"{split_assigner!r} is not a FileSplitAssignerProvider")
        return self

    def set_on_error(self, on_error: Any) -> FileSourceBuilder:
        """Sets what happens to records that cannot be read. Beyond PyFlink.

        Args:
            on_error: "fail" (the default), "skip", or an OutputTag that receives `(raw bytes, error)`.
        """
        self._format = self._format.with_on_error(on_error)
        return self

    def set_spark_reader(self) -> FileSourceBuilder:
        """Lets Spark parse CSV or JSON itself where the source runs in Spark, without Python workers. Beyond PyFlink.

        Some texts are read otherwise (docs/spark.md).
        """
        self._format = self._format.with_spark_reader()
        return self

    def set_partition_columns(self, partition_columns: Any) -> FileSourceBuilder:
        """Declares the columns that are in the names of directories (`year=2024/month=07`). Beyond PyFlink.

        Args:
            partition_columns: names, for strings, or a dict from name to type.
        """
        self._format = PartitionedFormat(self._format, partition_type_of(partition_columns))
        return self

    def build(self) -> FileSource:
        return FileSource(self._format, self._paths, self._is_splittable, self._discovery_interval_ms)


class _FileReader(SequentialSplitReader):
    def __init__(self, context: SourceReaderContext, file_format: FileFormat) -> None:
        super().__init__(context)
        self._format = file_format
        self._reporter = BadRecordReporter(context, file_format.on_error)

    @property
    def pending_bytes(self) -> int:
        current = self._open
        waiting = sum(_bytes_after(split, split.position, self._format) for split in list(self._splits))
        return waiting + (current.pending_bytes if isinstance(current, _OpenFile) else 0)

    def open_split(self, split: FileSourceSplit) -> OpenSplit:
        reader = self._format.open(split, READ_BATCH_ROWS)
        return _OpenFile(split, reader, self._context, self._reporter, self._format)


class _OpenFile:
    """A split that is being read from its position. Reports bad records between the good records around them."""

    def __init__(
        self,
        split: FileSourceSplit,
        reader: FileBatchReader,
        context: SourceReaderContext,
        reporter: BadRecordReporter,
        file_format: FileFormat,
    ) -> None:
        self._split = split
        self._reader = reader
        self._context = context
        self._reporter = reporter
        self._format = file_format
        #: The number of records, good or bad, that precede the position.
        self._records_to_drop = 0 if split.position is None else split.position.records_after_offset
        #: The number of records read since the start of the split, for formats that do not report batch positions.
        self._num_read = 0
        #: The position after the last emitted batch.
        self._end = split.position
        #: The slices of a batch with bad records that have not been emitted, and the position of that batch.
        self._slices: deque[Any] = deque()
        self._slices_start = FilePosition(NO_OFFSET, 0)

    def read_batch(self) -> Batch | None:
        while True:
            if self._slices:
                return self._next_slice()
            batch = self._reader.read_batch()
            if batch is None:
                return None
            bad = getattr(self._reader, "bad_records", ())
            records = batch.num_rows + len(bad)
            start = getattr(self._reader, "batch_position", None) or FilePosition(NO_OFFSET, self._num_read)
            self._num_read += records
            dropped = min(self._records_to_drop, records)
            self._records_to_drop -= dropped
            if bad:
                self._cut(batch, bad, start, dropped)
                continue
            self._end = FilePosition(start.offset, start.records_after_offset + records)
            if dropped < records:
                return batch.slice(dropped, records - dropped) if dropped else batch

    def _cut(self, batch: Batch, bad: Any, start: FilePosition, dropped: int) -> None:
        """Cuts a batch into slices of at most `max_batch_rows`, each with the bad records in it."""
        from flinkpy.formats.slicing import even_slices

        bad_dropped = sum(place < dropped for place, _ in bad)
        good_dropped = dropped - bad_dropped
        left = [(place - dropped, record) for place, record in bad[bad_dropped:]]
        rest = batch.slice(good_dropped, batch.num_rows - good_dropped)
        self._slices.extend(even_slices(rest, self._context.max_batch_rows, left))
        self._slices_start = FilePosition(start.offset, start.records_after_offset + dropped)
        if not self._slices:
            self._end = self._slices_start

    def _next_slice(self) -> Batch:
        part = self._slices.popleft()
        offset, records = self._slices_start
        self._end = FilePosition(offset, records + part.start + part.num_records)
        self._reporter.report([record for _, record in part.bad])
        return part.batch  # type: ignore[no-any-return]

    @property
    def pending_bytes(self) -> int:
        return _bytes_after(self._split, self._end, self._format)

    def rest(self, rows_back: int) -> FileSourceSplit:
        if self._end is None:
            return self._split
        offset, records = self._end
        return replace(self._split, position=FilePosition(offset, records - rows_back))

    def close(self) -> None:
        self._reader.close()


def _bytes_after(split: FileSourceSplit, position: FilePosition | None, file_format: FileFormat) -> int:
    """Returns the bytes of the split that follow the batch at the position.

    A format whose positions are not bytes counts the whole split until its end, and so does a compressed file, whose
    positions are those of its content.
    """
    if (
        position is None
        or position.offset == NO_OFFSET
        or not file_format.offsets_are_bytes
        or is_compressed(split.path)
    ):
        return split.length
    return min(max(0, split.end - position.offset), split.length)


def list_files(
    path: str, is_seen: Callable[[str], bool] = is_visible, may_have_records: Callable[[str], bool] | None = None
) -> list[tuple[str, int]]:
    """Returns the visible files at or below `path` with their sizes, in the order of their names.

    Args:
        is_seen: returns True for the name of a file or directory that is visible.
        may_have_records: returns False for a file, or for a directory with a slash at its end, that is not needed.

    Raises:
        InputNotFoundError: a file or directory does not exist or cannot be read.
    """

    def fail(error: OSError) -> None:
        raise not_found_error(error.filename or path, error) from error

    if is_remote(path):
        found = list_remote_files(path, is_seen)
        return found if may_have_records is None else [file for file in found if may_have_records(file[0])]
    if not os.path.isdir(path):
        return [(path, _readable_size(path))]
    found = []
    for directory, subdirectories, names in os.walk(path, onerror=fail):
        if may_have_records is not None and not may_have_records(f"{directory}/"):
            subdirectories.clear()
            continue
        subdirectories[:] = sorted(filter(is_seen, subdirectories))
        for name in sorted(filter(is_seen, names)):
            file = os.path.join(directory, name)
            found.append((file, _readable_size(file)))
    return found


def _readable_size(path: str) -> int:
    try:
        size_bytes = os.stat(path).st_size
    except OSError as error:
        raise not_found_error(path, error) from error
    if not os.access(path, os.R_OK):
        raise InputNotFoundError(f"input {path}: Permission denied", details={"path": path})
    return size_bytes


def _first_file(paths: Sequence[str], partition_columns: Any = None) -> tuple[str, int]:
    if not paths:
        raise ValueError("FileSource needs at least one path")
    names = _partition_names(partition_columns)
    for path in paths:
        for file, size_bytes in list_files(input_path(path), lambda one: is_visible(one) or is_partition(one, names)):
            if size_bytes:
                return file, size_bytes
    raise InputNotFoundError(f"no file with any content in {', '.join(paths)}", details={"path": paths[0]})


def _partition_names(partition_columns: Any) -> list[str]:
    return [] if partition_columns is None else partition_type_of(partition_columns).get_field_names()


def _columns_of_files(row_type: RowTypeInfo, columns: Sequence[str] | None, partition_columns: Any) -> list[str] | None:
    """Returns the columns to read from the files, which have this type; None for all."""
    partitions = _partition_names(partition_columns)
    content = [name for name in row_type.get_field_names() if name not in partitions]
    if columns is None:
        return content if partitions else None
    # A file tells how many records it has by a column.
    return [name for name in columns if name not in partitions] or content[:1]


def _type_of_files(
    paths: Sequence[str],
    columns: Sequence[str] | None,
    partition_columns: Any,
    type_of_file: Callable[[str, list[str] | None], RowTypeInfo],
) -> RowTypeInfo:
    """Returns the type of the columns to read, which is that of the first file."""
    first = _first_file(paths, partition_columns)[0]
    if partition_columns is None:
        return type_of_file(first, None if columns is None else list(columns))
    wanted = _columns_of_files(type_of_file(first, None), columns, partition_columns)
    return type_of_file(first, wanted)


def _with_partitions(file_format: FileFormat, columns: Sequence[str] | None, partition_columns: Any) -> FileFormat:
    if partition_columns is None:
        return file_format
    return PartitionedFormat(file_format, partition_type_of(partition_columns), columns)
