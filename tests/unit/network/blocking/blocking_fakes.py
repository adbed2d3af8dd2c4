"""Blocking partitions of one process, and consumers that read them without gates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.clock import Clock
from flinkpy.network.blocking.blocking_shuffle import BlockingShuffle
from flinkpy.network.blocking.range_reader import SubpartitionRangeReader
from flinkpy.network.blocking.read_scheduler import SortMergeReadScheduler
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.network.buffer_pool import NetworkBufferPool
from flinkpy.network.options import BlockingShuffleOptions
from flinkpy.network.subpartition import BufferedBatch
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfPartition

SEGMENT = 1024
WAIT_S = 20.0


class Shuffle:
    """The blocking shuffle of a process with little memory."""

    def __init__(
        self,
        directory: Path,
        *,
        segments: int = 256,
        read_memory: int = 1 << 20,
        compression: str | None = "lz4",
        clock: Clock | None = None,
    ) -> None:
        self.pool = NetworkBufferPool(segments * SEGMENT, SEGMENT)
        options = BlockingShuffleOptions(min_buffers=32, read_memory_bytes=read_memory, compression=compression)
        self.blocking = BlockingShuffle(options, self.pool, [directory])
        if clock is not None:
            self.blocking.scheduler = SortMergeReadScheduler(read_memory, SEGMENT, clock)
        self.released: list[str] = []

    @property
    def scheduler(self) -> SortMergeReadScheduler:
        return self.blocking.scheduler

    def partition(self, subpartitions: int = 1, partition_id: str = "p") -> SortMergeResultPartition:
        return self.blocking.create_partition(
            partition_id,
            subpartitions,
            f"producer of {partition_id}",
            lambda gone: self.released.append(gone.partition_id),
        )


@contextmanager
def shuffle(directory: Path, **options: Any) -> Iterator[Shuffle]:
    made = Shuffle(directory, **options)
    try:
        yield made
    finally:
        made.blocking.close()


class Consumer:
    """Reads one range to its end, on the test's thread."""

    is_remote = False

    def __init__(self, partition: SortMergeResultPartition, first: int = 0, count: int = 1) -> None:
        reader = partition.open_subpartitions(first, count)
        assert reader is not None
        self.reader: SubpartitionRangeReader = reader
        self.failure: Exception | None = None
        self._news = threading.Condition()
        self._has_news = False
        self.is_attached = self.reader.attach(self)

    def notify_data_available(self) -> None:
        with self._news:
            self._has_news = True
            self._news.notify()

    def notify_failed(self, cause: Exception) -> None:
        self.failure = cause
        self.notify_data_available()

    def notify_barrier(self, barrier: Any) -> None:
        raise AssertionError("no barriers in a file")

    def notify_priority(self, marker: Any) -> None:
        raise AssertionError("no barriers in a file")

    def overtake(self, marker: Any, *, append: bool) -> Any:
        raise AssertionError("no barriers in a file")

    def next(self) -> Any:
        """Returns the next batch or element. Raises the error of a failed reader."""
        while True:
            item = self.reader.poll()
            if isinstance(item, BufferedBatch):
                batch = item.batch
                item.recycle()
                return batch
            if item is not None:
                return item
            if self.failure is not None:
                raise self.failure
            with self._news:
                assert self._news.wait_for(lambda: self._has_news or self.failure is not None, WAIT_S), "nothing comes"
                self._has_news = False

    def rest(self) -> list[Any]:
        """Returns all remaining items without the end of the partition, and releases the reader."""
        items = []
        while not isinstance(item := self.next(), EndOfPartition):
            items.append(item)
        self.reader.release()
        return items


def read(partition: SortMergeResultPartition, first: int = 0, count: int = 1) -> list[Any]:
    return records(Consumer(partition, first, count).rest())


def records(items: list[Any]) -> list[Any]:
    """Returns the records as (value, timestamp, kind), without batch boundaries; elements unchanged."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, Batch):
            values = item.values if isinstance(item.values, list) else item.values.to_pylist()
            timestamps = [None] * len(values) if item.timestamps is None else item.timestamps.tolist()
            kinds = [None] * len(values) if item.kinds is None else item.kinds.tolist()
            found += zip(values, timestamps, kinds, strict=True)
        else:
            found.append(item)
    return found


def rows(*values: Any) -> Batch:
    return Batch(list(values))


def columns(values: list[int], timestamps: list[int] | None = None, kinds: list[int] | None = None) -> Batch:
    return Batch(
        pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64()), "name": [f"n{value}" for value in values]}),
        None if timestamps is None else np.array(timestamps, np.int64),
        None if kinds is None else np.array(kinds, np.int8),
    )


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for an action of another thread."""
    event = threading.Event()
    for _ in range(int(WAIT_S * 1000)):
        if condition():
            return
        event.wait(0.001)
    raise AssertionError(f"did not happen: {what}")
