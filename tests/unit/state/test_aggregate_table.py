from __future__ import annotations

import decimal
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.errors import StateMigrationError, StateRestoreError, UnsupportedOperationError
from flinkpy.common.key_groups import key_group_range
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.heap_backend import HeapKeyedStateBackend

KEYS = [pa.string(), pa.int32()]
COLUMNS = {
    "n": pa.array([1, None, 3, 4, 5, 6], pa.int64()),
    "x": pa.array([0.5, 1.5, None, -1.0, 2.0, 2.5], pa.float32()),
    "d": pa.array(
        [decimal.Decimal("1.50"), None, *map(decimal.Decimal, ["2.25", "3.00", "4.00", "0.01"])], pa.decimal128(9, 2)
    ),
    "s": pa.array(["b", "a", None, "z", "y", "c"]),
    "day": pa.array([date(2024, 1, day) for day in (3, 1, 2, 9, 8, 7)], pa.date32()),
    "b": pa.array([True, False, None, True, None, None]),
}
AGGREGATES = [
    ("COUNT", None),
    ("COUNT", "n"),
    ("SUM", "n"),
    ("SUM", "d"),
    ("MEAN", "x"),
    ("MEAN", "d"),
    ("MIN", "s"),
    ("MAX", "day"),
    ("MAX", "d"),
    ("MIN", "x"),
    ("MAX", "b"),
]
KEY_COLUMNS = [pa.array(["u", "v", "u", None, "v", "w"]), pa.array([1, 2, 1, 3, 2, None], pa.int32())]


def aggregates():
    return [AggregateColumn(name, None if column is None else COLUMNS[column].type) for name, column in AGGREGATES]


def table_of(backend):
    return backend.aggregate_table("t", KEYS, aggregates())


def add(table, rows=slice(None)):
    rows = pa.array(np.arange(6)[rows])
    values = [None if column is None else COLUMNS[column].take(rows) for _, column in AGGREGATES]
    return table.add([column.take(rows) for column in KEY_COLUMNS], values)


def rows_of(table):
    columns = table.keys() + table.results(np.arange(table.size))
    return {tuple(row[:2]): row[2:] for row in zip(*(column.to_pylist() for column in columns))}


@pytest.fixture
def files():
    return MemoryStreams()


def test_a_snapshot_contains_the_table_of_its_time(files):
    backend = HeapKeyedStateBackend(parameters())
    table = table_of(backend)
    add(table, slice(4))
    before = rows_of(table)

    snapshot = backend.snapshot(1, OPTIONS)
    add(table)
    handle = snapshot.write(files)
    snapshot.release()

    restored = table_of(HeapKeyedStateBackend(parameters(handle, files=files)))
    assert rows_of(restored) == before
    assert [column.type for column in restored.results(np.arange(1))] == [
        column.type for column in table.results(np.arange(1))
    ]


def test_restored_parts_form_one_table(files):
    whole = HeapKeyedStateBackend(parameters())
    add(table_of(whole))
    handle = whole.snapshot(1, OPTIONS).write(files)

    parts = [
        HeapKeyedStateBackend(parameters(handle, files=files, key_groups=key_group_range(128, 3, i))) for i in range(3)
    ]
    tables = [rows_of(table_of(part)) for part in parts]
    assert sum(map(len, tables)) == 4
    handles = [part.snapshot(2, OPTIONS).write(files) for part in parts if part.num_entries()]
    one = HeapKeyedStateBackend(parameters(*handles, files=files))
    together = table_of(one)
    assert rows_of(together) == {key: row for table in tables for key, row in table.items()} == rows_of(table_of(whole))

    add(together)
    add(table_of(whole))
    assert rows_of(together) == rows_of(table_of(whole))


def test_an_unused_table_is_kept(files):
    backend = HeapKeyedStateBackend(parameters())
    add(table_of(backend))
    first = backend.snapshot(1, OPTIONS).write(files)

    second = HeapKeyedStateBackend(parameters(first, files=files)).snapshot(2, OPTIONS).write(files)

    assert rows_of(table_of(HeapKeyedStateBackend(parameters(second, files=files)))) == rows_of(table_of(backend))


def test_other_columns_are_refused_by_name(files):
    backend = HeapKeyedStateBackend(parameters())
    add(table_of(backend))
    handle = backend.snapshot(1, OPTIONS).write(files)
    restored = HeapKeyedStateBackend(parameters(handle, files=files))

    with pytest.raises(StateMigrationError, match=r"state 't': the key columns were .string, int32. and are .string"):
        restored.aggregate_table("t", [pa.string()], aggregates())
    with pytest.raises(StateMigrationError, match=r"aggregate 2 was SUM.int64. and is MAX.int64. now"):
        changed = aggregates()
        changed[2] = AggregateColumn("MAX", pa.int64())
        restored.aggregate_table("t", KEYS, changed)
    with pytest.raises(StateMigrationError, match="stored with 11 aggregates and now has 1"):
        restored.aggregate_table("t", KEYS, aggregates()[:1])
    with pytest.raises(StateRestoreError, match="it was stored as a table state and is requested as a value state"):
        restored.value_state(ValueStateDescriptor("t", Types.INT()))
    assert table_of(restored).size == 4


def test_a_name_cannot_be_both_a_table_and_a_state():
    backend = HeapKeyedStateBackend(parameters())
    table_of(backend)
    with pytest.raises(UnsupportedOperationError, match="'t' is already a table state"):
        backend.value_state(ValueStateDescriptor("t", Types.INT()))
