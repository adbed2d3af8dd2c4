"""Python workers return a few rows with the answer of Spark's job, and write many rows to files; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkpy.spark import result_rows
from flinkpy.spark.result_rows import collected_rows, write_rows
from flinkpy.spark.stream_frame import Layout, PythonStep, StreamFrame


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64()), "unused": [None] * len(numbers)})


class FakeFrame:
    """A frame in this process: the groups of rows of each partition."""

    def __init__(self, partitions: list[list[pa.RecordBatch]]) -> None:
        self._partitions = partitions

    def mapInArrow(self, function: Callable[[Iterator[pa.RecordBatch]], Any], schema: str) -> FakeFrame:
        return FakeFrame([list(function(iter(groups))) for groups in self._partitions])

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([group for groups in self._partitions for group in groups], result_rows._SCHEMA)


def numbers_of(output: StreamFrame, directory: Path) -> list[int]:
    return [each for group in collected_rows(output, directory) for each in group.column("number").to_pylist()]


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_rows, "INLINE_BYTES", 100)


def test_few_rows_of_a_partition_are_one_value_and_no_file(tmp_path: Path) -> None:
    (packed,) = write_rows(str(tmp_path), iter([rows(1, 2), rows(), rows(3)]))
    assert packed.num_rows == 1
    assert packed.column(0).to_pylist() == [None]
    assert list(tmp_path.iterdir()) == []


def test_a_partition_without_rows_returns_nothing(tmp_path: Path) -> None:
    assert list(write_rows(str(tmp_path), iter([rows(), rows()]))) == []


@pytest.mark.usefixtures("small_limit")
def test_rows_come_in_the_order_of_partitions_whether_they_are_few_or_many(tmp_path: Path) -> None:
    partitions = [[rows(1)], [rows(*range(10, 30)), rows(30)], [], [rows(40), rows(*range(41, 70))]]
    output = StreamFrame(FakeFrame(partitions), None, Layout.BLOCKS)  # type: ignore[arg-type]
    assert numbers_of(output, tmp_path / "out") == [1, *range(10, 31), *range(40, 70)]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.usefixtures("small_limit")
def test_only_the_file_of_the_attempt_that_counts_is_read(tmp_path: Path) -> None:
    class RetriedFrame(FakeFrame):
        """Runs each task twice and keeps the rows of the second attempt."""

        def mapInArrow(self, function: Callable[[Iterator[pa.RecordBatch]], Any], schema: str) -> FakeFrame:
            super().mapInArrow(function, schema)
            return super().mapInArrow(function, schema)

    output = StreamFrame(RetriedFrame([[rows(*range(50))]]), None, Layout.BLOCKS)  # type: ignore[arg-type]
    assert numbers_of(output, tmp_path / "out") == list(range(50))


def test_the_last_step_runs_in_the_worker_that_packs_its_rows(tmp_path: Path) -> None:
    def double(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in groups:
            yield rows(*(2 * each for each in group.column("number").to_pylist()))

    before: Any = FakeFrame([[rows(1, 2)], [rows(3)]])
    never: Any = None
    output = StreamFrame(never, None, Layout.BLOCKS, PythonStep(before, double, ("number",)))
    groups = list(collected_rows(output, tmp_path / "out"))
    assert [group.to_pydict() for group in groups] == [{"number": [2, 4]}, {"number": [6]}]
