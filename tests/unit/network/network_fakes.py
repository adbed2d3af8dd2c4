"""Partitions and gates of one process without sockets, threads or timers."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.input_channel import LocalInputChannel, RequestBackoff
from flinkpy.network.input_gate import InputGate
from flinkpy.network.partition_manager import ResultPartitionManager
from flinkpy.network.result_partition import ResultPartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Element

UNIT = 32 * 1024


class ManualTimer:
    def __init__(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.delay_ms = delay_ms
        self.action = action
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualTimers:
    """Timers that the test fires."""

    def __init__(self) -> None:
        self.pending: list[ManualTimer] = []

    def __call__(self, delay_ms: int, action: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(delay_ms, action)
        self.pending.append(timer)
        return timer

    def fire_next(self) -> int:
        """Fires the timer that was set first. Returns its delay."""
        timer = self.pending.pop(0)
        if not timer.is_cancelled:
            timer.action()
        return timer.delay_ms


class LocalNetwork:
    """The parts of a network environment, in one thread."""

    def __init__(self, segments: int = 2048) -> None:
        self.pool = NetworkBufferPool(segments * UNIT, UNIT)
        self.timers = ManualTimers()
        self.manager = ResultPartitionManager(self.timers)
        self.failures: list[Exception] = []

    def partition(self, partition_id: str = "p", subpartitions: int = 1, maximum: int | None = None) -> ResultPartition:
        pool = self.pool.create_local_pool(partition_id, subpartitions + 1, maximum)
        partition = ResultPartition(partition_id, subpartitions, pool, UNIT, on_released=self.manager.unregister)
        self.manager.register(partition)
        return partition

    def gate(self, *partition_ids: str, subpartition: int = 0, request: bool = True) -> InputGate:
        gate = InputGate("consumer", self.failures.append)
        gate.set_channels(
            [
                LocalInputChannel(
                    gate,
                    index,
                    partition_id,
                    RequestBackoff(100, 400),
                    self.timers,
                    subpartition_index=subpartition,
                    manager=self.manager,
                    request_timeout_ms=10_000,
                )
                for index, partition_id in enumerate(partition_ids or ("p",))
            ]
        )
        if request:
            gate.request_partitions()
        return gate


def drain(gate: InputGate) -> list[tuple[int, Batch | Element]]:
    """Returns all items that the gate has now."""
    items = []
    while (item := gate.poll()) is not None:
        items.append(item)
    return items


def rows(item: tuple[int, Batch | Element] | None) -> list[object]:
    assert item is not None
    batch = item[1]
    assert isinstance(batch, Batch)
    assert isinstance(batch.values, list)
    return batch.values
