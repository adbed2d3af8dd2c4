"""Which partitions a source reads: topics by name, topics by a pattern, or single partitions.

Source: org.apache.flink.connector.kafka.source.enumerator.subscriber.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.connectors.kafka.client import load_confluent_kafka, typed_error
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition


class ClusterMetadata:
    """The topics of a cluster, as its brokers tell. Thread: an I/O thread; calls block, `timeout_s` at most."""

    def __init__(self, admin: Any, bootstrap_servers: str, timeout_s: float) -> None:
        self._admin = admin
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_s

    def partitions_of(self, topics: list[str] | None) -> dict[str, list[int]]:
        """Topic to its partitions; None: of all topics but Kafka's own.

        Raises:
            KafkaError: the brokers do not answer; one of the named topics is not there, or may not be seen.
        """
        module = load_confluent_kafka()
        found: dict[str, list[int]] = {}
        for topic in [None] if topics is None else topics:
            what = "the list of topics" if topic is None else f"Kafka topic {topic}"
            try:
                metadata = self._admin.list_topics(topic, timeout=self._timeout_s)
            except module.KafkaException as error:
                raise typed_error(error, f"{what}: Kafka brokers {self._bootstrap_servers} do not answer") from error
            for name, described in metadata.topics.items():
                if described.error is not None and topic is not None:
                    raise typed_error(described.error, f"Kafka topic {name} of brokers {self._bootstrap_servers}")
                if described.error is None and (topic is not None or not name.startswith("__")):
                    found[name] = sorted(described.partitions)
        return found


class KafkaSubscriber(ABC):
    """Pickled into the job."""

    @abstractmethod
    def get_subscribed_partitions(self, metadata: ClusterMetadata) -> set[KafkaTopicPartition]:
        """Thread: an I/O thread.

        Raises:
            KafkaError: what is asked for by name is not there, or the brokers do not answer.
        """


class TopicListSubscriber(KafkaSubscriber):
    """All partitions of these topics, which must all be there."""

    def __init__(self, topics: list[str]) -> None:
        self.topics = topics

    def get_subscribed_partitions(self, metadata: ClusterMetadata) -> set[KafkaTopicPartition]:
        return _all_of(metadata.partitions_of(self.topics))

    def __repr__(self) -> str:
        return f"topics {', '.join(self.topics)}"


class TopicPatternSubscriber(KafkaSubscriber):
    """All partitions of the topics whose whole name matches; there may be none yet.

    The grammar is Python's, which has all that topic names need of Java's.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = re.compile(pattern)

    def get_subscribed_partitions(self, metadata: ClusterMetadata) -> set[KafkaTopicPartition]:
        found = metadata.partitions_of(None)
        return _all_of({topic: found[topic] for topic in found if self.pattern.fullmatch(topic)})

    def __repr__(self) -> str:
        return f"topics like {self.pattern.pattern}"


class PartitionSetSubscriber(KafkaSubscriber):
    """These partitions, which must all be there."""

    def __init__(self, partitions: set[KafkaTopicPartition]) -> None:
        self.partitions = frozenset(partitions)

    def get_subscribed_partitions(self, metadata: ClusterMetadata) -> set[KafkaTopicPartition]:
        found = _all_of(metadata.partitions_of(sorted({wanted.topic for wanted in self.partitions})))
        missing = sorted(self.partitions - found)
        if missing:
            raise KafkaError(f"Kafka partitions {', '.join(map(repr, missing))} do not exist")
        return set(self.partitions)

    def __repr__(self) -> str:
        return f"partitions {', '.join(map(repr, sorted(self.partitions)))}"


def _all_of(topics: dict[str, list[int]]) -> set[KafkaTopicPartition]:
    return {KafkaTopicPartition(topic, partition) for topic, numbers in topics.items() for partition in numbers}
