"""PulsarEnumerator: discovers partitions, creates their subscriptions, and assigns each partition to a reader.

Source: org.apache.flink.connector.pulsar.source.enumerator.PulsarSourceEnumerator. Differs: a
partition that is discovered later is read from its beginning. Flink begins at the start cursor, and may miss messages
that came before the discovery.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flinkpy.common.errors import PulsarError
from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext
from flinkpy.connectors.pulsar.client import PulsarConnection
from flinkpy.connectors.pulsar.cursors import StartPosition, StopPosition
from flinkpy.connectors.pulsar.message_id import PulsarMessageId

_LOG = logging.getLogger(__name__)

EARLIEST = StartPosition("earliest")


@dataclass(frozen=True, slots=True)
class PulsarSplit:
    """A partition to read.

    Attributes:
        read_to: the last message that was emitted. If None, `start` says which messages to skip.
    """

    partition: str
    start: StartPosition
    stop: StopPosition
    read_to: PulsarMessageId | None = None

    @property
    def split_id(self) -> str:
        return self.partition


@dataclass(frozen=True, slots=True)
class PulsarEnumeratorState:
    """The state of a PulsarEnumerator in a checkpoint."""

    known: frozenset[str] = frozenset()
    #: True once the first discovery has found the partitions that exist at the start.
    is_begun: bool = False


class PartitionDiscovery:
    """Finds partitions and creates their subscriptions. Thread: an I/O thread, one call at a time.

    Args:
        topics: names, or a pattern that matches whole names with or without `persistent://`.
        resets: True to move an existing subscription to the start position.
    """

    def __init__(
        self,
        make_connection: Callable[[Mapping[str, str]], PulsarConnection],
        properties: Mapping[str, str],
        topics: tuple[str, ...] | re.Pattern[str],
        start: StartPosition,
        stop: StopPosition,
        resets: bool,
    ) -> None:
        self._make_connection = make_connection
        self._properties = properties
        self._topics = topics
        self._start = start
        self._stop = stop
        self._resets = resets
        self._connection: PulsarConnection | None = None

    def find(self, known: frozenset[str], *, is_first: bool) -> list[PulsarSplit]:
        """Returns a split for each partition that is not in `known`. Raises: PulsarError."""
        if self._connection is None:
            self._connection = self._make_connection(self._properties)
        connection = self._connection
        start = self._start if is_first else EARLIEST
        found = []
        for topic in self._all_topics(connection):
            for partition in connection.partitions(topic):
                if partition in known:
                    continue
                stop = self._stop
                if stop.kind == "latest":
                    last = connection.last_message_id(partition) or PulsarMessageId(-1, -1)
                    stop = StopPosition("message_id", last, is_inclusive=True)
                begins_there = connection.subscribe_at(partition, start, self._resets)
                found.append(PulsarSplit(partition, start if begins_there else EARLIEST, stop))
        return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _all_topics(self, connection: PulsarConnection) -> list[str]:
        if isinstance(self._topics, tuple):
            return list(self._topics)
        pattern = self._topics.pattern.removeprefix("persistent://")
        tenant, namespace, *rest = pattern.split("/", 2) if pattern.count("/") >= 2 else ("public", "default")
        name = re.compile(rest[0] if rest else pattern)
        prefix = f"persistent://{tenant}/{namespace}/"
        topics = connection.topics(f"{tenant}/{namespace}")
        return sorted(topic for topic in topics if name.fullmatch(topic.removeprefix(prefix)))


class PulsarEnumerator(SplitEnumerator):
    """Assigns partitions to readers. Thread: JobMaster main thread.

    Args:
        discovery_interval_ms: the interval of partition discovery. With 0 or less, partitions are discovered at the
            start only, and readers end when their partitions do.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        discovery: PartitionDiscovery,
        discovery_interval_ms: int,
        state: PulsarEnumeratorState,
    ) -> None:
        self._context = context
        self._discovery = discovery
        self._interval_ms = discovery_interval_ms
        self._known = set(state.known)
        self._is_begun = state.is_begun
        self._has_discovered = False

    def start(self) -> None:
        self._discover()

    def handle_split_request(self, subtask_index: int) -> None:
        """Does nothing: partitions are assigned without requests."""

    def add_reader(self, subtask_index: int) -> None:
        if self._has_discovered and self._interval_ms <= 0:
            self._context.signal_no_more_splits(subtask_index)

    def add_splits_back(self, splits: list[PulsarSplit], subtask_index: int) -> None:
        self._assign(splits)

    def adopt_splits(self, splits: list[PulsarSplit]) -> bool:
        self._known.update(split.partition for split in splits)
        self._is_begun = True
        return True

    def snapshot_state(self, checkpoint_id: int) -> PulsarEnumeratorState:
        return PulsarEnumeratorState(frozenset(self._known), self._is_begun)

    def close(self) -> None:
        self._discovery.close()

    def _discover(self) -> None:
        known, is_first = frozenset(self._known), not self._is_begun
        self._context.call_async(lambda: self._discovery.find(known, is_first=is_first), self._on_found)

    def _on_found(self, splits: list[PulsarSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            if not self._has_discovered or not isinstance(error, PulsarError):
                raise error
            _LOG.warning("partition discovery failed; trying again in %d ms: %s", self._interval_ms, error)
        else:
            self._is_begun = True
            self._assign([split for split in splits or () if split.partition not in self._known])
            if not self._has_discovered:
                self._has_discovered = True
                for subtask_index in sorted(self._context.registered_readers) if self._interval_ms <= 0 else ():
                    self._context.signal_no_more_splits(subtask_index)
        if self._interval_ms > 0:
            self._context.schedule(self._interval_ms, self._discover)

    def _assign(self, splits: list[PulsarSplit]) -> None:
        assignment: dict[int, list[PulsarSplit]] = {}
        for split in splits:
            self._known.add(split.partition)
            owner = zlib.crc32(split.partition.encode()) % self._context.parallelism
            assignment.setdefault(owner, []).append(split)
        if assignment:
            _LOG.info("assigned Pulsar partitions to readers: %s", assignment)
            self._context.assign_splits(assignment)
