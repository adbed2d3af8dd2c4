"""The source of the connector `filesystem`: rows of files in columns, with facts about the files as metadata.

Source: org.apache.flink.connector.file.table.FileSystemTableSource.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, InputNotFoundError
from flinkpy.connectors.file_source import READ_BATCH_ROWS, FileSource, is_visible
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FileFormat, FileSourceSplit
from flinkpy.formats.input_files import is_remote, modified_ms
from flinkpy.formats.partitioned_format import PartitionedFormat
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType
from flinkpy.table.connectors.table_source import (
    LookupFunction,
    LookupTableSource,
    ScanTableSource,
    VectorSearchFunction,
    VectorSearchTableSource,
)
from flinkpy.table.connectors.vector_search import InMemoryVectorSearch, VectorMetric

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from flinkpy.connector_api.source import SourceBase
    from flinkpy.records.batch import Batch

#: Key -> type of the metadata that the source can add.
METADATA: dict[str, LogicalType] = {
    "file.path": types.VarCharType(nullable=False),
    "file.name": types.VarCharType(nullable=False),
    "file.size": types.BigIntType(nullable=False),
    "file.modification-time": types.LocalZonedTimestampType(3, nullable=False),
}


class TableFileSource(FileSource):
    """A FileSource whose records have the Arrow types of a logical row type.

    Args:
        row_type: the columns of the files, then those of the metadata.
        metadata: the keys of the metadata columns.
        path_pattern: only files are read whose paths match this regular expression as a whole; None: all.
    """

    def __init__(
        self,
        file_format: FileFormat,
        path: str,
        discovery_interval_ms: int | None,
        row_type: RowType,
        metadata: tuple[str, ...] = (),
        path_pattern: str | None = None,
    ) -> None:
        super().__init__(file_format, (path,), discovery_interval_ms=discovery_interval_ms)
        self._row_type = row_type
        self._metadata = metadata
        self._path_pattern = path_pattern

    @property
    def produced_type(self) -> Any:
        return InternalTypeInfo(self._row_type)

    @property
    def reading_format(self) -> FileFormat:
        return _LogicalFormat(self.file_format, self._row_type, self._metadata)

    @property
    def addition(self) -> str | None:
        if self._metadata:
            return f"metadata columns ({', '.join(self._metadata)})"
        return None if self._path_pattern is None else f"a pattern of paths ({self._path_pattern})"

    def list_files(self, is_seen: Callable[[str], bool] = is_visible) -> list[tuple[str, int]]:
        found = super().list_files(is_seen)
        if self._path_pattern is None:
            return found
        pattern = re.compile(self._path_pattern)
        return [(path, size) for path, size in found if pattern.fullmatch(_inner_path(path))]

    def projected_to(self, columns: list[str]) -> FileSource | None:
        """Returns None: the planner of tables has chosen the columns."""
        return None

    def filtered_by(self, predicate: Any) -> FileSource | None:
        return None


def _inner_path(path: str) -> str:
    """Returns the path in its file system, without scheme and authority."""
    return "/" + path.partition("://")[2].partition("/")[2] if is_remote(path) else path


class _LogicalFormat(BulkFormat):
    """Reads files by another format, and gives the columns the Arrow types of a logical row type.

    Args:
        row_type: the columns of the format, then those of the metadata.
        metadata: the keys of the metadata columns.
    """

    def __init__(self, content: FileFormat, row_type: RowType, metadata: tuple[str, ...]) -> None:
        self._content = content
        self._type = InternalTypeInfo(row_type)
        self._metadata = metadata
        self.on_error = content.on_error

    @property
    def produced_type(self) -> Any:
        return self._type

    def is_splittable(self, path: str) -> bool:
        return self._content.is_splittable(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        content = self._content.open(split, max_batch_rows)
        return _LogicalReader(content, self._type, [_metadata_of(split, key) for key in self._metadata])


def _metadata_of(split: FileSourceSplit, key: str) -> Any:
    match key:
        case "file.path":
            # As in Flink, a local path has its scheme.
            return split.path if is_remote(split.path) else f"file:{split.path}"
        case "file.name":
            return os.path.basename(split.path)
        case "file.size":
            return split.file_size
    return modified_ms(split.path)


class _LogicalReader:
    """Reads one split. Thread: task thread.

    Args:
        metadata: the values of the metadata columns.
    """

    def __init__(self, content: FileBatchReader, row_type: InternalTypeInfo, metadata: list[Any]) -> None:
        self._content = content
        self._type = row_type
        fields = row_type.row_type.fields
        self._content_type = InternalTypeInfo(RowType(fields[: len(fields) - len(metadata)]))
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        # The positions and bad records of the format, if it has them.
        return getattr(self._content, name)

    def read_batch(self) -> Batch | None:
        from flinkpy.records.lanes import to_columns

        batch = self._content.read_batch()
        if batch is None or not batch.num_rows:
            return batch
        found = to_columns(batch, self._content_type)
        return self._with_metadata(found) if self._metadata else found

    def _with_metadata(self, batch: Batch) -> Batch:
        import pyarrow as pa

        from flinkpy.sql.types.arrow import schema_of

        columns: Any = batch.values
        schema = schema_of(self._type.row_type)
        first = columns.num_columns
        added = [
            pa.repeat(pa.scalar(value, schema.field(place).type), columns.num_rows)
            for place, value in enumerate(self._metadata, first)
        ]
        return batch.with_values(pa.RecordBatch.from_arrays([*columns.columns, *added], schema=schema))

    def close(self) -> None:
        self._content.close()


def _partition_text(value: Any) -> str | None:
    """Returns the value of a partition column as text; None for NULL."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class FileRows:
    """All rows of a table of files."""

    source: FileSource

    def read_all(self) -> pa.RecordBatch:
        """Reads the files that there are."""
        import pyarrow as pa

        from flinkpy.records.lanes import arrow_schema

        batches = []
        for split in self.source.list_splits(1):
            reader = self.source.reading_format.open(split, READ_BATCH_ROWS)
            try:
                while (batch := reader.read_batch()) is not None:
                    if batch.num_rows:
                        batches.append(batch.values)
            finally:
                reader.close()
        table = pa.Table.from_batches(batches, schema=arrow_schema(self.source.produced_type)).combine_chunks()
        found = table.to_batches()
        return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


class FileLookupFunction(LookupFunction):
    """Looks up rows of files, which it reads as a whole when it is opened.

    Args:
        source: reads the files.
        keys: the positions of the key columns.
        reload_interval_ms: the first lookup after this time reads the files again; None for never.
    """

    def __init__(self, source: FileSource, keys: tuple[int, ...], reload_interval_ms: int | None = None) -> None:
        self._source = source
        self._keys = keys
        self._reload_interval_ms = reload_interval_ms
        self._loaded_ns = 0
        self._rows: pa.RecordBatch | None = None
        self._rows_by_key: dict[tuple[Any, ...], list[int]] = {}

    def open(self, context: Any) -> None:
        self._load()

    def _load(self) -> None:
        self._rows = FileRows(self._source).read_all()
        columns = [self._rows.column(place).to_pylist() for place in self._keys]
        self._rows_by_key = {}
        for number, key in enumerate(zip(*columns)):
            self._rows_by_key.setdefault(key, []).append(number)
        self._loaded_ns = time.monotonic_ns()

    def lookup(self, keys: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        interval_ms = self._reload_interval_ms
        if interval_ms is not None and time.monotonic_ns() - self._loaded_ns >= interval_ms * 1_000_000:
            self._load()
        assert self._rows is not None
        found = [self._rows_by_key.get(key, ()) for key in zip(*(column.to_pylist() for column in keys.columns))]
        positions = np.repeat(np.arange(len(found)), [len(each) for each in found])
        numbers = [number for each in found for number in each]
        return positions, self._rows.take(pa.array(numbers, pa.int64()))

    def close(self) -> None:
        self._rows = None
        self._rows_by_key.clear()


@dataclass(frozen=True)
class FileSystemTableSource(ScanTableSource, LookupTableSource, VectorSearchTableSource):
    """Reads the columns that are asked for, where the format can leave out the others.

    Differs: in a lookup join each subtask reads the files when it starts, and again if
    `lookup.full-cache.periodic-reload.interval` says so. Flink looks up in files only by its former CsvTableSource, and
    in Hive.

    Attributes:
        row_type: the columns that are read from files and directories.
        reader: reads them.
        is_plain_parquet: True if the rows are those of Parquet files without partitions.
        path_pattern: only files are read whose paths match it; None: all.
        metadata_keys: the metadata columns after those of `row_type`.
    """

    path: str
    row_type: RowType
    reader: FileFormat
    monitor_interval_ms: int | None
    scan_parallelism: int | None = None
    is_plain_parquet: bool = False
    path_pattern: str | None = None
    metadata_keys: tuple[str, ...] = ()
    reload_interval_ms: int | None = None
    metric: VectorMetric = VectorMetric.COSINE

    @property
    def summary(self) -> str:
        return "Filesystem"

    @property
    def produced_type(self) -> RowType:
        added = tuple(RowField(f"$metadata${key}", METADATA[key]) for key in self.metadata_keys)
        return RowType((*self.row_type.fields, *added), nullable=False) if added else self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.scan_parallelism

    @property
    def metadata(self) -> dict[str, LogicalType]:
        return dict(METADATA)

    def with_metadata(self, keys: tuple[str, ...]) -> ScanTableSource | None:
        return replace(self, metadata_keys=keys)

    def source(self) -> SourceBase:
        return self._source(self.monitor_interval_ms)

    def _source(self, interval_ms: int | None) -> TableFileSource:
        types = (self.produced_type, self.metadata_keys)
        return TableFileSource(self.reader, self.path, interval_ms, *types, self.path_pattern)

    @property
    def estimated_size_bytes(self) -> int:
        try:
            return self.source().estimated_size_bytes() or 0
        except FlinkError:
            # Tasks may see files that the program does not see; otherwise they report the error.
            return 0

    @property
    def parquet_files(self) -> Any:
        is_local = "://" not in self.path or self.path.startswith("file://")
        is_whole = self.monitor_interval_ms is None and self.path_pattern is None and not self.metadata_keys
        return self.source() if self.is_plain_parquet and is_local and is_whole else None

    def partitions(self) -> list[dict[str, str | None]] | None:
        if not isinstance(self.reader, PartitionedFormat) or self.monitor_interval_ms is not None:
            # A directory that is watched may get partitions later.
            return None
        names = self.reader.partition_type.get_field_names()
        try:
            files = self._source(None).list_files()
        except InputNotFoundError:
            # The job tells of it, where the directory may exist.
            return None
        found = dict.fromkeys(self.reader.values_of(path) for path, _ in files)
        return [{name: _partition_text(value) for name, value in zip(names, values)} for values in found]

    def with_partitions(self, partitions: list[dict[str, str | None]]) -> ScanTableSource | None:
        assert isinstance(self.reader, PartitionedFormat)
        return replace(self, reader=self.reader.limited_to(partitions))

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        return FileLookupFunction(self._source(None), keys, self.reload_interval_ms)

    def vector_search_function(self, column: int) -> VectorSearchFunction:
        return InMemoryVectorSearch(FileRows(self._source(None)), column, self.metric)

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        places = [path[0] for path in paths]
        own = [place for place in places if place < len(self.row_type.fields)]
        added = places[len(own) :]
        if places[: len(own)] != own:
            return None  # metadata columns are the last ones
        names = [self.row_type.names[place] for place in own]
        reader = self.reader.projected_to(names) if names else None
        if reader is None:
            return None
        fields = tuple(RowField(name, each.type) for name, each in zip(names, produced_type.fields))
        keys = tuple(self.metadata_keys[place - len(self.row_type.fields)] for place in added)
        return replace(self, reader=reader, row_type=RowType(fields, nullable=False), metadata_keys=keys)
