"""Spill files return the written data in order, and leave nothing on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import SpillError
from flinkpy.common.types import Row
from flinkpy.records.batch import Batch
from flinkpy.streaming.sort.batch_queue import BatchQueue
from flinkpy.streaming.sort.row_sizes import RowSizes, size_of
from flinkpy.streaming.sort.spill_file import SpillDirectory

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def columns(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array([f"text {n}" for n in numbers])], schema=SCHEMA)


def test_columns_can_be_read_repeatedly(tmp_path: Path) -> None:
    directory = SpillDirectory(tmp_path, "test")
    file = directory.column_file(SCHEMA)
    batches = [columns(0, 10), columns(10, 1_000).slice(100, 50), columns(5, 0)]
    for batch in batches:
        file.write(batch)

    assert list(file.read()) == batches
    assert list(file.read()) == batches
    assert file.num_rows == 60
    file.delete()
    assert list(directory.path.iterdir()) == []


def test_objects_are_read_unchanged(tmp_path: Path) -> None:
    @dataclass
    class Mine:
        name: str

    directory = SpillDirectory(tmp_path, "test")
    file = directory.row_file()
    blocks: list[Any] = [[1, "a", None], [Row(1, 2)], [("x" * 10_000,)], [Mine("not importable")]]
    for block in blocks:
        file.write(block)

    assert list(file.read()) == blocks
    assert directory.bytes_written < 5_000, "repeated values are compressed"
    directory.close()


def test_directory_is_created_with_the_first_file_and_removed_with_the_operator(tmp_path: Path) -> None:
    directory = SpillDirectory(tmp_path / "op", "test")
    directory.close()
    assert not (tmp_path / "op").exists()

    neighbour = SpillDirectory(tmp_path / "op", "test")
    neighbour.row_file().write([1])
    directory.row_file().write([1])
    directory.close()

    assert [path.name for path in (tmp_path / "op").iterdir()] == [neighbour.path.name]
    neighbour.close()


def test_error_of_a_full_disk_names_the_directory_and_the_remedy(tmp_path: Path) -> None:
    for make in (SpillDirectory.row_file, lambda directory: directory.column_file(SCHEMA)):
        directory = SpillDirectory(tmp_path, "Map (1/2)")
        make(directory)
        # The path of the next file links to the device that is always full.
        (directory.path / "000002.spill").symlink_to("/dev/full")
        file = make(directory)
        with pytest.raises(
            SpillError, match=r"Map \(1/2\) cannot spill .*No space left on device.*io\.tmp\.dirs"
        ) as raised:
            for number in range(100):
                file.write(columns(number, 1_000) if hasattr(file, "schema") else [object.__doc__, number] * 1_000)
            list(file.read())
        assert raised.value.details["directory"] == str(directory.path)
        directory.close()
        assert not directory.path.exists()


def test_batch_queue_spills_after_its_memory_is_full(tmp_path: Path) -> None:
    directory = SpillDirectory(tmp_path, "test")
    queue = BatchQueue(directory, 2_000)
    batches = [
        Batch([1, 2]),
        Batch(columns(0, 40), np.arange(40)),
        Batch(columns(40, 400).slice(7, 300), None, np.zeros(300, dtype=np.int8)),
        Batch([("row", n) for n in range(10_000)], np.arange(10_000)),
        Batch(pa.RecordBatch.from_pydict({"other": [1]})),
    ]
    for batch in batches:
        queue.add(batch)

    assert queue.has_spilled
    assert directory.num_files == 1
    drained = list(queue.drain())
    assert [row for batch in drained for row in rows_of(batch)] == [row for batch in batches for row in rows_of(batch)]
    assert max(batch.num_rows for batch in drained) <= 4_096
    assert list(queue.drain()) == []


def rows_of(batch: Batch) -> list[Any]:
    rows = batch.values if isinstance(batch.values, list) else batch.values.to_pylist()
    times = [None] * len(rows) if batch.timestamps is None else batch.timestamps.tolist()
    kinds = [None] * len(rows) if batch.kinds is None else batch.kinds.tolist()
    return list(zip(rows, times, kinds))


class Slotted:
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Plain:
    def __init__(self, data: bytes) -> None:
        self.data = data


@pytest.mark.parametrize(
    "wrap", [lambda d: (d,), lambda d: [d], lambda d: {"k": d}, Slotted, Plain, Row, lambda d: {d}]
)
def test_size_of_a_record_includes_referenced_objects(wrap: Any) -> None:
    assert 100_000 < size_of(wrap(bytes(100_000))) < 101_000


def test_estimate_is_right_if_one_record_in_many_is_huge() -> None:
    sizes = RowSizes()
    rows: list[Any] = [(bytes(100_000) if n % 50 == 49 else b"", n) for n in range(1_000)]
    true_size = sum(map(size_of, rows))
    estimates = [sizes.bytes_of(rows) for _ in range(20)]

    assert abs(sum(estimates) / 20 - true_size) < 0.3 * true_size
