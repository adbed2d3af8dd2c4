"""The partitions and streams that a Kafka source reads.

A KafkaSource reads partitions: those of named topics, those of topics that match a pattern, or a given set. A
DynamicKafkaSource reads streams. A stream is a name that a metadata service resolves to topics on clusters.

Source: org.apache.flink.connector.kafka.source.enumerator.subscriber,
org.apache.flink.connector.kafka.dynamic.metadata and .source.enumerator.subscriber,
pyflink.datastream.connectors.dynamic_kafka. Differs: a metadata service can be written in Python.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import KafkaError, UnsupportedOperationError
from flinkpy.connectors.kafka.client import (
    api_timeout_s,
    client_settings,
    load_confluent_kafka,
    new_client,
    typed_error,
)
from flinkpy.connectors.kafka.partitions import KafkaTopicPartition


class ClusterTopics:
    """Asks the brokers of a cluster for its topics.

    Thread: an I/O thread. Calls block, for at most `timeout_s` seconds.
    """

    def __init__(self, admin: Any, bootstrap_servers: str, timeout_s: float) -> None:
        self._admin = admin
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_s

    def partitions_of(self, topics: list[str] | None) -> dict[str, list[int]]:
        """Returns the partition numbers of each topic. None stands for all topics except Kafka's internal ones.

        Raises:
            KafkaError: the brokers do not answer, or a named topic does not exist or may not be described.
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
    """Selects the partitions that a KafkaSource reads. Pickled into the job."""

    @abstractmethod
    def get_subscribed_partitions(self, topics: ClusterTopics) -> set[KafkaTopicPartition]:
        """Returns the selected partitions that exist now.

        Thread: an I/O thread.

        Raises:
            KafkaError: a topic or partition that is selected by name does not exist, or the brokers do not answer.
        """


class TopicListSubscriber(KafkaSubscriber):
    """Selects all partitions of the named topics. All the topics must exist."""

    def __init__(self, topics: list[str]) -> None:
        self.topics = topics

    def get_subscribed_partitions(self, topics: ClusterTopics) -> set[KafkaTopicPartition]:
        return _all_of(topics.partitions_of(self.topics))

    def __repr__(self) -> str:
        return f"topics {', '.join(self.topics)}"


class TopicPatternSubscriber(KafkaSubscriber):
    """Selects all partitions of the topics whose whole name matches a pattern. There may be none yet.

    The pattern has Python's syntax, which covers what Java patterns of topic names use.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = re.compile(pattern)

    def get_subscribed_partitions(self, topics: ClusterTopics) -> set[KafkaTopicPartition]:
        found = topics.partitions_of(None)
        return _all_of({topic: found[topic] for topic in found if self.pattern.fullmatch(topic)})

    def __repr__(self) -> str:
        return f"topics like {self.pattern.pattern}"


class PartitionSetSubscriber(KafkaSubscriber):
    """Selects the given partitions. All of them must exist."""

    def __init__(self, partitions: set[KafkaTopicPartition]) -> None:
        self.partitions = frozenset(partitions)

    def get_subscribed_partitions(self, topics: ClusterTopics) -> set[KafkaTopicPartition]:
        found = _all_of(topics.partitions_of(sorted({wanted.topic for wanted in self.partitions})))
        missing = sorted(self.partitions - found)
        if missing:
            raise KafkaError(f"Kafka partitions {', '.join(map(repr, missing))} do not exist")
        return set(self.partitions)

    def __repr__(self) -> str:
        return f"partitions {', '.join(map(repr, sorted(self.partitions)))}"


def _all_of(topics: dict[str, list[int]]) -> set[KafkaTopicPartition]:
    return {KafkaTopicPartition(topic, partition) for topic, numbers in topics.items() for partition in numbers}


# -- streams -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterMetadata:
    """The part of a stream that is on one cluster.

    Attributes:
        topics: the names of its topics.
        properties: the properties of a consumer of that cluster, such as `bootstrap.servers`.
    """

    topics: frozenset[str]
    properties: dict[str, str]


@dataclass(frozen=True)
class KafkaStream:
    """A stream and its present place.

    Attributes:
        stream_id: the name of the stream.
        clusters: the part of the stream on each cluster, by cluster id.
    """

    stream_id: str
    clusters: dict[str, ClusterMetadata] = field(default_factory=dict, hash=False)


class KafkaMetadataService(ABC):
    """Resolves streams to topics on clusters. Beyond PyFlink: subclass it.

    The service is pickled into the job and called on an I/O thread of the JobMaster. An exception in the first
    discovery fails the job. Later exceptions are logged, and the next discovery tries again, up to
    `stream-metadata-discovery-failure-threshold` times in a row.

    Raises:
        UnsupportedOperationError: a Java object was passed.
    """

    def __init__(self, j_metadata_service: Any = None) -> None:
        if j_metadata_service is not None:
            raise UnsupportedOperationError(
                "a Java metadata service cannot be used: flinkpy has no JVM; subclass KafkaMetadataService in Python"
            )

    @abstractmethod
    def get_all_streams(self) -> set[KafkaStream]:
        """Returns all streams that exist now."""

    @abstractmethod
    def describe_streams(self, stream_ids: Iterable[str]) -> dict[str, KafkaStream]:
        """Returns the named streams by id. Streams that do not exist (any more) are left out."""

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        """Returns True if the cluster is to be read. When a cluster becomes active again, its topics count as new."""
        return True

    def close(self) -> None:
        return


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """Provides a stream for every topic of one cluster.

    Args:
        kafka_cluster_id: the id of the cluster.
        properties: the properties of a consumer of that cluster: `bootstrap.servers` and the security settings.

    Raises:
        ValueError: `properties` has no `bootstrap.servers`.
    """

    def __init__(self, kafka_cluster_id: str, properties: dict[str, str]) -> None:
        super().__init__()
        self.kafka_cluster_id = kafka_cluster_id
        self.properties = {key: str(value) for key, value in properties.items()}
        if "bootstrap.servers" not in self.properties:
            raise ValueError(f"SingleClusterTopicMetadataService {kafka_cluster_id!r} needs bootstrap.servers")

    def get_all_streams(self) -> set[KafkaStream]:
        return set(map(self._stream, self._topics()))

    def describe_streams(self, stream_ids: Iterable[str]) -> dict[str, KafkaStream]:
        topics = self._topics()
        return {stream_id: self._stream(stream_id) for stream_id in stream_ids if stream_id in topics}

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        return kafka_cluster_id == self.kafka_cluster_id

    def _topics(self) -> dict[str, list[int]]:
        admin = new_client("AdminClient", client_settings(self.properties))
        servers = self.properties["bootstrap.servers"]
        return ClusterTopics(admin, servers, api_timeout_s(self.properties)).partitions_of(None)

    def _stream(self, topic: str) -> KafkaStream:
        metadata = ClusterMetadata(frozenset({topic}), self.properties)
        return KafkaStream(topic, {self.kafka_cluster_id: metadata})


class KafkaStreamSubscriber(ABC):
    """Selects the streams that a DynamicKafkaSource reads. Beyond PyFlink: subclass it. Pickled into the job.

    Raises:
        UnsupportedOperationError: a Java object was passed.
    """

    def __init__(self, j_kafka_stream_subscriber: Any = None) -> None:
        if j_kafka_stream_subscriber is not None:
            raise UnsupportedOperationError("a Java stream subscriber cannot be used: flinkpy has no JVM")

    @abstractmethod
    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> list[KafkaStream]:
        """Returns the selected streams as the service describes them now."""


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Selects the given streams. The metadata service must know all of them.

    Args:
        stream_ids: the ids of the streams.

    Raises:
        ValueError: `stream_ids` is empty, or a single string.
    """

    def __init__(self, stream_ids: set[str]) -> None:
        super().__init__()
        if isinstance(stream_ids, str) or not stream_ids:
            raise ValueError(f"KafkaStreamSetSubscriber needs a set of stream ids, not {stream_ids!r}")
        self.stream_ids = frozenset(stream_ids)

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> list[KafkaStream]:
        found = kafka_metadata_service.describe_streams(sorted(self.stream_ids))
        missing = sorted(self.stream_ids - found.keys())
        if missing:
            raise KafkaError(f"the metadata service does not know the Kafka streams {', '.join(missing)}")
        return [found[stream_id] for stream_id in sorted(found)]


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """Selects all streams whose whole id matches a pattern, including streams that appear later.

    Args:
        stream_pattern: a regular expression in Python's syntax.
    """

    def __init__(self, stream_pattern: str) -> None:
        super().__init__()
        self.pattern = re.compile(stream_pattern)

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> list[KafkaStream]:
        streams = kafka_metadata_service.get_all_streams()
        selected = [stream for stream in streams if self.pattern.fullmatch(stream.stream_id)]
        return sorted(selected, key=lambda stream: stream.stream_id)
