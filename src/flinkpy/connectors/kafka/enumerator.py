"""KafkaSourceEnumerator: finds the partitions and gives each to a reader.

Partitions that are there when the job starts begin where the user says; those that are found later begin at their
beginning, because all that is in them has come since.

Source: org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumerator. Differs: all offsets are asked for
here. When the brokers do not answer a later discovery the next one is waited for: readers notice what is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flinkpy.common.errors import KafkaError
from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext
from flinkpy.connectors.kafka.client import api_timeout_s, client_settings, new_client
from flinkpy.connectors.kafka.offsets import KafkaOffsetsInitializer, PartitionOffsets
from flinkpy.connectors.kafka.partitions import (
    NO_STOPPING_OFFSET,
    KafkaPartitionSplit,
    KafkaSourceEnumState,
    KafkaTopicPartition,
    split_owner,
)
from flinkpy.connectors.kafka.subscriber import ClusterMetadata, KafkaSubscriber

_LOG = logging.getLogger(__name__)

#: What an AdminClient does not know of a consumer's properties.
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


class PartitionDiscovery:
    """Finds new partitions and where they begin and end. Thread: an I/O thread, one call at a time."""

    def __init__(
        self,
        properties: dict[str, str],
        subscriber: KafkaSubscriber,
        starting: KafkaOffsetsInitializer,
        stopping: KafkaOffsetsInitializer,
        client_id: str,
    ) -> None:
        self._properties = properties
        self._subscriber = subscriber
        self._starting = starting
        self._stopping = stopping
        self._client_id = client_id
        self._admin: Any = None

    def find(self, known: frozenset[KafkaTopicPartition], *, is_initial: bool) -> list[KafkaPartitionSplit]:
        """The splits of the partitions that are not known.

        Raises:
            KafkaError: the brokers do not answer, or a topic or partition that was named is not there.
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
        metadata = ClusterMetadata(self._admin, properties["bootstrap.servers"], timeout_s)
        new = sorted(self._subscriber.get_subscribed_partitions(metadata) - known)
        if not new:
            return []
        is_read_committed = properties.get("isolation.level") == "read_committed"
        offsets = PartitionOffsets(self._admin, properties.get("group.id"), is_read_committed, timeout_s)
        initializer = self._starting if is_initial else KafkaOffsetsInitializer.earliest()
        starts = initializer.get_partition_offsets(new, offsets)
        ends = self._stopping.get_partition_offsets(new, offsets)
        return [KafkaPartitionSplit(key, starts[key], ends.get(key, NO_STOPPING_OFFSET)) for key in new]


class KafkaSourceEnumerator(SplitEnumerator):
    """Thread: JobMaster main thread.

    Args:
        find: `PartitionDiscovery.find`.
        discovery_interval_ms: look for new partitions so often; 0 or less: only at the start.
        ends: readers end when their splits have; only without discovery.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        find: Callable[..., list[KafkaPartitionSplit]],
        discovery_interval_ms: int,
        ends: bool,
        state: KafkaSourceEnumState | None = None,
    ) -> None:
        state = state or KafkaSourceEnumState()
        self._context = context
        self._find = find
        self._interval_ms = discovery_interval_ms
        self._ends = ends and discovery_interval_ms <= 0
        self._assigned = set(state.assigned)
        #: Of a state that an enumerator of Flink's kind wrote: none of ours has any.
        self._unassigned = list(state.unassigned)
        self._is_initial_finished = state.is_initial_discovery_finished
        #: Since this enumerator was started.
        self._has_discovered = False

    def start(self) -> None:
        unassigned, self._unassigned = self._unassigned, []
        self._assign(unassigned)
        self._discover()

    def handle_split_request(self, subtask_index: int) -> None:
        """Splits are given out without being asked for."""

    def add_reader(self, subtask_index: int) -> None:
        if self._has_discovered and self._ends:
            self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[KafkaPartitionSplit], subtask_index: int) -> None:
        self._assign(splits)

    def snapshot_state(self, checkpoint_id: int) -> KafkaSourceEnumState:
        return KafkaSourceEnumState(frozenset(self._assigned), (), self._is_initial_finished)

    def _discover(self) -> None:
        known = frozenset(self._assigned)
        is_initial = not self._is_initial_finished
        self._context.call_async(lambda: self._find(known, is_initial=is_initial), self._on_found)

    def _on_found(self, splits: list[KafkaPartitionSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            if not self._has_discovered or not isinstance(error, KafkaError):
                raise error
            _LOG.warning(
                "Kafka: looking for new partitions failed; trying again in %d ms: %s", self._interval_ms, error
            )
        else:
            self._is_initial_finished = True
            # What came back from a failed reader while the brokers were asked is known.
            self._assign([split for split in splits or () if split.partition not in self._assigned])
            if not self._has_discovered:
                self._has_discovered = True
                for subtask_index in sorted(self._context.registered_readers) if self._ends else ():
                    self._context.signal_no_more_splits(subtask_index)
        if self._interval_ms > 0:
            self._context.schedule(self._interval_ms, self._discover)

    def _assign(self, splits: list[KafkaPartitionSplit]) -> None:
        if not splits:
            return
        assignment: dict[int, list[KafkaPartitionSplit]] = {}
        for split in splits:
            owner = split_owner(split.partition, self._context.parallelism)
            assignment.setdefault(owner, []).append(split)
            self._assigned.add(split.partition)
        _LOG.info("Kafka: splits go to readers: %s", assignment)
        self._context.assign_splits(assignment)
