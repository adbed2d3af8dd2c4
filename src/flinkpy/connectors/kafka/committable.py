"""KafkaCommittable: a transaction that is complete but for its commit.

Source: org.apache.flink.connector.kafka.sink.KafkaCommittable.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from flinkpy.connector_api.serializer import SimpleVersionedSerializer


class RecordPosition(NamedTuple):
    """The place of a record in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class KafkaCommittable:
    """All that Kafka needs to know to commit a transaction, from whichever process."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    #: The first record of the transaction in one of its partitions: the log tells there how the transaction ended.
    #: None if the brokers did not say, or if a release that did not ask wrote the checkpoint.
    first_record: RecordPosition | None = None


class KafkaCommittableSerializer(SimpleVersionedSerializer):
    """Writes JSON, because a savepoint may be read by a later release. Version 1 had no first record."""

    @property
    def version(self) -> int:
        return 2

    def serialize(self, value: KafkaCommittable) -> bytes:
        return json.dumps(
            [value.transactional_id, value.producer_id, value.producer_epoch, value.first_record]
        ).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaCommittable:
        transactional_id, producer_id, producer_epoch, *more = json.loads(data)
        first_record = RecordPosition(*more[0]) if more and more[0] is not None else None
        return KafkaCommittable(transactional_id, producer_id, producer_epoch, first_record)
