"""The connector `filesystem`: tables in files, with partitions in directories.

Source: org.apache.flink.connector.file.table.{FileSystemTableFactory, FileSystemTableSource, FileSystemTableSink}.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, ValidationError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.file_compaction import FileCompactor
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import COMMIT_POLICY, SUCCESS_FILE_NAME, BucketAssigner, OutputFileConfig
from flinkpy.formats.file_format import FileFormat
from flinkpy.formats.partitioned_format import PartitionedFormat, partition_type_of
from flinkpy.sql.types.logical_types import RowType
from flinkpy.sql.types.type_infos import type_info_of
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.filesystem_sink_options import (
    DEFAULT_NAME,
    SINK_OPTIONS,
    check_shuffle,
    compact_strategy,
    compactor_of,
    partition_commit,
    rolling_policy,
    success_file,
)
from flinkpy.table.connectors.filesystem_source import FileSystemTableSource
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import FORMAT, SCAN_PARALLELISM, SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import (
    DynamicTableSource,
)
from flinkpy.table.connectors.vector_search import METRIC, VectorMetric
from flinkpy.table.formats.table_format import format_of
from flinkpy.table.formats.table_format import identifiers as format_identifiers

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.connectors.partition_commit import PartitionCommitSettings
    from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory

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
PATH_PATTERN: ConfigOption[str | None] = ConfigOption(
    "source.path.regex-pattern",
    OptionType.STRING,
    None,
    "Only files are read whose absolute paths match this regular expression as a whole.",
)


class FileSystemTableFactory(TableFactory):
    """`'connector' = 'filesystem'`."""

    identifier = "filesystem"
    required_options = (PATH, FORMAT)
    optional_options = (MONITOR_INTERVAL, RELOAD_INTERVAL, PATH_PATTERN, METRIC, *SINK_OPTIONS)

    @property
    def option_prefixes(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(f"{each}." for each in format_identifiers())

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        layout, options = _Layout.of(context), context.options
        pattern = options.get(PATH_PATTERN)
        if pattern is not None:
            _check_pattern(pattern)
        return FileSystemTableSource(
            layout.path,
            layout.row_type,
            layout.reader(),
            options.get(MONITOR_INTERVAL),
            options.get(SCAN_PARALLELISM),
            options.get(FORMAT) == "parquet" and not layout.partition_keys,
            pattern,
            reload_interval_ms=options.get(RELOAD_INTERVAL),
            metric=VectorMetric(options.get(METRIC)),
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
            partition_commit=partition_commit(options, layout.partition_keys, context.is_bounded),
        )


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValidationError(
            f"'{PATH_PATTERN.key}' = '{pattern}' is no regular expression: {error}",
            details={"option": PATH_PATTERN.key, "value": pattern},
        ) from error


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
            builder = builder.enable_compact(compact_strategy(options), self.compactor)
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
