"""StreamingFileSink: FileSink's predecessor, under its old names."""

from __future__ import annotations

from typing import Any

from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import RollingPolicy


class StreamingFileSink(FileSink):
    """Writes as FileSink does; use that one. Source: pyflink.datastream.connectors.file_system.StreamingFileSink."""

    class BaseBuilder(FileSink.BaseBuilder):
        """Builds a sink."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Any:
            return super().with_rolling_policy(policy)

    class DefaultRowFormatBuilder(FileSink.RowFormatBuilder):
        """Builds a sink for records that are encoded one by one."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Any:
            return super().with_rolling_policy(policy)

    class DefaultBulkFormatBuilder(FileSink.BulkFormatBuilder):
        """Builds a sink for batches of records."""

        def with_rolling_policy(self, policy: RollingPolicy) -> Any:
            return super().with_rolling_policy(policy)

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        make_content = FileSink.for_row_format(base_path, encoder)._make_content
        return StreamingFileSink.DefaultRowFormatBuilder(base_path, make_content)

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: BulkWriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        make_content = FileSink.for_bulk_format(base_path, writer_factory)._make_content
        return StreamingFileSink.DefaultBulkFormatBuilder(base_path, make_content)
