"""Names of transactions, and a producer that has one of them open.

A transactional id is `<prefix>-<subtask>-<number>`. The number is that of the first checkpoint that may have the
transaction: it was begun after the checkpoint before. So of a job restored from checkpoint R, every transaction with a
number up to R is in the checkpoint (or was committed before it), and every one with a greater number is in no
checkpoint that counts and can be rolled back - by any subtask, without knowing what the others have restored.

Numbers go round after `IDS_PER_SUBTASK`, because a broker keeps each id it has seen for a week (FLINK-34554). So where
the job had gone on for many checkpoints after R, a newer transaction may look like an older one. It is rolled back when
the restored job has completed a checkpoint: by then every subtask has committed what it had restored, and nothing up to
R is open any more that anybody needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, NamedTuple

from flinkpy.common.errors import ConfigurationError, FlinkError, InternalError, KafkaError, ProducerFencedError
from flinkpy.connectors.kafka.client import load_confluent_kafka, typed_error
from flinkpy.connectors.kafka.committable import KafkaCommittable
from flinkpy.connectors.kafka.record_producer import RecordProducer
from flinkpy.connectors.kafka.transaction_client import TransactionClient
from flinkpy.connectors.kafka.transaction_log import TransactionLog

_LOG = logging.getLogger(__name__)

#: Ids of a subtask. Half of them tell older transactions from newer ones, so that many checkpoints may be under way.
IDS_PER_SUBTASK = 1000
#: Of a transaction that is never begun: any that brokers allow.
FENCING_TIMEOUT_MS = 60_000
#: States of a transactional id whose last transaction was rolled back.
ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class TransactionName(NamedTuple):
    prefix: str
    subtask_index: int
    #: Of the first checkpoint that may have it; of a name that was read: modulo IDS_PER_SUBTASK.
    number: int

    @property
    def transactional_id(self) -> str:
        return f"{self.prefix}-{self.subtask_index}-{self.number % IDS_PER_SUBTASK}"

    def is_newer_than(self, checkpoint_id: int) -> bool:
        """Whether it was begun after that checkpoint, judged by the half of the circle before and after it."""
        return 0 < (self.number - checkpoint_id) % IDS_PER_SUBTASK <= IDS_PER_SUBTASK // 2


def parse_transactional_id(prefix: str, transactional_id: str) -> TransactionName | None:
    """None: of somebody else, whose prefix begins with ours."""
    if not transactional_id.startswith(f"{prefix}-"):
        return None
    subtask, _, number = transactional_id[len(prefix) + 1 :].partition("-")
    if not (subtask.isdecimal() and number.isdecimal()):
        return None
    return TransactionName(prefix, int(subtask), int(number))


class LingeringTransactions:
    """The transactions that earlier attempts have left open and no checkpoint has.

    Readers of committed records would have to wait for the brokers to roll them back, when they time out. Each subtask
    does it for its own ids, and for those of subtasks that are no more.

    Args:
        prefixes: of this sink, and of the restored writers, which may have been other ones.
        restored_checkpoint_id: None where the job begins anew.
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
        """Roll back what was begun after the restored checkpoint, as the numbers tell; returns the ids.

        Call it before the writer begins a transaction of its own.
        """
        restored = self._restored_checkpoint_id
        return self._abort(lambda name: restored is None or name.is_newer_than(restored))

    def abort_rest(self) -> list[str]:
        """Roll back what the numbers made look older; returns the ids.

        Call it when a checkpoint was completed after the restore. The writer's own transactions are not among them.
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
            _LOG.info("Kafka: rolled back transactions of earlier attempts: %s", ", ".join(aborted))
        return aborted


class TransactionalProducer:
    """A producer for one transaction. It is made, and its id taken over from whoever had it, on a thread of its own:
    that takes some round trips to the brokers.

    Thread: task thread, but for what `__init__` starts.
    """

    def __init__(
        self,
        name: TransactionName,
        settings: dict[str, Any],
        client: TransactionClient,
        log: TransactionLog,
        timeout_s: float,
    ) -> None:
        self.name = name
        self._settings = {**settings, "transactional.id": name.transactional_id}
        self._client = client
        self._log = log
        self._timeout_s = timeout_s
        self._producer: RecordProducer | None = None
        self._error: FlinkError | None = None
        self._identity: KafkaCommittable | None = None
        self._lock = threading.Lock()
        self._is_aborted = False
        self._thread = threading.Thread(target=self._prepare, name=f"kafka-{name.transactional_id}", daemon=True)
        self._thread.start()

    def begin(self) -> RecordProducer:
        """The producer, with its transaction open.

        Raises:
            KafkaError, ConfigurationError: it could not be made; names the brokers or the setting.
        """
        producer = self._wait()
        try:
            producer.client.begin_transaction()
        except load_confluent_kafka().KafkaException as error:
            raise typed_error(error, f"Kafka transaction {self.name.transactional_id} cannot be begun") from error
        # Asked for now, so that a producer that is fenced later can not take its successor's transaction for its own.
        described = self._client.describe(self.name.transactional_id)
        self._identity = KafkaCommittable(self.name.transactional_id, described.producer_id, described.producer_epoch)
        return producer

    def prepare(self) -> KafkaCommittable:
        """What commits it; after a flush. The producer is not needed, and not usable, any more.

        Raises:
            ProducerFencedError: it has been rolled back meanwhile, or somebody else has its id.
        """
        identity, transactional_id = self._identity, self.name.transactional_id
        if identity is None:
            raise InternalError(f"Kafka transaction {transactional_id} has not been begun")
        found = self._client.describe(transactional_id)
        if (found.producer_id, found.producer_epoch) != (identity.producer_id, identity.producer_epoch):
            reason = (
                "was rolled back by the brokers: transaction.timeout.ms must be longer than the time between two "
                "checkpoints"
                if found.state in ABORTED
                else "was taken over by another producer: is there another job, or sink, with the same prefix?"
            )
            raise ProducerFencedError(f"Kafka transaction {transactional_id} {reason}")
        if found.state != "Ongoing":
            raise KafkaError(f"Kafka transaction {transactional_id} is not open but {found.state}")
        self._close_producer()
        return replace(identity, first_record=self._log.first_record(found))

    def abort(self) -> None:
        """Roll it back, if it was begun, and close the producer. Does not fail: brokers roll back what is left."""
        with self._lock:
            # One that is still being made, perhaps without a broker to answer, is closed by its thread.
            self._is_aborted = True
        self._close_producer()
        identity = self._identity
        if identity is not None:
            try:
                self._client.end(identity.transactional_id, identity.producer_id, identity.producer_epoch, commit=False)
            except KafkaError as error:
                _LOG.warning("Kafka transaction %s is left to time out: %s", identity.transactional_id, error)

    def _wait(self) -> RecordProducer:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._producer is not None
        return self._producer

    def _prepare(self) -> None:
        try:
            producer = RecordProducer(self._settings)
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
                f"brokers {brokers} allow: set it to their transaction.max.timeout.ms (15 minutes unless changed) or "
                "less, with set_property, or raise that of the brokers"
            )
        return typed

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
