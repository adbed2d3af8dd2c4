"""FileSource: reads files with a format: a fixed set, or whatever appears.

The paths are local ones that every process of the cluster sees alike (a local disk on one host, a network mount on
several), or URIs. They are listed in the JobMaster, when the job starts or again and again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
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
from flinkpy.formats.input_files import input_path, is_remote, list_remote_files, not_found_error
from flinkpy.formats.json_format import JsonFormat
from flinkpy.formats.row_types import project_row_type, row_type_of

if TYPE_CHECKING:
    from flinkpy.common.time import Duration
    from flinkpy.records.batch import Batch

#: A file is split into about this many parts per subtask, so that they finish at about the same time ...
SPLITS_PER_SUBTASK = 8
#: ... of at least so much that the request for a split is a small part of the time to read it ...
MIN_SPLIT_BYTES = 1 << 20
#: ... and at most so much that a split returned by a failed subtask is soon read again.
MAX_SPLIT_BYTES = 32 << 20
#: What a format decodes at a time, of which the reader gives away as much as it is asked for.
READ_BATCH_ROWS = 65_536


class FileEnumeratorProvider:
    """Which files may be read by several subtasks at a time."""

    def __init__(self, splittable: bool) -> None:
        self._splittable = splittable

    @property
    def is_splittable(self) -> bool:
        return self._splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Those whose format allows it."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """None: a file is one split."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider:
    """In which order subtasks are given splits. There is one: the subtask that asks gets the next."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Local files have no places to prefer, so this is the order of the paths."""
        return FileSplitAssignerProvider()


class FileSource(SourceBase):
    """Reads all files under the paths, each once. Build it with `for_record_stream_format`, `for_bulk_file_format` or,
    beyond PyFlink, `for_csv`, `for_json`, `for_avro`, `for_parquet` or `for_orc`.

    A directory stands for all files below it, except those whose name, or a directory's name on the way, starts with a
    dot or an underscore.

    A checkpoint has, for each split, the place between two records up to which it has been emitted.

    Args:
        discovery_interval_ms: look for new files so often, for ever; None: read those there are at the start.

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
        """Files that are read record by record: text lines, CSV."""
        if not isinstance(stream_format, StreamFormat):
            raise TypeError(f"{stream_format!r} is not a StreamFormat")
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Files that are read in blocks of records: Parquet."""
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
    ) -> FileSource:
        """CSV files as typed columns. Beyond PyFlink.

        Args:
            schema: `Types.ROW_NAMED(...)`, a `pyarrow.Schema`, or a dict from column name to type. With a header it may
                name some of the columns, in any order. None: the types are told from the first megabyte of the first
                file, which must be readable here; a later value that does not fit them fails the job, so give a
                schema where the beginning does not show what follows.
            columns: those to read, in this order; the others are not converted, which saves time. None: all.
            null_values: fields that mean null, e.g. `("NA",)`. Where any are given, an empty field is null too, also
                in a STRING column; where none are, it is null in all columns but those.
            header: the first line of each file names its columns.
            newlines_in_values: quoted fields may contain newlines; then a file is not split among subtasks.
            on_error: what becomes of rows that cannot be read: "fail", "skip" or an OutputTag.

        Raises:
            InputNotFoundError, InputFormatError: without `schema`, about the first file.
            ValueError: `columns` names one that the schema has not.
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

            first, size_bytes = _first_file(paths)
            row_type = infer_row_type(first, options, size_bytes)
        else:
            row_type = row_type_of(schema)
        if columns is not None:
            if not header:
                options = replace(options, file_columns=tuple(row_type.get_field_names()))
            row_type = project_row_type(row_type, columns)
        return FileSource(CsvFormat(row_type, options).with_on_error(on_error), paths)

    @staticmethod
    def for_json(*paths: str, schema: Any, on_error: Any = FAIL) -> FileSource:
        """Files of one JSON object a line, as typed columns. Beyond PyFlink.

        Args:
            schema: `Types.ROW_NAMED(...)`, a `pyarrow.Schema`, or a dict from field name to type; other fields of the
                objects are passed over, fields that are not there are null.
            on_error: what becomes of lines that cannot be read: "fail", "skip" or an OutputTag.
        """
        return FileSource(JsonFormat(row_type_of(schema)).with_on_error(on_error), paths)

    @staticmethod
    def for_avro(*paths: str, schema: Any = None, as_rows: bool = False, on_error: Any = FAIL) -> FileSource:
        """Avro files, as dicts or as Rows. Beyond PyFlink, which has AvroInputFormat.

        Args:
            schema: an AvroSchema; None: that of the first file, which must be readable here.
            on_error: what becomes of records and blocks that cannot be read: "fail", "skip" or an OutputTag.
        """
        from flinkpy.formats.avro_format import AvroFormat, avro_schema_of_file

        if schema is None:
            schema = avro_schema_of_file(_first_file(paths)[0])
        return FileSource(AvroFormat(schema, as_rows).with_on_error(on_error), paths)

    @staticmethod
    def for_parquet(*paths: str, columns: Sequence[str] | None = None, on_error: Any = FAIL) -> FileSource:
        """Parquet files as typed columns, all or some of them. Beyond PyFlink.

        The types are those of the first file, which must be readable here; the others must have such columns. A row
        group that cannot be read counts as one bad record.
        """
        from flinkpy.formats.parquet_format import ParquetFormat, parquet_row_type

        row_type = parquet_row_type(_first_file(paths)[0], None if columns is None else list(columns))
        return FileSource(ParquetFormat(row_type).with_on_error(on_error), paths)

    @staticmethod
    def for_orc(*paths: str, columns: Sequence[str] | None = None, on_error: Any = FAIL) -> FileSource:
        """ORC files as typed columns, all or some of them; like `for_parquet`, with stripes. Beyond PyFlink."""
        from flinkpy.formats.orc_format import OrcFormat, orc_row_type

        row_type = orc_row_type(_first_file(paths)[0], None if columns is None else list(columns))
        return FileSource(OrcFormat(row_type).with_on_error(on_error), paths)

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
                self._list_files,
                lambda files, first_id: self._splits_of(files, parallelism, first_id),
                interval_ms,
                state,
            )
        raise StateRestoreError(
            f"{self!r}: a fixed set of files cannot be restored as files that are discovered, or the other way"
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FileReader(context, self._format)

    def list_splits(self, parallelism: int) -> list[FileSourceSplit]:
        """The splits of all files, in the order of the paths; blocks.

        Raises:
            InputNotFoundError: a path is missing or may not be read.
        """
        return self._splits_of(self._list_files(), parallelism, 0)

    def estimated_size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self._list_files())

    def _list_files(self) -> list[tuple[str, int]]:
        return [found for path in self._paths for found in list_files(path)]

    def _splits_of(self, files: list[tuple[str, int]], parallelism: int, first_id: int) -> list[FileSourceSplit]:
        total = sum(size_bytes for _, size_bytes in files)
        wanted = total // (SPLITS_PER_SUBTASK * parallelism)
        split_bytes = min(max(wanted, MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
        splits: list[FileSourceSplit] = []
        for path, size_bytes in files:
            splittable = self._is_splittable and self._format.is_splittable(path)
            # Equal parts: a rest of a few bytes is not worth a split.
            parts = max(1, size_bytes // split_bytes) if splittable else min(1, size_bytes)
            for part in range(parts if size_bytes else 0):
                start, end = size_bytes * part // parts, size_bytes * (part + 1) // parts
                splits.append(FileSourceSplit(str(first_id + len(splits) + 1), path, start, end - start, size_bytes))
        return splits

    def __repr__(self) -> str:
        return f"FileSource({', '.join(self._paths)})"


class FileSourceBuilder:
    """Builds a FileSource."""

    def __init__(self, file_format: FileFormat, paths: Sequence[str]) -> None:
        self._format = file_format
        self._paths = paths
        self._is_splittable = True
        self._discovery_interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Look for new files so often, and never end. A file is read as it is when it is first seen, and must not have
        a visible name before it is complete; an empty one is looked at again.
        """
        interval_ms = discovery_interval.to_millis()
        if interval_ms <= 0:
            raise ValueError(f"the discovery interval must be positive, not {discovery_interval!r}")
        self._discovery_interval_ms = interval_ms
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts, then end: the default."""
        self._discovery_interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        self._is_splittable = file_enumerator.is_splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeError(f"{split_assigner!r} is not a FileSplitAssignerProvider")
        return self

    def set_on_error(self, on_error: Any) -> FileSourceBuilder:
        """What becomes of records that cannot be read: "fail" (the default), "skip" or an OutputTag, which gives
        `(raw bytes, error)`. Beyond PyFlink.
        """
        self._format = self._format.with_on_error(on_error)
        return self

    def build(self) -> FileSource:
        return FileSource(self._format, self._paths, self._is_splittable, self._discovery_interval_ms)


class _FileReader(SequentialSplitReader):
    def __init__(self, context: SourceReaderContext, file_format: FileFormat) -> None:
        super().__init__(context)
        self._format = file_format
        self._reporter = BadRecordReporter(context, file_format.on_error)

    def open_split(self, split: FileSourceSplit) -> OpenSplit:
        reader = self._format.open(split, READ_BATCH_ROWS)
        return _OpenFile(split, reader, self._context, self._reporter)


class _OpenFile:
    """A split being read, from its position on. Bad records are reported between the good ones around them."""

    def __init__(
        self,
        split: FileSourceSplit,
        reader: FileBatchReader,
        context: SourceReaderContext,
        reporter: BadRecordReporter,
    ) -> None:
        self._split = split
        self._reader = reader
        self._context = context
        self._reporter = reporter
        #: Good or bad.
        self._records_to_drop = 0 if split.position is None else split.position.records_after_offset
        #: For formats that do not say where their batches begin: records given since the start of the split.
        self._num_given = 0
        #: Behind the batch last given.
        self._end = split.position
        #: Of a batch with bad records: what has not been given yet, and where that batch begins.
        self._slices: deque[Any] = deque()
        self._slices_start = FilePosition(NO_OFFSET, 0)

    def read_batch(self) -> Batch | None:
        while True:
            if self._slices:
                return self._give_slice()
            batch = self._reader.read_batch()
            if batch is None:
                return None
            bad = getattr(self._reader, "bad_records", ())
            records = batch.num_rows + len(bad)
            start = getattr(self._reader, "batch_position", None) or FilePosition(NO_OFFSET, self._num_given)
            self._num_given += records
            dropped = min(self._records_to_drop, records)
            self._records_to_drop -= dropped
            if bad:
                self._cut(batch, bad, start, dropped)
                continue
            self._end = FilePosition(start.offset, start.records_after_offset + records)
            if dropped < records:
                return batch.slice(dropped, records - dropped) if dropped else batch

    def _cut(self, batch: Batch, bad: Any, start: FilePosition, dropped: int) -> None:
        """Into slices that nobody has to cut again, so that each is given with the bad records that are in it."""
        from flinkpy.formats.slicing import even_slices

        bad_dropped = sum(place < dropped for place, _ in bad)
        good_dropped = dropped - bad_dropped
        left = [(place - dropped, record) for place, record in bad[bad_dropped:]]
        rest = batch.slice(good_dropped, batch.num_rows - good_dropped)
        self._slices.extend(even_slices(rest, self._context.max_batch_rows, left))
        self._slices_start = FilePosition(start.offset, start.records_after_offset + dropped)
        if not self._slices:
            self._end = self._slices_start

    def _give_slice(self) -> Batch:
        given = self._slices.popleft()
        offset, records = self._slices_start
        self._end = FilePosition(offset, records + given.start + given.num_records)
        self._reporter.report([record for _, record in given.bad])
        return given.batch  # type: ignore[no-any-return]

    def rest(self, rows_back: int) -> FileSourceSplit:
        if self._end is None:
            return self._split
        offset, records = self._end
        return replace(self._split, position=FilePosition(offset, records - rows_back))

    def close(self) -> None:
        self._reader.close()


def list_files(path: str) -> list[tuple[str, int]]:
    """The readable files at or below `path` with their sizes, in the order of their names.

    Raises:
        InputNotFoundError: something is missing or may not be read.
    """

    def fail(error: OSError) -> None:
        raise not_found_error(error.filename or path, error) from error

    if is_remote(path):
        return list_remote_files(path, _is_visible)
    if not os.path.isdir(path):
        return [(path, _readable_size(path))]
    found = []
    for directory, subdirectories, names in os.walk(path, onerror=fail):
        subdirectories[:] = sorted(filter(_is_visible, subdirectories))
        for name in sorted(filter(_is_visible, names)):
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


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "_"))


def _first_file(paths: Sequence[str]) -> tuple[str, int]:
    if not paths:
        raise ValueError("FileSource needs at least one path")
    for path in paths:
        for file, size_bytes in list_files(input_path(path)):
            if size_bytes:
                return file, size_bytes
    raise InputNotFoundError(f"no file with any content in {', '.join(paths)}", details={"path": paths[0]})
