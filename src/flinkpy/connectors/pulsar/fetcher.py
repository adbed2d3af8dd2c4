"""PartitionFetcher: the threads that receive the messages of a reader's partitions, one thread per partition.

Source: org.apache.flink.connector.pulsar.source.reader.PulsarPartitionSplitReader, with its SplitFetcher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flinkpy.connectors.pulsar.client import PulsarConnection
from flinkpy.connectors.pulsar.enumerator import PulsarSplit
from flinkpy.connectors.pulsar.message_id import PulsarMessageId
from flinkpy.connectors.source_reader_base import SplitFetcher, SplitState


class _Partition(SplitState):
    def __init__(self, split: PulsarSplit) -> None:
        super().__init__(split)
        self.is_ended = False
        self.to_acknowledge: list[PulsarMessageId] = []

    @property
    def may_fetch(self) -> bool:
        return super().may_fetch and not self.is_ended


class PartitionFetcher(SplitFetcher[_Partition]):
    """Receives messages. Only the thread of a partition uses its subscription.

    Thread: public methods are called by the task thread.
    """

    def __init__(
        self,
        make_connection: Callable[[Mapping[str, str]], PulsarConnection],
        properties: Mapping[str, str],
        ranges: tuple[tuple[int, int], ...],
        notify: Callable[[], None],
    ) -> None:
        super().__init__("Pulsar", notify)
        self._make_connection = make_connection
        self._properties = properties
        self._ranges = ranges
        self._connection: PulsarConnection | None = None

    def start(self) -> None:
        """Raises: PulsarError; UnsupportedOperationError if the client is not installed."""
        self._connection = self._make_connection(self._properties)
        for partition in self._splits.values():
            self._begin(partition)

    def add(self, split: PulsarSplit) -> None:
        partition = self._splits[split.split_id] = _Partition(split)
        if self._connection is not None:
            self._begin(partition)

    def end(self, split_id: str) -> None:
        """Stops receiving messages of a partition. Messages can still be acknowledged."""
        with self._lock:
            self._splits[split_id].is_ended = True
            self._lock.notify_all()

    def acknowledge(self, split_id: str, message_ids: list[PulsarMessageId]) -> None:
        """Acknowledges messages asynchronously; in an exclusive subscription, all messages up to the last id."""
        with self._lock:
            self._splits[split_id].to_acknowledge += message_ids
            self._lock.notify_all()

    def close(self) -> None:
        super().close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _begin(self, partition: _Partition) -> None:
        assert self._connection is not None
        name = f"pulsar {partition.split.partition}"
        self._start_thread(name, self._receive_all, self._connection, partition)

    # -- the threads ---------------------------------------------------------------------------------------------

    def _receive_all(self, connection: PulsarConnection, partition: _Partition) -> None:
        split = partition.split
        subscription = connection.subscribe(split.partition, self._ranges, split.read_to)
        is_exclusive = not self._ranges
        try:
            while True:
                with self._lock:
                    while not (self._closed.is_set() or partition.to_acknowledge or partition.may_fetch):
                        self._lock.wait()
                    to_acknowledge, partition.to_acknowledge = partition.to_acknowledge, []
                    may_receive = partition.may_fetch
                    is_closed = self._closed.is_set()
                if to_acknowledge:
                    subscription.acknowledge(to_acknowledge[-1:] if is_exclusive else to_acknowledge, is_exclusive)
                if is_closed:
                    return
                if may_receive:
                    messages = subscription.receive()
                    if messages:
                        self._put(partition, messages)
        finally:
            subscription.close()
