"""ElasticsearchSink: writes documents with bulk requests, at least once or without a guarantee.

Source: org.apache.flink.connector.elasticsearch.sink.{ElasticsearchSink,ElasticsearchWriter,MapElasticsearchEmitter}.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import http.client
import json
import logging
import threading
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Protocol

from flinkpy.common.errors import ElasticsearchError, TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.connector_api.sink import SendMetrics, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.elasticsearch.bulk_client import RETRYABLE, Action, BulkClient, ConnectionSettings, Refusal
from flinkpy.connectors.ordered_worker import OrderedWorker
from flinkpy.records.batch import Batch

_logger = logging.getLogger(__name__)


class ElasticsearchEmitter:
    """Turns records into documents. Records are dicts, or Rows with field names.

    With a key field, the key is the id of the document, so that a later record replaces an earlier one with the same
    key. Without one, Elasticsearch creates an id, and every record becomes a document.

    Example:
        >>> emitter = ElasticsearchEmitter.static_index("orders", key_field="id")
    """

    def __init__(self, j_emitter: str, doc_type: str | None, key_field: str | None, is_dynamic_index: bool) -> None:
        self._index = j_emitter
        self._doc_type = doc_type
        self._key_field = key_field
        self._is_dynamic_index = is_dynamic_index

    @staticmethod
    def static_index(index: str, key_field: str | None = None, doc_type: str | None = None) -> ElasticsearchEmitter:
        """Writes all records to one index.

        Args:
            index: the name of the index.
            key_field: the field whose value is the document's id; None to let Elasticsearch create ids.
            doc_type: the document type, which only Elasticsearch 6 needs.
        """
        return ElasticsearchEmitter(index, doc_type, key_field, False)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Writes each record to the index that one of its fields names.

        Args:
            index_field: the field that contains the name of the index.
            key_field: the field whose value is the document's id; None to let Elasticsearch create ids.
            doc_type: the document type, which only Elasticsearch 6 needs.
        """
        return ElasticsearchEmitter(index_field, doc_type, key_field, True)

    def actions(self, batch: Batch, input_type: Any, now_ms: int) -> list[Action]:
        """Returns the actions that store the records of a batch. Raises: as `action`."""
        from flinkpy.records.lanes import rows_of

        return [self.action(record) for record in rows_of(batch, input_type)]

    def action(self, record: Any) -> Action:
        """Returns the action that stores a record.

        Raises: TypeMismatchError if the record has no index or key field, or has no JSON form.
        """
        document = record.as_dict(True) if isinstance(record, Row) else record
        if not isinstance(document, dict):
            raise TypeMismatchError(f"the Elasticsearch sink takes dicts and Rows with field names, not {record!r}")
        index = str(_field(document, self._index)) if self._is_dynamic_index else self._index
        meta = {"_index": index}
        if self._doc_type is not None:
            meta["_type"] = self._doc_type
        key = None
        if self._key_field is not None:
            key = meta["_id"] = str(_field(document, self._key_field))
        try:
            body = json.dumps(document, default=_as_json, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise TypeMismatchError(f"{record!r} cannot be a JSON document: {error}") from error
        head = json.dumps({"index": meta}, ensure_ascii=False)
        return Action(f"{head}\n{body}\n".encode(), index, key)


def _field(document: dict[str, Any], name: str) -> Any:
    value = document.get(name)
    if value is None:
        raise TypeMismatchError(f"the record {document!r} has no field {name!r}, which its index or its key is made of")
    return value


def _as_json(value: Any) -> Any:
    """Returns the form in which Elasticsearch reads values of types that JSON does not have."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no JSON form")


class FlushBackoffType(Enum):
    """The pause before refused documents are sent again.

    CONSTANT pauses are equally long, EXPONENTIAL ones double. With NONE the first refusal fails the job.
    """

    CONSTANT = (0,)
    EXPONENTIAL = (1,)
    NONE = (2,)


class FailureHandling(Enum):
    """The ways to treat actions that the cluster refuses.

    FAIL fails the job. IGNORE drops the actions. RETRY_REJECTED repeats those that a full queue refused (status 429)
    until they are taken, and fails the job for others.
    """

    FAIL = "fail"
    IGNORE = "ignore"
    RETRY_REJECTED = "retry-rejected"


#: The status of actions that a full queue of the cluster refused.
_REJECTED = 429
#: The shortest pause before rejected actions are sent again, so that a full queue can empty.
_REJECTED_PAUSE_S = 0.05


@dataclass(frozen=True)
class BulkSettings:
    """The limits at which a bulk request is sent, and its retries. A limit of -1 means no limit.

    Attributes:
        on_failure: what is done about actions that no retry has helped.
    """

    max_actions: int = 1_000
    max_size_mb: int = -1
    interval_ms: int = -1
    backoff: FlushBackoffType = FlushBackoffType.NONE
    max_retries: int = 0
    delay_ms: int = 0
    on_failure: FailureHandling = FailureHandling.FAIL

    def pause_s(self, retry: int) -> float:
        """Returns the pause before a retry; the first retry is 0."""
        factor = 2**retry if self.backoff is FlushBackoffType.EXPONENTIAL else 1
        return self.delay_ms * factor / 1000


class BulkEmitter(Protocol):
    """Turns batches into actions. Pickled into the job. Thread: task thread."""

    def actions(self, batch: Batch, input_type: Any, now_ms: int) -> list[Action]:
        """Returns one or no action for each record. `now_ms` is the present time in milliseconds since 1970."""
        ...


class ElasticsearchSink(SinkBase):
    """Writes documents. Create it with `Elasticsearch7SinkBuilder` or `Elasticsearch6SinkBuilder`."""

    def __init__(
        self,
        j_elasticsearch_sink: BulkEmitter,
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
    """Collects actions, and sends them in bulk requests in their order while the task goes on.

    Thread: task thread. Requests and their retries belong to the thread of an OrderedWorker.
    """

    def __init__(self, context: WriterContext, sink: ElasticsearchSink) -> None:
        self._context = context
        self._sink = sink
        self._bulk = sink.bulk
        self._client = BulkClient(sink.connection)
        self.send_metrics = self._sends = SendMetrics(num_bytes=0, num_errors=0, last_send_ms=0)
        self._actions: list[Action] = []
        self._size = 0
        self._max_bytes = sink.bulk.max_size_mb << 20 if sink.bulk.max_size_mb > 0 else None
        self._worker = OrderedWorker("elasticsearch-writer")
        #: Set when the writer is closed. The worker waits on it between two tries.
        self._closed = threading.Event()
        if sink.bulk.interval_ms > 0:
            context.schedule_after(sink.bulk.interval_ms, self._on_interval)

    def write(self, batch: Batch) -> None:
        context, max_actions, max_bytes = self._context, self._bulk.max_actions, self._max_bytes
        for action in self._sink.emitter.actions(batch, context.input_type, context.current_processing_time()):
            self._actions.append(action)
            self._size += len(action.lines)
            if len(self._actions) == max_actions or (max_bytes is not None and self._size >= max_bytes):
                self._submit()

    def flush(self, end_of_input: bool) -> None:
        if end_of_input or self._sink.flushes_on_checkpoint:
            self._submit()
            self._worker.wait_until_done()

    def close(self) -> None:
        self._closed.set()
        self._worker.close(self._client.close)

    def _on_interval(self, _: int) -> None:
        self._submit()
        self._context.schedule_after(self._bulk.interval_ms, self._on_interval)

    def _submit(self) -> None:
        """Lets the worker send all collected actions. Raises: the error of an earlier request."""
        actions, self._actions, self._size = self._actions, [], 0
        if actions:
            self._worker.submit(partial(self._send, actions))

    def _send(self, actions: list[Action]) -> None:
        """Sends actions until none is refused. Thread: the worker's.

        Raises: ElasticsearchError after the last try, if a retry cannot help, or if the writer is closed meanwhile.
        """
        retry = 0
        while actions:
            began_ms = self._context.current_processing_time()
            refused = self._try(actions)
            self._count(actions, refused, self._context.current_processing_time() - began_ms)
            again = [refusal for refusal in refused if self._may_retry(refusal, retry)]
            given_up = [refusal for refusal in refused if not self._may_retry(refusal, retry)]
            if given_up and self._bulk.on_failure is not FailureHandling.IGNORE:
                raise _error(next((each for each in given_up if each.status not in RETRYABLE), given_up[0]))
            if given_up:
                _logger.warning("dropped %d actions that were refused: %s", len(given_up), _error(given_up[0]))
            if again:
                _logger.warning("Elasticsearch refused %d of %d actions: %s", len(again), len(actions), again[0])
                if self._closed.wait(self._pause_s(again, retry)):
                    raise _error(again[0])
                retry += 1
            actions = [refusal.action for refusal in again]

    def _try(self, actions: list[Action]) -> list[Refusal]:
        host = self._client.host
        try:
            return self._client.send(actions)
        except (OSError, http.client.HTTPException) as error:
            reason = f"Elasticsearch at {host}: {type(error).__name__}: {error}"
            return [Refusal(action, 503, reason) for action in actions]

    def _count(self, actions: list[Action], refused: list[Refusal], duration_ms: int) -> None:
        sends = self._sends
        sent_bytes = sum(len(action.lines) for action in actions)
        refused_bytes = sum(len(refusal.action.lines) for refusal in refused)
        sends.num_bytes = (sends.num_bytes or 0) + sent_bytes - refused_bytes
        sends.num_errors = (sends.num_errors or 0) + len(refused)
        sends.last_send_ms = max(0, duration_ms)

    def _may_retry(self, refusal: Refusal, retry: int) -> bool:
        if self._bulk.on_failure is FailureHandling.RETRY_REJECTED and refusal.status == _REJECTED:
            return True
        has_tries = self._bulk.backoff is not FlushBackoffType.NONE and retry < self._bulk.max_retries
        return refusal.status in RETRYABLE and has_tries

    def _pause_s(self, refused: list[Refusal], retry: int) -> float:
        # Rejected actions may be repeated without end, so the pause stops to grow with the last regular retry.
        pause_s = self._bulk.pause_s(min(retry, max(self._bulk.max_retries - 1, 0)))
        return max(pause_s, _REJECTED_PAUSE_S) if self._bulk.on_failure is FailureHandling.RETRY_REJECTED else pause_s


def _error(refusal: Refusal) -> ElasticsearchError:
    action = refusal.action
    name: Any = "without an id" if action.document_id is None else repr(action.document_id)
    return ElasticsearchError(
        f"index {action.index!r}, document {name}: {refusal.status}, {refusal.reason}",
        details={"index": action.index, "status": str(refusal.status)},
    )
