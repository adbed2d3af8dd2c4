"""Sorting with little memory gives the results of sorting in memory for every key and any batches."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness
from test_batch_mode_properties import ARRIVALS, Digits, First, Record, Remember, Sides, batches_of

from flinkpy.common.typeinfo import Types
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.batch_mode import batch_spec_of
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import columns_of
from flinkpy.streaming.operators.batch import sorted_input
from flinkpy.streaming.operators.batch.sorted_input import SortedColumns, SortedInput
from flinkpy.streaming.sort.spill_file import SpillDirectory

_TYPE = Types.TUPLE([Types.STRING(), Types.LONG()])
_KEY = st.none() | st.text("ab", max_size=2) | st.tuples(st.integers(0, 2), st.sampled_from(["x", "y"]))
_TIMES = st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 3)
#: (input, has timestamps, records: (key, timestamp, kind)).
_BATCHES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.booleans(),
        st.lists(st.tuples(_KEY, st.integers(0, 3) | st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 3))),
    ),
    max_size=12,
)
_MEMORY = st.sampled_from([1, 2_000, 20_000, 1 << 30])
_numbers = itertools.count()


def by_key(records: sorted_input.SortedRecords, get_key: Any) -> dict[Any, list[Any]]:
    """Returns the records of each key, and checks that each key starts once."""
    keys: dict[Any, list[Any]] = {}
    current: Any = None
    for begins, index, batch in records:
        assert isinstance(batch.values, list)
        found = {get_key(value) for value in batch.values}
        assert len(found) == 1
        (key,) = found
        if begins:
            assert key not in keys
            current = key
        assert key == current
        times = [None] * len(batch) if batch.timestamps is None else batch.timestamps.tolist()
        kinds = [0] * len(batch) if batch.kinds is None else batch.kinds.tolist()
        keys.setdefault(key, []).extend(zip([index] * len(batch), batch.values, times, kinds))
    return keys


def fill(sorter: Any, batches: list[Any]) -> dict[Any, list[Any]]:
    """Returns the expected records of each key in order."""
    expected: dict[Any, list[Any]] = {}
    for index, has_time, records in batches:
        rows = [(key, next(_numbers)) for key, _, _ in records]
        times = np.array([time for _, time, _ in records], dtype=np.int64) if has_time else None
        kinds = np.array([kind for _, _, kind in records], dtype=np.int8)
        sorter.add([key for key, _, _ in records], rows, Batch(rows, times, kinds), index)
        for row, (key, time, kind) in zip(rows, records):
            expected.setdefault(key, []).append((index, row, time if has_time else None, kind))
    for of_key in expected.values():
        of_key.sort(key=lambda one: (one[2] is not None, one[2] or 0, one[0]))
    return expected


@pytest.mark.parametrize("num_words", [1, 2, 1 << 64])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(batches=_BATCHES, memory=_MEMORY)
def test_every_key_comes_once_with_its_records_in_order(
    monkeypatch: pytest.MonkeyPatch, num_words: int, batches: list[Any], memory: int
) -> None:
    real = sorted_input.key_words
    with monkeypatch.context() as patched, tempfile.TemporaryDirectory() as directory:
        if num_words <= 2:
            # Several keys have the same word, as if their hashes collided.
            patched.setattr(sorted_input, "key_words", lambda keys: real(keys) % np.uint64(num_words))
        sorter = SortedInput(SpillDirectory(Path(directory), "test"), memory)
        expected = fill(sorter, batches)
        assert by_key(sorter.records(), lambda value: value[0]) == expected


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.tuples(st.none() | st.text("ab", max_size=2), st.integers(0, 3))), max_size=12),
    st.booleans(),
    st.sampled_from([1, 200, 2_000, 1 << 30]),
)
def test_columns_are_sorted_as_their_records_are(batches: list[Any], has_time: bool, memory: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        spills = SpillDirectory(Path(directory), "test")
        rows_sorter = SortedInput(spills, 1 << 30)
        sorter = SortedColumns((0,), _TYPE, spills, memory)
        for records in batches:
            rows = [(key, next(_numbers)) for key, _ in records]
            times = np.array([time for _, time in records], dtype=np.int64) if has_time else None
            rows_sorter.add([key for key, _ in records], rows, Batch(rows, times), 0)
            sorter.add(Batch(columns_of(rows, _TYPE), times))
        expected = by_key(rows_sorter.records(), lambda value: value[0])

        assert by_key(sorter.records(), lambda value: value[0]) == expected


@pytest.mark.parametrize(
    ("make_spec", "num_inputs"),
    [
        (lambda: specs.KeyedProcessSpec(First(), Remember()), 1),
        (lambda: specs.KeyedCoProcessSpec(Sides(), (First(), First())), 2),
        (lambda: specs.ReduceSpec(First(), Digits()), 1),
    ],
)
@settings(deadline=None, max_examples=20)
@given(arrivals=ARRIVALS, memory=st.sampled_from(["1 b", "1 kb"]))
def test_operators_that_spill_give_the_same_results_as_in_memory(
    make_spec: Any, num_inputs: int, arrivals: list[tuple[int, list[Record]]], memory: str
) -> None:
    given_results = []
    for configuration in ({}, {"execution.sorted-inputs.memory": memory}):
        batch_spec = batch_spec_of(make_spec())
        assert batch_spec is not None
        harness = OperatorHarness(batch_spec, configuration=configuration)
        for index, records in arrivals:
            for batch in batches_of(records):
                harness.operator.process_batch(batch, index % num_inputs)
        for index in range(num_inputs):
            harness.operator.end_input(index)
        given_results.append(harness.output.rows)
        harness.operator.close()

    def of_keys(rows: list[Any]) -> dict[str, list[Any]]:
        keys: dict[str, list[Any]] = {}
        for row in rows:
            found = next(iter(set(repr(row).split("'")) & set("abc")))
            keys.setdefault(found, []).append(row)
        return keys

    in_memory, spilled = given_results
    assert of_keys(spilled) == of_keys(in_memory)
