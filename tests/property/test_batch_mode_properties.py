"""Operators in batch mode give the results of a plain program over the sorted records, for any batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness

from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    ProcessWindowFunction,
    ReduceFunction,
)
from flinkpy.datastream.state import ListStateDescriptor
from flinkpy.datastream.window import EventTimeSessionWindows, EventTimeTrigger
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.batch_mode import batch_spec_of
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark

GAP_MS = 5
#: (key, value, timestamp or None)
RECORD = st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.none() | st.integers(-20, 20))
#: (input, records) in order of arrival. Either all records of a batch have timestamps or none has one.
ARRIVALS = st.lists(st.tuples(st.integers(0, 1), st.lists(RECORD, min_size=1, max_size=6)), max_size=6)

Record = tuple[str, int, int | None]


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


def batches_of(records: list[Record]) -> Iterator[Batch]:
    run: list[Record] = []
    for record in [*records, None]:
        if run and (record is None or (record[2] is None) != (run[0][2] is None)):
            times = None if run[0][2] is None else np.array([one[2] for one in run], dtype=np.int64)
            yield Batch([one[:2] for one in run], times)
            run = []
        if record is not None:
            run.append(record)


def results(spec: specs.OperatorSpec, arrivals: list[tuple[int, list[Record]]], num_inputs: int) -> list[Any]:
    batch_spec = batch_spec_of(spec)
    assert batch_spec is not None
    harness = OperatorHarness(batch_spec)
    for index, records in arrivals:
        for batch in batches_of(records):
            harness.operator.process_batch(batch, index % num_inputs)
    harness.operator.process_element(Watermark(MAX_WATERMARK))
    for index in range(num_inputs):
        harness.operator.end_input(index)
    assert harness.output.elements == [Watermark(MAX_WATERMARK)]
    return harness.output.rows


def by_key(arrivals: list[tuple[int, list[Record]]], num_inputs: int) -> dict[str, list[tuple[int, Record]]]:
    """Returns the records of each key, sorted by timestamp, then by input, then by arrival. Keys are in order of their
    first record.
    """
    keys: dict[str, list[tuple[int, Record]]] = {}
    for index, records in arrivals:
        for record in records:
            keys.setdefault(record[0], []).append((index % num_inputs, record))
    for of_key in keys.values():
        of_key.sort(key=lambda one: (-(1 << 63) if one[1][2] is None else one[1][2], one[0]))
    return keys


class Remember(KeyedProcessFunction):
    """Emits each record with the earlier records of its key, and at the end all timers in order."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1])
        yield value, ctx.timestamp(), list(self.seen)
        self.seen.add(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        yield "timer", ctx.get_current_key(), timestamp


@given(ARRIVALS)
def test_keyed_function_sees_one_sorted_key_at_a_time(arrivals: list[tuple[int, list[Record]]]) -> None:
    expected: list[Any] = []
    for key, records in by_key(arrivals, 1).items():
        values = [record[1] for _, record in records]
        expected.extend((record[:2], record[2], values[:at]) for at, (_, record) in enumerate(records))
        expected.extend(("timer", key, value) for value in sorted(set(values)))

    assert results(specs.KeyedProcessSpec(First(), Remember()), arrivals, 1) == expected


class Sides(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield 0, value, ctx.timestamp()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield 1, value, ctx.timestamp()


@given(ARRIVALS)
def test_two_inputs_are_merged_by_sorted_key(arrivals: list[tuple[int, list[Record]]]) -> None:
    expected = [(index, record[:2], record[2]) for records in by_key(arrivals, 2).values() for index, record in records]

    assert results(specs.KeyedCoProcessSpec(Sides(), (First(), First())), arrivals, 2) == expected


class Digits(ReduceFunction):
    """A reduce function whose result contains all values in the order of the calls."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] * 10 + value2[1]


@given(ARRIVALS)
def test_reduce_folds_each_key_in_the_order_of_time(arrivals: list[tuple[int, list[Record]]]) -> None:
    expected = {
        key: reduce(Digits().reduce, [record[:2] for _, record in records])
        for key, records in by_key(arrivals, 1).items()
    }

    found = results(specs.ReduceSpec(First(), Digits()), arrivals, 1)
    assert dict(zip([value[0] for value in found], found)) == expected
    assert len(found) == len(expected)


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().start, context.window().end, [value for _, value in elements]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(-20, 20)), max_size=15), st.data())
def test_sessions_are_complete_and_in_the_order_of_time(records: list[Record], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(records)))
    arrivals = [(0, records[:cut]), (0, records[cut:])]
    expected: list[Any] = []
    for key, of_key in by_key(arrivals, 1).items():
        sessions: list[list[Any]] = []
        for _, (_, value, time) in of_key:
            assert time is not None
            if sessions and time <= sessions[-1][2]:
                sessions[-1][2] = time + GAP_MS
                sessions[-1][3].append(value)
            else:
                sessions.append([key, time, time + GAP_MS, [value]])
        expected.extend(map(tuple, sessions))

    spec = specs.WindowSpec(
        First(),
        EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)),
        EventTimeTrigger.create(),
        function=Contents(),
    )
    assert results(spec, arrivals, 1) == expected
