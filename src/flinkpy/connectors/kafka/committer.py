"""KafkaCommitter: commits the transactions of completed checkpoints, also those of a process that has died.

Source: org.apache.flink.connector.kafka.sink.internal.KafkaCommitter. Differs: if a transaction cannot be committed,
the log of a topic tells how it ended. If it was aborted, its records are lost and the job fails for good (decision
0032). Flink logs the loss and continues.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import CommittablesLostError, KafkaError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer
from flinkpy.connectors.kafka.transaction_client import KafkaCommittable, TransactionClient, TransactionDescription
from flinkpy.connectors.kafka.transaction_log import Outcome, TransactionLog, is_refused
from flinkpy.connectors.kafka.transactions import ABORTED

_LOG = logging.getLogger(__name__)

#: The transaction cannot be committed (again): it has ended, or its id was used for another one or is forgotten.
_NOT_OPEN = {
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
    """Commits transactions. Committing twice has the same effect as committing once.

    The coordinator knows how a transaction ended until its id is used for another one. After that, the log of the topic
    knows it.

    Thread: task thread.

    Args:
        timeout_s: the longest time a commit may take, for example while a coordinator moves or restarts. After that the
            job fails, and the recovered job commits.
        ignores_losses: continue if records are lost.
    """

    def __init__(self, settings: dict[str, Any], timeout_s: float, ignores_losses: bool) -> None:
        self._ignores_losses = ignores_losses
        self._client = TransactionClient(settings, timeout_s)
        self._log = TransactionLog(self._client)
        self._was_open_too_long = (
            f"open for longer than transaction.timeout.ms ({settings.get('transaction.timeout.ms')})"
        )

    def commit(self, requests: list[CommitRequest]) -> None:
        for request in requests:
            committable: KafkaCommittable = request.get_committable()
            failpoint("kafka_sink.before_commit")
            try:
                self._client.end(
                    committable.transactional_id, committable.producer_id, committable.producer_epoch, commit=True
                )
            except KafkaError as error:
                if error.details.get("code") in _NOT_OPEN:
                    self._on_not_open(request, committable, error)
                else:
                    request.signal_failed_with_unknown_reason(error)
            failpoint("kafka_sink.after_commit")

    def close(self) -> None:
        self._client.close()

    def _on_not_open(self, request: CommitRequest, committable: KafkaCommittable, error: KafkaError) -> None:
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
            _LOG.error("%s", lost)  # the failure of the job names only one of the transactions
            request.signal_failed_with_unknown_reason(lost)

    def _reason_of_loss(self, committable: KafkaCommittable, error: KafkaError) -> str | None:
        """Returns why the records of the transaction are lost; None if they are not lost, or if it cannot be known.

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
        if outcome is Outcome.ABORTED:
            return self._reason_of_abort(committable)
        if outcome is Outcome.COMMITTED:
            _LOG.info("Kafka transaction %s was already committed: the topic has its records", transactional_id)
        else:
            _LOG.error(
                "Kafka transaction %s (%s) is assumed to be committed, but this cannot be known: its first record, at "
                "%s-%d offset %d, is no longer in the topic. The topic has deleted or compacted the record, or was "
                "created anew",
                transactional_id,
                error.details["code"],
                *committable.first_record,
            )
        return None

    def _reason_of_abort(self, committable: KafkaCommittable) -> str:
        found = self._describe(committable.transactional_id)
        if found is not None and _is_aborted(found, committable):
            return self._reason_of_timeout()
        return (
            "it was aborted and another producer has taken over its transactional id, so its records are lost. Either "
            "another sink, of this job or of another job, has the same transactional id prefix; or the transaction was "
            f"{self._was_open_too_long}."
        )

    def _reason_of_timeout(self) -> str:
        return f"the brokers have aborted it because it was {self._was_open_too_long}, so its records are lost."

    def _reason_without_log(self, committable: KafkaCommittable, why: str) -> str | None:
        """Judges by the coordinator, which knows the last transaction of the id, or has forgotten the id.

        Args:
            why: why the log does not tell how the transaction ended.
        """
        transactional_id = committable.transactional_id
        found = self._describe(transactional_id)
        if found is None:
            _LOG.error(
                "Kafka transaction %s is assumed to be committed, but this cannot be known: the brokers have forgotten "
                "its id (transactional.id.expiration.ms), and the log of the topic does not help: %s",
                transactional_id,
                why,
            )
            return None
        if _is_aborted(found, committable):
            return self._reason_of_timeout()
        return (
            "another producer has taken over its transactional id, so its records may be lost. The sink cannot tell if "
            f"the transaction was committed before: {why}. Does another sink, of this job or of another job, have the "
            "same transactional id prefix?"
        )

    def _describe(self, transactional_id: str) -> TransactionDescription | None:
        """Returns None if the coordinator does not know the id (any more)."""
        try:
            return self._client.describe(transactional_id)
        except KafkaError as error:
            if error.details.get("code") == "TRANSACTIONAL_ID_NOT_FOUND":
                return None
            raise


def _is_aborted(found: TransactionDescription, committable: KafkaCommittable) -> bool:
    """Returns True if the last transaction of the id was aborted and seems to be this one.

    When brokers abort a transaction, they raise the epoch of its producer by one.
    """
    raised = found.producer_epoch - committable.producer_epoch
    return found.producer_id == committable.producer_id and 0 <= raised <= 1 and found.state in ABORTED
