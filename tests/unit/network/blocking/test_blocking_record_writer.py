"""A record writer with a blocking partition routes by key, counts records and does not flush early."""

from __future__ import annotations

from pathlib import Path

from flinkpy.common.typeinfo import Types
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.network.partitioner import BroadcastPartitioner, KeyGroupStreamPartitioner
from flinkpy.network.record_writer import RecordWriter

from .blocking_fakes import columns, read, rows, shuffle, wait_until

ROW = Types.ROW_NAMED(["x", "name"], [Types.LONG(), Types.STRING()])


def test_every_record_is_written_for_the_consumer_of_its_key_and_counted(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition(4)
        writer = RecordWriter(partition, KeyGroupStreamPartitioner(FieldKeySelector(("x",))), ROW)
        for start in range(0, 10_000, 500):
            writer.emit(columns(list(range(start, start + 500))))
        writer.finish()
        parts = [[value["x"] for value, _, _ in read(partition, index)] for index in range(4)]
        assert sorted(number for part in parts for number in part) == list(range(10_000))
        assert all(part == sorted(part) and len(part) > 1_000 for part in parts)
        assert partition.bytes_out > partition.bytes_written > 0
        assert partition.bytes_written == sum(path.stat().st_size for path in tmp_path.iterdir())
        assert abs(partition.subpartition_bytes.sum() - partition.bytes_out) < 1_000
        assert process.scheduler.bytes_read == partition.data_path.stat().st_size


def test_a_broadcast_counts_for_every_consumer(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition(3)
        writer = RecordWriter(partition, BroadcastPartitioner())
        writer.emit(rows(1, 2, 3))
        writer.finish()
        assert partition.bytes_out == partition.subpartition_bytes.sum() > 0
        assert [value for value, _, _ in read(partition, 0, 3)] == [1, 2, 3]


def test_no_batch_is_flushed_before_there_are_enough_rows(tmp_path: Path) -> None:
    with shuffle(tmp_path) as process:
        partition = process.partition()
        writer = RecordWriter(partition, BroadcastPartitioner(), buffer_timeout_ms=0)
        for number in range(100):
            writer.emit(rows(number))
            assert writer.next_flush_deadline is None
        assert partition.bytes_out == 0
        writer.finish()
        assert partition.bytes_out > 0
        assert [value for value, _, _ in read(partition)] == list(range(100))
        partition.release()
        wait_until(lambda: not list(tmp_path.iterdir()), "the files are removed")
