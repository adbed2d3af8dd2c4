"""Rows and groups of RocksDB tables survive native snapshots, whatever was removed before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.key_groups import key_group_range
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.row_groups import RowGroups
from flinkpy.state.row_table import RowLayout

pytest.importorskip("rocksdict")


class Restarting:
    """A RocksDB backend with incremental checkpoints that is restored again and again."""

    def __init__(self, directory: Path) -> None:
        self._files = MemoryStreams()
        self._directories = (directory / str(number) for number in itertools.count())
        self._num_checkpoints = 0
        self.backend = self._make()

    def _make(self, *restored: Any) -> Any:
        return create_keyed_state_backend(
            parameters(
                *restored,
                files=self._files,
                key_groups=key_group_range(128, 1, 0),
                directory=next(self._directories),
                configuration={"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
            )
        )

    def restart(self) -> None:
        self._num_checkpoints += 1
        snapshot = self.backend.snapshot(self._num_checkpoints, OPTIONS)
        handle = snapshot.write(self._files)
        snapshot.release()
        self.backend.close()
        self.backend = self._make(handle)


@pytest.fixture
def restarting(tmp_path: Path) -> Iterator[Restarting]:
    made = Restarting(tmp_path)
    yield made
    made.backend.close()


def test_a_row_that_came_after_a_removed_one_survives_two_restarts(restarting: Restarting) -> None:
    layout = RowLayout((pa.int64(), pa.string()), (0,))

    def table() -> Any:
        return restarting.backend.row_table("rows", layout)

    def add(key: int, text: str) -> None:
        rows = table()
        rows.add(rows.slots_of([pa.array([key])]), [pa.array([key]), pa.array([text])])

    add(1, "a")
    restarting.restart()
    table().remove(table().live_rows())
    restarting.restart()
    assert table().size == 0
    add(1, "b")
    restarting.restart()
    assert table().size == 1


def test_a_group_that_came_after_a_removed_one_survives_two_restarts(restarting: Restarting) -> None:
    columns = [AggregateColumn("SQL.SUM", pa.int64())]

    def table() -> Any:
        return restarting.backend.group_table("sums", [pa.int64()], columns)

    def total_after(value: int) -> int:
        groups = table()
        slots = groups.slots_of([pa.array([1])])
        number, first = groups.number_rows(slots)
        rows = RowGroups(number, slots.take(first), ~groups.is_live.take(slots.take(first)))
        totals: list[int] = groups.accumulators[0].update(rows, pa.array([value]), None, False).to_pylist()
        groups.set_live(rows.slots)
        return totals[-1]

    assert total_after(10) == 10
    restarting.restart()
    table().remove(table().slots_of([pa.array([1])]))
    restarting.restart()
    assert total_after(5) == 5
    restarting.restart()
    assert total_after(1) == 6
