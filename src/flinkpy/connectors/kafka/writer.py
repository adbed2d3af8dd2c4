"""The writers of KafkaSink.

KafkaWriter delivers at least once, or without a guarantee. ExactlyOnceKafkaWriter writes one transaction from
checkpoint to checkpoint:

    write -> begin <id of the next checkpoint> -> produce ...       (nothing is visible)
    barrier -> flush -> KafkaCommittable(id, producer id, epoch)    (all is stored; the checkpoint has the committable)
    checkpoint complete -> KafkaCommitter ends the transaction      (all is visible)

Source: org.apache.flink.connector.kafka.sink.KafkaWriter and ExactlyOnceKafkaWriter. Differs: the committer always
ends a transaction by its name and the identity of its producer, not only after a failure (decision 0016). So a producer
lives no longer than its transaction. The names of transactions tell which of them earlier attempts have left behind.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import SendMetrics, SinkWriter, StatefulSinkWriter, WriterContext
from flinkpy.connectors.kafka.record_producer import RecordProducer
from flinkpy.connectors.kafka.serialization import KafkaRecordSerializationSchema, KafkaSinkContext
from flinkpy.connectors.kafka.transaction_client import KafkaCommittable, TransactionClient
from flinkpy.connectors.kafka.transaction_log import TransactionLog
from flinkpy.connectors.kafka.transactions import (
    IDS_PER_SUBTASK,
    LingeringTransactions,
    TransactionalProducer,
    TransactionName,
)
from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: The longest time a cancelled task waits for a broker that is gone.
CLOSE_TIMEOUT_S = 5.0


class KafkaWriter(SinkWriter):
    """Writes without transactions.

    Thread: task thread.

    Args:
        flushes: store all written records before each checkpoint. Otherwise only the end of the input waits for them.
        logs_failures: log records that Kafka did not store, instead of failing.
    """

    def __init__(
        self,
        context: WriterContext,
        settings: dict[str, Any],
        schema: KafkaRecordSerializationSchema,
        flushes: bool,
        logs_failures: bool = False,
    ) -> None:
        self._input_type = context.input_type
        self._schema = schema
        self._flushes = flushes
        self.send_metrics = SendMetrics(num_bytes=0, num_errors=0, last_send_ms=0)
        self._producer = RecordProducer(settings, self.send_metrics, logs_failures)
        schema.open(KafkaSinkContext(context.subtask_index, context.parallelism, self._producer.partitions_of))

    def write(self, batch: Batch) -> None:
        self._producer.send(self._schema.encode(batch, self._input_type))

    def flush(self, end_of_input: bool) -> None:
        if self._flushes or end_of_input:
            self._producer.flush()
        else:
            self._producer.check()

    def close(self) -> None:
        self._producer.close()


class ExactlyOnceKafkaWriter(StatefulSinkWriter):
    """Writes one transaction per checkpoint.

    Thread: task thread.

    Args:
        states: the states of the restored writers: their prefixes, which may differ from `prefix`.
    """

    def __init__(
        self,
        context: WriterContext,
        settings: dict[str, Any],
        schema: KafkaRecordSerializationSchema,
        prefix: str,
        timeout_s: float,
        states: list[str],
    ) -> None:
        self._input_type = context.input_type
        self._subtask_index = context.subtask_index
        self._settings = settings
        self._schema = schema
        self._prefix = prefix
        self._timeout_s = timeout_s
        self.send_metrics = self._sends = SendMetrics(num_bytes=0, num_errors=0, last_send_ms=0)
        self._client = TransactionClient(settings, timeout_s)
        self._log = TransactionLog(self._client)
        self._restored_checkpoint_id = context.restored_checkpoint_id or 0
        #: The last checkpoint that was taken or restored.
        self._checkpoint_id = self._restored_checkpoint_id
        #: The number of the transaction that was handed over last.
        self._last_number = 0
        #: True if a transaction was handed over since the last snapshot.
        self._has_handed_over = False
        #: The numbers of the transactions that wait for their commit, the oldest first.
        self._handed_over: list[int] = []
        self._next: TransactionalProducer | None = None
        self._current: RecordProducer | None = None
        self._is_ended = False
        #: Transactions that may have to be aborted, until a checkpoint after the restore completes.
        self._lingering: LingeringTransactions | None = LingeringTransactions(
            self._client,
            {prefix, *states},
            context.subtask_index,
            context.parallelism,
            context.restored_checkpoint_id,
        )
        self._lingering.abort_newer()
        schema.open(KafkaSinkContext(context.subtask_index, context.parallelism, self._partitions_of))

    def write(self, batch: Batch) -> None:
        producer = self._current or self._begin()
        producer.send(self._schema.encode(batch, self._input_type))

    def flush(self, end_of_input: bool) -> None:
        self._is_ended = end_of_input
        if self._current is not None:
            self._current.flush()

    def prepare_commit(self) -> list[KafkaCommittable]:
        transaction = self._next
        producer = self._current
        self._next = self._current = None
        if transaction is None:
            return []
        if producer is None or not producer.num_sent:
            # The transaction was created in advance and is empty. The next checkpoint needs another number.
            transaction.abort()
            return []
        failpoint("kafka_sink.before_prepare")
        committable = transaction.prepare()
        self._last_number = transaction.name.number
        self._handed_over.append(self._last_number)
        self._has_handed_over = True
        return [committable]

    def snapshot_state(self, checkpoint_id: int) -> list[str]:
        self._checkpoint_id = checkpoint_id
        if self._has_handed_over and not self._is_ended:
            # More records are likely before the next checkpoint, so create their transaction now.
            self._next = self._new_transaction()
        self._has_handed_over = False
        return [self._prefix]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._handed_over = [number for number in self._handed_over if number > checkpoint_id]
        # The notification of the restored checkpoint itself may be repeated.
        if self._lingering is not None and checkpoint_id > self._restored_checkpoint_id:
            try:
                self._lingering.abort_rest()
            except KafkaError as error:
                # This checkpoint is not affected, and the next completed checkpoint tries again.
                _LOG.warning("Kafka: transactions of earlier attempts may still be open: %s", error)
            else:
                self._lingering = None

    def close(self) -> None:
        transaction = self._next
        self._next = self._current = None
        if transaction is not None:
            self._client.set_timeout(CLOSE_TIMEOUT_S)
            transaction.abort()
        self._client.close()

    def _begin(self) -> RecordProducer:
        if self._next is None:
            self._next = self._new_transaction()
        self._current = self._next.begin()
        return self._current

    def _new_transaction(self) -> TransactionalProducer:
        # A checkpoint may be declined after its transaction was handed over. That transaction keeps its name, and a
        # later checkpoint has both. Each transaction was handed over for a different checkpoint, so no number exceeds
        # the id of its checkpoint.
        number = max(self._checkpoint_id, self._last_number) + 1
        if self._handed_over and number - self._handed_over[0] >= IDS_PER_SUBTASK // 2:
            raise KafkaError(
                f"{len(self._handed_over)} Kafka transactions wait for a checkpoint to complete, the oldest since "
                f"checkpoint {self._handed_over[0]}"
            )
        name = TransactionName(self._prefix, self._subtask_index, number)
        return TransactionalProducer(name, self._settings, self._client, self._log, self._timeout_s, self._sends)

    def _partitions_of(self, topic: str) -> list[int]:
        return (self._current or self._begin()).partitions_of(topic)
