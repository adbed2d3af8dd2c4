"""FileSink: writes a stream into files, which appear complete or not at all.

There are no checkpoints yet. So a part file becomes visible when its rolling policy says so or when the input ends,
not at a checkpoint; and a job that restarts from its beginning writes again what it had made visible before (at least
once). What was not visible is deleted when the sink closes, after a failure or a cancellation too; the hidden file of a
killed process is deleted by the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.file_sink_config import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory
from flinkpy.formats.input_files import local_path


class FileSink(SinkBase):
    """Files below `base_path`, which every process of the cluster must see alike.

    Source: org.apache.flink.connector.file.sink.FileSink. Differs: a part file's name has the subtask's index
    (`part-0-0`) instead of a random id.
    """

    def __init__(
        self,
        base_path: str,
        make_content: Callable[..., Any],
        bucket_assigner: BucketAssigner,
        rolling_policy: RollingPolicy,
        file_config: OutputFileConfig,
    ) -> None:
        self._base_path = local_path(base_path)
        self._make_content = make_content
        self._bucket_assigner = bucket_assigner
        self._rolling_policy = rolling_policy
        self._file_config = file_config

    def get_transformer(self) -> None:
        """There is nothing to do before the sink: compaction is not there yet."""
        return

    def create_writer(self, context: WriterContext) -> SinkWriter:
        from flinkpy.connectors.file_sink_writer import FileSinkWriter

        return FileSinkWriter(
            context,
            self._base_path,
            self._make_content,
            self._bucket_assigner,
            self._rolling_policy,
            self._file_config,
        )

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """One record after the other, each encoded by itself; `Encoder.simple_string_encoder()` writes lines.

        Beyond PyFlink: a subclass of Encoder with `encode(record) -> bytes` writes what it likes.
        """
        if not isinstance(encoder, Encoder):
            raise TypeError(f"{encoder!r} is not an Encoder")
        return FileSink.RowFormatBuilder(base_path, partial(_row_content, encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Batches of records: ParquetBulkWriters, CsvBulkWriters."""
        if not isinstance(writer_factory, ColumnBulkWriterFactory):
            raise TypeError(
                f"{writer_factory!r} cannot write files: use ParquetBulkWriters.for_row_type or "
                "CsvBulkWriters.for_schema"
            )
        return FileSink.BulkFormatBuilder(base_path, writer_factory.create)

    class BaseBuilder:
        """Buckets by the hour of processing time unless told otherwise, as Flink does."""

        def __init__(self, base_path: str, make_content: Callable[..., Any], rolling_policy: RollingPolicy) -> None:
            self._base_path = base_path
            self._make_content = make_content
            self._rolling_policy = rolling_policy
            self._bucket_assigner = BucketAssigner.date_time_bucket_assigner()
            self._file_config = OutputFileConfig.builder().build()

        def with_bucket_check_interval(self, interval: int) -> Any:
            """Has no effect: the rolling policy is asked at every write. `interval` in milliseconds."""
            if interval <= 0:
                raise ValueError(f"the bucket check interval must be positive, not {interval}")
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Any:
            if not isinstance(bucket_assigner, BucketAssigner):
                raise TypeError(f"{bucket_assigner!r} is not a BucketAssigner")
            self._bucket_assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Any:
            if not isinstance(output_file_config, OutputFileConfig):
                raise TypeError(f"{output_file_config!r} is not an OutputFileConfig")
            self._file_config = output_file_config
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Any:
            if not isinstance(rolling_policy, RollingPolicy):
                raise TypeError(f"{rolling_policy!r} is not a RollingPolicy")
            self._rolling_policy = rolling_policy
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Any:
            raise UnsupportedOperationError(
                "FileSink.enable_compact: compaction needs checkpoints, which are not there yet"
            )

        def disable_compact(self) -> Any:
            return self

        def build(self) -> FileSink:
            return FileSink(
                self._base_path, self._make_content, self._bucket_assigner, self._rolling_policy, self._file_config
            )

    class RowFormatBuilder(BaseBuilder):
        def __init__(self, base_path: str, make_content: Callable[..., Any]) -> None:
            super().__init__(base_path, make_content, RollingPolicy.default_rolling_policy())

    class BulkFormatBuilder(BaseBuilder):
        def __init__(self, base_path: str, make_content: Callable[..., Any]) -> None:
            super().__init__(base_path, make_content, RollingPolicy.on_checkpoint_rolling_policy())

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Any:
            """Only OnCheckpointRollingPolicy: a bulk file cannot be closed in the middle of a checkpoint."""
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise ValueError("rolling_policy of bulk formats must be OnCheckpointRollingPolicy")
            return super().with_rolling_policy(rolling_policy)


def _row_content(encoder: Encoder, file: Any, input_type: Any) -> Any:
    from flinkpy.connectors.file_sink_writer import RowContent

    return RowContent(file, input_type, encoder)
