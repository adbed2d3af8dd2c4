"""ElasticsearchSink: documents by bulk requests, at least once or without a guarantee.

Source: org.apache.flink.connector.elasticsearch.sink.{ElasticsearchSink,ElasticsearchWriter}.
"""

from __future__ import annotations

import http.client
import logging
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flinkpy.common.errors import ElasticsearchError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.elasticsearch.bulk_client import RETRYABLE, Action, BulkClient, ConnectionSettings, Refusal
from flinkpy.connectors.elasticsearch.emitter import ElasticsearchEmitter
from flinkpy.records.batch import Batch

_logger = logging.getLogger(__name__)


class FlushBackoffType(Enum):
    """How long to wait before what was refused is sent again: as long each time, ever longer, or not at all."""

    CONSTANT = (0,)
    EXPONENTIAL = (1,)
    NONE = (2,)


@dataclass(frozen=True)
class BulkSettings:
    """-1: no such limit."""

    max_actions: int = 1_000
    max_size_mb: int = -1
    interval_ms: int = -1
    backoff: FlushBackoffType = FlushBackoffType.NONE
    max_retries: int = 0
    delay_ms: int = 0

    def pause_s(self, retry: int) -> float:
        """Before that retry, counted from 0."""
        factor = 2**retry if self.backoff is FlushBackoffType.EXPONENTIAL else 1
        return self.delay_ms * factor / 1000


class ElasticsearchSink(SinkBase):
    """Made by `Elasticsearch7SinkBuilder` or `Elasticsearch6SinkBuilder`."""

    def __init__(
        self,
        j_elasticsearch_sink: ElasticsearchEmitter,
        connection: ConnectionSettings,
        bulk: BulkSettings,
        flushes_on_checkpoint: bool,
    ) -> None:
        self.emitter = j_elasticsearch_sink
        self.connection = connection
        self.bulk = bulk
        self.flushes_on_checkpoint = flushes_on_checkpoint

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return ElasticsearchWriter(context, self)


class ElasticsearchWriter(SinkWriter):
    """Thread: task thread."""

    def __init__(self, context: WriterContext, sink: ElasticsearchSink) -> None:
        self._context = context
        self._sink = sink
        self._bulk = sink.bulk
        self._client = BulkClient(sink.connection)
        self._actions: list[Action] = []
        self._size = 0
        self._max_bytes = sink.bulk.max_size_mb << 20 if sink.bulk.max_size_mb > 0 else None
        #: Never set: to wait a little between two tries.
        self._pause = threading.Event()
        if sink.bulk.interval_ms > 0:
            context.schedule_after(sink.bulk.interval_ms, self._on_interval)

    def write(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        make_action, max_actions, max_bytes = self._sink.emitter.action, self._bulk.max_actions, self._max_bytes
        for record in rows_of(batch, self._context.input_type):
            action = make_action(record)
            self._actions.append(action)
            self._size += len(action.lines)
            if len(self._actions) == max_actions or (max_bytes is not None and self._size >= max_bytes):
                self._send()

    def flush(self, end_of_input: bool) -> None:
        if end_of_input or self._sink.flushes_on_checkpoint:
            self._send()

    def close(self) -> None:
        self._client.close()

    def _on_interval(self, _: int) -> None:
        self._send()
        self._context.schedule_after(self._bulk.interval_ms, self._on_interval)

    def _send(self) -> None:
        """All that waits. Raises: ElasticsearchError after the last try, or where trying again is no use."""
        actions, self._actions, self._size = self._actions, [], 0
        retry = 0
        while actions:
            refused = self._try(actions)
            hopeless = next((refusal for refusal in refused if refusal.status not in RETRYABLE), None)
            if hopeless is not None:
                raise _error(hopeless)
            if refused and not self._may_retry(retry):
                raise _error(refused[0])
            if refused:
                _logger.warning("Elasticsearch refused %d of %d actions: %s", len(refused), len(actions), refused[0])
                self._pause.wait(self._bulk.pause_s(retry))
                retry += 1
            actions = [refusal.action for refusal in refused]

    def _try(self, actions: list[Action]) -> list[Refusal]:
        host = self._client.host
        try:
            return self._client.send(actions)
        except (OSError, http.client.HTTPException) as error:
            reason = f"Elasticsearch at {host}: {type(error).__name__}: {error}"
            return [Refusal(action, 503, reason) for action in actions]

    def _may_retry(self, retry: int) -> bool:
        return self._bulk.backoff is not FlushBackoffType.NONE and retry < self._bulk.max_retries


def _error(refusal: Refusal) -> ElasticsearchError:
    action = refusal.action
    name: Any = "without an id" if action.document_id is None else repr(action.document_id)
    return ElasticsearchError(
        f"index {action.index!r}, document {name}: {refusal.status}, {refusal.reason}",
        details={"index": action.index, "status": str(refusal.status)},
    )
