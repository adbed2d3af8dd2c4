"""ResultPartitionManager: the partitions of this process by id, and requests for partitions that do not exist yet.

A consumer is deployed at the same time as its producer and may request the partition first. The request is kept here
and answered when the partition is registered. So the consumer need not repeat it after a pause.

Source: org.apache.flink.runtime.io.network.partition.{ResultPartitionManager, PartitionRequestListener}.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flinkpy.network.result_partition import ResultPartition


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


#: `timers(delay_ms, action)` runs `action()` later, on an I/O thread.
Timers = Callable[[int, Callable[[], None]], TimerHandle]


class PartitionRequest:
    """A request of one consumer for one partition. Exactly one of its two callbacks runs, unless it is cancelled."""

    __slots__ = ("_done", "_lock", "_on_partition", "_on_timeout", "timer")

    def __init__(self, on_partition: Callable[[ResultPartition], None], on_timeout: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._done = False
        self._on_partition = on_partition
        self._on_timeout = on_timeout
        self.timer: TimerHandle | None = None

    def cancel(self) -> None:
        """Cancels the request; neither callback runs after that. Thread: any."""
        self._claim()

    def partition_registered(self, partition: ResultPartition) -> None:
        if self._claim():
            self._on_partition(partition)

    def timed_out(self) -> None:
        if self._claim():
            self._on_timeout()

    def _claim(self) -> bool:
        with self._lock:
            if self._done:
                return False
            self._done = True
        if self.timer is not None:
            self.timer.cancel()
        return True

    @property
    def is_done(self) -> bool:
        return self._done


class ResultPartitionManager:
    """The registered partitions and the waiting requests of a process. Thread: any."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lock = threading.Lock()
        self._partitions: dict[str, ResultPartition] = {}
        self._requests: dict[str, list[PartitionRequest]] = {}

    def register(self, partition: ResultPartition) -> None:
        with self._lock:
            if partition.partition_id in self._partitions:
                raise ValueError(f"partition {partition.partition_id} is registered already")
            self._partitions[partition.partition_id] = partition
            waiting = self._requests.pop(partition.partition_id, [])
        for request in waiting:
            request.partition_registered(partition)

    def unregister(self, partition: ResultPartition) -> None:
        with self._lock:
            if self._partitions.get(partition.partition_id) is partition:
                del self._partitions[partition.partition_id]

    def find(self, partition_id: str) -> ResultPartition | None:
        return self._partitions.get(partition_id)

    @property
    def partitions(self) -> list[ResultPartition]:
        with self._lock:
            return list(self._partitions.values())

    def request(
        self,
        partition_id: str,
        on_partition: Callable[[ResultPartition], None],
        on_timeout: Callable[[], None],
        timeout_ms: int,
    ) -> PartitionRequest:
        """Calls `on_partition` now or when the partition is registered; calls `on_timeout` if that takes too long.

        With a `timeout_ms` of 0 one of them is called now.
        """
        request = PartitionRequest(on_partition, on_timeout)
        with self._lock:
            partition = self._partitions.get(partition_id)
            if partition is None and timeout_ms > 0:
                self._requests.setdefault(partition_id, []).append(request)
        if partition is not None:
            request.partition_registered(partition)
        elif timeout_ms <= 0:
            request.timed_out()
        else:
            request.timer = self._timers(timeout_ms, lambda: self._expire(partition_id, request))
        return request

    def _expire(self, partition_id: str, request: PartitionRequest) -> None:
        with self._lock:
            others = self._requests.get(partition_id, [])
            left = [other for other in others if other is not request and not other.is_done]
            if left:
                self._requests[partition_id] = left
            else:
                self._requests.pop(partition_id, None)
        request.timed_out()
