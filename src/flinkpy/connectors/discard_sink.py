"""DiscardingSink: a sink that drops all records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch


class DiscardingSink(SinkBase):
    """Drops every record. Source: org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _DiscardingWriter()

    @property
    def supports_concurrent_attempts(self) -> bool:
        return True


class _DiscardingWriter(SinkWriter):
    def write(self, batch: Batch) -> None:
        return


DiscardSink = DiscardingSink
