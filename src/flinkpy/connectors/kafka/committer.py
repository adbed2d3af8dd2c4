"""KafkaCommitter: ends the transactions of completed checkpoints, whoever has begun them.

Source: org.apache.flink.connector.kafka.sink.internal.KafkaCommitter. Differs: where it is certain that the brokers
have rolled a transaction back, its records are lost and the job fails for good; Flink logs that and goes on.
"""

from __future__ import annotations

import logging
from typing import Any

from flinkpy.common.errors import CommittablesLostError, KafkaError
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer
from flinkpy.connectors.kafka.committable import KafkaCommittable
from flinkpy.connectors.kafka.transaction_client import TransactionClient
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


class KafkaCommitter(Committer):
    """Committing twice is the same as once: the coordinator knows how a transaction has ended until its id is used for
    another one, and that is not done before its commit is known to have succeeded. Thread: task thread.

    Args:
        timeout_s: what a commit may take, with a coordinator that moves or restarts; then the job fails, and the
            recovered one commits.
        ignores_losses: go on where records are lost.
    """

    def __init__(self, settings: dict[str, Any], timeout_s: float, ignores_losses: bool) -> None:
        self._settings = settings
        self._ignores_losses = ignores_losses
        self._client = TransactionClient(settings, timeout_s)

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
        transactional_id = committable.transactional_id
        if not self._was_rolled_back(committable):
            # A checkpoint of long ago is restored: since it was committed its id has been used again, or forgotten.
            _LOG.warning("Kafka transaction %s was ended before: %s", transactional_id, error)
            request.signal_already_committed()
            return
        lost = CommittablesLostError(
            f"Kafka transaction {transactional_id} cannot be committed: the brokers have rolled it back, because it "
            f"was open for longer than transaction.timeout.ms ({self._settings.get('transaction.timeout.ms')}), so its "
            "records are lost. To write them again, start the job from the checkpoint before this one. To go on "
            "without them, start it from this one with KafkaSinkBuilder.ignore_failures_after_transaction_timeout().",
            details={"code": error.details["code"]},
        )
        lost.__cause__ = error
        if self._ignores_losses:
            request.signal_failed_with_known_reason(lost)
        else:
            _LOG.error("%s", lost)  # the job's failure names only one of them
            request.signal_failed_with_unknown_reason(lost)

    def _was_rolled_back(self, committable: KafkaCommittable) -> bool:
        """Certainly: the id has had no other transaction since. Brokers roll back with the next epoch."""
        try:
            found = self._client.describe(committable.transactional_id)
        except KafkaError as error:
            if error.details.get("code") == "TRANSACTIONAL_ID_NOT_FOUND":
                return False
            raise
        is_same = (
            found.producer_id == committable.producer_id and 0 <= found.producer_epoch - committable.producer_epoch <= 1
        )
        return is_same and found.state in ABORTED
