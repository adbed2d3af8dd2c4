"""The names of transactions, the abort of leftover transactions, and the producer of one transaction.

A transactional id is `<prefix>-<subtask>-<number>`. The number is the id of the first checkpoint that may contain the
transaction: the transaction begins after the checkpoint before that. Consider a job restored from checkpoint R. Every
transaction with a number up to R is in R, or was committed earlier. Every transaction with a greater number is in no
checkpoint of the restored job and can be aborted, by any subtask, without knowing what the other subtasks restored.

Numbers wrap around after `IDS_PER_SUBTASK`, because a broker remembers each id for a week (FLINK-34554). If the
previous job completed many checkpoints after R, a newer transaction may therefore look like an older one. Such a
transaction is aborted once the restored job has completed a checkpoint. By then every subtask has committed its
restored transactions, so no open transaction up to R is still needed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, NamedTuple

from flinkpy.common.errors import ConfigurationError, FlinkError, InternalError, KafkaError, ProducerFencedError
from flinkpy.connector_api.sink import SendMetrics
from flinkpy.connectors.kafka.client import load_confluent_kafka, typed_error
from flinkpy.connectors.kafka.record_producer import RecordProducer
from flinkpy.connectors.kafka.transaction_client import KafkaCommittable, TransactionClient
from flinkpy.connectors.kafka.transaction_log import TransactionLog
from flinkpy.logs.helper_threads import helper_thread

_LOG = logging.getLogger(__name__)

#: The number of ids of a subtask. Half of them count as older than a checkpoint, and half as newer, so up to 500
#: checkpoints may be incomplete at once.
IDS_PER_SUBTASK = 1000
#: The timeout of a transaction that never begins: any value that brokers allow.
FENCING_TIMEOUT_MS = 60_000
#: The states of a transactional id whose last transaction was aborted.
ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class TransactionName(NamedTuple):
    """The parts of a transactional id."""

    prefix: str
    subtask_index: int
    #: The id of the first checkpoint that may contain the transaction. A parsed name has it modulo IDS_PER_SUBTASK.
    number: int

    @property
    def transactional_id(self) -> str:
        return f"{self.prefix}-{self.subtask_index}-{self.number % IDS_PER_SUBTASK}"

    def is_newer_than(self, checkpoint_id: int) -> bool:
        """Returns True if the number is in the half of all ids that follows the checkpoint."""
        return 0 < (self.number - checkpoint_id) % IDS_PER_SUBTASK <= IDS_PER_SUBTASK // 2


def parse_transactional_id(prefix: str, transactional_id: str) -> TransactionName | None:
    """Returns None if the id belongs to another sink, whose prefix begins with ours."""
    if not transactional_id.startswith(f"{prefix}-"):
        return None
    subtask, _, number = transactional_id[len(prefix) + 1 :].partition("-")
    if not (subtask.isdecimal() and number.isdecimal()):
        return None
    return TransactionName(prefix, int(subtask), int(number))


class LingeringTransactions:
    """Aborts transactions that earlier attempts have left open and that are in no checkpoint.

    Without this, readers of committed records would wait until the transactions time out. Each subtask aborts those of
    its own ids, and of ids of subtasks that no longer exist.

    Args:
        prefixes: the prefix of this sink, and those of the restored writers.
        restored_checkpoint_id: None if the job was not restored.
    """

    def __init__(
        self,
        client: TransactionClient,
        prefixes: Collection[str],
        subtask_index: int,
        parallelism: int,
        restored_checkpoint_id: int | None,
    ) -> None:
        self._client = client
        self._prefixes = sorted(set(prefixes))
        self._subtask_index = subtask_index
        self._parallelism = parallelism
        self._restored_checkpoint_id = restored_checkpoint_id

    def abort_newer(self) -> list[str]:
        """Aborts the transactions whose numbers follow the restored checkpoint. Returns their ids.

        The writer calls this before it begins its own transaction.
        """
        restored = self._restored_checkpoint_id
        return self._abort(lambda name: restored is None or name.is_newer_than(restored))

    def abort_rest(self) -> list[str]:
        """Aborts the transactions that only look older, because their numbers have wrapped around. Returns their ids.

        The writer calls this when a checkpoint after the restore has completed. Its own transactions are not affected.
        """
        restored = self._restored_checkpoint_id
        return [] if restored is None else self._abort(lambda name: not name.is_newer_than(restored))

    def _abort(self, is_lingering: Callable[[TransactionName], bool]) -> list[str]:
        aborted = []
        for prefix in self._prefixes:
            for transactional_id in self._client.list_open(f"{prefix}-"):
                name = parse_transactional_id(prefix, transactional_id)
                if name is None or name.subtask_index % self._parallelism != self._subtask_index:
                    continue
                if is_lingering(name):
                    self._client.fence(transactional_id, FENCING_TIMEOUT_MS)
                    aborted.append(transactional_id)
        if aborted:
            _LOG.info("Kafka: aborted transactions of earlier attempts: %s", ", ".join(aborted))
        return aborted


class TransactionalProducer:
    """A producer for one transaction.

    Creating it takes over the transactional id from any earlier producer, which needs several round trips to the
    brokers. A separate thread does this.

    Thread: task thread, except for the thread that `__init__` starts.
    """

    def __init__(
        self,
        name: TransactionName,
        settings: dict[str, Any],
        client: TransactionClient,
        log: TransactionLog,
        timeout_s: float,
        sends: SendMetrics,
    ) -> None:
        self.name = name
        self._sends = sends
        self._settings = {**settings, "transactional.id": name.transactional_id}
        self._client = client
        self._log = log
        self._timeout_s = timeout_s
        self._producer: RecordProducer | None = None
        self._error: FlinkError | None = None
        self._identity: KafkaCommittable | None = None
        self._lock = threading.Lock()
        self._is_aborted = False
        self._thread = helper_thread(self._prepare, f"kafka-{name.transactional_id}")
        self._thread.start()

    def begin(self) -> RecordProducer:
        """Begins the transaction and returns the producer.

        Raises:
            KafkaError: the producer could not be created; the message names the brokers.
            ConfigurationError: the brokers or the client refuse a setting; the message names it.
        """
        producer = self._wait()
        try:
            producer.client.begin_transaction()
        except load_confluent_kafka().KafkaException as error:
            raise typed_error(error, f"Kafka transaction {self.name.transactional_id} cannot begin") from error
        # Ask now: a producer that is fenced later must not take the transaction of its successor for its own.
        described = self._client.describe(self.name.transactional_id)
        self._identity = KafkaCommittable(self.name.transactional_id, described.producer_id, described.producer_epoch)
        return producer

    def prepare(self) -> KafkaCommittable:
        """Returns the committable of the transaction and closes the producer. Call it after a flush.

        Raises:
            ProducerFencedError: the brokers have aborted the transaction, or another producer has taken over its id.
        """
        identity = self._identity
        transactional_id = self.name.transactional_id
        if identity is None:
            raise InternalError(f"Kafka transaction {transactional_id} has not been begun")
        found = self._client.describe(transactional_id)
        if (found.producer_id, found.producer_epoch) != (identity.producer_id, identity.producer_epoch):
            if found.state in ABORTED:
                reason = (
                    "was aborted by the brokers: transaction.timeout.ms must be longer than the time between two "
                    "checkpoints"
                )
            else:
                reason = "was taken over by another producer: is there another job, or sink, with the same prefix?"
            raise ProducerFencedError(f"Kafka transaction {transactional_id} {reason}")
        if found.state != "Ongoing":
            raise KafkaError(f"Kafka transaction {transactional_id} is in state {found.state}, not Ongoing")
        self._close_producer()
        return replace(identity, first_record=self._log.first_record(found))

    def abort(self) -> None:
        """Aborts the transaction if it has begun, and closes the producer. Does not fail: brokers abort the rest."""
        with self._lock:
            # If the producer is still being created, perhaps because no broker answers, its thread closes it.
            self._is_aborted = True
        self._close_producer()
        identity = self._identity
        if identity is not None:
            try:
                self._client.end(identity.transactional_id, identity.producer_id, identity.producer_epoch, commit=False)
            except KafkaError as error:
                _LOG.warning(
                    "Kafka transaction %s was not aborted and will time out: %s", identity.transactional_id, error
                )

    def _wait(self) -> RecordProducer:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._producer is not None
        return self._producer

    def _prepare(self) -> None:
        try:
            producer = RecordProducer(self._settings, self._sends)
            producer.client.init_transactions(self._timeout_s)
            with self._lock:
                self._producer = producer
                if self._is_aborted:
                    self._close_producer()
        except FlinkError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - raised by the task thread, in `begin`
            self._error = self._init_error(error)

    def _init_error(self, error: Exception) -> FlinkError:
        brokers = self._settings["bootstrap.servers"]
        typed = typed_error(error, f"Kafka transaction {self.name.transactional_id}, brokers {brokers}")
        if typed.details.get("code") == "INVALID_TRANSACTION_TIMEOUT":
            return ConfigurationError(
                f"the Kafka sink's transaction.timeout.ms is {self._settings.get('transaction.timeout.ms')}, more than "
                f"brokers {brokers} allow: set it with set_property to at most their transaction.max.timeout.ms (15 "
                "minutes by default), or raise the limit of the brokers"
            )
        return typed

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
