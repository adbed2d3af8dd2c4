"""Heap snapshots equal a model: each contains the state at the moment of the snapshot, despite later changes.

Operations change state through its interface, and also in place: functions may change the lists and dicts that they got
from state. Several snapshots are in progress at once and are written at random times. After a restore with any
parallelism, all subtasks together have the complete state.
"""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.key_groups import key_group_range
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import AggregateFunction
from flinkpy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.records.key_hash import hash_key
from flinkpy.state.heap_backend import HeapKeyedStateBackend

MAX_PARALLELISM = 16
ALL = key_group_range(MAX_PARALLELISM, 1, 0)
ANY = Types.PICKLED_BYTE_ARRAY()

keys = st.sampled_from([0, "a", ("t", None)])
plain = st.integers(0, 3) | st.tuples(st.integers(0, 1))
values = (
    plain
    | st.lists(st.integers(0, 9), max_size=2)
    | st.dictionaries(st.integers(0, 3), st.lists(plain, max_size=2), max_size=2)
    | st.tuples(st.lists(st.integers(0, 9), max_size=1))
)
entry_keys = st.sampled_from([0, ("t",)])


class Collect(AggregateFunction):
    """Changes its accumulator in place, as most aggregate functions do."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return list(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def reduce_in_place(a, b):
    a.extend(b)
    return a


ways_to_change = st.sampled_from(["value", "get_many", "list", "entry", "items", "values", "aggregating"])

VALUE = ValueStateDescriptor("value", ANY)
LIST = ListStateDescriptor("list", ANY)
MAP = MapStateDescriptor("map", ANY, ANY)
REDUCING = ReducingStateDescriptor("reducing", reduce_in_place, ANY)
AGGREGATING = AggregatingStateDescriptor("aggregating", Collect(), ANY)


def mutate(value, number):
    """Changes an object as user code does."""
    if isinstance(value, list):
        value.append(number)
    elif isinstance(value, dict):
        value[number] = [number]
        for item in value.values():
            mutate(item, number)
    elif isinstance(value, tuple):
        for item in value:
            mutate(item, number)


class Subtask:
    """A backend and its states."""

    def __init__(self, *handles, files=None, key_groups=ALL):
        self.backend = HeapKeyedStateBackend(
            parameters(*handles, files=files, key_groups=key_groups, max_parallelism=MAX_PARALLELISM)
        )
        self.value = self.backend.value_state(VALUE)
        self.list = self.backend.list_state(LIST)
        self.map = self.backend.map_state(MAP)
        self.reducing = self.backend.reducing_state(REDUCING)
        self.aggregating = self.backend.aggregating_state(AGGREGATING)
        self.timers = self.backend.timer_queue("timers")

    def content(self):
        tables = {name: self.backend.table(name) for name in ("value", "list", "map", "reducing", "aggregating")}
        return {**tables, "timers": set(self.timers.items())}


def empty():
    return {"value": {}, "list": {}, "map": {}, "reducing": {}, "aggregating": {}, "timers": set()}


class HeapSnapshots(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.files = MemoryStreams()
        self.subtask = Subtask()
        self.model = empty()
        self.running = []
        self.number = 100

    @initialize()
    def begin(self):
        for key in (("t", None), "a", 0):
            self.set_key(key)
            self.update_value([1])
            self.add_to_list([1])
            self.put_entry(0, [1])

    @rule(key=keys)
    def set_key(self, key):
        self.key = key
        self.subtask.backend.key_context.key = key

    # -- operations ------------------------------------------------------------------------------------------------

    @rule(value=values)
    def update_value(self, value):
        self.subtask.value.update(copy.deepcopy(value))
        self.model["value"][self.key] = value

    @rule(values=st.lists(st.tuples(keys, values), max_size=4))
    def put_many(self, values):
        self.subtask.value.put_many([key for key, _ in values], copy.deepcopy([value for _, value in values]))
        self.model["value"].update(copy.deepcopy(values))

    @rule(name=st.sampled_from(["value", "list", "map", "reducing", "aggregating"]))
    def clear(self, name):
        getattr(self.subtask, name).clear()
        self.model[name].pop(self.key, None)

    @rule(value=values)
    def add_to_list(self, value):
        self.subtask.list.add(copy.deepcopy(value))
        self.model["list"].setdefault(self.key, []).append(value)

    @rule(added=st.lists(values, max_size=3))
    def add_all_to_list(self, added):
        self.subtask.list.add_all(copy.deepcopy(added))
        if added:
            self.model["list"].setdefault(self.key, []).extend(added)

    @rule(replaced=st.lists(values, max_size=3))
    def update_list(self, replaced):
        self.subtask.list.update(copy.deepcopy(replaced))
        self.model["list"][self.key] = replaced
        if not replaced:
            del self.model["list"][self.key]

    @rule(key=entry_keys, value=values)
    def put_entry(self, key, value):
        self.subtask.map.put(key, copy.deepcopy(value))
        self.model["map"].setdefault(self.key, {})[key] = value

    @rule(entries=st.dictionaries(entry_keys, values, max_size=3))
    def put_entries(self, entries):
        self.subtask.map.put_all(copy.deepcopy(entries))
        if entries:
            self.model["map"].setdefault(self.key, {}).update(entries)

    @rule(key=entry_keys)
    def remove_entry(self, key):
        self.subtask.map.remove(key)
        entries = self.model["map"].get(self.key, {})
        entries.pop(key, None)
        if not entries:
            self.model["map"].pop(self.key, None)

    @rule(value=st.integers(0, 9))
    def reduce(self, value):
        self.subtask.reducing.add([value])
        self.model["reducing"].setdefault(self.key, []).append(value)

    @rule(value=st.integers(0, 9))
    def aggregate(self, value):
        self.subtask.aggregating.add(value)
        self.model["aggregating"].setdefault(self.key, []).append(value)

    @rule(time=st.integers(0, 5), key=keys)
    def add_timer(self, time, key):
        self.subtask.timers.add(time, key)
        self.model["timers"].add((time, key))

    @rule(time=st.integers(0, 5), key=keys)
    def remove_timer(self, time, key):
        self.subtask.timers.remove(time, key)
        self.model["timers"].discard((time, key))

    @rule(time=st.integers(0, 5), limit=st.integers(0, 3))
    def fire_timers(self, time, limit):
        due = {timer for timer in self.model["timers"] if timer[0] <= time}
        fired = []
        for timer in self.subtask.timers.pop_due(time):
            fired.append(timer)
            if len(fired) == limit:
                break
        assert [when for when, _ in fired] == sorted(when for when, _ in due)[: len(fired)]
        assert set(fired) <= due
        self.model["timers"] -= set(fired)

    @rule(how=ways_to_change)
    def change(self, how):
        """Changes any object that a function can access."""
        self.number += 1
        subtask, model, key = self.subtask, self.model, self.key
        if how == "value":
            got, kept = [subtask.value.value()], [model["value"].get(key)]
        elif how == "get_many":
            got, kept = subtask.value.get_many([key, "a"]), [model["value"].get(key), model["value"].get("a")]
            if key == "a":
                got, kept = got[:1], kept[:1]
        elif how == "list":
            got, kept = list(subtask.list), model["list"].get(key, [])
        elif how == "entry":
            got, kept = [subtask.map.get(0)], [model["map"].get(key, {}).get(0)]
        elif how == "items":
            got, kept = [value for _, value in subtask.map.items()], model["map"].get(key, {}).values()
        elif how == "values":
            got, kept = subtask.map.values(), model["map"].get(key, {}).values()
        else:
            got, kept = subtask.aggregating.get() or [], model["aggregating"].get(key, [])
        for value in (*got, *kept):
            mutate(value, self.number)

    # -- snapshots -------------------------------------------------------------------------------------------------

    @rule()
    def snapshot(self):
        if len(self.running) < 3:
            self.running.append((self.subtask.backend.snapshot(1, OPTIONS), copy.deepcopy(self.model)))

    @rule(data=st.data(), parallelism=st.integers(1, 5), between=st.none() | st.integers(1, 5))
    def write_one(self, data, parallelism, between):
        if not self.running:
            return
        self.write(self.running.pop(data.draw(st.integers(0, len(self.running) - 1))), parallelism, between)

    def write_first(self):
        self.write(self.running.pop(0), 1, None)

    def write(self, running, parallelism, between):
        snapshot, model = running
        handle = snapshot.write(self.files)
        snapshot.release()
        handles = [] if handle is None else [handle]
        if between is not None:
            handles = self.rewritten(handles, between)
        self.check_restored(handles, parallelism, model)

    def rewritten(self, handles, parallelism):
        """Restores and snapshots the state in subtasks that do not use it."""
        parts = [
            HeapKeyedStateBackend(
                parameters(
                    *handles,
                    files=self.files,
                    key_groups=key_group_range(MAX_PARALLELISM, parallelism, index),
                    max_parallelism=MAX_PARALLELISM,
                )
            )
            for index in range(parallelism)
        ]
        return [handle for part in parts if (handle := part.snapshot(1, OPTIONS).write(self.files)) is not None]

    def check_restored(self, handles, parallelism, model):
        together = empty()
        for index in range(parallelism):
            owned = key_group_range(MAX_PARALLELISM, parallelism, index)
            part = Subtask(*handles, files=self.files, key_groups=owned).content()
            for name, content in part.items():
                for entry in content:
                    key = entry[1] if name == "timers" else entry
                    assert hash_key(key) % MAX_PARALLELISM in owned
                assert not set(content) & set(together[name])
                together[name].update(content)
        assert together == model

    @rule(data=st.data())
    def give_up_one(self, data):
        if self.running:
            self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))[0].release()

    @rule()
    def fail_over(self):
        """Restores a snapshot in new subtasks, and continues."""
        snapshot, model = self.subtask.backend.snapshot(1, OPTIONS), self.model
        handle = snapshot.write(self.files)
        snapshot.release()
        self.subtask = Subtask(*([] if handle is None else [handle]), files=self.files)
        self.subtask.backend.key_context.key = self.key
        self.model = copy.deepcopy(model)

    @invariant()
    def live_state_is_right(self):
        assert self.subtask.content() == self.model
        assert not self.files.open_streams


HeapSnapshots.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestHeapSnapshots = HeapSnapshots.TestCase


operations = st.lists(
    st.tuples(st.just("set_key"), keys)
    | st.tuples(st.just("change"), ways_to_change)
    | st.tuples(st.just("change"), ways_to_change)
    | st.tuples(st.just("update_value"), values)
    | st.tuples(st.just("add_to_list"), values)
    | st.tuples(st.just("put_entry"), entry_keys, values)
    | st.tuples(st.just("remove_entry"), entry_keys)
    | st.tuples(st.sampled_from(["reduce", "aggregate"]), st.integers(0, 9))
    | st.tuples(st.just("clear"), st.sampled_from(["value", "list", "map"])),
    min_size=4,
    max_size=12,
)


@given(st.lists(operations, min_size=3, max_size=4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_each_of_several_snapshots_contains_the_state_of_its_time(parts, is_written_late):
    machine = HeapSnapshots()
    machine.begin()
    for part in parts:
        for name, *arguments in part:
            getattr(machine, name)(*copy.deepcopy(arguments))
        machine.live_state_is_right()
        machine.snapshot()
        if not is_written_late and len(machine.running) > 1:
            machine.write_first()
    for _ in range(len(machine.running)):
        machine.write_first()
