"""DynamicKafkaSourceEnumerator: finds streams, their clusters and topics, and the partitions of these.

Readers are told of the clusters (how to reach them) and of the topics that are to be read; then they are given splits.
A topic that a stream has no more is not read any more, and is new when it comes back.

Source: org.apache.flink.connector.kafka.dynamic.source.enumerator.DynamicKafkaSourceEnumerator.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flinkpy.connector_api.serializer import SimpleVersionedSerializer
from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext
from flinkpy.connectors.kafka.partitions import KafkaPartitionSplit, KafkaTopicPartition, split_owner
from flinkpy.connectors.kafka.stream_metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStreamSubscriber,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DynamicKafkaSourceSplit:
    """A partition of a topic on one of the clusters."""

    kafka_cluster_id: str
    split: KafkaPartitionSplit

    @property
    def split_id(self) -> str:
        return f"{self.kafka_cluster_id}-{self.split.split_id}"


class DynamicKafkaSourceSplitSerializer(SimpleVersionedSerializer):
    """JSON, because a savepoint may be read by a later release."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: DynamicKafkaSourceSplit) -> bytes:
        split = value.split
        at = split.partition
        fields = [value.kafka_cluster_id, at.topic, at.partition, split.starting_offset, split.stopping_offset]
        return json.dumps(fields).encode()

    def deserialize(self, version: int, data: bytes) -> DynamicKafkaSourceSplit:
        cluster_id, topic, partition, starting, stopping = json.loads(data)
        split = KafkaPartitionSplit(KafkaTopicPartition(topic, partition), starting, stopping)
        return DynamicKafkaSourceSplit(cluster_id, split)


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """Told to readers: the clusters that are to be read, and what of them."""

    clusters: dict[str, ClusterMetadata]


@dataclass(frozen=True, slots=True)
class DynamicKafkaSourceEnumState:
    #: Cluster id to the partitions that some reader has, or has read to the end.
    assigned: dict[str, frozenset[KafkaTopicPartition]]
    #: Clusters whose first partitions are known: later ones are read from their beginning.
    is_initial_discovery_finished: bool


class DynamicKafkaSourceEnumStateSerializer(SimpleVersionedSerializer):
    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: DynamicKafkaSourceEnumState) -> bytes:
        assigned = {
            cluster_id: [(found.topic, found.partition) for found in sorted(partitions)]
            for cluster_id, partitions in value.assigned.items()
        }
        return json.dumps([assigned, value.is_initial_discovery_finished]).encode()

    def deserialize(self, version: int, data: bytes) -> DynamicKafkaSourceEnumState:
        assigned, is_finished = json.loads(data)
        partitions = {
            cluster_id: frozenset(KafkaTopicPartition(topic, partition) for topic, partition in found)
            for cluster_id, found in assigned.items()
        }
        return DynamicKafkaSourceEnumState(partitions, is_finished)


@dataclass(frozen=True, slots=True)
class Discovered:
    clusters: dict[str, ClusterMetadata]
    splits: list[DynamicKafkaSourceSplit]


class StreamDiscovery:
    """Asks the metadata service, then each cluster. Thread: an I/O thread, one call at a time.

    Args:
        find_on: (cluster id, what is there) -> the `find` of a PartitionDiscovery for that.
    """

    def __init__(
        self,
        service: KafkaMetadataService,
        subscriber: KafkaStreamSubscriber,
        find_on: Callable[[str, ClusterMetadata], Callable[..., list[KafkaPartitionSplit]]],
    ) -> None:
        self._service = service
        self._subscriber = subscriber
        self._find_on = find_on
        self._finders: dict[str, tuple[ClusterMetadata, Callable[..., list[KafkaPartitionSplit]]]] = {}

    def find(self, assigned: dict[str, frozenset[KafkaTopicPartition]], *, is_initial: bool) -> Discovered:
        clusters: dict[str, ClusterMetadata] = {}
        for stream in self._subscriber.get_subscribed_streams(self._service):
            for cluster_id, found in stream.clusters.items():
                if self._service.is_cluster_active(cluster_id):
                    known = clusters.get(cluster_id, ClusterMetadata(frozenset(), found.properties))
                    clusters[cluster_id] = replace(known, topics=known.topics | found.topics)
        splits = []
        for cluster_id, metadata in sorted(clusters.items()):
            if self._finders.get(cluster_id, (None,))[0] != metadata:
                self._finders[cluster_id] = metadata, self._find_on(cluster_id, metadata)
            find = self._finders[cluster_id][1]
            splits += [
                DynamicKafkaSourceSplit(cluster_id, split)
                for split in find(assigned.get(cluster_id, frozenset()), is_initial=is_initial)
            ]
        return Discovered(clusters, splits)


class DynamicKafkaSourceEnumerator(SplitEnumerator):
    """Thread: JobMaster main thread.

    Args:
        find: `StreamDiscovery.find`.
        discovery_interval_ms: ask anew so often; 0 or less: only at the start.
        max_failures: so many discoveries in a row may fail after the first, before the job does.
        ends: readers end when their splits have; only without discovery.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        find: Callable[..., Discovered],
        discovery_interval_ms: int,
        max_failures: int,
        ends: bool,
        state: DynamicKafkaSourceEnumState | None = None,
    ) -> None:
        self._context = context
        self._find = find
        self._interval_ms = discovery_interval_ms
        self._max_failures = max_failures
        self._num_failures = 0
        self._ends = ends and discovery_interval_ms <= 0
        self._assigned = {} if state is None else {key: set(found) for key, found in state.assigned.items()}
        self._is_initial_finished = state is not None and state.is_initial_discovery_finished
        #: Since this enumerator was started; None: nothing.
        self._clusters: dict[str, ClusterMetadata] | None = None

    def start(self) -> None:
        self._discover()

    def handle_split_request(self, subtask_index: int) -> None:
        """Splits are given out without being asked for."""

    def add_reader(self, subtask_index: int) -> None:
        if self._clusters is not None:
            self._context.send_event_to_reader(subtask_index, MetadataUpdate(self._clusters))
            if self._ends:
                self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[DynamicKafkaSourceSplit], subtask_index: int) -> None:
        self._assign(splits)

    def snapshot_state(self, checkpoint_id: int) -> DynamicKafkaSourceEnumState:
        assigned = {cluster_id: frozenset(found) for cluster_id, found in self._assigned.items()}
        return DynamicKafkaSourceEnumState(assigned, self._is_initial_finished)

    def _discover(self) -> None:
        assigned = {cluster_id: frozenset(found) for cluster_id, found in self._assigned.items()}
        is_initial = not self._is_initial_finished
        self._context.call_async(lambda: self._find(assigned, is_initial=is_initial), self._on_found)

    def _on_found(self, found: Discovered | None, error: BaseException | None) -> None:
        if found is None:
            self._num_failures += 1
            if self._clusters is None or self._num_failures > self._max_failures:
                assert error is not None
                raise error
            _LOG.warning("Kafka: asking for streams failed; trying again in %d ms: %s", self._interval_ms, error)
        else:
            self._num_failures = 0
            self._is_initial_finished = True
            is_changed, self._clusters = found.clusters != self._clusters, found.clusters
            for cluster_id, partitions in self._assigned.items():
                topics = found.clusters[cluster_id].topics if cluster_id in found.clusters else frozenset()
                partitions.difference_update([gone for gone in partitions if gone.topic not in topics])
            # First where the new splits are: a reader gives up splits of clusters that it is not to read.
            readers = sorted(self._context.registered_readers) if is_changed else []
            for subtask_index in readers:
                self._context.send_event_to_reader(subtask_index, MetadataUpdate(found.clusters))
            self._assign(
                [
                    split
                    for split in found.splits
                    if split.split.partition not in self._assigned.get(split.kafka_cluster_id, ())
                ]
            )
            for subtask_index in readers if self._ends else ():
                self._context.signal_no_more_splits(subtask_index)
        if self._interval_ms > 0:
            self._context.schedule(self._interval_ms, self._discover)

    def _assign(self, splits: list[DynamicKafkaSourceSplit]) -> None:
        assignment: dict[int, list[Any]] = {}
        for split in splits:
            at = split.split.partition
            # The clusters' topics of one name begin at different subtasks.
            owner = split_owner(KafkaTopicPartition(split.kafka_cluster_id + at.topic, at.partition), self._parallelism)
            assignment.setdefault(owner, []).append(split)
            self._assigned.setdefault(split.kafka_cluster_id, set()).add(at)
        if assignment:
            _LOG.info("Kafka: splits go to readers: %s", assignment)
            self._context.assign_splits(assignment)

    @property
    def _parallelism(self) -> int:
        return self._context.parallelism
