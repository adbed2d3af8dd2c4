"""FileSink: writes a stream to files, exactly once. StreamingFileSink is its predecessor.

A part file is finished by its rolling policy or by the end of the input. It becomes visible when the next checkpoint is
complete. A visible file is complete and never changes. In a job without checkpoints, files become visible at the end of
the input only, so a job that does not end needs checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.connector_api.sink import Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.file_compaction import FileCompactor, FileCompactStrategy
from flinkpy.connectors.file_sink_config import (
    BucketAssigner,
    ColumnBucketAssigner,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    Publication,
    RollingPolicy,
    success_file_of,
)
from flinkpy.connectors.partition_commit import PartitionCommitSettings
from flinkpy.connectors.sink_function import SinkFunction
from flinkpy.connectors.write_mode import WriteMode
from flinkpy.formats.bulk_writer import BatchWriterFactory, ColumnBulkWriterFactory
from flinkpy.formats.input_files import input_path, is_remote


class FileSink(SinkBase):
    """Writes files below `base_path`: a path that every process of the cluster can reach, or a URI (`s3://`, ...).

    Create it with `for_row_format` or `for_bulk_format`.

    Example:
        >>> builder = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder())
        >>> stream.sink_to(builder.with_output_file_config(OutputFileConfig("part", ".txt")).build())

    Source: org.apache.flink.connector.file.sink.FileSink. Differs: a restored file in progress is copied, not
    truncated.
    """

    #: A sink that an earlier release has pickled has no such attributes.
    _publication = Publication()
    _partition_commit: PartitionCommitSettings | None = None
    _record_type: RowTypeInfo | None = None

    def __init__(
        self,
        base_path: str,
        make_content: Callable[..., Any],
        bucket_assigner: BucketAssigner,
        rolling_policy: RollingPolicy,
        file_config: OutputFileConfig,
        is_resumable: bool = False,
        compaction: tuple[FileCompactStrategy, FileCompactor] | None = None,
        publication: Publication | None = None,
        partition_commit: PartitionCommitSettings | None = None,
    ) -> None:
        self._base_path = input_path(base_path)
        self._partition_commit = partition_commit
        self._publication = publication or Publication()
        self._make_content = make_content
        self._bucket_assigner = bucket_assigner
        self._rolling_policy = rolling_policy
        self._file_config = file_config
        if isinstance(bucket_assigner, ColumnBucketAssigner):
            factory = self.writer_factory
            if not isinstance(factory, ColumnBulkWriterFactory):
                raise UnsupportedOperationError(
                    "column_bucket_assigner needs a bulk format with columns, such as ParquetBulkWriters.for_row_type: "
                    "the files are written without the columns of the directories"
                )
            self._record_type = factory.get_row_type()
            self._make_content = factory.without(bucket_assigner.columns).create
        # An unfinished upload cannot be read back, so at a URI every file is finished at a checkpoint.
        self._is_resumable = is_resumable and not is_remote(self._base_path)
        self._compaction = compaction
        if compaction is not None and is_remote(self._base_path):
            raise UnsupportedOperationError(
                f"{base_path}: enable_compact works on a local disk or a network mount, but not at a URI; remove it"
            )

    def __repr__(self) -> str:
        return f"FileSink({self._base_path})"

    @property
    def base_path(self) -> str:
        """The directory of the files, as an absolute local path or a URI."""
        return self._base_path

    @property
    def bucket_assigner(self) -> BucketAssigner:
        return self._bucket_assigner

    @property
    def rolling_policy(self) -> RollingPolicy:
        return self._rolling_policy

    @property
    def file_config(self) -> OutputFileConfig:
        return self._file_config

    @property
    def publication(self) -> Publication:
        return self._publication

    @property
    def needs_batch_mode(self) -> bool:
        return self._publication.needs_batch_mode

    @property
    def has_global_committer(self) -> bool:
        return self._partition_commit is not None

    @property
    def merges_files(self) -> bool:
        return self._compaction is not None

    @property
    def writer_factory(self) -> BatchWriterFactory | None:
        """The factory of a bulk format; None for a row format."""
        factory = getattr(self._make_content, "__self__", None)
        return factory if isinstance(factory, BatchWriterFactory) else None

    def get_transformer(self) -> None:
        """Returns None: nothing is done before the sink."""
        return

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self._writer(context, None)

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        return self._writer(context, states)

    @property
    def supports_concurrent_attempts(self) -> bool:
        return True  # attempts write files with different names

    def remove_uncommitted(self, job_id: str, committables: list[Any]) -> None:
        """Implements SupportsRemovingUncommitted."""
        from flinkpy.connectors.file_committer import PendingFile
        from flinkpy.connectors.part_file import PartNaming
        from flinkpy.connectors.part_store import part_store

        config = self._file_config
        naming = PartNaming(
            config.get_part_prefix(), config.get_part_suffix(), "", job_id, 0, 0, is_job_id_complete=False
        )
        counted = {(file.bucket, file.hidden_name) for file in committables if isinstance(file, PendingFile)}
        store = part_store(self._base_path)
        for bucket, file in list(store.hidden_files(naming)):
            if (bucket, file.name) not in counted:
                store.delete(bucket, file.name)

    def create_committer(self) -> Committer:
        from flinkpy.connectors.batch_file_committer import BatchFileCommitter
        from flinkpy.connectors.file_committer import FileCommitter

        if self._publication.needs_batch_mode:
            return BatchFileCommitter(self._base_path, self._publication)
        if self._partition_commit is not None:
            from flinkpy.connectors.partition_committer import PartitionCommitter

            return PartitionCommitter(self._base_path, self._partition_commit)
        return FileCommitter(self._base_path)

    def _writer(self, context: WriterContext, states: list[Any] | None) -> SinkWriter:
        from flinkpy.connectors.file_sink_writer import FileSinkWriter

        return FileSinkWriter(
            context,
            self._base_path,
            self._make_content,
            self._bucket_assigner,
            self._rolling_policy,
            self._file_config,
            self._is_resumable,
            states,
            compaction=self._compaction,
            publication=self._publication,
            reports_progress=self._partition_commit is not None,
            record_type=self._record_type,
        )

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Writes records one by one.

        Args:
            base_path: the directory of the files, as a local path or a URI.
            encoder: encodes each record. `Encoder.simple_string_encoder()` writes lines of text. Beyond PyFlink, a
                subclass of Encoder may define `encode(record) -> bytes`.

        Returns:
            A builder of the sink.
        """
        if not isinstance(encoder, Encoder):
            raise TypeError(f"{encoder!r} is not an Encoder")
        return FileSink.RowFormatBuilder(base_path, partial(_row_content, encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Writes batches of records.

        Args:
            base_path: the directory of the files, as a local path or a URI.
            writer_factory: from ParquetBulkWriters, OrcBulkWriters, AvroBulkWriters, AvroParquetWriters, CsvBulkWriters
                or JsonBulkWriters.

        Returns:
            A builder of the sink.
        """
        if not isinstance(writer_factory, BatchWriterFactory):
            raise TypeError(
                f"{writer_factory!r} is not a writer factory of flinkpy: use ParquetBulkWriters.for_row_type, "
                "CsvBulkWriters.for_schema, AvroBulkWriters.for_generic_record, ..."
            )
        return FileSink.BulkFormatBuilder(base_path, writer_factory.create, writer_factory.is_concatenable)

    class BaseBuilder:
        """Builds a FileSink. By default it has one bucket per hour of processing time, as in Flink."""

        def __init__(self, base_path: str, make_content: Callable[..., Any], rolling_policy: RollingPolicy) -> None:
            self._base_path = base_path
            self._make_content = make_content
            self._rolling_policy = rolling_policy
            self._is_resumable = False
            self._is_concatenable = True
            self._compaction: tuple[FileCompactStrategy, FileCompactor] | None = None
            self._mode = WriteMode.APPEND
            self._properties: dict[str, str] = {}
            self._partition_commit: PartitionCommitSettings | None = None
            self._bucket_assigner = BucketAssigner.date_time_bucket_assigner()
            self._file_config = OutputFileConfig.builder().build()

        def with_bucket_check_interval(self, interval: int) -> Any:
            """Has no effect, because the rolling policy is checked at every write and every checkpoint.

            Args:
                interval: in milliseconds.
            """
            if interval <= 0:
                raise ValueError(f"the bucket check interval must be positive, not {interval}")
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Any:
            """Sets which directory a record goes to."""
            if not isinstance(bucket_assigner, BucketAssigner):
                raise TypeError(f"{bucket_assigner!r} is not a BucketAssigner")
            self._bucket_assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Any:
            """Sets prefix and suffix of the file names."""
            if not isinstance(output_file_config, OutputFileConfig):
                raise TypeError(f"{output_file_config!r} is not an OutputFileConfig")
            self._file_config = output_file_config
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Any:
            """Sets when a file is finished and the next one begins."""
            if not isinstance(rolling_policy, RollingPolicy):
                raise TypeError(f"{rolling_policy!r} is not a RollingPolicy")
            self._rolling_policy = rolling_policy
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Any:
            """Merges complete files before they become visible. There are fewer and larger files then, but later.

            Args:
                strategy: when files are merged.
                compactor: how files are merged.

            Raises:
                ValueError: the compactor concatenates files, but files of this format have a header or a footer.
            """
            if not isinstance(strategy, FileCompactStrategy):
                raise TypeError(f"{strategy!r} is not a FileCompactStrategy")
            if not isinstance(compactor, FileCompactor):
                raise TypeError(f"{compactor!r} is not a FileCompactor")
            if compactor.joins_bytes and not self._is_concatenable:
                raise ValueError(
                    "files of this format cannot be concatenated: "
                    "use FileCompactor.parquet_file_compactor() for Parquet, or a FileCompactor of your own"
                )
            self._compaction = (strategy, compactor)
            return self

        def disable_compact(self) -> Any:
            """Merges no files, which is the default. Files in a restored state are committed as they are."""
            self._compaction = None
            return self

        def append(self) -> Any:
            """Keeps the files that are there, which is the default."""
            self._mode = WriteMode.APPEND
            return self

        def overwrite(self) -> Any:
            """Replaces all files below the base path by those of the job. For batch mode. Beyond PyFlink.

            Hidden files stay: those whose names, or whose directories' names, begin with a dot or an underscore.
            """
            self._mode = WriteMode.OVERWRITE
            return self

        def overwrite_partitions(self) -> Any:
            """Replaces the files of the buckets to which the job writes. For batch mode. Beyond PyFlink."""
            self._mode = WriteMode.OVERWRITE_PARTITIONS
            return self

        def set_property(self, key: str, value: str) -> Any:
            """Sets an option of Flink's table connector for files. For batch mode. Beyond PyFlink.

            Args:
                key: `sink.partition-commit.policy.kind`, whose only value is `success-file`, or
                    `sink.partition-commit.success-file.name`.
                value: the value.

            Raises:
                ConfigurationError: there is no such option, or it has no such value.
            """
            properties = {**self._properties, key: value}
            success_file_of(properties)
            self._properties = properties
            return self

        def with_partition_commit(self, settings: PartitionCommitSettings) -> Any:
            """Writes a success file into each partition when it is complete. Beyond PyFlink.

            One subtask commits the files of all writers then. It needs a `column_bucket_assigner`.

            Args:
                settings: when partitions are complete.
            """
            self._partition_commit = settings
            return self

        def build(self) -> FileSink:
            return FileSink(*self._settings())

        def _settings(self) -> tuple[Any, ...]:
            return (
                self._base_path,
                self._make_content,
                self._bucket_assigner,
                self._rolling_policy,
                self._file_config,
                self._is_resumable,
                self._compaction,
                Publication(self._mode, success_file_of(self._properties)),
                self._partition_commit,
            )

    class RowFormatBuilder(BaseBuilder):
        """Builds a FileSink that writes records one by one."""

        def __init__(self, base_path: str, make_content: Callable[..., Any]) -> None:
            super().__init__(base_path, make_content, RollingPolicy.default_rolling_policy())
            self._is_resumable = True

    class BulkFormatBuilder(BaseBuilder):
        """Builds a FileSink that writes batches of records."""

        def __init__(self, base_path: str, make_content: Callable[..., Any], is_concatenable: bool = False) -> None:
            super().__init__(base_path, make_content, RollingPolicy.on_checkpoint_rolling_policy())
            self._is_concatenable = is_concatenable

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Any:
            """Accepts an OnCheckpointRollingPolicy only, because bulk files must be finished at every checkpoint."""
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise ValueError("rolling_policy of bulk formats must be OnCheckpointRollingPolicy")
            return super().with_rolling_policy(rolling_policy)


def _row_content(encoder: Encoder, file: Any, input_type: Any) -> Any:
    from flinkpy.connectors.file_sink_writer import RowContent

    return RowContent(file, input_type, encoder)


class StreamingFileSink(FileSink, SinkFunction):
    """The predecessor of FileSink. It writes the same files, and both `add_sink` and `sink_to` accept it.

    Source: pyflink.datastream.connectors.file_system.StreamingFileSink. Differs: in a job without checkpoints its files
    become visible at the end of the input. In Flink they never do.
    """

    def to_sink(self) -> Any:
        return self

    class BaseBuilder(FileSink.BaseBuilder):
        """Builds a sink."""

        def with_rolling_policy(self, policy: Any) -> Any:
            return super().with_rolling_policy(policy)

    class DefaultRowFormatBuilder(FileSink.RowFormatBuilder):
        """Builds a sink for records that are encoded one by one."""

        def with_rolling_policy(self, policy: Any) -> Any:
            return super().with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:
            return StreamingFileSink(*self._settings())

    class DefaultBulkFormatBuilder(FileSink.BulkFormatBuilder):
        """Builds a sink for batches of records."""

        def with_rolling_policy(self, policy: Any) -> Any:
            return super().with_rolling_policy(policy)

        def build(self) -> StreamingFileSink:
            return StreamingFileSink(*self._settings())

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        builder = FileSink.for_row_format(base_path, encoder)
        return StreamingFileSink.DefaultRowFormatBuilder(base_path, builder._make_content)

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        builder = FileSink.for_bulk_format(base_path, writer_factory)
        return StreamingFileSink.DefaultBulkFormatBuilder(base_path, builder._make_content, builder._is_concatenable)
