from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import flinkpy.state.key_index as key_index
import flinkpy.state.row_chunks as row_chunks
import flinkpy.state.row_table as row_table
import flinkpy.state.word_table as word_table
from flinkpy.common.errors import StateMigrationError
from flinkpy.state.key_index import KeyIndex, KeyWords
from flinkpy.state.row_kernels import CompiledKernels, NumpyKernels
from flinkpy.state.row_table import RowLayout, RowTable

TYPES = (pa.int64(), pa.string(), pa.int32())


@pytest.fixture(params=["numpy", "numba"])
def kernels(request):
    if request.param == "numpy":
        return NumpyKernels()
    pytest.importorskip("numba")
    return CompiledKernels()


@pytest.fixture
def small_chunks(monkeypatch):
    for module in (row_chunks, row_table):
        monkeypatch.setattr(module, "CHUNK_BITS", 4)
        monkeypatch.setattr(module, "CHUNK_ROWS", 16)


def columns_of(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES)]


def rows_by_key(table: RowTable, keys: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Any]]:
    """Returns the rows of each key, with their numbers."""
    types = table.layout.key_types
    slots = table.find([pa.array([key[i] for key in keys], kind) for i, kind in enumerate(types)])
    positions, rows = table.rows_of(slots)
    found: dict[tuple[Any, ...], list[Any]] = {key: [] for key in keys}
    values = zip(*(column.to_pylist() for column in table.take(rows)))
    for position, row, number in zip(positions.tolist(), values, table.ints("n", rows).tolist(), strict=True):
        found[keys[position]].append((row, number))
    return found


class NaiveTable:
    """Lists of [row, number] by key."""

    def __init__(self, layout: RowLayout) -> None:
        self._layout = layout
        self.lists: dict[tuple[Any, ...], list[list[Any]]] = {}

    def apply(self, row: tuple[Any, ...], is_add: bool, number: int) -> bool:
        layout = self._layout
        rows = self.lists.setdefault(tuple(row[column] for column in layout.key), [])
        columns = range(len(row)) if layout.row_key is None else layout.row_key
        known = next((each for each in rows if all(each[0][c] == row[c] for c in columns)), None)
        replaces = is_add and known is not None and layout.row_key is not None
        if replaces:
            assert known is not None
            known[:] = [row, number]
        elif is_add:
            rows.append([row, number])
        elif known is not None:
            rows.remove(known)
        self.lists = {key: rows for key, rows in self.lists.items() if rows}
        return replaces


@pytest.mark.parametrize("row_key", [None, (), (2,)], ids=["multiset", "one row", "row key"])
@pytest.mark.parametrize("key", [(0,), (0, 1)], ids=["one column", "two columns"])
def test_rows_are_those_of_a_table_that_is_changed_row_by_row(kernels, small_chunks, row_key, key):
    layout = RowLayout(TYPES, key, row_key, ("n",))
    for seed in range(3):
        chance = random.Random(seed)
        table, naive = RowTable(layout, row_kernels=kernels), NaiveTable(layout)
        for _ in range(20):
            rows = [
                (chance.choice([None, 0, 1, 2, 7]), chance.choice([None, "a", "b"]), chance.randint(0, 3))
                for _ in range(chance.randint(0, 20))
            ]
            is_add = [chance.random() < 0.55 for _ in rows]
            numbers = [chance.randint(0, 99) for _ in rows]
            expected = [naive.apply(*change) for change in zip(rows, is_add, numbers)]
            replaced = table.apply(columns_of(rows), np.array(is_add, dtype=bool), {"n": np.array(numbers, np.int64)})

            assert replaced.tolist() == expected
            assert (table.num_keys, table.size) == (len(naive.lists), sum(map(len, naive.lists.values())))
            found = rows_by_key(table, [*naive.lists, tuple([99, "unknown"][: len(key)])])
            for found_key, found_rows in found.items():
                wanted = naive.lists.get(found_key, [])
                # Copies of a row may have any of their numbers.
                shown = (lambda pair: str(pair[0])) if row_key is None else (lambda pair: str(list(pair)))
                assert sorted(map(shown, found_rows)) == sorted(map(shown, wanted))


def test_memory_follows_the_number_of_live_rows(kernels, small_chunks):
    table = RowTable(RowLayout(TYPES, (0,), (), ("n",)), row_kernels=kernels)
    for step in range(200):
        rows = [(key, "x" * 20, step) for key in range(10)]
        table.apply(columns_of(rows), None, {"n": np.zeros(10, dtype=np.int64)})

    assert table.size == 10
    assert table._chunks.num_chunks <= 4
    assert rows_by_key(table, [(3,)]) == {(3,): [((3, "x" * 20, 199), 0)]}


def test_keys_with_equal_first_words_stay_apart(kernels, monkeypatch):
    words = KeyWords([pa.string()])
    real = words.words
    monkeypatch.setattr(words, "words", lambda columns: (np.zeros(len(columns[0]), np.int64), real(columns)[1]))
    index = KeyIndex(words, kernels)
    keys = [pa.array(["a", "b", "a", "c", None, "b"])]

    slots, new = index.slots_of(keys)
    assert [slots.tolist().index(slot) for slot in slots] == [0, 1, 0, 3, 4, 1]
    assert sorted(new.tolist()) == [0, 1, 3, 4]
    assert index.find(keys).tolist() == slots.tolist()
    index.remove(slots[[0, 3]])
    assert (index.find(keys) < 0).tolist() == [True, False, True, True, False, False]
    assert index.size == 2
    again, new = index.slots_of(keys)
    assert len(new) == 2 and len(set(again.tolist())) == 4


def test_a_removed_key_gives_its_slot_to_another_one(kernels):
    index = KeyIndex(KeyWords([pa.int64()]), kernels)
    for start in range(0, 40_000, 1_000):
        slots, new = index.slots_of([pa.array(range(start, start + 1_000))])
        assert len(new) == 1_000
        index.remove(slots)

    assert (index.size, index.capacity) == (0, 1_000)
    assert len(index._table._here.slots) <= 8 * 1_024


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_a_growing_index_moves_its_keys_little_by_little(kernels, kind, monkeypatch):
    monkeypatch.setattr(word_table, "_MIN_MOVED", 16)
    index = KeyIndex(KeyWords([kind]), kernels)
    random_ = random.Random(3)
    expected: dict[int, int] = {}
    was_moving = 0
    for _ in range(300):
        keys = [random_.randrange(3_000) for _ in range(50)]
        slots, new = index.slots_of([pa.array(keys).cast(kind)])
        was_moving += index._table._old is not None
        first: dict[int, int] = {}
        for position, key in enumerate(keys):
            first.setdefault(key, position)
        assert sorted(new.tolist()) == sorted(position for key, position in first.items() if key not in expected)
        for key, slot in zip(keys, slots.tolist()):
            assert expected.setdefault(key, slot) == slot
        assert len(set(expected.values())) == len(expected) == index.size
        gone = random_.sample(sorted(expected), random_.randrange(20))
        index.remove(np.array([expected.pop(key) for key in gone], dtype=np.int64))
        asked = [random_.randrange(3_000) for _ in range(30)]
        found = index.find([pa.array(asked).cast(kind)]).tolist()
        assert [slot if slot >= 0 else None for slot in found] == [expected.get(key) for key in asked]
    assert 20 < was_moving < 300


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [0.0, 1.5, float("nan"), None]),
        (pa.decimal128(20, 2), [1, 2, -3, None]),
        (pa.bool_(), [True, False, None]),
        (pa.timestamp("us", "UTC"), [0, 5, None]),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": None}]),
        (pa.list_(pa.int64()), [[], [1], [1, 2], None]),
        (pa.binary(), [b"", b"a", None]),
    ],
    ids=str,
)
def test_values_of_every_type_can_be_keys(kind, values, kernels):
    index = KeyIndex(KeyWords([kind]), kernels)
    column = pa.array([*values, *values], kind)

    slots, new = index.slots_of([column])
    assert new.tolist() == list(range(len(values)))
    assert slots.tolist()[: len(values)] == slots.tolist()[len(values) :]
    # A slice has an offset in its buffers.
    assert index.find([column.slice(1)]).tolist() == slots.tolist()[1:]


def test_zeros_of_both_signs_are_one_key(kernels):
    index = KeyIndex(KeyWords([pa.float64(), pa.int8()]), kernels)
    slots, _ = index.slots_of([pa.array([0.0, -0.0]), pa.array([1, 1], pa.int8())])
    assert slots[0] == slots[1]


def test_a_restored_table_must_have_the_same_columns():
    layout = RowLayout(TYPES, (0,), (2,), ("n",), 5)
    stored = layout.meta_info("left")
    assert RowLayout.from_json(stored.to_json()["table"]).types == TYPES
    layout.check_restored(stored, "join")
    with pytest.raises(StateMigrationError, match=r"the key columns were \(0\) and are \(1\) now"):
        RowLayout(TYPES, (1,), (2,), ("n",)).check_restored(stored, "join")


def test_the_second_words_of_text_differ_between_processes():
    column = [pa.array(["a", "b"])]
    one, other = KeyWords([pa.string()], seed=1), KeyWords([pa.string()], seed=2)
    assert one.words(column)[0].tolist() == other.words(column)[0].tolist()
    assert one.words(column)[1].tolist() != other.words(column)[1].tolist()
    assert key_index.KeyWords([pa.string()])._seed != key_index.KeyWords([pa.string()])._seed


def test_rows_that_are_taken_several_times_are_in_the_order_that_was_asked_for(small_chunks):
    chunks = row_chunks.RowChunks(TYPES)
    rows = [(number, f"text {number}" if number % 3 else None, number) for number in range(100)]
    for start in range(0, 100, 7):
        chunks.append(columns_of(rows[start : start + 7]))

    for distinct in (3, 20, 100):
        positions = np.random.default_rng(distinct).integers(0, distinct, 600)
        expected = [rows[position] for position in positions.tolist()]
        assert list(zip(*(column.to_pylist() for column in chunks.take(positions, [0, 1, 2])))) == expected
        frozen = chunks.frozen().take(positions)
        assert list(zip(*(column.to_pylist() for column in frozen))) == expected
