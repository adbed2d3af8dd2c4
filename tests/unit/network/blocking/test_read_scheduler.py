"""The read scheduler reads in the order of the file and within its memory, and no reader waits for ever."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import PartitionConnectionError
from flinkpy.network.blocking import read_scheduler
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.records.batch import Batch

from .blocking_fakes import Consumer, Shuffle, read, records, shuffle, wait_until

KIB = 1024


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the scheduler read one frame at a time."""
    monkeypatch.setattr(read_scheduler, "_CHUNK_BYTES", 8 * KIB)
    monkeypatch.setattr(read_scheduler, "_MIN_CHUNK_BYTES", 8 * KIB)


def large_partition(process: Shuffle, subpartitions: int, regions: int = 8) -> SortMergeResultPartition:
    """Returns a partition of incompressible rows: one frame of about 5 KiB per subpartition and region."""
    partition = process.partition(subpartitions)
    for region in range(regions):
        for subpartition in range(subpartitions):
            partition.emit(subpartition, Batch([(region, os.urandom(5 * KIB))]))
        partition._write_region()
    partition.finish()
    return partition


def regions_of(consumer: Consumer) -> list[int]:
    return [value[0] for value, _, _ in records(consumer.rest())]


def test_consumers_that_read_together_read_the_file_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[int] = []
    real = os.preadv

    def recording(fd: int, buffers: list[memoryview], offset: int) -> int:
        offsets.append(offset)
        return real(fd, buffers, offset)

    with shuffle(tmp_path) as process:
        partition = large_partition(process, 8, regions=7)
        monkeypatch.setattr(os, "preadv", recording)
        process.scheduler.__dict__["_start"] = lambda: None  # until all readers are queued
        consumers = [Consumer(partition, 7 - index) for index in range(8)]
        del process.scheduler.__dict__["_start"]
        process.scheduler._start()
        # A consumer that polls meanwhile could queue its reader at the offset that is just being read.
        wait_until(lambda: len(offsets) == 56, "everything is read")
        for consumer in consumers:
            assert regions_of(consumer) == list(range(7))
    assert offsets == sorted(offsets)


def test_data_read_ahead_stays_within_the_memory_limit(tmp_path: Path, small_chunks: None) -> None:
    memory = 64 * KIB
    with shuffle(tmp_path, read_memory=memory) as process:
        partition = large_partition(process, 2, regions=60)
        consumers = [Consumer(partition, 0), Consumer(partition, 1)]
        for consumer in consumers:
            consumer.next()
        most = 0
        for consumer in consumers:
            while consumer.next().__class__.__name__ != "EndOfPartition":
                most = max(most, process.scheduler.used_bytes)
        assert 0 < most <= memory
        wait_until(lambda: process.scheduler.used_bytes == 0, "the memory is free")


def test_an_idle_consumer_loses_its_queued_data_to_a_waiting_one(tmp_path: Path, small_chunks: None) -> None:
    clock = ManualClock()
    with shuffle(tmp_path, read_memory=24 * KIB, clock=clock) as process:
        partition = large_partition(process, 2, regions=20)
        idle = Consumer(partition, 0)
        wait_until(lambda: process.scheduler.used_bytes > 16 * KIB, "the consumer has its maximum")
        clock.advance(60_000)
        assert regions_of(Consumer(partition, 1)) == list(range(20))
        assert process.scheduler.used_bytes <= 24 * KIB
        assert idle.reader.has_data, "the consumer must be polled"
        assert regions_of(idle) == list(range(20))


def test_all_consumers_make_progress_with_too_little_memory(tmp_path: Path, small_chunks: None) -> None:
    with shuffle(tmp_path, read_memory=16 * KIB) as process:
        partition = large_partition(process, 20, regions=3)
        consumers = [Consumer(partition, index) for index in range(20)]
        for consumer in consumers:
            wait_until(lambda consumer=consumer: consumer.reader.has_data, "each reader has data")  # type: ignore[misc]
        for consumer in reversed(consumers):
            assert regions_of(consumer) == list(range(3))


def test_a_frame_that_is_larger_than_the_read_memory_is_read(tmp_path: Path, small_chunks: None) -> None:
    row = os.urandom(200 * KIB)
    with shuffle(tmp_path, read_memory=16 * KIB) as process:
        partition = process.partition()
        partition.emit(0, Batch([row]))
        partition.emit(0, Batch(["small"]))
        partition.finish()
        assert [value for value, _, _ in read(partition)] == [row, "small"]
        wait_until(lambda: process.scheduler.used_bytes == 0, "the memory is free")


def test_a_process_without_descriptors_does_not_report_a_corrupted_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(path: Path, flags: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with shuffle(tmp_path) as process:
        partition = large_partition(process, 1)
        with monkeypatch.context() as exhausted:
            exhausted.setattr(os, "open", too_many)
            with pytest.raises(PartitionConnectionError, match="Too many open files"):
                read(partition)
        assert len(read(partition)) == 8


def test_a_file_without_readers_is_closed(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = large_partition(process, 1, regions=1)
        consumer = Consumer(partition)
        consumer.next()
        assert _open_files(tmp_path) == 1
        consumer.reader.release()
        wait_until(lambda: _open_files(tmp_path) == 0, "the file is closed")
        assert len(read(partition)) == 1


def test_files_are_removed_at_once_after_the_scheduler_was_closed(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = large_partition(process, 1, regions=1)
        consumer = Consumer(partition)
        consumer.next()
        process.blocking.close()
        assert _open_files(tmp_path) == 0
        partition.release()
        assert list(tmp_path.iterdir()) == []
        consumer.reader.release()


def _open_files(directory: Path) -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            found += os.readlink(link).startswith(str(directory))
        except FileNotFoundError:
            continue
    return found
