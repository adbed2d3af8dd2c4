"""TransactionLog: reads from the logs of topics how a transaction ended.

A transaction coordinator only knows the last transaction of a transactional id. The log of a partition knows all
transactions, as long as it keeps their records: it lists the aborted ones, and every batch of records names its
producer (decision 0032).
"""

from __future__ import annotations

import logging
import struct
from enum import Enum

from flinkpy.common.errors import KafkaError
from flinkpy.connectors.kafka.transaction_client import (
    RETRIABLE,
    KafkaCommittable,
    RecordPosition,
    TransactionClient,
    TransactionDescription,
)
from flinkpy.connectors.kafka.wire import DESCRIBE_PRODUCERS, FETCH, Reader, Writer

_LOG = logging.getLogger(__name__)

_READ_COMMITTED = 1
#: A broker returns at least one whole batch, even if the limit is smaller.
_FETCH_BYTES = 1
#: The version of record batches since Kafka 0.11. Older batches have no transactions.
_BATCH_VERSION = 2
#: Base offset, length, leader epoch, version, checksum, attributes, last offset delta, two timestamps, producer id and
#: producer epoch.
_BATCH_HEADER = struct.Struct(">qiibIhiqqqh")


class Outcome(Enum):
    """The end of a transaction, as the log of a partition shows it."""

    COMMITTED = "the log has its first record and does not list it as aborted"
    ABORTED = "the log lists it as aborted"
    NOT_FOUND = "the log no longer has its first record"


class TransactionLog:
    """Thread: that of the client."""

    def __init__(self, client: TransactionClient) -> None:
        self._client = client
        self._has_warned = False

    def first_record(self, transaction: TransactionDescription) -> RecordPosition | None:
        """Returns the position of the first record of an open transaction in one of its partitions.

        Returns None if the brokers do not tell it. The position is only needed later, to find out how the transaction
        ended, so a checkpoint does not fail without it.
        """
        if not transaction.partitions:
            return None
        topic, partition = transaction.partitions[0]
        try:
            offset = self._start_offset(topic, partition, transaction.producer_id)
        except KafkaError as error:
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning(
                    "The Kafka sink cannot ask where its transactions begin in topic %s: %s. If another producer takes "
                    "over the id of a transaction, the sink cannot tell if the transaction was committed, and fails "
                    "the job. Grant the principal Read on the topic",
                    topic,
                    error,
                )
            return None
        return None if offset is None else RecordPosition(topic, partition, offset)

    def outcome(self, committable: KafkaCommittable) -> Outcome:
        """Returns how a transaction with a known first record ended. Waits while the brokers are ending it.

        Raises:
            KafkaError: the log cannot be read. TOPIC_AUTHORIZATION_FAILED: the principal may not read the topic.
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
            return _read_start_offset(answer, producer_id)

        offset: int | None = self._client.ask_leader(topic, partition, DESCRIBE_PRODUCERS, body.data, read)
        return offset


def is_refused(error: KafkaError) -> bool:
    """Returns True if a broker answered with an error that a retry does not change."""
    code = error.details.get("code")
    return code is not None and code not in RETRIABLE


def _read_start_offset(answer: Reader, producer_id: int) -> tuple[int, int | None]:
    """Reads an answer to DescribeProducers for one partition.

    Returns the error code, and the offset at which the open transaction of the producer begins, if there is one.
    """
    answer.int32()  # throttle time
    code = 0
    found = None
    for _ in range(answer.compact_length()):
        answer.compact_string()  # topic
        for _ in range(answer.compact_length()):
            answer.int32()  # partition
            code = answer.int16()
            answer.compact_string()  # error message
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


def _read_outcome(answer: Reader, committable: KafkaCommittable, position: RecordPosition) -> tuple[int, Outcome]:
    """Reads an answer to Fetch for one partition. Returns the error code and the outcome."""
    answer.int32()  # throttle time
    answer.int32()  # number of topics
    answer.string()
    answer.int32()  # number of partitions
    answer.int32()  # partition
    code = answer.int16()
    answer.int64()  # high watermark
    last_stable_offset = answer.int64()
    # The aborted transactions that overlap the fetched records: producer id and offset of the first record of each.
    aborted = [(answer.int64(), answer.int64()) for _ in range(max(0, answer.int32()))]
    batch = answer.bytes_()
    if code:
        return code, Outcome.NOT_FOUND
    if last_stable_offset <= position.offset:
        # Without a code, the client asks again.
        raise KafkaError(
            f"Kafka transaction {committable.transactional_id} has not ended in {position.topic}-{position.partition}"
        )
    if any(producer_id == committable.producer_id and first <= position.offset for producer_id, first in aborted):
        return 0, Outcome.ABORTED
    return 0, Outcome.COMMITTED if _has_first_record(batch, committable, position) else Outcome.NOT_FOUND


def _has_first_record(batch: bytes, committable: KafkaCommittable, position: RecordPosition) -> bool:
    """Returns True if the batch holds the first record of the transaction. A compacted or new log has other batches."""
    if len(batch) < _BATCH_HEADER.size:
        return False
    base, _, _, version, _, _, delta, _, _, producer_id, epoch = _BATCH_HEADER.unpack_from(batch)
    return (
        version == _BATCH_VERSION
        and base <= position.offset <= base + delta
        and (producer_id, epoch) == (committable.producer_id, committable.producer_epoch)
    )
