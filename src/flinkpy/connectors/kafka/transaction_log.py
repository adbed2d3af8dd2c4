"""TransactionLog: reads in the logs of topics how a transaction ended.

A transaction coordinator knows the last transaction of a transactional id, and no earlier one. The log of each
partition knows all of them, as long as it keeps their records: it lists those that were rolled back, and every batch of
records names its producer.
"""

from __future__ import annotations

import logging
import struct
from enum import Enum

from flinkpy.common.errors import KafkaError
from flinkpy.connectors.kafka.committable import KafkaCommittable, RecordPosition
from flinkpy.connectors.kafka.transaction_client import RETRIABLE, TransactionClient, TransactionDescription
from flinkpy.connectors.kafka.wire import DESCRIBE_PRODUCERS, FETCH, Reader, Writer

_LOG = logging.getLogger(__name__)

_READ_COMMITTED = 1
#: A broker sends one whole batch, however little is asked for.
_FETCH_BYTES = 1
#: The version of record batches since Kafka 0.11: those before it know no transactions.
_BATCH_VERSION = 2
#: Base offset, length, leader epoch, version, checksum, attributes, last offset delta, two timestamps, producer id and
#: epoch.
_BATCH_HEADER = struct.Struct(">qiibIhiqqqh")


class Outcome(Enum):
    COMMITTED = "its records are in the log, and not among those that were rolled back"
    ROLLED_BACK = "the log lists it among the transactions that were rolled back"
    NOT_FOUND = "the log has its first record no more"


class TransactionLog:
    """Thread: that of the client."""

    def __init__(self, client: TransactionClient) -> None:
        self._client = client
        self._has_warned = False

    def first_record(self, transaction: TransactionDescription) -> RecordPosition | None:
        """Returns where an open transaction begins in one of its partitions; None if the brokers do not say.

        It only serves to tell later how the transaction ended, so a checkpoint does not fail for the want of it.
        """
        for topic, partition in transaction.partitions[:1]:
            try:
                offset = self._start_offset(topic, partition, transaction.producer_id)
            except KafkaError as error:
                if not self._has_warned:
                    self._has_warned = True
                    _LOG.warning(
                        "The Kafka sink cannot ask where its transactions begin in topic %s: %s. If another producer "
                        "uses the id of a transaction, the sink cannot tell whether it had been committed, and fails "
                        "the job. The principal needs Read on the topic",
                        topic,
                        error,
                    )
                return None
            return None if offset is None else RecordPosition(topic, partition, offset)
        return None

    def outcome(self, committable: KafkaCommittable) -> Outcome:
        """Returns how a transaction with a known first record ended. Waits while it is being ended.

        Raises:
            KafkaError: the log cannot be read; TOPIC_AUTHORIZATION_FAILED: the principal must not.
        """
        position = committable.first_record
        assert position is not None
        body = Writer().int32(-1).int32(0).int32(0).int32(_FETCH_BYTES).int8(_READ_COMMITTED)
        body.int32(1).string(position.topic).int32(1)
        body.int32(position.partition).int64(position.offset).int32(_FETCH_BYTES)

        def read(answer: Reader) -> tuple[int, Outcome]:
            return _read_outcome(answer, committable, position)

        try:
            outcome: Outcome = self._client.ask_leader(position.topic, position.partition, FETCH, body.data, read)
        except KafkaError as error:
            if error.details.get("code") in ("OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION"):
                return Outcome.NOT_FOUND
            raise
        return outcome

    def _start_offset(self, topic: str, partition: int, producer_id: int) -> int | None:
        body = Writer().varint(2).compact_string(topic).varint(2).int32(partition).no_tags().no_tags()

        def read(answer: Reader) -> tuple[int, int | None]:
            answer.int32()
            code, found = 0, None
            for _ in range(answer.compact_length()):
                answer.compact_string()
                for _ in range(answer.compact_length()):
                    answer.int32()
                    code = answer.int16()
                    answer.compact_string()
                    for _ in range(answer.compact_length()):
                        active = answer.int64()
                        answer.int32()  # epoch
                        answer.int32()  # last sequence number
                        answer.int64()  # last timestamp
                        answer.int32()  # epoch of the coordinator
                        start = answer.int64()
                        answer.skip_tags()
                        if active == producer_id and start >= 0:
                            found = start
                    answer.skip_tags()
                answer.skip_tags()
            return code, found

        offset: int | None = self._client.ask_leader(topic, partition, DESCRIBE_PRODUCERS, body.data, read)
        return offset


def is_refused(error: KafkaError) -> bool:
    """True if a broker has answered with an error that asking again will not change."""
    code = error.details.get("code")
    return code is not None and code not in RETRIABLE


def _read_outcome(answer: Reader, committable: KafkaCommittable, position: RecordPosition) -> tuple[int, Outcome]:
    """Reads an answer to Fetch for one partition."""
    answer.int32()
    answer.int32()
    answer.string()
    answer.int32()
    answer.int32()
    code = answer.int16()
    answer.int64()
    last_stable_offset = answer.int64()
    # The aborted transactions that overlap the fetched records: producer id and offset of the first record of each.
    aborted = [(answer.int64(), answer.int64()) for _ in range(max(0, answer.int32()))]
    batch = answer.bytes_()
    if code:
        return code, Outcome.NOT_FOUND
    if last_stable_offset <= position.offset:
        raise KafkaError(
            f"Kafka transaction {committable.transactional_id} has not ended in {position.topic}-{position.partition}"
        )
    if any(producer_id == committable.producer_id and first <= position.offset for producer_id, first in aborted):
        return 0, Outcome.ROLLED_BACK
    return 0, Outcome.COMMITTED if _is_first_batch(batch, committable, position) else Outcome.NOT_FOUND


def _is_first_batch(batch: bytes, committable: KafkaCommittable, position: RecordPosition) -> bool:
    """True if the batch has the first record of the transaction. A log that was compacted or made anew has others."""
    if len(batch) < _BATCH_HEADER.size:
        return False
    base, _, _, version, _, _, delta, _, _, producer_id, epoch = _BATCH_HEADER.unpack_from(batch)
    return (
        version == _BATCH_VERSION
        and base <= position.offset <= base + delta
        and (producer_id, epoch) == (committable.producer_id, committable.producer_epoch)
    )
