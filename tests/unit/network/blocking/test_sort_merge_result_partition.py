"""A blocking partition can be read by several consumers, any number of times, until it is released."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import (
    ClosedError,
    PartitionConnectionError,
    PartitionCorruptedError,
    PartitionWriteError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.network.blocking.sort_merge_result_partition import SortMergeResultPartition
from flinkpy.records.batch import Batch
from flinkpy.records.elements import CheckpointBarrier, EndOfData, LatencyMarker, Watermark

from .blocking_fakes import Consumer, Shuffle, columns, read, records, rows, shuffle, wait_until


@pytest.fixture(params=["lz4", "zstd", None])
def compression(request: pytest.FixtureRequest) -> str | None:
    return request.param


def of(batch: Batch) -> list[object]:
    return records([batch])


def test_rows_and_columns_are_read_with_their_timestamps_and_kinds(tmp_path: Path, compression: str | None) -> None:
    sent = [
        columns([1, 2], [10, 20]),
        columns([3], None, [3]),
        columns([4], [40], [1]),
        rows({"any": "thing"}, (1, None)),
        Batch([b"x" * 5000] * 4, np.array([1, 2, 3, 4], np.int64)),
        Batch(["deleted"], None, np.array([3], np.int8)),
    ]
    with shuffle(tmp_path, compression=compression) as process:
        partition = process.partition()
        for batch in sent:
            partition.emit(0, batch)
        partition.finish()
        assert read(partition) == [record for batch in sent for record in of(batch)]


def test_dictionary_and_nested_columns_are_read_as_values(tmp_path: Path, compression: str | None) -> None:
    values = pa.RecordBatch.from_pydict(
        {
            "code": pa.array(["a", None, "b", "a"] * 300).dictionary_encode(),
            "list": pa.array([[1, 2], [], None, [3]] * 300),
            "amount": pa.array([1, 2, None, 4] * 300, pa.decimal128(12, 2)),
        }
    )
    with shuffle(tmp_path, compression=compression) as process:
        partition = process.partition()
        partition.emit(0, Batch(values))
        partition.emit(0, Batch(values.slice(5, 7)))
        partition.finish()
        assert [value for value, _, _ in read(partition)] == values.to_pylist() + values.slice(5, 7).to_pylist()


def test_data_larger_than_memory_keeps_its_order_per_subpartition(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition(3)
        for number in range(300):
            partition.emit(number % 3, columns(list(range(number * 100, number * 100 + 100))))
        partition.finish()
        assert process.pool.used == 0
        for subpartition in range(3):
            numbers = [value["x"] for value, _, _ in read(partition, subpartition)]
            assert numbers == [n * 100 + i for n in range(subpartition, 300, 3) for i in range(100)]


def test_the_memory_of_a_partition_that_is_written_never_exceeds_its_share_by_more_than_a_batch(tmp_path: Path) -> None:
    with shuffle(tmp_path, segments=256) as process:
        partition = process.partition(2)
        batch = columns(list(range(200)))
        for number in range(200):
            partition.emit(number % 2, batch)
            assert partition.pool.used <= partition.pool.quota
        partition.finish()


def test_a_partition_takes_available_memory_and_leaves_some_for_others(tmp_path: Path) -> None:
    with shuffle(tmp_path, segments=64) as process:
        partitions = [process.partition(1, f"p{number}") for number in range(2)]
        assert process.pool.required < process.pool.total
        for partition in partitions:
            for number in range(100):
                partition.emit(0, columns([number] * 50))
            partition.finish()
            assert len(read(partition)) == 5000


def test_several_consumers_read_at_once_and_again_from_the_beginning(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition(2)
        for number in range(50):
            partition.emit(number % 2, rows(*range(number * 10, number * 10 + 10)))
        partition.finish()
        consumers = [Consumer(partition, 0), Consumer(partition, 0), Consumer(partition, 1)]
        firsts = [consumer.next() for consumer in consumers]
        assert of(firsts[0]) == of(firsts[1]) != of(firsts[2])
        consumers[0].reader.release()  # it fails, and reads again
        everything = read(partition, 0)
        assert records([firsts[1], *consumers[1].rest()]) == everything
        assert len(everything) == len(records([firsts[2], *consumers[2].rest()])) == 250


def test_an_early_consumer_waits_for_the_end_of_writing(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        consumer = Consumer(partition)
        partition.emit(0, rows(1))
        assert not consumer.reader.has_data
        partition.finish()
        assert records(consumer.rest()) == of(rows(1))


def many_regions(process: Shuffle, subpartitions: int = 5, regions: int = 12) -> SortMergeResultPartition:
    """Returns a partition with many regions and a broadcast batch in the middle."""
    partition = process.partition(subpartitions)
    for region in range(regions):
        for subpartition in range(1, subpartitions):
            partition.emit(subpartition, columns([region * 10 + i for i in range(10)]))
        partition._write_region()
        if region == regions // 2:
            partition.emit_broadcast(rows("to all"))
    partition.finish()
    return partition


def test_many_regions_with_short_runs_are_merged(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = many_regions(process)
        assert [region.is_broadcast for region in partition._index.regions] == [False, True, False]
        assert {path.suffix for path in tmp_path.iterdir()} == {".data", ".index"}
        assert partition.bytes_written == sum(path.stat().st_size for path in tmp_path.iterdir())
        numbers = [value if isinstance(value, str) else value["x"] for value, _, _ in read(partition, 1)]
        assert numbers == [*range(70), "to all", *range(70, 120)]
        assert read(partition, 0) == of(rows("to all"))
        assert read(partition, 2) == read(partition, 4)


def test_regions_are_not_merged_without_disk_space_for_a_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.writev

    def full(descriptor: int, buffers: list[bytes]) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".merged"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, buffers)

    monkeypatch.setattr(os, "writev", full)
    with shuffle(tmp_path) as process:
        partition = many_regions(process)
        assert len(partition._index.regions) == 13
        assert {path.suffix for path in tmp_path.iterdir()} == {".data", ".index"}
        assert len(read(partition, 3)) == 121


def test_a_broadcast_batch_is_stored_once_and_read_by_all_consumers(tmp_path: Path) -> None:
    batch = rows(os.urandom(20_000))
    with shuffle(tmp_path) as process:
        partition = process.partition(100)
        partition.emit_broadcast(batch)
        partition.finish()
        assert partition.data_path.stat().st_size < 25_000
        assert read(partition, 0) == read(partition, 99) == of(batch)
        assert partition.subpartition_bytes.tolist() == [partition.subpartition_bytes[0]] * 100


def test_a_consumer_of_a_range_gets_broadcast_data_once(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition(4)
        for subpartition in range(4):
            partition.emit(subpartition, rows(f"before {subpartition}"))
        partition.emit_element(Watermark(5))
        partition.emit_broadcast(rows("to all"))
        for subpartition in range(4):
            partition.emit(subpartition, rows(f"after {subpartition}"))
        partition.emit_element(Watermark(1), 2)
        partition.emit_element(EndOfData())
        partition.finish()
        got = [item if isinstance(item, Watermark | EndOfData) else item[0] for item in read(partition, 1, 2)]
    assert got == [
        *("before 1", "before 2", Watermark(5), "to all"),
        *("after 1", "after 2", Watermark(1), EndOfData()),
    ]


def test_missing_subpartitions_cannot_be_opened(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition(3)
        for first, count in [(-1, 1), (0, 0), (3, 1), (2, 2)]:
            assert partition.open_subpartitions(first, count) is None
        partition.release()


def test_latency_markers_are_dropped_and_barriers_are_refused(tmp_path: Path) -> None:
    barrier = CheckpointBarrier(1, 2, None)
    with shuffle(tmp_path) as process:
        partition = process.partition()
        partition.emit_element(LatencyMarker(1, "op", 0))
        for refused in (partition.emit_element, partition.emit_priority):
            with pytest.raises(UnsupportedOperationError, match="producer of p"):
                refused(barrier)
        partition.finish()
        assert read(partition) == []


def test_a_finished_partition_refuses_data(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        partition.finish()
        partition.finish()
        with pytest.raises(ClosedError):
            partition.emit(0, rows(1))


def test_a_row_that_cannot_be_pickled_fails_its_producer_and_removes_the_files(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        partition.emit(0, rows(1, (number for number in ())))
        with pytest.raises(TypeMismatchError, match="row 1"):
            partition.finish()
        assert partition.is_released
        wait_until(lambda: not list(tmp_path.iterdir()), "the files are removed")
        assert process.pool.used == 0


def test_releasing_removes_the_files_and_fails_the_readers(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        for number in range(3000):
            partition.emit(0, columns([number] * 100))
        partition.finish()
        consumer = Consumer(partition)
        consumer.next()
        partition.release()
        with pytest.raises(PartitionConnectionError, match="producer of p"):
            consumer.rest()
        wait_until(lambda: not list(tmp_path.iterdir()), "the files are removed")
        assert process.released == ["p"]
        assert not Consumer(partition).is_attached
        wait_until(lambda: process.scheduler.used_bytes == 0, "the memory is free")


def test_a_producer_fails_when_it_emits_to_a_released_partition(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        early = Consumer(partition)
        partition.emit(0, columns([1]))
        partition.release(PartitionConnectionError("cancelled"))
        assert process.pool.used == 0
        with pytest.raises(PartitionConnectionError, match="cancelled"):
            partition.emit(0, columns([2]))
        with pytest.raises(PartitionConnectionError, match="cancelled"):
            partition.finish()
        with pytest.raises(PartitionConnectionError, match="cancelled"):
            early.rest()
        wait_until(lambda: not list(tmp_path.iterdir()), "the files are removed")


@pytest.mark.parametrize("where", ["_append_region", "_write_index"])
def test_a_partition_released_during_a_write_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        early = Consumer(partition)
        real = getattr(partition, where)

        def released_first() -> None:
            partition.release(PartitionConnectionError("cancelled"))
            wait_until(lambda: not list(tmp_path.iterdir()), "the file is removed under the writer")
            real()

        monkeypatch.setattr(partition, where, released_first)
        partition.emit(0, columns([1]))
        with pytest.raises(PartitionConnectionError, match="cancelled"):
            partition.finish()
        with pytest.raises(PartitionConnectionError, match="cancelled"):
            early.rest()
        wait_until(lambda: not list(tmp_path.iterdir()), "the files are removed")
        assert process.pool.used == 0


class TestDamage:
    @pytest.fixture
    def process(self, tmp_path: Path):
        with shuffle(tmp_path) as process:
            yield process

    @pytest.fixture
    def partition(self, process: Shuffle) -> SortMergeResultPartition:
        partition = process.partition(2)
        for number in range(200):
            partition.emit(number % 2, columns(list(range(number * 50, number * 50 + 50))))
        partition.finish()
        return partition

    def assert_corrupted(self, partition: SortMergeResultPartition, subpartition: int = 1) -> None:
        with pytest.raises(PartitionCorruptedError) as raised:
            read(partition, subpartition)
        assert raised.value.details["result_partition_id"] == "p"
        assert "p" in raised.value.message

    @pytest.mark.parametrize("where", [0, 7, 20, 31, 40, 60, -1])
    @pytest.mark.parametrize("file", ["data_path", "index_path"])
    def test_a_reader_detects_a_changed_bit(self, partition: SortMergeResultPartition, file: str, where: int) -> None:
        path: Path = getattr(partition, file)
        data = bytearray(path.read_bytes())
        data[where] ^= 0x10
        path.write_bytes(data)
        self.assert_corrupted(partition, 0 if where != -1 else 1)

    @pytest.mark.parametrize("file", ["data_path", "index_path"])
    @pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
    def test_a_reader_detects_a_truncated_file(
        self, partition: SortMergeResultPartition, file: str, left: float
    ) -> None:
        path: Path = getattr(partition, file)
        os.truncate(path, int(path.stat().st_size * left))
        self.assert_corrupted(partition)

    @pytest.mark.parametrize("file", ["data_path", "index_path"])
    def test_a_reader_detects_a_missing_file(self, partition: SortMergeResultPartition, file: str) -> None:
        getattr(partition, file).unlink()
        self.assert_corrupted(partition)

    def test_undamaged_subpartitions_can_still_be_read(
        self, process: Shuffle, partition: SortMergeResultPartition
    ) -> None:
        extent = partition._index.extents(1, 1)[0]
        with open(partition.data_path, "r+b") as file:
            file.seek(extent[0] + 50)
            file.write(b"\xff\xfe\xfd")
        self.assert_corrupted(partition)
        assert len(read(partition, 0)) == 5000
        wait_until(lambda: process.scheduler.used_bytes == 0, "the memory is free")


def test_a_disk_error_fails_the_producer_with_one_error_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, buffers: list[bytes]) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with shuffle(tmp_path) as process:
        partition = process.partition()
        early = Consumer(partition)
        monkeypatch.setattr(os, "writev", full)
        partition.emit(0, rows(1))
        with pytest.raises(PartitionWriteError, match="No space left") as raised:
            partition.finish()
        assert raised.value.details == {"result_partition_id": "p", "path": str(partition.data_path)}
        with pytest.raises(PartitionWriteError):
            early.rest()
        wait_until(lambda: not list(tmp_path.iterdir()), "the files are removed")
        assert process.pool.used == 0


def test_a_missing_directory_fails_the_deployment(tmp_path: Path) -> None:
    with shuffle(tmp_path / "gone") as process:
        with pytest.raises(PartitionWriteError, match="gone"):
            process.partition()
        assert process.pool.required == 0


@pytest.mark.parametrize("piece_bytes", [7, 1 << 20])
def test_a_copy_has_the_same_records(tmp_path: Path, compression: str | None, piece_bytes: int) -> None:
    with shuffle(tmp_path, compression=compression) as process:
        partition, copy = process.partition(2, "first"), process.partition(1, "copy")
        for number in range(20):
            partition.emit(number % 2, rows(*[f"{number}-{row}" * 20 for row in range(50)]))
        partition.finish()
        copy.restore(partition.content(piece_bytes))
        assert copy.num_subpartitions == 2
        for subpartition in range(2):
            assert read(copy, subpartition) == read(partition, subpartition) != []


def test_a_copy_that_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        partition.emit(0, rows(*range(100)))
        partition.finish()
        content = b"".join(partition.content(1 << 20))
        damaged = content[:20] + bytes([content[20] ^ 1]) + content[21:]
        for number, wrong in enumerate([b"", content[:4], content[:30], content[:-1], damaged]):
            copy = process.partition(1, f"copy-{number}")
            with pytest.raises(PartitionCorruptedError, match=f"copy-{number}"):
                copy.restore([wrong] if wrong else [])
