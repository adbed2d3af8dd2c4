"""StreamingFileSink: FileSink's predecessor, under its old names, for `add_sink`."""

from __future__ import annotations

from typing import Any

from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.sink_function import SinkFunction


class StreamingFileSink(FileSink, SinkFunction):
    """Writes as FileSink does; use that one. `add_sink` and `sink_to` both take it.

    Source: pyflink.datastream.connectors.file_system.StreamingFileSink. Differs: in a job without checkpoints its files
    become visible at the end of the input, as FileSink's do, instead of never.
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
