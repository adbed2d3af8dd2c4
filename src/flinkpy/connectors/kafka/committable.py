"""KafkaCommittable: a transaction that is complete but for its commit.

Source: org.apache.flink.connector.kafka.sink.KafkaCommittable.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from flinkpy.connector_api.serializer import SimpleVersionedSerializer


@dataclass(frozen=True, slots=True)
class KafkaCommittable:
    """All that Kafka needs to know to commit a transaction, from whichever process."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class KafkaCommittableSerializer(SimpleVersionedSerializer):
    """JSON, because a savepoint may be read by a later release."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KafkaCommittable) -> bytes:
        return json.dumps([value.transactional_id, value.producer_id, value.producer_epoch]).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaCommittable:
        return KafkaCommittable(*json.loads(data))
