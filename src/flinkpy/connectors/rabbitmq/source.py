"""QueueSource: reads a queue of RabbitMQ.

With checkpoints, the reader acknowledges messages when a checkpoint that contains them is complete. After a failure the
server redelivers the others, so each message is read at least once. If messages have unique correlation ids, a
checkpoint also contains the ids of messages that the server may redeliver, and the reader drops those. This is exactly
once with one subtask only, because the server may redeliver a message to any subtask. Without checkpoints, the server
forgets messages as soon as it has sent them.

Source: org.apache.flink.streaming.connectors.rabbitmq.RMQSource, MultipleIdsMessageAcknowledgingSourceBase.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkpy.common.errors import FlinkError, RabbitMQError, UserError
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.rabbitmq.connection_config import RMQConnectionConfig, load_pika
from flinkpy.connectors.source_reader_base import FetcherThreads
from flinkpy.formats.bad_records import BadRecordReporter
from flinkpy.formats.schema import decode_messages, on_error_of, produced_type_of
from flinkpy.records.batch import Batch

_logger = logging.getLogger(__name__)

#: Messages that may wait for the task. Above this number the thread reads no more, so the server has to wait.
_MAX_WAITING = 10_000
#: How long the thread waits for messages before it looks for acknowledgements to send.
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class QueueSplit:
    """The state of one reader: the correlation ids of emitted messages that the server may redeliver."""

    emitted_ids: frozenset[str] = frozenset()


class QueueSource(SourceBase):
    """Reads messages with all subtasks; the server decides which subtask gets a message."""

    def __init__(
        self, config: RMQConnectionConfig, queue: str, uses_correlation_id: bool, deserialization_schema: Any
    ) -> None:
        self.config = config
        self.queue = queue
        self.uses_correlation_id = uses_correlation_id
        self.schema = deserialization_schema

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> Any:
        return produced_type_of(self.schema)

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return _EveryReaderEnumerator(context)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return _EveryReaderEnumerator(context)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        if self.uses_correlation_id and context.parallelism > 1 and context.subtask_index == 0:
            _logger.warning(
                "RabbitMQ queue %s is read by %d subtasks. After a failure the server may redeliver a message to a "
                "subtask that does not know its correlation id. For exactly-once delivery set the source's parallelism "
                "to 1.",
                self.queue,
                context.parallelism,
            )
        return QueueReader(context, self)


class _EveryReaderEnumerator(SplitEnumerator):
    """Gives every reader that asks an empty split."""

    def __init__(self, context: SplitEnumeratorContext) -> None:
        self._context = context

    def start(self) -> None:
        return

    def handle_split_request(self, subtask_index: int) -> None:
        self._context.assign_splits({subtask_index: [QueueSplit()]})

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        """Does nothing: the restarted reader asks again."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        return None


class Delivery(NamedTuple):
    """A message as the server delivered it.

    Attributes:
        connection: the number of the connection it came on, because tags are unique per connection only.
        tag: the delivery tag, by which it is acknowledged.
        is_redelivered: True if the server may have sent it before. A message that was not redelivered comes after all
            redelivered ones.
    """

    connection: int
    tag: int
    is_redelivered: bool
    correlation_id: str | None
    body: bytes


class QueueConsumer(FetcherThreads):
    """A thread that receives the messages of a queue and acknowledges them.

    A connection of pika belongs to one thread, so the task leaves acknowledgements in a queue for the thread to send.

    Thread: public methods are called by the task thread.

    Args:
        acknowledges: True if the server keeps messages until `acknowledge`; False if it forgets them once sent.
        reconnects: True to connect again after a connection breaks. The server then redelivers unacknowledged messages.
        notify: called by the thread when `take` has messages or an error.
    """

    def __init__(
        self,
        config: RMQConnectionConfig,
        queue: str,
        acknowledges: bool,
        reconnects: bool,
        notify: Callable[[], None],
    ) -> None:
        super().__init__("RabbitMQ", notify)
        self._config = config
        self._queue = queue
        self._acknowledges = acknowledges
        self._reconnects = reconnects
        self._waiting: deque[Delivery] = deque()
        self._has_room = threading.Event()
        self._has_room.set()
        self._to_acknowledge: deque[tuple[int, int, Any]] = deque()
        self._acknowledged: deque[Any] = deque()
        #: The number of connections opened so far.
        self._connection_number = 0

    def start(self) -> None:
        """Raises: UnsupportedOperationError if pika is not installed."""
        load_pika()
        self._start_thread(f"rabbitmq {self._queue}", self._consume_until_closed)

    def take(self, limit: int) -> list[Delivery]:
        """Returns up to `limit` messages, oldest first. Raises: RabbitMQError if the thread has failed."""
        waiting = self._waiting
        taken = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        if len(waiting) < _MAX_WAITING // 2:
            self._has_room.set()
        if not taken and self._error is not None:
            raise self._error
        return taken

    def acknowledge(self, connection: int, tag: int, token: Any) -> None:
        """Acknowledges all messages of a connection up to `tag`, asynchronously. `token` identifies the request."""
        self._to_acknowledge.append((connection, tag, token))

    def take_acknowledged(self) -> list[Any]:
        """Returns the tokens of acknowledgements that the server has committed since the last call."""
        acknowledged = self._acknowledged
        return [acknowledged.popleft() for _ in range(len(acknowledged))]

    def _wake_threads(self) -> None:
        self._has_room.set()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _consume_until_closed(self) -> None:
        while not self._closed.is_set():
            try:
                self._consume()
            except Exception as error:
                if isinstance(error, FlinkError):
                    raise
                where = f"{self._config.server}, queue {self._queue!r}: {_text(error)}"
                if self._is_fatal(error):
                    raise RabbitMQError(where) from error
                _logger.warning("%s; connecting again", where)
                self._closed.wait(self._config.recovery_pause_s)

    def _is_fatal(self, error: Exception) -> bool:
        """True unless the consumer may reconnect, the connection broke, and it had been open before.

        A refusal by the server is always fatal.
        """
        exceptions = load_pika().exceptions
        refusals = (
            exceptions.ChannelClosedByBroker,
            exceptions.ProbableAuthenticationError,
            exceptions.ProbableAccessDeniedError,
        )
        is_of_connection = isinstance(error, (exceptions.AMQPError, OSError))
        return (
            not self._reconnects or not is_of_connection or isinstance(error, refusals) or self._connection_number == 0
        )

    def _consume(self) -> None:
        """Receives messages until the connection breaks or the consumer is closed."""
        connection = self._config.connect()
        try:
            channel = connection.channel()
            channel.queue_declare(self._queue, durable=True)
            if self._config.prefetch_count:
                channel.basic_qos(prefetch_count=self._config.prefetch_count)
            if self._acknowledges:
                # The commit of a transaction tells when the server has taken an acknowledgement.
                channel.tx_select()
            self._connection_number += 1
            channel.basic_consume(self._queue, self._on_message, auto_ack=not self._acknowledges)
            while not self._closed.is_set():
                # The wait ends in time to answer heartbeats while there is no room.
                self._has_room.wait(1.0)
                connection.process_data_events(_POLL_S)
                self._acknowledge_on(channel)
        finally:
            if connection.is_open:
                connection.close()

    def _on_message(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        tag, is_redelivered = method.delivery_tag, method.redelivered
        self._waiting.append(Delivery(self._connection_number, tag, is_redelivered, properties.correlation_id, body))
        if len(self._waiting) >= _MAX_WAITING:
            self._has_room.clear()
        self._notify()

    def _acknowledge_on(self, channel: Any) -> None:
        last = 0
        done = []
        while self._to_acknowledge:
            connection, tag, token = self._to_acknowledge.popleft()
            if connection == self._connection_number:
                last = max(last, tag)
                done.append(token)
        if last:
            channel.basic_ack(last, multiple=True)
            channel.tx_commit()
            self._acknowledged.extend(done)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else repr(error)


class QueueReader(SourceReader):
    """Emits the messages that its consumer receives. Thread: task thread."""

    def __init__(self, context: SourceReaderContext, source: QueueSource) -> None:
        self._context = context
        self._source = source
        self._acknowledges = context.is_checkpointing_enabled
        # Duplicates are recognised by the ids in a checkpoint. So with ids a broken connection must restart the job.
        reconnects = source.config.recovers and not (self._acknowledges and source.uses_correlation_id)
        self._consumer = QueueConsumer(
            source.config, source.queue, self._acknowledges, reconnects, context.notify_available
        )
        self._bad_records = BadRecordReporter(context, on_error_of(source.schema))
        self._is_reading = False
        #: The connection and tag of the newest message since the last checkpoint, and the ids of all of them.
        self._last: tuple[int, int] | None = None
        self._ids: set[str] = set()
        #: The same for each checkpoint that is not complete.
        self._checkpoints: dict[int, tuple[tuple[int, int] | None, frozenset[str]]] = {}
        #: Ids of all emitted messages that the server may redeliver.
        self._emitted_ids: set[str] = set()
        #: The ids restored from a checkpoint, until the server has sent its first message that is not a redelivery.
        self._restored_ids: set[str] = set()

    def start(self) -> None:
        self._consumer.start()
        if not self._is_reading:
            self._context.send_split_request()

    def add_splits(self, splits: list[QueueSplit]) -> None:
        self._is_reading = True
        for split in splits:
            self._emitted_ids |= split.emitted_ids
            self._restored_ids |= split.emitted_ids
        self._context.notify_available()

    def notify_no_more_splits(self) -> None:
        return

    def poll_batch(self) -> Batch | ReaderStatus:
        if not self._is_reading:
            return ReaderStatus.NOTHING_AVAILABLE
        deliveries = self._consumer.take(self._context.max_batch_rows)
        if not deliveries:
            return ReaderStatus.NOTHING_AVAILABLE
        if self._acknowledges:
            newest = deliveries[-1]
            self._last = (newest.connection, newest.tag)
            if self._source.uses_correlation_id:
                deliveries = [delivery for delivery in deliveries if self._is_new(delivery)]
        decoded = decode_messages(
            self._source.schema,
            [delivery.body for delivery in deliveries],
            lambda index: f"RabbitMQ queue {self._source.queue}, delivery {deliveries[index].tag}",
        )
        self._bad_records.report(decoded.bad)
        if not decoded.batch.num_rows:
            self._context.notify_available()
            return ReaderStatus.NOTHING_AVAILABLE
        return decoded.batch

    def _is_new(self, delivery: Delivery) -> bool:
        correlation_id = delivery.correlation_id
        if correlation_id is None:
            raise UserError(
                f"RabbitMQ queue {self._source.queue}: a message has no correlation id, but the source was created "
                "with use_correlation_id"
            )
        if self._restored_ids and not delivery.is_redelivered:
            # All redeliveries have come. The server had forgotten the other restored messages before the failure.
            self._ids |= self._restored_ids
            self._restored_ids = set()
        self._ids.add(correlation_id)
        if correlation_id in self._emitted_ids:
            return False
        self._emitted_ids.add(correlation_id)
        return True

    def snapshot_state(self, checkpoint_id: int) -> list[QueueSplit]:
        for ids in self._consumer.take_acknowledged():
            self._emitted_ids -= ids
        self._checkpoints[checkpoint_id] = (self._last, frozenset(self._ids))
        self._last, self._ids = None, set()
        return [QueueSplit(frozenset(self._emitted_ids))] if self._is_reading else []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledges the messages of this checkpoint and of earlier ones, which may have been aborted."""
        newest: tuple[int, int] | None = None
        all_ids: set[str] = set()
        for known in [known for known in self._checkpoints if known <= checkpoint_id]:
            last, ids = self._checkpoints.pop(known)
            newest = last or newest
            all_ids |= ids
        if newest is not None:
            self._consumer.acknowledge(*newest, all_ids)

    def close(self) -> None:
        self._consumer.close()
