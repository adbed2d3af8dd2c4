"""KafkaCommitter: ends the transactions of completed checkpoints, whoever has begun them.

Source: org.apache.flink.connector.kafka.sink.internal.KafkaCommitter. Differs: a transaction that cannot be committed
is looked up in the log of a topic. If it was rolled back, its records are lost and the job fails for good (decision
0032); Flink logs that and goes on.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import CommittablesLostError, KafkaError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer
from flinkpy.connectors.kafka.committable import KafkaCommittable
from flinkpy.connectors.kafka.transaction_client import TransactionClient, TransactionDescription
from flinkpy.connectors.kafka.transaction_log import Outcome, TransactionLog, is_refused
from flinkpy.connectors.kafka.transactions import ABORTED

_LOG = logging.getLogger(__name__)

#: The transaction is no more what it was: it ended otherwise, or its id has begun another, or was forgotten.
_GONE = {
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "UNKNOWN_PRODUCER_ID",
}
_NO_POSITION = (
    "its checkpoint does not say where its records are: an older release wrote it, or the principal may not Read the "
    "topic"
)


class KafkaCommitter(Committer):
    """Committing twice is the same as once: the coordinator knows how a transaction has ended until its id is used for
    another one, and afterwards the log of the topic does. Thread: task thread.

    Args:
        timeout_s: what a commit may take, with a coordinator that moves or restarts; then the job fails, and the
            recovered one commits.
        ignores_losses: go on where records are lost.
    """

    def __init__(self, settings: dict[str, Any], timeout_s: float, ignores_losses: bool) -> None:
        self._settings = settings
        self._ignores_losses = ignores_losses
        self._client = TransactionClient(settings, timeout_s)
        self._log = TransactionLog(self._client)

    def commit(self, requests: list[CommitRequest]) -> None:
        for request in requests:
            committable: KafkaCommittable = request.get_committable()
            failpoint("kafka_sink.before_commit")
            try:
                self._client.end(
                    committable.transactional_id, committable.producer_id, committable.producer_epoch, commit=True
                )
            except KafkaError as error:
                if error.details.get("code") in _GONE:
                    self._on_gone(request, committable, error)
                else:
                    request.signal_failed_with_unknown_reason(error)
            failpoint("kafka_sink.after_commit")

    def close(self) -> None:
        self._client.close()

    def _on_gone(self, request: CommitRequest, committable: KafkaCommittable, error: KafkaError) -> None:
        reason = self._reason_of_loss(committable, error)
        if reason is None:
            request.signal_already_committed()
            return
        lost = CommittablesLostError(
            f"Kafka transaction {committable.transactional_id} cannot be committed: {reason} To write them again, "
            "start the job from the checkpoint before this one. To go on without them, start it from this one with "
            "KafkaSinkBuilder.ignore_failures_after_transaction_timeout().",
            details={"code": error.details["code"]},
        )
        lost.__cause__ = error
        if self._ignores_losses:
            request.signal_failed_with_known_reason(lost)
        else:
            _LOG.error("%s", lost)  # the job's failure names only one of them
            request.signal_failed_with_unknown_reason(lost)

    def _reason_of_loss(self, committable: KafkaCommittable, error: KafkaError) -> str | None:
        """Returns why the records of the transaction are lost; None if they are not, or if nobody can know any more.

        Raises:
            KafkaError: the brokers do not answer.
        """
        transactional_id = committable.transactional_id
        if committable.first_record is None:
            return self._reason_without_log(committable, _NO_POSITION)
        try:
            outcome = self._log.outcome(committable)
        except KafkaError as unreadable:
            if not is_refused(unreadable):
                raise
            return self._reason_without_log(committable, str(unreadable))
        if outcome is Outcome.COMMITTED:
            _LOG.info("Kafka transaction %s has been committed before: its records are there", transactional_id)
            return None
        if outcome is Outcome.NOT_FOUND:
            _LOG.error(
                "Kafka transaction %s (%s) counts as committed, but whether it was cannot be known: its first record, "
                "at %s-%d offset %d, is not in the topic any more. The topic has deleted or compacted it, or is a new "
                "one",
                transactional_id,
                error.details["code"],
                *committable.first_record,
            )
            return None
        return self._reason_of_rollback(committable)

    def _reason_of_rollback(self, committable: KafkaCommittable) -> str:
        found = self._describe(committable.transactional_id)
        if found is not None and _is_latest(found, committable) and found.state in ABORTED:
            return self._reason_of_timeout()
        return (
            "it was rolled back and another producer has taken its transactional id over, so its records are lost. "
            "Either another sink, of this job or of another one, has the same transactional id prefix; or the "
            "transaction was open for longer than transaction.timeout.ms "
            f"({self._settings.get('transaction.timeout.ms')})."
        )

    def _reason_of_timeout(self) -> str:
        return (
            "the brokers have rolled it back, because it was open for longer than transaction.timeout.ms "
            f"({self._settings.get('transaction.timeout.ms')}), so its records are lost."
        )

    def _reason_without_log(self, committable: KafkaCommittable, why: str) -> str | None:
        """Judges by what the coordinator knows: the last transaction of the id, or nothing of the id any more.

        Args:
            why: why the log does not tell.
        """
        transactional_id = committable.transactional_id
        found = self._describe(transactional_id)
        if found is None:
            _LOG.error(
                "Kafka transaction %s counts as committed, but whether it was cannot be known: the brokers have "
                "forgotten its id (transactional.id.expiration.ms). Of its records: %s",
                transactional_id,
                why,
            )
            return None
        if _is_latest(found, committable) and found.state in ABORTED:
            return self._reason_of_timeout()
        return (
            "another producer has taken its transactional id over, so its records may be lost. Whether it was "
            f"committed before cannot be known: {why}. Does another sink, of this job or of another one, have the same "
            "transactional id prefix?"
        )

    def _describe(self, transactional_id: str) -> TransactionDescription | None:
        """None: the coordinator does not know the id (any more)."""
        try:
            return self._client.describe(transactional_id)
        except KafkaError as error:
            if error.details.get("code") == "TRANSACTIONAL_ID_NOT_FOUND":
                return None
            raise


def _is_latest(found: TransactionDescription, committable: KafkaCommittable) -> bool:
    """True if the id seems to have begun no other transaction since: brokers roll one back with the next epoch."""
    return found.producer_id == committable.producer_id and 0 <= found.producer_epoch - committable.producer_epoch <= 1
