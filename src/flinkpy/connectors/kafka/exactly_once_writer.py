"""ExactlyOnceKafkaWriter: one transaction from checkpoint to checkpoint.

    write -> begin <id of the next checkpoint> -> produce ...       (nothing is visible)
    barrier -> flush -> KafkaCommittable(id, producer id, epoch)    (all is stored; the checkpoint has the committable)
    checkpoint complete -> KafkaCommitter ends the transaction      (all is visible)

Source: org.apache.flink.connector.kafka.sink.ExactlyOnceKafkaWriter. Differs: the committer ends a transaction by its
name and its producer's identity in any case, not only after a failure (decision 0016), so producers live no longer than
their transaction; which transactions are left over is told by their names.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import StatefulSinkWriter, WriterContext
from flinkpy.connectors.kafka.committable import KafkaCommittable
from flinkpy.connectors.kafka.record_producer import RecordProducer
from flinkpy.connectors.kafka.serialization import KafkaRecordSerializationSchema
from flinkpy.connectors.kafka.transaction_client import TransactionClient
from flinkpy.connectors.kafka.transaction_log import TransactionLog
from flinkpy.connectors.kafka.transactions import (
    IDS_PER_SUBTASK,
    LingeringTransactions,
    TransactionalProducer,
    TransactionName,
)
from flinkpy.connectors.kafka.writer import WriterSinkContext
from flinkpy.records.batch import Batch

_LOG = logging.getLogger(__name__)

#: A cancelled task does not wait longer for a broker that is gone.
CLOSE_TIMEOUT_S = 5.0


class ExactlyOnceKafkaWriter(StatefulSinkWriter):
    """Thread: task thread.

    Args:
        states: of the restored writers: their prefixes, which may have been another one.
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
        self._client = TransactionClient(settings, timeout_s)
        self._log = TransactionLog(self._client)
        #: Of the newest checkpoint that has what was written before it.
        self._checkpoint_id = context.restored_checkpoint_id or 0
        self._restored_checkpoint_id = context.restored_checkpoint_id or 0
        #: Of the transaction handed over last.
        self._last_number = 0
        #: Whether one was handed over since the last snapshot.
        self._has_handed_over = False
        #: Numbers of transactions that wait for their commit, the oldest first.
        self._handed_over: list[int] = []
        self._next: TransactionalProducer | None = None
        self._current: RecordProducer | None = None
        self._is_ended = False
        #: Transactions that may have to be rolled back, until a checkpoint after the restore is completed.
        self._lingering: LingeringTransactions | None = LingeringTransactions(
            self._client,
            {prefix, *states},
            context.subtask_index,
            context.parallelism,
            context.restored_checkpoint_id,
        )
        self._lingering.abort_newer()
        schema.open(WriterSinkContext(context, self._partitions_of))

    def write(self, batch: Batch) -> None:
        producer = self._current or self._begin()
        producer.send(self._schema.encode(batch, self._input_type))

    def flush(self, end_of_input: bool) -> None:
        self._is_ended = end_of_input
        if self._current is not None:
            self._current.flush()

    def prepare_commit(self) -> list[KafkaCommittable]:
        transaction = self._next
        if transaction is None:
            return []
        producer, self._current, self._next = self._current, None, None
        if producer is None or not producer.num_sent:
            # Made ahead, and nothing came: its number will not be that of the next checkpoint.
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
            # Records will come until the next checkpoint, too.
            self._next = self._new_transaction()
        self._has_handed_over = False
        return [self._prefix]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._handed_over = [number for number in self._handed_over if number > checkpoint_id]
        # The notification of the restored checkpoint itself may be sent again.
        if self._lingering is not None and checkpoint_id > self._restored_checkpoint_id:
            try:
                self._lingering.abort_rest()
            except KafkaError as error:
                # The next completed checkpoint is another chance; nothing is wrong with this one.
                _LOG.warning("Kafka: transactions of earlier attempts may still be open: %s", error)
            else:
                self._lingering = None

    def close(self) -> None:
        transaction, self._next, self._current = self._next, None, None
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
        # Where a checkpoint was declined after its transaction was handed over, that one keeps its name: a later
        # checkpoint has both. Each was handed over for a checkpoint of its own, so no number is greater than its.
        number = max(self._checkpoint_id, self._last_number) + 1
        if self._handed_over and number - self._handed_over[0] >= IDS_PER_SUBTASK // 2:
            raise KafkaError(
                f"{len(self._handed_over)} Kafka transactions wait for a checkpoint to be completed, the oldest since "
                f"checkpoint {self._handed_over[0]}"
            )
        name = TransactionName(self._prefix, self._subtask_index, number)
        return TransactionalProducer(name, self._settings, self._client, self._log, self._timeout_s)

    def _partitions_of(self, topic: str) -> list[int]:
        return (self._current or self._begin()).partitions_of(topic)
