"""Records are staged on the way into Spark and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkpy.common import Types
from flinkpy.common.errors import ConfigurationError
from flinkpy.records.batch import Batch
from flinkpy.spark import staging
from flinkpy.spark.frame_store import DriverStore
from flinkpy.spark.staging import Staging
from flinkpy.spark.stream_frame import Layout, StreamFrame, encode_rows

pytest.importorskip("pyspark")

TYPE = Types.ROW_NAMED(["number"], [Types.LONG()])


class FakeReader:
    def schema(self, schema: Any) -> FakeReader:
        return self

    def parquet(self, path: str) -> pa.Table:
        return pq.read_table(path.removeprefix("file://"))


class FakeSession:
    """Creates frames that are Arrow tables."""

    read = FakeReader()

    def createDataFrame(self, table: pa.Table, schema: Any) -> pa.Table:
        return table


class FakeFrame:
    """Writes its rows as Spark's tasks do: one file each, and one without rows. It has no plan, as with Connect."""

    def __init__(self, parts: list[pa.RecordBatch]) -> None:
        self._parts = parts
        self.write = self

    def option(self, key: str, value: str) -> FakeFrame:
        return self

    def parquet(self, path: str) -> None:
        directory = Path(path.removeprefix("file://"))
        directory.mkdir()
        for number, rows in enumerate(self._parts):
            pq.write_table(pa.Table.from_batches([rows]), directory / f"part-{number:05}.parquet")
        (directory / "_SUCCESS").touch()

    def mapInArrow(self, function: Any, schema: str) -> FakeFrame:
        return FakeFrame([packed for part in self._parts for packed in function(iter([part]))])

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches(self._parts)


class FakeAnswer:
    """A frame whose plan limits its rows. It cannot be written."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._jdf = self

    def queryExecution(self) -> FakeAnswer:
        return self

    def optimizedPlan(self) -> FakeAnswer:
        return self

    def maxRows(self) -> FakeAnswer:
        return self

    def isDefined(self) -> bool:
        return True

    def get(self) -> int:
        return self._rows.num_rows

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches([self._rows])


def numbers(first: int, count: int) -> Batch:
    column = pa.array(np.arange(first, first + count))
    return Batch(pa.RecordBatch.from_arrays([column], ["number"]), np.arange(count))


def test_few_records_are_sent_with_the_plan(tmp_path: Path) -> None:
    one = Staging(tmp_path / "staging", 1 << 20).input(0, "numbers", TYPE)
    one.add(numbers(0, 10))
    one.add(numbers(10, 5))
    table: Any = one.frame(FakeSession()).frame  # type: ignore[arg-type]
    assert table.column("number").to_pylist() == list(range(15))
    assert list((tmp_path / "staging").iterdir()) == []


def test_many_records_are_written_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "IN_MEMORY_BYTES", 100)
    one = Staging(tmp_path / "staging", 1 << 20).input(0, "numbers", TYPE)
    for first in range(0, 1000, 100):
        one.add(numbers(first, 100))
    assert [path.name for path in (tmp_path / "staging").iterdir()] == ["input-0.parquet"]
    table: Any = one.frame(FakeSession()).frame  # type: ignore[arg-type]
    assert table.column("number").to_pylist() == list(range(1000))
    assert one.num_rows == 1000


def test_a_too_large_input_without_files_is_an_error_that_names_the_option() -> None:
    one = Staging(None, 1000).input(0, "Source: numbers", TYPE)
    with pytest.raises(ConfigurationError, match=r"input 'Source: numbers' .* more than 1000 bytes .*staging-dir"):
        one.add(numbers(0, 1000))


@pytest.mark.parametrize("layout", list(Layout))
def test_outputs_are_read_in_the_order_of_sparks_partitions(tmp_path: Path, layout: Layout) -> None:
    parts = [encode_rows(numbers(first, 10), TYPE, layout) for first in (0, 10, 20)]
    frame: Any = FakeFrame([parts[0], parts[1].slice(0, 0), parts[1], parts[2]])
    place = Staging(tmp_path / "staging", 1 << 20)
    batches = list(place.read_output(0, StreamFrame(frame, TYPE, layout), DriverStore(), lambda values: None))
    found = [number for batch in batches for number in batch.values.column(0).to_pylist()]  # type: ignore[union-attr]
    assert found == list(range(30))
    assert all(batch.timestamps is not None for batch in batches)
    place.close()
    assert not (tmp_path / "staging").exists()


def test_few_rows_come_with_the_answer_and_are_not_written_to_files(tmp_path: Path) -> None:
    """The tests of columns cover `has_few_rows`."""
    rows = encode_rows(numbers(0, 3), TYPE, Layout.COLUMNS)
    place = Staging(tmp_path / "staging", 1 << 20)
    frame: Any = FakeAnswer(rows)
    (batch,) = place.read_output(0, StreamFrame(frame, TYPE, Layout.COLUMNS), DriverStore(), lambda values: None)
    assert batch.values.column(0).to_pylist() == [0, 1, 2]  # type: ignore[union-attr]
    assert batch.timestamps is not None
