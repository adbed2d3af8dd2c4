"""The connector `filesystem`: tables in files, with partitions in directories.

Source: org.apache.flink.connector.file.table.{FileSystemTableFactory, FileSystemTableSource, FileSystemTableSink}.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.file_compaction import FileCompactor, FileCompactStrategy
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import COMMIT_POLICY, SUCCESS_FILE_NAME, BucketAssigner, OutputFileConfig
from flinkpy.connectors.file_source import READ_BATCH_ROWS, FileSource
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FileFormat, FileSourceSplit
from flinkpy.formats.partitioned_format import PartitionedFormat, partition_type_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowField, RowType
from flinkpy.sql.types.type_infos import type_info_of
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.filesystem_sink_options import (
    DEFAULT_NAME,
    SINK_OPTIONS,
    check_shuffle,
    compactor_of,
    partition_commit,
    rolling_policy,
    success_file,
)
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import FORMAT, SCAN_PARALLELISM, SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import (
    DynamicTableSource,
    LookupFunction,
    LookupTableSource,
    ScanTableSource,
)
from flinkpy.table.formats.table_format import format_of
from flinkpy.table.formats.table_format import identifiers as format_identifiers

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.connector_api.source import SourceBase
    from flinkpy.connectors.partition_commit import PartitionCommitSettings
    from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory
    from flinkpy.records.batch import Batch

PATH: ConfigOption[str | None] = ConfigOption("path", OptionType.STRING, None, "The directory or file.")
MONITOR_INTERVAL: ConfigOption[int | None] = ConfigOption(
    "source.monitor-interval", OptionType.DURATION, None, "How often new files are looked for; by default never."
)
RELOAD_INTERVAL: ConfigOption[int | None] = ConfigOption(
    "lookup.full-cache.periodic-reload.interval",
    OptionType.DURATION,
    None,
    "How long after they were read the files are read again for lookups; by default never.",
)
_COMPACT_AT_CHECKPOINTS = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()


class FileSystemTableFactory(TableFactory):
    """`'connector' = 'filesystem'`."""

    identifier = "filesystem"
    required_options = (PATH, FORMAT)
    optional_options = (MONITOR_INTERVAL, RELOAD_INTERVAL, *SINK_OPTIONS)

    @property
    def option_prefixes(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(f"{each}." for each in format_identifiers())

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        layout = _Layout.of(context)
        return FileSystemTableSource(
            layout,
            layout.row_type,
            layout.reader(),
            context.options.get(MONITOR_INTERVAL),
            context.options.get(SCAN_PARALLELISM),
            context.options.get(RELOAD_INTERVAL),
        )

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        layout = _Layout.of(context)
        options = context.options
        check_shuffle(options)
        return FileSystemTableSink(
            layout,
            layout.writer(),
            options.get(SINK_PARALLELISM),
            compactor=compactor_of(options, options.get(FORMAT) or ""),
            success_file=success_file(options),
            partition_commit=partition_commit(options, layout.partition_keys),
        )


@dataclass(frozen=True)
class _Layout:
    """The place and the form of a table's files.

    Attributes:
        row_type: all columns of the table.
        partition_keys: the columns that are in the names of directories.
    """

    path: str
    row_type: RowType
    partition_keys: tuple[str, ...]
    context: FactoryContext

    @staticmethod
    def of(context: FactoryContext) -> _Layout:
        path = context.options.get(PATH)
        assert path is not None
        row_type = context.table.resolved_schema.to_physical_row_type()
        return _Layout(path, row_type, context.table.partition_keys, context)

    def content_type(self) -> RowType:
        """Returns the columns of the files."""
        fields = tuple(each for each in self.row_type.fields if each.name not in self.partition_keys)
        if not fields:
            raise ValidationError(f"filesystem: all columns of {self.context.table.identifier} are partition keys")
        return RowType(fields)

    def reader(self) -> FileFormat:
        table_format, options = self._format()
        content = table_format.file_format(self.content_type(), options)
        if not self.partition_keys:
            return content
        types = {each.name: type_info_of(each.type) for each in self.row_type.fields}
        try:
            partitions = partition_type_of({name: types[name] for name in self.partition_keys})
        except UnsupportedOperationError as error:
            raise ValidationError(f"filesystem: {error.message}") from error
        default_name = self.context.options.get(DEFAULT_NAME)
        return PartitionedFormat(content, partitions, list(self.row_type.names), default_name)

    def writer(self) -> ColumnBulkWriterFactory:
        table_format, options = self._format()
        return table_format.file_writer(self.content_type(), options)

    def _format(self) -> Any:
        options = self.context.options
        identifier = options.get(FORMAT)
        assert identifier is not None
        return format_of(identifier, options, f"table '{self.context.table.identifier.as_summary_string()}'")


class _TableFileSource(FileSource):
    """A FileSource whose records have the Arrow types of a logical row type."""

    def __init__(
        self, file_format: FileFormat, path: str, discovery_interval_ms: int | None, row_type: RowType
    ) -> None:
        super().__init__(file_format, (path,), discovery_interval_ms=discovery_interval_ms)
        self._row_type = row_type

    @property
    def produced_type(self) -> Any:
        return InternalTypeInfo(self._row_type)

    @property
    def reading_format(self) -> FileFormat:
        return _LogicalFormat(self.file_format, self._row_type)

    def projected_to(self, columns: list[str]) -> FileSource | None:
        """Returns None: the planner of tables has chosen the columns."""
        return None

    def filtered_by(self, predicate: Any) -> FileSource | None:
        return None


class _LogicalFormat(BulkFormat):
    """Reads files by another format, and gives the columns the Arrow types of a logical row type."""

    def __init__(self, content: FileFormat, row_type: RowType) -> None:
        self._content = content
        self._type = InternalTypeInfo(row_type)
        self.on_error = content.on_error

    @property
    def produced_type(self) -> Any:
        return self._type

    def is_splittable(self, path: str) -> bool:
        return self._content.is_splittable(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        return _LogicalReader(self._content.open(split, max_batch_rows), self._type)


class _LogicalReader:
    """Reads one split. Thread: task thread."""

    def __init__(self, content: FileBatchReader, row_type: InternalTypeInfo) -> None:
        self._content = content
        self._type = row_type

    def __getattr__(self, name: str) -> Any:
        # The positions and bad records of the format, if it has them.
        return getattr(self._content, name)

    def read_batch(self) -> Batch | None:
        from flinkpy.records.lanes import to_columns

        batch = self._content.read_batch()
        return batch if batch is None or not batch.num_rows else to_columns(batch, self._type)

    def close(self) -> None:
        self._content.close()


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
        import pyarrow as pa

        from flinkpy.records.lanes import arrow_schema

        batches = []
        for split in self._source.list_splits(1):
            reader = self._source.reading_format.open(split, READ_BATCH_ROWS)
            try:
                while (batch := reader.read_batch()) is not None:
                    if batch.num_rows:
                        batches.append(batch.values)
            finally:
                reader.close()
        table = pa.Table.from_batches(batches, schema=arrow_schema(self._source.produced_type)).combine_chunks()
        found = table.to_batches()
        self._rows = found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)
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
class FileSystemTableSource(ScanTableSource, LookupTableSource):
    """Reads the columns that are asked for, where the format can leave out the others.

    Differs: in a lookup join each subtask reads the files when it starts, and again if
    `lookup.full-cache.periodic-reload.interval` says so. Flink looks up in files only by its former CsvTableSource, and
    in Hive.

    Attributes:
        row_type: the columns that are read.
    """

    layout: _Layout
    row_type: RowType
    reader: FileFormat
    monitor_interval_ms: int | None
    scan_parallelism: int | None = None
    reload_interval_ms: int | None = None

    @property
    def summary(self) -> str:
        return "Filesystem"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.scan_parallelism

    def source(self) -> SourceBase:
        return _TableFileSource(self.reader, self.layout.path, self.monitor_interval_ms, self.row_type)

    @property
    def parquet_files(self) -> Any:
        is_local = "://" not in self.layout.path or self.layout.path.startswith("file://")
        is_parquet = self.layout.context.options.get(FORMAT) == "parquet"
        if not is_parquet or not is_local or self.layout.partition_keys or self.monitor_interval_ms is not None:
            return None
        return self.source()

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        source = _TableFileSource(self.reader, self.layout.path, None, self.row_type)
        return FileLookupFunction(source, keys, self.reload_interval_ms)

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        names = [self.row_type.names[path[0]] for path in paths]
        reader = self.reader.projected_to(names) if names else None
        if reader is None:
            return None
        fields = tuple(RowField(name, each.type) for name, each in zip(names, produced_type.fields))
        return replace(self, reader=reader, row_type=RowType(fields, nullable=False))


@dataclass(frozen=True)
class FileSystemTableSink(DynamicTableSink):
    """Writes inserted rows. Files become visible with checkpoints, in batch mode at the end.

    Attributes:
        static_partition: the values of PARTITION (...).
        compactor: merges the files that a writer has finished in a checkpoint; None: they stay as they are.
        success_file: the name of the file in complete partitions; None: there is none.
        partition_commit: when partitions are complete in streaming mode.
    """

    layout: _Layout
    writer: ColumnBulkWriterFactory
    sink_parallelism: int | None = None
    static_partition: tuple[tuple[str, str], ...] = ()
    is_overwrite: bool = False
    compactor: FileCompactor | None = None
    success_file: str | None = None
    partition_commit: PartitionCommitSettings | None = None

    @property
    def summary(self) -> str:
        return "Filesystem"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return INSERT_ONLY

    @property
    def parallelism(self) -> int | None:
        return self.sink_parallelism

    def sink(self) -> SinkBase:
        keys = self.layout.partition_keys
        # The bucket assigner takes the partition columns out of the rows, so the writer begins with all of them.
        full = type_info_of(self.layout.row_type)
        assert isinstance(full, RowTypeInfo)
        writer = copy.copy(self.writer)
        writer._row_type = full
        suffix = "" if self._format_name() in ("csv", "json") else f".{self._format_name()}"
        options = self.layout.context.options
        assigner = BucketAssigner.base_path_bucket_assigner()
        if keys:
            assigner = BucketAssigner.column_bucket_assigner(*keys, default_name=options.get(DEFAULT_NAME))
        builder = (
            FileSink.for_bulk_format(self.layout.path, writer)
            .with_bucket_assigner(assigner)
            .with_output_file_config(OutputFileConfig("part", suffix))
            .with_rolling_policy(rolling_policy(options))
        )
        if self.compactor is not None:
            builder = builder.enable_compact(_COMPACT_AT_CHECKPOINTS, self.compactor)
        if self.layout.context.is_bounded:
            if self.success_file is not None:
                builder = builder.set_property(COMMIT_POLICY, "success-file")
                builder = builder.set_property(SUCCESS_FILE_NAME, self.success_file)
        elif self.partition_commit is not None:
            builder = builder.with_partition_commit(self.partition_commit)
        if self.is_overwrite:
            builder = builder.overwrite_partitions() if keys else builder.overwrite()
        return builder.build()

    def _format_name(self) -> str:
        return self.layout.context.options.get(FORMAT) or ""

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink:
        return replace(self, static_partition=tuple(partition.items()))

    def with_overwrite(self) -> DynamicTableSink | None:
        return replace(self, is_overwrite=True)
