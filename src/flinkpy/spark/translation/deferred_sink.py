"""DeferredSink: a sink whose committables are collected where it writes, to be committed by the driver.

Spark tells the driver only what attempts have given that succeeded. So what a failed or a slower attempt has prepared
is never committed.
"""

from __future__ import annotations

from typing import Any

from flinkpy.connector_api.serializer import write_versioned
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext


class DeferredSink(SinkBase):
    """Writes as `sink`; the committables, serialized, are appended to `committables`."""

    def __init__(self, sink: SinkBase, committables: list[bytes]) -> None:
        self._sink = sink
        self._committables = committables

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self._sink.create_writer(context)

    def create_committer(self) -> Committer | None:
        """None where the sink has none: what it writes is visible at once, and again when Spark tries again."""
        committer = self._sink.create_committer()
        if committer is None:
            return None
        committer.close()
        return _CollectingCommitter(self._sink, self._committables)

    @property
    def sink_function(self) -> Any:
        return self._sink.sink_function

    @property
    def coordinator_provider(self) -> Any:
        return self._sink.coordinator_provider


class _CollectingCommitter(Committer):
    def __init__(self, sink: SinkBase, committables: list[bytes]) -> None:
        self._serializer = sink.committable_serializer
        self._committables = committables

    def commit(self, requests: list[CommitRequest]) -> None:
        self._committables.extend(write_versioned(self._serializer, request.get_committable()) for request in requests)
