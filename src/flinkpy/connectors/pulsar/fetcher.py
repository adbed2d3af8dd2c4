"""PartitionFetcher: threads that receive the messages of a reader's partitions, each one answer ahead of the task.

Source: org.apache.flink.connector.pulsar.source.reader.PulsarPartitionSplitReader, with its SplitFetcher.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from flinkpy.common.errors import FlinkError, InternalError
from flinkpy.connectors.pulsar.client import PulsarConnection, PulsarMessage
from flinkpy.connectors.pulsar.enumerator import PulsarSplit
from flinkpy.connectors.pulsar.message_id import PulsarMessageId

_LOG = logging.getLogger(__name__)

_CLOSE_S = 10.0


class Fetched(NamedTuple):
    partition: str
    messages: list[PulsarMessage]


class _Partition:
    def __init__(self, split: PulsarSplit) -> None:
        self.split = split
        self.is_waiting = False
        self.is_paused = False
        self.is_ended = False
        self.to_acknowledge: list[PulsarMessageId] = []
        self.thread: threading.Thread | None = None


class PartitionFetcher:
    """Thread: methods are called by the task thread. A subscription is used by the thread of its partition alone.

    Args:
        notify: called when `take` has something, or an error, to give.
    """

    def __init__(
        self,
        make_connection: Callable[[Mapping[str, str]], PulsarConnection],
        properties: Mapping[str, str],
        ranges: tuple[tuple[int, int], ...],
        notify: Callable[[], None],
    ) -> None:
        self._make_connection = make_connection
        self._properties = properties
        self._ranges = ranges
        self._notify = notify
        self._lock = threading.Condition()
        self._partitions: dict[str, _Partition] = {}
        self._queue: deque[Fetched] = deque()
        self._error: BaseException | None = None
        self._is_closed = False
        self._connection: PulsarConnection | None = None

    def start(self) -> None:
        """Raises: PulsarError, UnsupportedOperationError: there is no client."""
        self._connection = self._make_connection(self._properties)
        for partition in self._partitions.values():
            self._begin(partition)

    def add(self, split: PulsarSplit) -> None:
        partition = self._partitions[split.partition] = _Partition(split)
        if self._connection is not None:
            self._begin(partition)

    def end(self, name: str) -> None:
        """Receive no more of it; what is to be acknowledged still is."""
        with self._lock:
            self._partitions[name].is_ended = True
            self._lock.notify_all()

    def pause_or_resume(self, to_pause: list[str], to_resume: list[str]) -> None:
        with self._lock:
            for names, is_paused in ((to_pause, True), (to_resume, False)):
                for name in names:
                    if name in self._partitions:
                        self._partitions[name].is_paused = is_paused
            self._lock.notify_all()

    def acknowledge(self, name: str, message_ids: list[PulsarMessageId]) -> None:
        """Sometime soon. All of them; of a subscription that is one reader's, with what is before them."""
        with self._lock:
            self._partitions[name].to_acknowledge += message_ids
            self._lock.notify_all()

    def take(self) -> Fetched | None:
        """Raises: FlinkError: fetching has ended with it."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            if self._error is not None:
                raise self._error
            return None

    def done_with(self, name: str) -> None:
        """What was taken of it has been emitted: its next messages may come."""
        with self._lock:
            self._partitions[name].is_waiting = False
            self._lock.notify_all()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
        for partition in self._partitions.values():
            if partition.thread is not None:
                partition.thread.join(_CLOSE_S)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _begin(self, partition: _Partition) -> None:
        name = f"pulsar {partition.split.partition}"
        partition.thread = threading.Thread(target=self._run, args=(partition,), name=name, daemon=True)
        partition.thread.start()

    # -- the threads ---------------------------------------------------------------------------------------------

    def _run(self, partition: _Partition) -> None:
        try:
            self._receive_all(partition)
        except FlinkError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the task raises it; a thread that ends silently would hang the job
            self._fail(InternalError(f"the Pulsar fetcher failed: {type(error).__name__}: {error}"))

    def _receive_all(self, partition: _Partition) -> None:
        split = partition.split
        assert self._connection is not None
        subscription = self._connection.subscribe(split.partition, self._ranges, split.read_to)
        is_exclusive = not self._ranges
        try:
            while True:
                with self._lock:
                    while not (self._is_closed or partition.to_acknowledge or self._may_receive(partition)):
                        self._lock.wait()
                    to_acknowledge, partition.to_acknowledge = partition.to_acknowledge, []
                    may_receive = self._may_receive(partition)
                    is_closed = self._is_closed
                if to_acknowledge:
                    subscription.acknowledge(to_acknowledge[-1:] if is_exclusive else to_acknowledge, is_exclusive)
                if is_closed:
                    return
                if may_receive:
                    self._receive(partition, subscription.receive())
        finally:
            subscription.close()

    def _may_receive(self, partition: _Partition) -> bool:
        return not (partition.is_waiting or partition.is_paused or partition.is_ended)

    def _receive(self, partition: _Partition, messages: list[PulsarMessage]) -> None:
        if not messages:
            return
        with self._lock:
            partition.is_waiting = True
            self._queue.append(Fetched(partition.split.partition, messages))
        self._notify()

    def _fail(self, error: FlinkError) -> None:
        with self._lock:
            self._error = self._error or error
        self._notify()
