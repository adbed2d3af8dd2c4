"""StreamingFileSink: FileSink's predecessor, under its old names."""

from __future__ import annotations

from flinkpy.common.serialization import BulkWriterFactory, Encoder
from flinkpy.connectors.file_sink import FileSink


class StreamingFileSink(FileSink):
    """Writes as FileSink does; use that one. Source: pyflink.datastream.connectors.file_system.StreamingFileSink."""

    class BaseBuilder(FileSink.BaseBuilder):
        """Builds a sink."""

    class DefaultRowFormatBuilder(FileSink.RowFormatBuilder):
        """Builds a sink for records that are encoded one by one."""

    class DefaultBulkFormatBuilder(FileSink.BulkFormatBuilder):
        """Builds a sink for batches of records."""

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        return FileSink.for_row_format(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        return FileSink.for_bulk_format(base_path, writer_factory)
