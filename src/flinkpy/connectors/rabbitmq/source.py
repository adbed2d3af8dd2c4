"""RabbitMQ's queue as a source.

With checkpoints, a message is acknowledged when a checkpoint that is behind it has been completed; after a failure the
server sends again what was not. So records come at least once. Where messages have correlation ids that are unique, a
checkpoint also has the ids of those that the server may send again, which are then left out: exactly once, in one
subtask (a message may come again to any). Without checkpoints messages are gone when they are sent.

Source: org.apache.flink.streaming.connectors.rabbitmq.RMQSource, MultipleIdsMessageAcknowledgingSourceBase.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import UserError
from flinkpy.connector_api.source import (
    Boundedness,
    ReaderStatus,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.rabbitmq.connection_config import RMQConnectionConfig
from flinkpy.connectors.rabbitmq.consumer import Delivery, QueueConsumer
from flinkpy.formats.bad_records import BadRecordReporter
from flinkpy.formats.schema import decode_messages, on_error_of, produced_type_of
from flinkpy.records.batch import Batch

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueSplit:
    """One reader's part in the queue: the ids of messages that it has emitted, and the server may send again."""

    emitted_ids: frozenset[str] = frozenset()


class QueueSource(SourceBase):
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
                "queue %s is read by %d subtasks: after a failure a message may come again to another one, which does "
                "not know its correlation id; for exactly once set the parallelism of the source to 1",
                self.queue,
                context.parallelism,
            )
        return QueueReader(context, self)


class _EveryReaderEnumerator(SplitEnumerator):
    """Every reader takes part in the queue; who gets which message the server decides."""

    def __init__(self, context: SplitEnumeratorContext) -> None:
        self._context = context

    def start(self) -> None:
        return

    def handle_split_request(self, subtask_index: int) -> None:
        self._context.assign_splits({subtask_index: [QueueSplit()]})

    def add_splits_back(self, splits: list[Any], subtask_index: int) -> None:
        """The reader asks again when it is back."""

    def snapshot_state(self, checkpoint_id: int) -> None:
        return None


class QueueReader(SourceReader):
    """Thread: task thread."""

    def __init__(self, context: SourceReaderContext, source: QueueSource) -> None:
        self._context = context
        self._source = source
        self._acknowledges = context.is_checkpointing_enabled
        # Ids that are left out are those of a checkpoint: then it is the job that recovers, not the connection.
        reconnects = source.config.recovers and not (self._acknowledges and source.uses_correlation_id)
        self._consumer = QueueConsumer(
            source.config, source.queue, self._acknowledges, reconnects, context.notify_available
        )
        self._bad_records = BadRecordReporter(context, on_error_of(source.schema))
        self._is_reading = False
        #: The newest message, and the ids, since the last checkpoint; and of each checkpoint that is not complete.
        self._last: tuple[int, int] | None = None
        self._ids: set[str] = set()
        self._checkpoints: dict[int, tuple[tuple[int, int] | None, frozenset[str]]] = {}
        #: Ids of everything emitted that the server may send again.
        self._emitted_ids: set[str] = set()
        #: Those of them that it may have to send again to this attempt first.
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
                f"RabbitMQ queue {self._source.queue}: a message without a correlation id, and the source was made "
                "with use_correlation_id"
            )
        if self._restored_ids and not delivery.is_redelivered:
            # What was to come again has come; the rest the server had forgotten in time.
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
        """Also of those before it, which may have been aborted."""
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
