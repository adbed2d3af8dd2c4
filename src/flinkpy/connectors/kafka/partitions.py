"""Partitions of topics, and the splits of a Kafka source: a partition each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flinkpy.connector_api.serializer import SimpleVersionedSerializer

#: A split that never ends.
NO_STOPPING_OFFSET = -(1 << 63)


class KafkaTopicPartition:
    """A partition of a topic.

    Source: pyflink.datastream.connectors.kafka.KafkaTopicPartition.
    """

    __slots__ = ("_partition", "_topic")

    def __init__(self, topic: str, partition: int) -> None:
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"KafkaTopicPartition: the topic must be a name, not {topic!r}")
        if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
            raise ValueError(f"KafkaTopicPartition: the partition must be a number from 0 on, not {partition!r}")
        self._topic = topic
        self._partition = partition

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._partition

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KafkaTopicPartition)
            and self._topic == other._topic
            and self._partition == other._partition
        )

    def __hash__(self) -> int:
        return hash((self._topic, self._partition))

    def __lt__(self, other: KafkaTopicPartition) -> bool:
        return (self._topic, self._partition) < (other._topic, other._partition)

    def __repr__(self) -> str:
        return f"{self._topic}-{self._partition}"


@dataclass(frozen=True, slots=True)
class KafkaPartitionSplit:
    """The records of a partition from `starting_offset` on, up to but without `stopping_offset`.

    Source: org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit. Differs: offsets are always numbers: the
    enumerator asks for the earliest, latest and committed ones, so a split that comes back after a failure is the same.
    """

    partition: KafkaTopicPartition
    starting_offset: int
    stopping_offset: int = NO_STOPPING_OFFSET

    @property
    def split_id(self) -> str:
        return repr(self.partition)

    @property
    def has_end(self) -> bool:
        return self.stopping_offset != NO_STOPPING_OFFSET


class KafkaPartitionSplitSerializer(SimpleVersionedSerializer):
    """JSON, because a savepoint may be read by a later release."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KafkaPartitionSplit) -> bytes:
        return json.dumps(_split_fields(value)).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaPartitionSplit:
        topic, partition, starting, stopping = json.loads(data)
        return KafkaPartitionSplit(KafkaTopicPartition(topic, partition), starting, stopping)


@dataclass(frozen=True, slots=True)
class KafkaSourceEnumState:
    """What a checkpoint has of the enumerator.

    Source: org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState. Differs: the splits that nobody has
    yet are kept with their offsets, so that a restored job does not ask for them anew.
    """

    #: Partitions that some reader has, or has read to the end.
    assigned: frozenset[KafkaTopicPartition] = frozenset()
    #: Splits that no reader has been given.
    unassigned: tuple[KafkaPartitionSplit, ...] = ()
    #: Whether the partitions that were there at the start are known: later ones are read from their beginning.
    is_initial_discovery_finished: bool = False


class KafkaSourceEnumStateSerializer(SimpleVersionedSerializer):
    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KafkaSourceEnumState) -> bytes:
        assigned = [(found.topic, found.partition) for found in sorted(value.assigned)]
        unassigned = [_split_fields(split) for split in value.unassigned]
        return json.dumps([assigned, unassigned, value.is_initial_discovery_finished]).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaSourceEnumState:
        assigned, unassigned, is_finished = json.loads(data)
        return KafkaSourceEnumState(
            frozenset(KafkaTopicPartition(topic, partition) for topic, partition in assigned),
            tuple(
                KafkaPartitionSplit(KafkaTopicPartition(topic, partition), starting, stopping)
                for topic, partition, starting, stopping in unassigned
            ),
            is_finished,
        )


def split_owner(partition: KafkaTopicPartition, num_readers: int) -> int:
    """The subtask that reads it: the partitions of a topic go round, from a subtask that its name tells.

    Source: KafkaSourceEnumerator.getSplitOwner.
    """
    start = ((java_hash(partition.topic) * 31) & 0x7FFFFFFF) % num_readers
    return (start + partition.partition) % num_readers


def java_hash(text: str) -> int:
    """java.lang.String.hashCode, as an unsigned number of 32 bits."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(encoded[::2], encoded[1::2]):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def _split_fields(split: KafkaPartitionSplit) -> list[Any]:
    return [split.partition.topic, split.partition.partition, split.starting_offset, split.stopping_offset]
