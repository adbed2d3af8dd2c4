"""Entries of group tables in RocksDB: the working set as a journal, and evicted entries one by one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.key_groups import key_group_range
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.state import group_table
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.row_groups import RowGroups

pytest.importorskip("rocksdict")

_KEY_TYPES = [pa.string(), pa.int64()]
_MAX_PARALLELISM = 128


@pytest.fixture
def files():
    return MemoryStreams()


@pytest.fixture
def make(tmp_path, files):
    numbers = itertools.count()
    backends = []

    def create(*restored, incremental="true", key_groups=None):
        backend = create_keyed_state_backend(
            parameters(
                *restored,
                files=files,
                key_groups=key_groups or key_group_range(_MAX_PARALLELISM, 1, 0),
                directory=tmp_path / str(next(numbers)),
                configuration={"state.backend.type": "rocksdb", "execution.checkpointing.incremental": incremental},
            )
        )
        backends.append(backend)
        return backend

    yield create
    for backend in backends:
        backend.close()


class _Sums:
    """A sum, and counts of distinct values, by key."""

    def __init__(self, backend):
        self.backend = backend
        self.table = backend.group_table("groups", _KEY_TYPES, [AggregateColumn("SQL.SUM", pa.int64())])
        self.values = backend.group_map("values", self.table, [pa.string()], [AggregateColumn("SQL.COUNT")])

    def add(self, rows):
        """Adds (key, value) pairs. Returns the sum of each key of them, and how many values are new to their keys."""
        keys = [pa.array([f"k{key % 3}" for key, _ in rows]), pa.array([key for key, _ in rows], pa.int64())]
        slots = self.table.slots_of(keys)
        number, first = self.table.number_rows(slots)
        groups = RowGroups(number, slots.take(first), ~self.table.is_live.take(slots.take(first)))
        (effect,) = self.values.changes(groups, [pa.array([str(value) for _, value in rows])], [None])
        sums = self.table.accumulators[0].update(groups, pa.array([value for _, value in rows]), None, False)
        self.table.set_live(groups.slots)
        after = sums.to_pylist()[len(first) :]
        return {rows[row][0]: total for row, total in zip(first.tolist(), after)}, int(np.count_nonzero(effect))

    def remove(self, keys):
        slots = self.table.slots_of([pa.array([f"k{key % 3}" for key in keys]), pa.array(keys, pa.int64())])
        self.table.remove(np.unique(slots))


def _snapshot(backend, files, number):
    snapshot = backend.snapshot(number, OPTIONS)
    handle = snapshot.write(files)
    snapshot.release()
    return handle


def _random_rows(random_, count):
    return [(random_.randrange(60), random_.randrange(5)) for _ in range(count)]


def test_a_working_set_is_written_as_one_entry_per_key_group(make, files):
    backend = make()
    sums = _Sums(backend)
    sums.add([(key, value) for key in range(2_000) for value in range(3)])
    _snapshot(backend, files, 1)

    stored = sum(1 for _ in backend._database.scan(b"", None))
    assert stored == 2 * _MAX_PARALLELISM
    assert backend.num_entries() == 2_000 + 6_000
    assert not sums.table._store.has_evicted


@pytest.mark.parametrize("incremental", ["true", "false"], ids=["native", "canonical"])
@pytest.mark.parametrize("limit", [8, 64, 1 << 20])
def test_sums_are_right_whatever_is_in_memory_across_restarts_and_other_parallelism(
    make, files, monkeypatch, incremental, limit
):
    monkeypatch.setattr(group_table, "MAX_WORKING_SET", limit)
    monkeypatch.setattr(group_table, "_MIN_EVICTED", 1)
    random_ = random.Random(limit)
    subtasks = [_Sums(make(incremental=incremental))]
    expected: dict[int, int] = {}
    values: set[tuple[int, int]] = set()
    for number, parallelism in enumerate([1, 2, 3, 1], start=1):
        for _ in range(6):
            rows = _random_rows(random_, 15)
            gone = sorted({key for key, _ in _random_rows(random_, 3)})
            for sums in subtasks:
                owned = _owned(sums, sorted({key for key, _ in rows} | set(gone)))
                part = [row for row in rows if row[0] in owned]
                if part:
                    fresh = {row for row in part if row not in values}
                    for key, value in part:
                        expected[key] = expected.get(key, 0) + value
                    values |= fresh
                    assert sums.add(part) == ({key: expected[key] for key, _ in part}, len(fresh))
                removed = [key for key in gone if key in owned]
                if removed:
                    sums.remove(removed)
                    for key in removed:
                        expected.pop(key, None)
                    values = {value for value in values if value[0] not in removed}
        handles = [_snapshot(sums.backend, files, number) for sums in subtasks]
        subtasks = [
            _Sums(
                make(
                    *(handle for handle in handles if handle is not None),
                    incremental=incremental,
                    key_groups=key_group_range(_MAX_PARALLELISM, parallelism, index),
                )
            )
            for index in range(parallelism)
        ]
        assert sum(sums.backend.num_entries() for sums in subtasks) == len(expected) + len(values)


def _owned(sums, keys):
    """Returns the keys that belong to the subtask."""
    columns = [pa.array([f"k{key % 3}" for key in keys]), pa.array(keys, pa.int64())]
    groups = key_groups(hash_columns(columns), _MAX_PARALLELISM).tolist()
    owned = sums.backend.key_group_range
    return {key for key, group in zip(keys, groups) if owned.start <= group <= owned.end}


def test_the_older_half_of_a_full_working_set_leaves_memory(make, monkeypatch):
    monkeypatch.setattr(group_table, "MAX_WORKING_SET", 100)
    sums = _Sums(make())
    sums.add([(key, 1) for key in range(60)])
    sums.add([(key, 1) for key in range(60, 120)])
    sums.add([(key, 1) for key in range(60, 70)])

    assert 0 < sums.table.size <= 60
    assert sums.table._store.has_evicted
    assert sums.add([(0, 1), (65, 1)]) == ({0: 2, 65: 3}, 0)


def test_many_changes_are_written_before_a_snapshot(make, monkeypatch):
    monkeypatch.setattr(group_table, "_MAX_CHANGED", 50)
    sums = _Sums(make())
    sums.add([(key, 1) for key in range(60)])
    assert sums.table._store.num_changed == 60
    sums.add([(0, 1)])
    assert sums.table._store.num_changed == 1
