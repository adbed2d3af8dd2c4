"""MongoSink: writes documents by bulk requests, at least once or without a guarantee.

Source: org.apache.flink.connector.mongodb.sink.{MongoSink, writer.MongoWriter, config.MongoWriteOptions}.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from flinkpy.connector_api.sink import SendMetrics, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.mongodb.client import MongoConnectionOptions, load_pymongo
from flinkpy.connectors.ordered_worker import OrderedWorker
from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class MongoWriteOptions:
    """When documents are written. Times are in milliseconds.

    Attributes:
        batch_size: the writes of a request; -1: no limit.
        batch_interval_ms: the longest time that a write waits; -1: no limit.
        flushes_on_checkpoint: True for at least once, False without a guarantee.
        is_ordered: True to execute the writes of a request in their order, and to stop at the first error.
        bypasses_validation: True to write documents that the rules of the collection refuse.
    """

    batch_size: int = 1000
    batch_interval_ms: int = 1000
    max_retries: int = 3
    retry_interval_ms: int = 1000
    flushes_on_checkpoint: bool = True
    is_ordered: bool = True
    bypasses_validation: bool = False


class MongoSink(SinkBase):
    """Writes the changes of rows.

    Args:
        requests_of: returns a write of pymongo, such as UpdateOne, for each change of a batch. Pickled into the job.
    """

    def __init__(
        self, connection: MongoConnectionOptions, options: MongoWriteOptions, requests_of: Callable[[Batch], list[Any]]
    ) -> None:
        self.connection = connection
        self.options = options
        self.requests_of = requests_of

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return MongoWriter(context, self)

    def __repr__(self) -> str:
        return f"MongoSink({self.connection.namespace})"


class MongoWriter(SinkWriter):
    """Collects writes, and sends them in their order while the task goes on.

    Thread: task thread. Requests and their retries belong to the thread of an OrderedWorker.
    """

    def __init__(self, context: WriterContext, sink: MongoSink) -> None:
        self._context = context
        self._sink = sink
        self._options = sink.options
        self._client = sink.connection.open_client()
        self._collection = sink.connection.collection_of(self._client)
        self._requests: list[Any] = []
        self._worker = OrderedWorker("mongodb-writer")
        #: Set when the writer is closed. The worker waits on it between two tries.
        self._closed = threading.Event()
        self.send_metrics = self._sends = SendMetrics(num_errors=0, last_send_ms=0)
        if self._options.batch_interval_ms > 0:
            context.schedule_after(self._options.batch_interval_ms, self._on_interval)

    def write(self, batch: Batch) -> None:
        self._requests += self._sink.requests_of(batch)
        size = self._options.batch_size
        while 0 < size <= len(self._requests):
            self._submit(size)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input or self._options.flushes_on_checkpoint:
            self._submit(len(self._requests))
            self._worker.wait_until_done()

    def close(self) -> None:
        self._closed.set()
        self._worker.close(self._client.close)

    def _on_interval(self, _: int) -> None:
        self._submit(len(self._requests))
        self._context.schedule_after(self._options.batch_interval_ms, self._on_interval)

    def _submit(self, number: int) -> None:
        taken, self._requests = self._requests[:number], self._requests[number:]
        if taken:
            self._worker.submit(partial(self._send, taken))

    def _send(self, requests: list[Any]) -> None:
        """Sends a request until it succeeds. Thread: the worker's. Raises: MongoError after the last try."""
        pymongo, options, connection = load_pymongo(), self._options, self._sink.connection
        for attempt in range(options.max_retries + 1):
            began_s = time.monotonic()
            try:
                self._collection.bulk_write(
                    requests,
                    ordered=options.is_ordered,
                    # Unless asked for, the field is not sent: some servers do not know it.
                    bypass_document_validation=options.bypasses_validation or None,
                )
                self._sends.last_send_ms = int((time.monotonic() - began_s) * 1000)
                return
            except (pymongo.errors.PyMongoError, OverflowError, ValueError) as error:
                self._sends.num_errors = (self._sends.num_errors or 0) + len(requests)
                failed = connection.error(f"writing {len(requests)} changes{_first_refused(error)}", error)
                # Documents that cannot be encoded never can.
                if attempt == options.max_retries or not isinstance(error, pymongo.errors.PyMongoError):
                    raise failed from error
                _LOG.warning("try %d failed: %s", attempt + 1, failed.message)
                if self._closed.wait(options.retry_interval_ms * (attempt + 1) / 1000):
                    raise failed from error


def _first_refused(error: Exception) -> str:
    """Returns the reason why the server refused the first write, for messages."""
    refused = (getattr(error, "details", None) or {}).get("writeErrors") or ()
    return f", {refused[0].get('errmsg')}" if refused else ""
