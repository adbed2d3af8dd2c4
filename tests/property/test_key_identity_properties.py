"""Keys of mixed types have the identity of a reference, in every operator, backend and mode, and after a restart with
another parallelism.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections import Counter
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_subtasks import Event, KeyedSubtasks
from streaming_fakes import OperatorHarness

from flinkpy.common import Row, Types
from flinkpy.common.key_groups import operator_index
from flinkpy.datastream.functions import AggregateFunction, KeyedProcessFunction, KeySelector, ReduceFunction
from flinkpy.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkpy.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkpy.functions.window_functions import ProcessWindowFunction
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.batch_mode import batch_spec_of
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.records.key_hash import hash_columns, hash_key, key_groups

MAX_PARALLELISM = 128
END = 10**9


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 4


class Pair(NamedTuple):
    x: Any
    y: Any


#: Many of these values are equal in Python but are different keys, or are one key but not equal in Python.
_SCALARS: list[Any] = [
    0, 1, 4, -1, 2**70, 0.0, -0.0, 1.0, 4.0, -1.0, float(2**70), math.nan, -math.nan, math.inf, False, True,
    "", "a", "1", b"a", b"1", None, Decimal(1), Decimal("1.00"), Decimal(4), Decimal("NaN"), Decimal("-0"),
    Colour.RED, Colour.GREEN,
    np.int64(4), np.float64(4), np.float32(1), np.bool_(True), np.str_("a"), dt.date(1970, 1, 2),
    dt.datetime(1970, 1, 2), dt.datetime(1970, 1, 2, tzinfo=dt.UTC),
    dt.datetime(1970, 1, 2, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.timedelta(days=1), dt.time(1),
]  # fmt: skip
_SCALAR = st.sampled_from(_SCALARS)
KEYS = st.recursive(
    _SCALAR,
    lambda part: st.one_of(
        st.lists(part, max_size=2).map(tuple),
        st.tuples(part, part).map(lambda two: Pair(*two)),
        st.tuples(part, part).map(lambda two: Row(*two)),
        st.tuples(part, part).map(lambda two: Row(x=two[0], y=two[1])),
    ),
    max_leaves=3,
)


def reference(key: Any) -> str:
    """Returns the identity of a key, computed without the code under test."""
    if isinstance(key, np.generic):
        key = key.item()
    kind = type(key).__name__
    if isinstance(key, Row):
        return f"{kind}{key._fields}({','.join(map(reference, key))})"
    if isinstance(key, tuple):
        return f"{kind}({','.join(map(reference, key))})"
    if isinstance(key, float):
        return f"{kind}:{'nan' if math.isnan(key) else key.hex()}"
    if isinstance(key, Decimal):
        return f"{kind}:{'nan' if key.is_nan() else key.as_integer_ratio()}"
    if isinstance(key, dt.datetime) and key.tzinfo is not None:
        return f"{kind}:{key.timestamp()}"
    return f"{kind}:{key!r}"


class ByFirst(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class CountAndTell(KeyedProcessFunction):
    """Counts the records of its key in several states, and emits the counts when a timer fires."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(value[1], (self.seen.get(value[1]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(END)
        return []

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        seen = Counter({reference(key): count for key, count in self.seen.items()})
        yield reference(ctx.get_current_key()), self.count.value(), sorted(seen.items())


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return (value1[0], value1[1], value1[2] + value2[2])


class CountRecords(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class TellWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield reference(key), sum(elements)


def window(assigner: Any) -> specs.WindowSpec:
    return specs.WindowSpec(ByFirst(), assigner, EventTimeTrigger(), aggregation=CountRecords(), function=TellWindow())


def events_of(records: list[tuple[Any, Any]]) -> list[Event]:
    return [("record", (key, entry, 1), 1_000) for key, entry in records]


RECORDS = st.lists(st.tuples(KEYS, _SCALAR), min_size=1, max_size=40)
BACKENDS = st.sampled_from(["hashmap", "rocksdb"])
_FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run(spec: Any, records: list[tuple[Any, Any]], at: int, backend: str, parallelism: tuple[int, int]) -> list[Any]:
    """Returns all results of the operator, which is restarted before record `at`."""
    events = events_of(records)
    cuts = set(range(0, len(events), 7))
    with KeyedSubtasks(spec, parallelism[0], configuration={"state.backend.type": backend}) as subtasks:
        subtasks.run(events[:at], cuts)
        subtasks.restart(parallelism[1])
        subtasks.run([*events[at:], ("watermark", MAX_WATERMARK)], cuts)
        return [value for value, _ in subtasks.outputs[""]]


def check_all(records: list[tuple[Any, Any]], at: int, backend: str, parallelism: tuple[int, int]) -> None:
    counts = Counter(reference(key) for key, _ in records)
    entries: dict[str, Counter[str]] = {key: Counter() for key in counts}
    for key, entry in records:
        entries[reference(key)][reference(entry)] += 1

    process = specs.KeyedProcessSpec(ByFirst(), CountAndTell())
    told = run(process, records, at, backend, parallelism)
    assert sorted(told) == [(key, counts[key], sorted(entries[key].items())) for key in sorted(counts)]

    reduced = run(specs.ReduceSpec(ByFirst(), Sum()), records, at, backend, parallelism)
    largest: Counter[str] = Counter()
    for key, _, count in reduced:
        largest[reference(key)] = max(largest[reference(key)], count)
    assert largest == counts

    for assigner in (TumblingEventTimeWindows(2_000, 0), EventTimeSessionWindows(100)):
        told = run(window(assigner), records, at, backend, parallelism)
        assert Counter(dict(told)) == counts and len(told) == len(counts)
    told = run(window(SlidingEventTimeWindows(2_000, 1_000, 0)), records, at, backend, parallelism)
    assert Counter(told) == Counter(dict.fromkeys(counts.items(), 2))


@_FEW
@given(RECORDS, st.integers(0, 40), BACKENDS, st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_streaming_operators_identify_keys_across_a_restart_with_another_parallelism(
    records: list[tuple[Any, Any]], at: int, backend: str, parallelism: tuple[int, int]
) -> None:
    check_all(records, min(at, len(records)), backend, parallelism)


@pytest.mark.chaos
@pytest.mark.timeout(7_200)  # RocksDB writes and syncs: up to an hour on a loaded machine
@settings(max_examples=1_500, deadline=None, suppress_health_check=list(HealthCheck))
@given(RECORDS, st.integers(0, 40), BACKENDS, st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_streaming_operators_identify_keys_in_many_more_examples(
    records: list[tuple[Any, Any]], at: int, backend: str, parallelism: tuple[int, int]
) -> None:
    check_all(records, min(at, len(records)), backend, parallelism)


@_FEW
@given(RECORDS, st.sampled_from(["1 b", "1 mb"]))
def test_batch_operators_identify_keys_in_memory_and_on_disk(records: list[tuple[Any, Any]], memory: str) -> None:
    counts = Counter(reference(key) for key, _ in records)
    for spec in (
        specs.KeyedProcessSpec(ByFirst(), CountAndTell()),
        specs.ReduceSpec(ByFirst(), Sum()),
        window(TumblingEventTimeWindows(2_000, 0)),
    ):
        batch_spec = batch_spec_of(spec)
        assert batch_spec is not None
        configuration = {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.memory": memory}
        harness = OperatorHarness(batch_spec, configuration=configuration)
        for start in range(0, len(records), 5):
            rows = [(key, entry, 1) for key, entry in records[start : start + 5]]
            harness.operator.process_batch(Batch(rows, np.full(len(rows), 1_000, dtype=np.int64)))
        harness.operator.process_element(Watermark(MAX_WATERMARK))
        harness.operator.end_input(0)
        rows = harness.output.rows
        harness.operator.close()
        if isinstance(spec, specs.ReduceSpec):
            rows = [(reference(key), count) for key, _, count in rows]
        assert Counter({row[0]: row[1] for row in rows}) == counts and len(rows) == len(counts)


_FLOATS = st.sampled_from([0.0, -0.0, 1.0, math.nan, -math.nan, 2.5, None])


@_FEW
@given(st.lists(st.tuples(_FLOATS, st.sampled_from(["a", "b"])), min_size=1, max_size=40), BACKENDS)
def test_float_columns_have_the_same_keys_as_rows(rows: list[tuple[Any, str]], backend: str) -> None:
    spec = specs.ColumnAggregateSpec(
        specs.FieldKeySelector(("x", "y")), (specs.ColumnAggregate("n", "COUNT", None),), "FINAL"
    )
    harness = OperatorHarness(spec, configuration={"state.backend.type": backend})
    for start in range(0, len(rows), 6):
        part = rows[start : start + 6]
        columns = pa.record_batch(
            {"x": pa.array([x for x, _ in part], pa.float64(), from_pandas=False), "y": [y for _, y in part]}
        )
        harness.operator.process_batch(Batch(columns))
    harness.operator.end_input(0)
    harness.operator.finish()
    harness.operator.close()

    found = Counter()
    for item in harness.output.items:
        if isinstance(item, Batch):
            for row in item.values.to_pylist():
                found[reference((row["x"], row["y"]))] += row["n"]
    assert found == Counter(map(reference, rows))


@given(st.lists(_FLOATS, min_size=1))
def test_columns_go_to_the_same_subtasks_as_their_python_values(values: list[Any]) -> None:
    groups = key_groups(hash_columns([pa.array(values, pa.float64(), from_pandas=False)]), MAX_PARALLELISM)
    for value, group in zip(values, groups.tolist()):
        own = operator_index(MAX_PARALLELISM, 3, hash_key(value) % MAX_PARALLELISM)
        assert operator_index(MAX_PARALLELISM, 3, group) == own
