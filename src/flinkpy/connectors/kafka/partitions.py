"""Partitions of Kafka topics, and the splits of a Kafka source: one split per partition."""

from __future__ import annotations

import json
from dataclasses import dataclass

from flinkpy.connector_api.serializer import SimpleVersionedSerializer

#: The stopping offset of a split without an end.
NO_STOPPING_OFFSET = -(1 << 63)


class KafkaTopicPartition:
    """A partition of a topic.

    Source: pyflink.datastream.connectors.kafka.KafkaTopicPartition.

    Args:
        topic: the name of the topic.
        partition: the number of the partition, from 0.

    Raises:
        TypeError: `topic` is not a string, or is empty.
        ValueError: `partition` is not a number from 0.
    """

    __slots__ = ("_partition", "_topic")

    def __init__(self, topic: str, partition: int) -> None:
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"KafkaTopicPartition: the topic must be a name, not {topic!r}")
        if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
            raise ValueError(f"KafkaTopicPartition: the partition must be a number from 0, not {partition!r}")
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
    """The records of a partition from `starting_offset` (inclusive) to `stopping_offset` (exclusive).

    Source: org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit and
    org.apache.flink.connector.kafka.dynamic.source.split.DynamicKafkaSourceSplit. Differs: offsets are always numbers.
    The enumerator resolves the earliest, latest and committed offsets, so a split that comes back after a failure still
    begins at the same record.
    """

    partition: KafkaTopicPartition
    starting_offset: int
    stopping_offset: int = NO_STOPPING_OFFSET
    #: The cluster of the partition, in a DynamicKafkaSource. None in a KafkaSource, which reads one cluster.
    kafka_cluster_id: str | None = None

    @property
    def split_id(self) -> str:
        return f"{self.partition}" if self.kafka_cluster_id is None else f"{self.kafka_cluster_id}-{self.partition}"

    @property
    def has_end(self) -> bool:
        return self.stopping_offset != NO_STOPPING_OFFSET


class KafkaPartitionSplitSerializer(SimpleVersionedSerializer):
    """Writes JSON, because a later release may read the savepoint. The cluster comes first, if there is one."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KafkaPartitionSplit) -> bytes:
        cluster = [] if value.kafka_cluster_id is None else [value.kafka_cluster_id]
        at = value.partition
        return json.dumps([*cluster, at.topic, at.partition, value.starting_offset, value.stopping_offset]).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaPartitionSplit:
        *cluster, topic, partition, starting, stopping = json.loads(data)
        cluster_id = cluster[0] if cluster else None
        return KafkaPartitionSplit(KafkaTopicPartition(topic, partition), starting, stopping, cluster_id)


#: The assigned partitions by cluster id. The key is None in a KafkaSource.
AssignedPartitions = dict[str | None, frozenset[KafkaTopicPartition]]


@dataclass(frozen=True, slots=True)
class KafkaSourceEnumState:
    """The state of the enumerator in a checkpoint.

    Source: org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState.
    """

    #: The partitions that were assigned to a reader, including those that the reader has finished.
    assigned: AssignedPartitions
    #: True if the partitions that existed at the start are known. Later partitions are read from their beginning.
    is_initial_discovery_finished: bool


class KafkaSourceEnumStateSerializer(SimpleVersionedSerializer):
    """Writes JSON in one of two forms.

    KafkaSource: `[assigned partitions, [], flag]`; the empty list is kept for Flink's unassigned splits.
    DynamicKafkaSource: `[{cluster id: assigned partitions}, flag]`.
    """

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KafkaSourceEnumState) -> bytes:
        assigned = {
            cluster_id: [(key.topic, key.partition) for key in sorted(partitions)]
            for cluster_id, partitions in value.assigned.items()
        }
        if None in assigned:
            return json.dumps([assigned[None], [], value.is_initial_discovery_finished]).encode()
        return json.dumps([assigned, value.is_initial_discovery_finished]).encode()

    def deserialize(self, version: int, data: bytes) -> KafkaSourceEnumState:
        assigned, *_, is_finished = json.loads(data)
        by_cluster = assigned if isinstance(assigned, dict) else {None: assigned}
        return KafkaSourceEnumState(
            {
                cluster_id: frozenset(KafkaTopicPartition(topic, partition) for topic, partition in partitions)
                for cluster_id, partitions in by_cluster.items()
            },
            is_finished,
        )


def split_owner(split: KafkaPartitionSplit, num_readers: int) -> int:
    """Returns the subtask that reads the split.

    The partitions of a topic are dealt out in turn. The hash of the topic's name selects the first subtask. The cluster
    id is part of the hashed name, so topics of the same name on several clusters begin at different subtasks.

    Source: KafkaSourceEnumerator.getSplitOwner.
    """
    name = (split.kafka_cluster_id or "") + split.partition.topic
    start = ((java_hash(name) * 31) & 0x7FFFFFFF) % num_readers
    return (start + split.partition.partition) % num_readers


def java_hash(text: str) -> int:
    """Returns java.lang.String.hashCode of the text, as an unsigned 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(encoded[::2], encoded[1::2]):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value
