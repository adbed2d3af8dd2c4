"""Streams of the dynamic Kafka source: names that a metadata service resolves to topics on clusters.

Source: org.apache.flink.connector.kafka.dynamic.metadata and .source.enumerator.subscriber;
pyflink.datastream.connectors.dynamic_kafka. Differs: a metadata service can be written in Python.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flinkpy.common.errors import KafkaError, UnsupportedOperationError
from flinkpy.connectors.kafka.client import api_timeout_s, client_settings, new_client
from flinkpy.connectors.kafka.subscriber import ClusterMetadata as _TopicsOfCluster


@dataclass(frozen=True)
class ClusterMetadata:
    """What of a stream is on one cluster: topics, and the properties of a consumer there (`bootstrap.servers`, ...)."""

    topics: frozenset[str]
    properties: dict[str, str]


@dataclass(frozen=True)
class KafkaStream:
    """A stream, and where it is now: cluster id to what is there."""

    stream_id: str
    clusters: dict[str, ClusterMetadata] = field(default_factory=dict, hash=False)


class KafkaMetadataService(ABC):
    """Knows streams. Beyond PyFlink: subclass it. Pickled into the job; asked on an I/O thread of the JobMaster.

    What it raises fails the job at its start; later it is logged, and asked again.
    """

    def __init__(self, j_metadata_service: Any = None) -> None:
        if j_metadata_service is not None:
            raise UnsupportedOperationError(
                "a Java metadata service cannot be used: flinkpy has no JVM; subclass KafkaMetadataService in Python"
            )

    @abstractmethod
    def get_all_streams(self) -> set[KafkaStream]: ...

    @abstractmethod
    def describe_streams(self, stream_ids: Iterable[str]) -> dict[str, KafkaStream]:
        """By id; a stream that there is not (any more) is not in the answer."""

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        """Whether the cluster is to be read; what was read of one that is not goes on when it is again."""
        return True

    def close(self) -> None:
        return


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """The streams are the topics of one cluster.

    Args:
        properties: of a consumer there: `bootstrap.servers`, and what is needed to be let in.
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
        return _TopicsOfCluster(admin, servers, api_timeout_s(self.properties)).partitions_of(None)

    def _stream(self, topic: str) -> KafkaStream:
        metadata = ClusterMetadata(frozenset({topic}), self.properties)
        return KafkaStream(topic, {self.kafka_cluster_id: metadata})


class KafkaStreamSubscriber(ABC):
    """Which streams are read. Beyond PyFlink: subclass it."""

    def __init__(self, j_kafka_stream_subscriber: Any = None) -> None:
        if j_kafka_stream_subscriber is not None:
            raise UnsupportedOperationError("a Java stream subscriber cannot be used: flinkpy has no JVM")

    @abstractmethod
    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> list[KafkaStream]: ...


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """These streams, which must all be known."""

    def __init__(self, stream_ids: set[str]) -> None:
        super().__init__()
        if isinstance(stream_ids, str) or not stream_ids:
            raise ValueError(f"KafkaStreamSetSubscriber: a set of stream ids is needed, not {stream_ids!r}")
        self.stream_ids = frozenset(stream_ids)

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> list[KafkaStream]:
        found = kafka_metadata_service.describe_streams(sorted(self.stream_ids))
        missing = sorted(self.stream_ids - found.keys())
        if missing:
            raise KafkaError(f"Kafka streams {', '.join(missing)} are not known to the metadata service")
        return [found[stream_id] for stream_id in sorted(found)]


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """All streams whose whole id matches, also those that appear later."""

    def __init__(self, stream_pattern: str) -> None:
        super().__init__()
        self.pattern = re.compile(stream_pattern)

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> list[KafkaStream]:
        streams = kafka_metadata_service.get_all_streams()
        return sorted(
            (stream for stream in streams if self.pattern.fullmatch(stream.stream_id)), key=lambda s: s.stream_id
        )
