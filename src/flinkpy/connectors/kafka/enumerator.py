"""KafkaSourceEnumerator: discovers partitions and assigns each of them to a reader.

Partitions that exist when the job starts are read from the starting offsets of the source. Partitions that are
discovered later are read from their beginning, because all their records were written since the start.

One enumerator serves both sources. A KafkaSource discovers the partitions of one cluster (PartitionDiscovery). A
DynamicKafkaSource first asks a metadata service for the clusters and topics of its streams (StreamDiscovery) and
announces them to the readers. A topic that no stream has any more is no longer read. It counts as new if it comes back.

Source: org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumerator,
org.apache.flink.connector.kafka.dynamic.source.enumerator.DynamicKafkaSourceEnumerator. Differs: the enumerator
resolves all offsets. If a later discovery fails, the enumerator waits for the next one: readers notice lost brokers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext
from flinkpy.connectors.kafka.client import api_timeout_s, client_settings, new_client
from flinkpy.connectors.kafka.offsets import KafkaOffsetsInitializer, PartitionOffsets
from flinkpy.connectors.kafka.partitions import (
    NO_STOPPING_OFFSET,
    AssignedPartitions,
    KafkaPartitionSplit,
    KafkaSourceEnumState,
    KafkaTopicPartition,
    split_owner,
)
from flinkpy.connectors.kafka.subscriber import (
    ClusterMetadata,
    ClusterTopics,
    KafkaMetadataService,
    KafkaStreamSubscriber,
    KafkaSubscriber,
)

_LOG = logging.getLogger(__name__)

#: Properties of a consumer that an AdminClient refuses.
_CONSUMER_ONLY = (
    "auto.offset.reset",
    "isolation.level",
    "group.id",
    "group.instance.id",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "check.crcs",
)


@dataclass(frozen=True, slots=True)
class Discovered:
    """The result of a discovery."""

    #: The splits of partitions that were not assigned when the discovery began.
    splits: list[KafkaPartitionSplit]
    #: The clusters and topics of the streams, by cluster id. None if the source does not read streams.
    clusters: dict[str, ClusterMetadata] | None = None


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """An event to readers of streams: the clusters and topics that are to be read, by cluster id."""

    clusters: dict[str, ClusterMetadata]


class PartitionDiscovery:
    """Finds new partitions of a cluster, with their starting and stopping offsets.

    Thread: an I/O thread, one call at a time.
    """

    def __init__(
        self,
        properties: dict[str, str],
        subscriber: KafkaSubscriber,
        starting: KafkaOffsetsInitializer,
        stopping: KafkaOffsetsInitializer,
        client_id: str,
        kafka_cluster_id: str | None,
    ) -> None:
        self._properties = properties
        self._subscriber = subscriber
        self._starting = starting
        self._stopping = stopping
        self._client_id = client_id
        self._kafka_cluster_id = kafka_cluster_id
        self._admin: Any = None

    def find(self, assigned: AssignedPartitions, *, is_initial: bool) -> Discovered:
        """Returns the splits of the partitions that are not assigned.

        Raises:
            KafkaError: the brokers do not answer, or a named topic or partition does not exist.
            ConfigurationError: a partition has no offset to begin at.
        """
        properties = self._properties
        timeout_s = api_timeout_s(properties)
        if self._admin is None:
            settings = client_settings(properties)
            for key in list(settings):
                if key in _CONSUMER_ONLY or key.startswith(("fetch.", "queued.", "max.partition.fetch")):
                    del settings[key]
            self._admin = new_client("AdminClient", {**settings, "client.id": self._client_id})
        topics = ClusterTopics(self._admin, properties["bootstrap.servers"], timeout_s)
        known = assigned.get(self._kafka_cluster_id, frozenset())
        new = sorted(self._subscriber.get_subscribed_partitions(topics) - known)
        if not new:
            return Discovered([])
        is_read_committed = properties.get("isolation.level") == "read_committed"
        offsets = PartitionOffsets(self._admin, properties.get("group.id"), is_read_committed, timeout_s)
        initializer = self._starting if is_initial else KafkaOffsetsInitializer.earliest()
        starts = initializer.get_partition_offsets(new, offsets)
        ends = self._stopping.get_partition_offsets(new, offsets)
        cluster_id = self._kafka_cluster_id
        return Discovered(
            [KafkaPartitionSplit(key, starts[key], ends.get(key, NO_STOPPING_OFFSET), cluster_id) for key in new]
        )


class StreamDiscovery:
    """Asks the metadata service for the subscribed streams, then each of their clusters for new partitions.

    Thread: an I/O thread, one call at a time.

    Args:
        discovery_on: (cluster id, the part of the streams on that cluster) -> a PartitionDiscovery for it.
    """

    def __init__(
        self,
        service: KafkaMetadataService,
        subscriber: KafkaStreamSubscriber,
        discovery_on: Callable[[str, ClusterMetadata], PartitionDiscovery],
    ) -> None:
        self._service = service
        self._subscriber = subscriber
        self._discovery_on = discovery_on
        self._discoveries: dict[str, tuple[ClusterMetadata, PartitionDiscovery]] = {}

    def find(self, assigned: AssignedPartitions, *, is_initial: bool) -> Discovered:
        clusters: dict[str, ClusterMetadata] = {}
        for stream in self._subscriber.get_subscribed_streams(self._service):
            for cluster_id, found in stream.clusters.items():
                if self._service.is_cluster_active(cluster_id):
                    known = clusters.get(cluster_id, ClusterMetadata(frozenset(), found.properties))
                    clusters[cluster_id] = replace(known, topics=known.topics | found.topics)
        splits: list[KafkaPartitionSplit] = []
        for cluster_id, metadata in sorted(clusters.items()):
            known_metadata, discovery = self._discoveries.get(cluster_id, (None, None))
            if discovery is None or known_metadata != metadata:
                discovery = self._discovery_on(cluster_id, metadata)
                self._discoveries[cluster_id] = (metadata, discovery)
            splits += discovery.find(assigned, is_initial=is_initial).splits
        return Discovered(splits, clusters)


class KafkaSourceEnumerator(SplitEnumerator):
    """The enumerator of KafkaSource and DynamicKafkaSource.

    Thread: JobMaster main thread.

    Args:
        discovery_interval_ms: the time between two discoveries; 0 or less: there is only one, at the start.
        ends: True if readers end after their last split. It has no effect with repeated discovery.
        max_failures: the number of discoveries in a row that may fail. The first discovery must succeed.
        tolerates: the class of the errors that a repeated discovery may raise. Other errors fail the job immediately.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        discovery: PartitionDiscovery | StreamDiscovery,
        discovery_interval_ms: int,
        ends: bool,
        state: KafkaSourceEnumState,
        *,
        max_failures: float = math.inf,
        tolerates: type[BaseException] = KafkaError,
    ) -> None:
        self._context = context
        self._discovery = discovery
        self._interval_ms = discovery_interval_ms
        self._ends = ends and discovery_interval_ms <= 0
        self._max_failures = max_failures
        self._tolerates = tolerates
        self._num_failures = 0
        self._assigned = {cluster_id: set(partitions) for cluster_id, partitions in state.assigned.items()}
        self._is_initial_finished = state.is_initial_discovery_finished
        #: True once a discovery of this enumerator has succeeded.
        self._has_discovered = False
        #: The clusters that were last announced to the readers; None if there are none yet, or the source does not read
        #: streams.
        self._clusters: dict[str, ClusterMetadata] | None = None

    def start(self) -> None:
        self._discover()

    def handle_split_request(self, subtask_index: int) -> None:
        """Does nothing: splits are assigned without a request."""

    def add_reader(self, subtask_index: int) -> None:
        if self._clusters is not None:
            self._context.send_event_to_reader(subtask_index, MetadataUpdate(self._clusters))
        if self._has_discovered and self._ends:
            self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[KafkaPartitionSplit], subtask_index: int) -> None:
        self._assign(splits)

    def adopt_splits(self, splits: list[KafkaPartitionSplit]) -> bool:
        for split in splits:
            self._assigned.setdefault(split.kafka_cluster_id, set()).add(split.partition)
        self._is_initial_finished = True  # the former enumerator has assigned them after it
        return True

    def snapshot_state(self, checkpoint_id: int) -> KafkaSourceEnumState:
        return KafkaSourceEnumState(self._assigned_now(), self._is_initial_finished)

    def _assigned_now(self) -> AssignedPartitions:
        return {cluster_id: frozenset(partitions) for cluster_id, partitions in self._assigned.items()}

    def _discover(self) -> None:
        assigned = self._assigned_now()
        is_initial = not self._is_initial_finished
        self._context.call_async(
            lambda: self._discovery.find(assigned, is_initial=is_initial), self._on_discovery_finished
        )

    def _on_discovery_finished(self, found: Discovered | None, error: BaseException | None) -> None:
        if found is None:
            assert error is not None
            self._num_failures += 1
            if (
                not self._has_discovered
                or self._num_failures > self._max_failures
                or not isinstance(error, self._tolerates)
            ):
                raise error
            _LOG.warning("Kafka: a discovery of partitions failed; retrying in %d ms: %s", self._interval_ms, error)
        else:
            self._num_failures = 0
            self._is_initial_finished = True
            self._on_discovered(found)
        if self._interval_ms > 0:
            self._context.schedule(self._interval_ms, self._discover)

    def _on_discovered(self, found: Discovered) -> None:
        readers = sorted(self._context.registered_readers)
        if found.clusters is not None:
            self._forget_lost_topics(found.clusters)
            if found.clusters != self._clusters:
                self._clusters = found.clusters
                # Announce the clusters before the splits: a reader gives up splits of other clusters.
                for subtask_index in readers:
                    self._context.send_event_to_reader(subtask_index, MetadataUpdate(found.clusters))
        # A split that a failed reader gave back during the discovery is assigned by now.
        self._assign(
            [split for split in found.splits if split.partition not in self._assigned.get(split.kafka_cluster_id, ())]
        )
        is_first = not self._has_discovered
        self._has_discovered = True
        if is_first and self._ends:
            for subtask_index in readers:
                self._context.signal_no_more_splits(subtask_index)

    def _forget_lost_topics(self, clusters: dict[str, ClusterMetadata]) -> None:
        for cluster_id, partitions in self._assigned.items():
            metadata = None if cluster_id is None else clusters.get(cluster_id)
            topics = frozenset() if metadata is None else metadata.topics
            partitions.difference_update([key for key in partitions if key.topic not in topics])

    def _assign(self, splits: list[KafkaPartitionSplit]) -> None:
        assignment: dict[int, list[Any]] = {}
        for split in splits:
            owner = split_owner(split, self._context.parallelism)
            assignment.setdefault(owner, []).append(split)
            partitions: set[KafkaTopicPartition] = self._assigned.setdefault(split.kafka_cluster_id, set())
            partitions.add(split.partition)
        if assignment:
            _LOG.info("Kafka: assigned splits to readers: %s", assignment)
            self._context.assign_splits(assignment)
