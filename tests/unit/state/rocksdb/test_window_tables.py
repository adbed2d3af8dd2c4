"""Windows in RocksDB equal those in memory, across snapshots of both kinds, restarts and other parallelism."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.key_groups import key_group_range
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.rocksdb import window_tables

pytest.importorskip("rocksdict")

_KEY_TYPES = [pa.string()]
_MAX_PARALLELISM = 128
#: The same aggregate of the DataStream API and of SQL.
_AGGREGATES = {"api": [AggregateColumn("SUM", pa.int64())], "sql": [AggregateColumn("SQL.SUM", pa.int64())]}


@pytest.fixture
def make(tmp_path):
    numbers = itertools.count()
    backends = []
    files = MemoryStreams()

    def create(kind, incremental, *restored, key_groups=None):
        backend = create_keyed_state_backend(
            parameters(
                *restored,
                files=files,
                key_groups=key_groups or key_group_range(_MAX_PARALLELISM, 1, 0),
                directory=tmp_path / str(next(numbers)),
                configuration={"state.backend.type": kind, "execution.checkpointing.incremental": incremental},
            )
        )
        backends.append(backend)
        return backend

    create.files = files
    yield create
    for backend in backends:
        backend.close()


def _keys(rows):
    return [pa.array([f"k{key}" for key, *_ in rows])]


def _add(table, rows, is_session):
    values = [pa.array([value for *_, value in rows])]
    times = np.array([time for _, time, _ in rows], dtype=np.int64)
    if is_session:
        table.add(table.numbers_of(_keys(rows)), times * 10, times * 10 + 15, values)
    else:
        table.add(_keys(rows), times, values)


def _content(table):
    slots = table.live_slots()
    (keys,), (sums,) = table.keys(table.key_numbers(slots)), table.results(slots)
    times = [each.take(slots).tolist() for each in table._times]
    return sorted(zip(keys.to_pylist(), *times, sums.to_pylist()))


def _drop(table, until, is_session):
    if not is_session:
        table.drop_before(until)
    else:
        slots = table.live_slots()
        table.drop(slots[table.ends(slots) < until * 10])


@pytest.mark.parametrize("is_session", [False, True], ids=["panes", "sessions"])
@pytest.mark.parametrize("aggregates", _AGGREGATES, ids=str)
@pytest.mark.parametrize("incremental", ["true", "false"], ids=["native", "canonical"])
@pytest.mark.parametrize("max_changed", [10, 1 << 16])
def test_windows_are_those_in_memory(make, monkeypatch, is_session, aggregates, incremental, max_changed):
    monkeypatch.setattr(window_tables, "_MAX_CHANGED", max_changed)
    random_ = random.Random(max_changed)

    def tables(kind, *restored, key_groups=None):
        backend = make(kind, incremental, *restored, key_groups=key_groups)
        create = backend.session_table if is_session else backend.pane_table
        return backend, create("windows", _KEY_TYPES, _AGGREGATES[aggregates])

    _, heap = tables("hashmap")
    stored = [tables("rocksdb")]
    now = 0
    for number, parallelism in enumerate([1, 2, 1], start=1):
        for _ in range(8):
            rows = [(random_.randrange(12), now + random_.randrange(20), random_.randrange(9)) for _ in range(15)]
            _add(heap, rows, is_session)
            groups = key_groups(hash_columns(_keys(rows)), _MAX_PARALLELISM).tolist()
            for backend, table in stored:
                part = [row for row, group in zip(rows, groups) if group in backend._key_groups]
                if part:
                    _add(table, part, is_session)
            now += random_.randrange(6)
            for table in (heap, *(each for _, each in stored)):
                _drop(table, now, is_session)
        assert sorted(itertools.chain(*(_content(table) for _, table in stored))) == _content(heap)
        handles = []
        for backend, table in stored:
            snapshot = backend.snapshot(number, OPTIONS)
            handles.append(snapshot.write(make.files))
            snapshot.release()
            assert backend.num_entries() == table.size
        ranges = [key_group_range(_MAX_PARALLELISM, parallelism, index) for index in range(parallelism)]
        stored = [tables("rocksdb", *handles, key_groups=each) for each in ranges]
        # Restored windows that nothing has changed can end.
        for table in (heap, *(each for _, each in stored)):
            _drop(table, now + 2, is_session)
    assert sorted(itertools.chain(*(_content(table) for _, table in stored))) == _content(heap)
