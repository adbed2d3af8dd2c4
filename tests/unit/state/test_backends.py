"""Behaviour that all keyed state backends share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.either import Either
from flinkpy.common.errors import StateMigrationError, StateRestoreError, UnsupportedOperationError
from flinkpy.common.key_groups import KeyGroupRange, key_group_range
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import AggregateFunction
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkpy.records.key_identity import state_key, user_key
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.factory import create_keyed_state_backend

BACKENDS = ("hashmap", "rocksdb")
CANONICAL_SAVEPOINT = checkpoint_pb2.CheckpointOptions(kind=checkpoint_pb2.SAVEPOINT, format=checkpoint_pb2.CANONICAL)

VALUE = ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY())
LIST = ListStateDescriptor("l", Types.PICKLED_BYTE_ARRAY())
MAP = MapStateDescriptor("m", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())


class Average(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


AVERAGE = AggregatingStateDescriptor("average", Average(), Types.PICKLED_BYTE_ARRAY())


@pytest.fixture
def files():
    return MemoryStreams()


@pytest.fixture
def make(tmp_path, files):
    """Makes backends of any type, and closes them."""
    made = []

    def backend(kind, *handles, **keywords):
        configuration = {"state.backend.type": kind, **keywords.pop("configuration", {})}
        directory = tmp_path / str(len(made))
        directory.mkdir(exist_ok=True)
        created = create_keyed_state_backend(
            parameters(*handles, files=files, directory=directory, configuration=configuration, **keywords)
        )
        made.append(created)
        return created

    yield backend
    for each in made:
        each.close()


@pytest.fixture(params=BACKENDS)
def backend(request, make):
    created = make(request.param)
    created.key_context.key = "a"
    return created


def written(backend, files, options=OPTIONS, checkpoint_id=1):
    snapshot = backend.snapshot(checkpoint_id, options)
    try:
        return snapshot.write(files)
    finally:
        snapshot.release()


def on(backend, key):
    backend.key_context.key = key


def fill(backend, keys=range(200)):
    """Creates a state of every kind."""
    value, elements, entries = backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)
    total, average, timers = (
        backend.reducing_state(SUM),
        backend.aggregating_state(AVERAGE),
        backend.timer_queue("event"),
    )
    for key in keys:
        on(backend, key)
        value.update({"key": key})
        elements.add_all([key, str(key)])
        entries.put_all({"x": key, "y": [key]})
        total.add(key)
        total.add(1)
        average.add(key)
        timers.add(key % 10, key)


def contents(backend, keys=range(200)):
    value, elements, entries = backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)
    total, average, timers = (
        backend.reducing_state(SUM),
        backend.aggregating_state(AVERAGE),
        backend.timer_queue("event"),
    )
    found = {}
    for key in keys:
        on(backend, key)
        if value.value() is not None:
            found[key] = (value.value(), elements.get(), dict(entries.items()), total.get(), average.get())
    return found, sorted(timers.items())


def expected(keys=range(200)):
    states = {key: ({"key": key}, [key, str(key)], {"x": key, "y": [key]}, key + 1, float(key)) for key in keys}
    return states, sorted((key % 10, key) for key in keys)


def test_value_state_is_none_until_set_and_after_none(backend):
    state = backend.value_state(VALUE)
    assert state.value() is None

    state.update(0)
    assert state.value() == 0
    state.update(None)
    assert state.value() is None
    assert backend.num_entries() == 0
    state.clear()


@pytest.mark.parametrize(
    "value", [0, -1, 1 << 80, 1.5, True, "", "é" * 1000, b"", b"\x80" * 300, (1, "a", None), [1, [2]], {"a": {1}}]
)
def test_values_are_read_unchanged(backend, make, files, value):
    backend.value_state(VALUE).update(value)
    handle = written(backend, files)
    found = backend.value_state(VALUE).value()
    assert (found, type(found)) == (value, type(value))

    restored = make("rocksdb", handle)
    on(restored, "a")
    found = restored.value_state(VALUE).value()

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("key", [0, -5, 1 << 70, 2.5, True, None, "", "ü", b"x", (1, "a", ("b",)), ("a", "a")])
def test_keys_are_read_unchanged(backend, files, make, key):
    on(backend, state_key(key))
    backend.value_state(VALUE).update("value")
    backend.map_state(MAP).put("entry", 1)
    backend.timer_queue("event").add(7, state_key(key))

    restored = make("rocksdb", written(backend, files))

    restored.value_state(VALUE)
    restored.map_state(MAP)
    assert list(restored.keys("v")) == list(restored.keys("m")) == [state_key(key)]
    assert list(restored.timer_queue("event").items()) == [(7, state_key(key))]
    found = user_key(next(iter(restored.keys("v"))))
    assert (found, type(found)) == (key, type(key))


def test_list_state_returns_copies(backend):
    state = backend.list_state(LIST)
    state.add(1)
    state.add_all([2, 3])

    for value in state:
        state.add(value * 10)

    assert list(state.get()) == [1, 2, 3, 10, 20, 30]
    state.update([9])
    assert list(state) == [9]
    state.update([])
    assert list(state.get()) == []
    assert backend.num_entries() == 0


def test_map_state_allows_removal_while_it_is_read(backend):
    state = backend.map_state(MapStateDescriptor("m", Types.INT(), Types.STRING()))
    assert state.is_empty()
    state.put_all({1: "x", 2: "y"})
    state[3] = "z"

    for key, _ in state.items():
        if key != 2:
            state.remove(key)

    assert (list(state.keys()), list(state.values()), 2 in state, state.contains(1)) == ([2], ["y"], True, False)
    assert state[2] == "y"
    assert state.get(7) is None
    del state[2]
    assert state.is_empty()
    assert backend.num_entries() == 0


def test_a_map_entry_may_be_none(backend, files, make):
    state = backend.map_state(MAP)
    state.put("k", None)

    restored = make("rocksdb", written(backend, files))

    on(restored, "a")
    for found in (state, restored.map_state(MAP)):
        assert (found.get("k"), found.contains("k"), found.is_empty(), found.items()) == (
            None,
            True,
            False,
            [("k", None)],
        )


def test_states_are_separated_by_key_and_name(backend):
    one = backend.value_state(ValueStateDescriptor("one", Types.INT()))
    two = backend.value_state(ValueStateDescriptor("two", Types.INT()))
    one.update(1)
    on(backend, "b")
    one.update(2)

    assert two.value() is None
    assert sorted(backend.keys("one")) == ["a", "b"]
    assert backend.value_state(ValueStateDescriptor("one", Types.INT())) is one


def test_a_name_belongs_to_one_kind_of_state(backend):
    backend.value_state(VALUE)

    with pytest.raises(
        UnsupportedOperationError, match="'v' is already a value state; it cannot be requested as a list state"
    ):
        backend.list_state(ListStateDescriptor("v", Types.INT()))


def test_batch_access_agrees_with_access_by_single_keys(backend):
    state = backend.value_state(VALUE)
    state.put_many(range(100), [[i] for i in range(100)])
    state.put_many([5, 6, 5], [None, "six", "five"])
    on(backend, 7)
    state.update(7)
    on(backend, 8)
    state.clear()

    assert state.get_many([4, 5, 6, 7, 8, 1000]) == [[4], "five", "six", 7, None, None]


def test_a_look_at_the_timers_shows_one_that_waits_and_none_that_was_removed(backend):
    queue = backend.timer_queue("event")
    assert queue.peek() is None
    queue.add(50, "b")
    queue.add(20, "a")
    assert queue.peek() in (20, 50)
    assert queue.next_timestamp() == queue.peek() == 20
    queue.remove(20, "a")
    assert queue.peek() == 50
    assert list(queue.pop_due(60)) == [(50, "b")]
    assert queue.peek() is None


def test_timers_fire_in_order_and_observe_changes_during_the_run(backend):
    queue = backend.timer_queue("event")
    for timestamp, key in [(30, "c"), (10, "a"), (20, "b"), (20, "d"), (10, "a"), (99, "later")]:
        queue.add(timestamp, key)
    queue.remove(20, "d")
    queue.remove(20, "nobody")
    fired = []
    for timestamp, key in queue.pop_due(30):
        fired.append((timestamp, key))
        if key == "a":
            queue.add(5, "now")
            queue.add(31, "not yet")
            queue.remove(30, "c")

    assert fired == [(10, "a"), (5, "now"), (20, "b")]
    assert queue.next_timestamp() == 31
    assert sorted(queue.items()) == [(31, "not yet"), (99, "later")]
    assert len(queue) == 2


@pytest.mark.parametrize("source", BACKENDS)
@pytest.mark.parametrize("target", BACKENDS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_savepoint_can_be_read_by_any_backend_at_any_parallelism(make, files, source, target, parallelism):
    before = make(source)
    fill(before)
    handle = written(before, files, CANONICAL_SAVEPOINT)

    after = [
        make(target, handle, key_groups=key_group_range(128, parallelism, subtask)) for subtask in range(parallelism)
    ]

    found = [contents(part) for part in after]
    assert sum(len(states) for states, _ in found) == 200
    assert ({key: state for states, _ in found for key, state in states.items()}) == expected()[0]
    assert sorted(timer for _, timers in found for timer in timers) == expected()[1]


def test_a_snapshot_contains_the_state_of_its_time(backend, files, make):
    fill(backend, range(20))

    snapshot = backend.snapshot(1, OPTIONS)
    on(backend, 3)
    backend.value_state(VALUE).update("changed")
    backend.list_state(LIST).add("added")
    backend.map_state(MAP).clear()
    backend.timer_queue("event").add(1_000, "later")
    handle = snapshot.write(files)
    snapshot.release()

    assert contents(make("rocksdb", handle)) == expected(range(20))
    on(backend, 3)
    assert backend.list_state(LIST).get() == [3, "3", "added"]


def test_a_snapshot_excludes_changes_that_a_later_snapshot_wrote_first(backend, files, make):
    columns = [pa.int64()], [AggregateColumn("COUNT")]
    table = backend.pane_table("panes", *columns)
    fill(backend, range(20))
    table.add([pa.array(range(20))], np.arange(20), [None])

    snapshot = backend.snapshot(1, OPTIONS)
    for key in range(20):
        on(backend, key)
        backend.value_state(VALUE).update("changed")
        backend.map_state(MAP).clear()
    table.drop_before(20)
    table.add([pa.array([5])], np.array([20]), [None])
    written(backend, files, checkpoint_id=2)
    handle = snapshot.write(files)
    snapshot.release()

    restored = make("rocksdb", handle)
    assert restored.pane_table("panes", *columns).panes().tolist() == list(range(20))
    assert contents(restored) == expected(range(20))


def test_a_snapshot_can_be_written_after_the_backend_was_closed(tmp_path, files, make):
    for kind in BACKENDS:
        (tmp_path / kind).mkdir()
        backend = create_keyed_state_backend(
            parameters(directory=tmp_path / kind, configuration={"state.backend.type": kind})
        )
        fill(backend, range(20))
        snapshot = backend.snapshot(1, OPTIONS)
        backend.close()
        handle = snapshot.write(files)
        snapshot.release()

        assert contents(make("rocksdb", handle)) == expected(range(20))
        assert list((tmp_path / kind).rglob("*.sst")) == []


def test_unused_state_is_kept(backend, files, make):
    fill(backend, range(20))
    backend.aggregate_table("t", [pa.int64()], [AggregateColumn("COUNT")]).add([pa.array([1, 1])], [None])
    kind = "rocksdb" if "rocksdb" in type(backend).__module__ else "hashmap"

    last = make(kind, written(make(kind, written(backend, files)), files))

    assert contents(last) == expected(range(20))
    assert last.aggregate_table("t", [pa.int64()], [AggregateColumn("COUNT")]).keys() == [pa.array([1])]


def test_empty_state_is_not_written(backend, files):
    backend.value_state(VALUE)

    assert written(backend, files) is None


@pytest.mark.parametrize("source", BACKENDS)
@pytest.mark.parametrize("target", BACKENDS)
def test_a_table_can_be_read_by_any_backend(make, files, source, target):
    types = [pa.string(), pa.timestamp("ns")]
    aggregates = [
        AggregateColumn("COUNT"),
        AggregateColumn("SUM", pa.int64()),
        AggregateColumn("MEAN", pa.float64()),
        AggregateColumn("MIN", pa.string()),
        AggregateColumn("MAX", pa.date32()),
    ]
    keys = [pa.array(["a", None, "a", "b"]), pa.array([1, 2, 1, None], pa.timestamp("ns"))]
    days = pa.array([1, 5, None, 3], pa.int32()).cast(pa.date32())
    values = [None, pa.array([1, None, 3, 4]), pa.array([1.0, 2.0, 3.0, None]), pa.array(["x", "y", "w", None]), days]

    def rows(table):
        table_keys = table.keys()
        columns = table_keys + table.results(pa.array(range(table.size)).to_numpy())
        return sorted(zip(*(column.to_pylist() for column in _readable(columns))), key=repr)

    before = make(source).aggregate_table("t", types, aggregates)
    before.add(keys, values)
    wanted = rows(before)
    backend = make(source)
    backend.aggregate_table("t", types, aggregates).add(keys, values)
    after = make(target, written(backend, files))
    restored = after.aggregate_table("t", types, aggregates)
    assert rows(restored) == wanted

    slots = restored.add(keys, values)
    assert restored.results(slots)[0].to_pylist() == [4, 2, 4, 2]
    assert restored.results(slots)[1].to_pylist() == [8, None, 8, 8]
    with pytest.raises(StateMigrationError, match="state 't': the key columns were"):
        make(target, written(backend, files)).aggregate_table("t", [pa.int64()], aggregates)


def _readable(columns):
    """A Python datetime has no nanoseconds."""
    return [column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]


def test_another_kind_of_state_is_refused(backend, files, make):
    backend.value_state(VALUE).update(1)
    kind = "rocksdb" if "rocksdb" in type(backend).__module__ else "hashmap"
    restored = make(kind, written(backend, files))

    with pytest.raises(StateRestoreError, match="'v': it was stored as a value state and is requested as a list"):
        restored.list_state(ListStateDescriptor("v", Types.INT()))


def test_another_type_of_state_is_refused(backend, files, make):
    backend.value_state(ValueStateDescriptor("n", Types.STRING())).update("x")
    kind = "rocksdb" if "rocksdb" in type(backend).__module__ else "hashmap"
    restored = make(kind, written(backend, files))

    with pytest.raises(StateMigrationError, match="state 'n': was STRING and is LONG now"):
        restored.value_state(ValueStateDescriptor("n", Types.LONG()))


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_rows_get_their_new_fields(backend, files, make, kind):
    old = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    new = Types.ROW_NAMED(["b", "c"], [Types.STRING(), Types.INT()])
    stored, wanted = {"a": 1, "b": "x"}, {"b": "x", "c": None}

    def state_of(owner, type_info):
        if kind == "value":
            return owner.value_state(ValueStateDescriptor("s", type_info))
        if kind == "list":
            return owner.list_state(ListStateDescriptor("s", type_info))
        return owner.map_state(MapStateDescriptor("s", Types.STRING(), type_info))

    state = state_of(backend, old)
    if kind == "value":
        state.update(stored)
    elif kind == "list":
        state.add(stored)
    else:
        state.put("k", stored)
    restored = make("rocksdb", written(backend, files))
    on(restored, "a")
    state = state_of(restored, new)

    found = state.value() if kind == "value" else state.get()[0] if kind == "list" else state.get("k")
    assert found == wanted


def test_another_max_parallelism_is_refused(backend, files, make):
    backend.value_state(VALUE).update(1)
    handle = written(backend, files)

    for kind in BACKENDS:
        with pytest.raises(StateRestoreError, match="max parallelism 128 and cannot be restored with 64"):
            make(kind, handle, max_parallelism=64, key_groups=KeyGroupRange(0, 63))


@pytest.mark.parametrize("kind", BACKENDS)
def test_values_expire(make, files, kind):
    clock = ManualClock(1_000)
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).cleanup_full_snapshot().build()
    descriptors = [
        ValueStateDescriptor("tv", Types.INT()),
        ListStateDescriptor("tl", Types.INT()),
        MapStateDescriptor("tm", Types.INT(), Types.INT()),
        ReducingStateDescriptor("tr", lambda a, b: a + b, Types.INT()),
    ]
    for descriptor in descriptors:
        descriptor.enable_time_to_live(ttl)

    def states_of(owner):
        on(owner, 1)
        value, elements, entries, total = descriptors
        return (
            owner.value_state(value),
            owner.list_state(elements),
            owner.map_state(entries),
            owner.reducing_state(total),
        )

    def seen(owner):
        value, elements, entries, total = states_of(owner)
        return value.value(), list(elements.get()), dict(entries.items()), total.get()

    backend = make(kind, clock=clock)
    value, elements, entries, total = states_of(backend)
    value.update(1)
    elements.add(1)
    entries.put(1, 1)
    total.add(1)
    clock.advance(60)
    elements.add(2)
    entries.put(2, 2)
    total.add(2)
    assert seen(backend) == (1, [1, 2], {1: 1, 2: 2}, 3)

    clock.advance(60)
    handle = written(backend, files)
    assert seen(make(kind, handle, clock=clock)) == (None, [2], {2: 2}, 3)
    assert seen(backend) == (None, [2], {2: 2}, 3)
    clock.advance(60)
    assert seen(backend) == (None, [], {}, None)


@pytest.mark.parametrize("kind", BACKENDS)
def test_union_typed_values_can_be_restored_by_the_other_backend(kind, make, files):
    either = ListStateDescriptor("either", Types.EITHER(Types.STRING(), Types.LIST(Types.INT())))
    values = [Either.Left("a"), Either.Right([1, 2]), Either.Left("")]
    backend = make(kind)
    on(backend, 5)
    backend.list_state(either).add_all(values)

    other = make(BACKENDS[1 - BACKENDS.index(kind)], written(backend, files, CANONICAL_SAVEPOINT))
    on(other, 5)
    assert list(other.list_state(either).get()) == values
    changed = make(kind, written(other, files, CANONICAL_SAVEPOINT))
    with pytest.raises(StateMigrationError, match="EitherTypeInfo<String, ListTypeInfo<Integer>>"):
        changed.list_state(ListStateDescriptor("either", Types.EITHER(Types.STRING(), Types.INT())))
