"""Compares the backend with plain dicts. Its memory is so small that values are written, evicted and read again."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory_checkpoints import ALL_KEY_GROUPS, MemoryStreams, parameters

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.key_groups import key_group_range
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.rocksdb import cached_state, list_state, map_state, single_states, timer_queue

VALUE = ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY())
LIST = ListStateDescriptor("l", Types.PICKLED_BYTE_ARRAY())
MAP = MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
SUM = ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG())
CANONICAL = checkpoint_pb2.CheckpointOptions(kind=checkpoint_pb2.SAVEPOINT, format=checkpoint_pb2.CANONICAL)
NATIVE = checkpoint_pb2.CheckpointOptions(kind=checkpoint_pb2.SAVEPOINT, format=checkpoint_pb2.NATIVE)

keys = strategies.one_of(strategies.integers(-3, 3), strategies.sampled_from(["a", "b", ("a", 1), "é"]))
values = strategies.one_of(
    strategies.integers(), strategies.text(max_size=3), strategies.lists(strategies.integers(0, 9), max_size=3)
)
times = strategies.integers(0, 12)


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    for module in (cached_state, list_state, map_state, single_states, timer_queue):
        monkeypatch.setattr(module, "MAX_GENERATION", 4)
    monkeypatch.setattr(list_state, "_MAX_CHUNKS", 2)
    monkeypatch.setattr(list_state, "_MAX_KEPT", 3)
    monkeypatch.setattr(map_state, "_MAX_KEPT", 3)
    monkeypatch.setattr(timer_queue, "_MAX_HEAD", 6)


class Model(RuleBasedStateMachine):
    timers = "ROCKSDB"

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.files = MemoryStreams()
        self.values: dict = {}
        self.lists: dict = {}
        self.maps: dict = {}
        self.sums: dict = {}
        self.queue: set = set()

    @initialize()
    def start(self) -> None:
        self.open()

    def open(self, *handles, key_groups=ALL_KEY_GROUPS) -> None:
        configuration = {
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.timer-service.factory": self.timers,
            "state.backend.rocksdb.timer-service.cache-size": "2",
        }
        self.backend = create_keyed_state_backend(
            parameters(
                *handles,
                files=self.files,
                directory=self.directory,
                configuration=configuration,
                key_groups=key_groups,
                max_parallelism=128,
            )
        )
        backend = self.backend
        self.value, self.list, self.map, self.sum = (
            backend.value_state(VALUE),
            backend.list_state(LIST),
            backend.map_state(MAP),
            backend.reducing_state(SUM),
        )
        self.timer_queue = backend.timer_queue("t")

    def teardown(self) -> None:
        self.backend.close()
        assert list(self.directory.iterdir()) == []
        shutil.rmtree(self.directory)

    def on(self, key) -> None:
        self.backend.key_context.key = key

    # -- value, reducing

    @rule(key=keys, value=values)
    def update_value(self, key, value) -> None:
        self.on(key)
        self.value.update(value)
        self.values[key] = value

    @rule(key=keys)
    def clear_value(self, key) -> None:
        self.on(key)
        self.value.clear()
        self.values.pop(key, None)

    @rule(key=keys)
    def read_value(self, key) -> None:
        self.on(key)
        assert self.value.value() == self.values.get(key)

    @rule(some=strategies.lists(keys, max_size=8), value=strategies.one_of(strategies.none(), values))
    def put_many(self, some, value) -> None:
        self.value.put_many(some, [value] * len(some))
        for key in some:
            self.values[key] = value
            if value is None:
                del self.values[key]

    @rule(some=strategies.lists(keys, max_size=8))
    def get_many(self, some) -> None:
        assert self.value.get_many(some) == [self.values.get(key) for key in some]

    @rule(key=keys, value=strategies.integers(-5, 5))
    def add_to_sum(self, key, value) -> None:
        self.on(key)
        self.sum.add(value)
        self.sums[key] = self.sums.get(key, 0) + value
        assert self.sum.get() == self.sums[key]

    # -- list

    @rule(key=keys, added=strategies.lists(values, max_size=3))
    def add_to_list(self, key, added) -> None:
        self.on(key)
        for value in added[:1]:
            self.list.add(value)
        self.list.add_all(added[1:])
        self.lists[key] = self.lists.get(key, []) + added

    @rule(key=keys, replaced=strategies.lists(values, max_size=3))
    def update_list(self, key, replaced) -> None:
        self.on(key)
        self.list.update(replaced)
        self.lists[key] = list(replaced)

    @rule(key=keys)
    def read_list(self, key) -> None:
        self.on(key)
        assert self.list.get() == self.lists.get(key, [])

    # -- map

    @rule(key=keys, map_key=keys, value=values)
    def put(self, key, map_key, value) -> None:
        self.on(key)
        self.map.put(map_key, value)
        self.maps.setdefault(key, {})[map_key] = value

    @rule(key=keys, map_key=keys)
    def remove(self, key, map_key) -> None:
        self.on(key)
        self.map.remove(map_key)
        self.maps.get(key, {}).pop(map_key, None)

    @rule(key=keys)
    def clear_map(self, key) -> None:
        self.on(key)
        self.map.clear()
        self.maps.pop(key, None)

    @rule(key=keys, map_key=keys)
    def read_entry(self, key, map_key) -> None:
        self.on(key)
        entries = self.maps.get(key, {})
        assert self.map.get(map_key) == entries.get(map_key)
        assert self.map.contains(map_key) == (map_key in entries)

    @rule(key=keys)
    def read_map(self, key) -> None:
        self.on(key)
        assert self.map.is_empty() == (not self.maps.get(key))
        assert dict(self.map.items()) == self.maps.get(key, {})

    # -- timers

    @rule(timestamp=times, key=keys)
    def add_timer(self, timestamp, key) -> None:
        self.timer_queue.add(timestamp, key)
        self.queue.add((timestamp, key))

    @rule(timestamp=times, key=keys)
    def remove_timer(self, timestamp, key) -> None:
        self.timer_queue.remove(timestamp, key)
        self.queue.discard((timestamp, key))

    @rule(up_to=times, added=strategies.one_of(strategies.none(), strategies.tuples(times, keys)))
    def fire(self, up_to, added) -> None:
        fired = []
        for timer in self.timer_queue.pop_due(up_to):
            assert timer in self.queue
            assert timer[0] == min(timestamp for timestamp, _ in self.queue)
            self.queue.discard(timer)
            fired.append(timer)
            if added is not None:
                self.timer_queue.add(*added)
                self.queue.add(added)
                added = None
        assert not [timer for timer in self.queue if timer[0] <= up_to]

    @rule()
    def next_timer(self) -> None:
        assert self.timer_queue.next_timestamp() == min((timestamp for timestamp, _ in self.queue), default=None)

    # -- snapshots

    def written(self, options):
        snapshot = self.backend.snapshot(1, options)
        handle = snapshot.write(self.files)
        snapshot.release()
        return handle

    @rule(options=strategies.sampled_from([CANONICAL, NATIVE]))
    def snapshot(self, options) -> None:
        self.written(options)

    @rule(options=strategies.sampled_from([CANONICAL, NATIVE]), parallelism=strategies.sampled_from([1, 2]))
    @precondition(lambda self: self.values or self.lists or self.queue)
    def restore(self, options, parallelism) -> None:
        """Restores the state to several subtasks, whose snapshots are then restored to one."""
        handle = self.written(options)
        self.backend.close()
        handles = [] if handle is None else [handle]
        if parallelism > 1:
            parts = []
            for subtask in range(parallelism):
                self.open(*handles, key_groups=key_group_range(128, parallelism, subtask))
                parts.append(self.written(options))
                self.backend.close()
            handles = [part for part in parts if part is not None]
        self.open(*handles)

    @invariant()
    def counts(self) -> None:
        assert not self.files.open_streams


class ModelWithTimersInMemory(Model):
    timers = "HEAP"


Model.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
ModelWithTimersInMemory.TestCase.settings = settings(max_examples=8, stateful_step_count=30, deadline=None)
TestModel = pytest.mark.usefixtures("little_memory")(Model.TestCase)
TestModelWithTimersInMemory = pytest.mark.usefixtures("little_memory")(ModelWithTimersInMemory.TestCase)
