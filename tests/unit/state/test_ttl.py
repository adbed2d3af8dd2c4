from __future__ import annotations

import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.clock import ManualClock
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
from flinkpy.state.heap_backend import HeapKeyedStateBackend

TTL = 100


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def builder():
    return StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()


ON_WRITE = builder().build()
ON_READ = builder().update_ttl_on_read_and_write().build()
SHOW_EXPIRED = builder().return_expired_if_not_cleaned_up().build()


class Fixture:
    def __init__(self, *handles, files=None, now_ms=1_000):
        self.clock = ManualClock(now_ms)
        self.backend = HeapKeyedStateBackend(parameters(*handles, files=files, clock=self.clock))
        self.backend.key_context.key = "a"

    def value(self, config=None):
        return self.backend.value_state(with_ttl(ValueStateDescriptor("v", Types.INT()), config))

    def list(self, config=None):
        return self.backend.list_state(with_ttl(ListStateDescriptor("l", Types.INT()), config))

    def map(self, config=None):
        return self.backend.map_state(with_ttl(MapStateDescriptor("m", Types.STRING(), Types.INT()), config))

    def reducing(self, config=None):
        return self.backend.reducing_state(
            with_ttl(ReducingStateDescriptor("r", lambda a, b: a + b, Types.INT()), config)
        )

    def aggregating(self, config=None):
        return self.backend.aggregating_state(with_ttl(AggregatingStateDescriptor("g", Total(), Types.INT()), config))


def with_ttl(descriptor, config):
    if config is not None:
        descriptor.enable_time_to_live(config)
    return descriptor


@pytest.fixture
def at():
    return Fixture()


@pytest.fixture
def files():
    return MemoryStreams()


def test_a_value_expires_its_ttl_after_the_last_write(at):
    state = at.value(ON_WRITE)
    state.update(1)
    at.clock.advance(TTL - 1)
    assert state.value() == 1
    at.clock.advance(1)
    assert state.value() is None
    assert at.backend.num_entries() == 0


def test_reading_renews_the_ttl_only_if_configured(at):
    state = at.value(ON_READ)
    state.update(1)
    for _ in range(5):
        at.clock.advance(TTL - 1)
        assert state.value() == 1


def test_an_expired_value_is_returned_once_if_configured(at):
    state = at.value(SHOW_EXPIRED)
    state.update(1)
    at.clock.advance(TTL)
    assert state.value() == 1
    assert state.value() is None


def test_elements_of_a_list_expire_one_by_one(at):
    state = at.list(ON_WRITE)
    state.add(1)
    at.clock.advance(60)
    state.add_all([2, 3])
    at.clock.advance(60)
    assert list(state) == [2, 3]
    at.clock.advance(60)
    assert state.get() == []
    assert at.backend.num_entries() == 0


def test_reading_a_list_renews_unexpired_elements(at):
    state = at.list(ON_READ)
    state.add(1)
    at.clock.advance(60)
    state.add(2)
    at.clock.advance(60)
    assert state.get() == [2]
    at.clock.advance(99)
    assert state.get() == [2]


def test_entries_of_a_map_expire_one_by_one(at):
    state = at.map(ON_WRITE)
    state.put("x", 1)
    at.clock.advance(60)
    state["y"] = 2
    at.clock.advance(60)
    assert ("x" in state, state.get("x"), dict(state.items()), state.keys()) == (False, None, {"y": 2}, ["y"])
    at.clock.advance(60)
    assert state.is_empty()
    assert state.values() == []
    assert at.backend.num_entries() == 0


def test_reducing_and_aggregating_state_restart_after_their_ttl(at):
    reducing, aggregating = at.reducing(ON_WRITE), at.aggregating(ON_WRITE)
    for state in (reducing, aggregating):
        state.add(1)
        state.add(2)
    at.clock.advance(TTL - 1)
    assert (reducing.get(), aggregating.get()) == (3, 3)
    at.clock.advance(1)
    for state in (reducing, aggregating):
        state.add(10)
    assert (reducing.get(), aggregating.get()) == (10, 10)


def test_a_disabled_ttl_never_expires(at):
    state = at.value(builder().set_update_type(StateTtlConfig.UpdateType.Disabled).build())
    state.update(1)
    at.clock.advance(10 * TTL)
    assert state.value() == 1
    assert at.backend.table("v") == {"a": 1}


def test_each_access_cleans_up_a_few_other_keys(at):
    state = at.value(builder().cleanup_incrementally(2, False).build())
    for key in range(1_000):
        at.backend.key_context.key = key
        state.update(key)
    at.clock.advance(TTL)

    at.backend.key_context.key = "other"
    for _ in range(16):
        state.value()

    assert at.backend.num_entries() == 1_000 - 16 * 2
    for _ in range(1_000):
        state.value()
    assert at.backend.num_entries() == 0
    assert at.backend.key_context.key == "other"


def test_clean_up_pauses_until_the_oldest_value_expires(at, monkeypatch):
    rounds = []
    keys = at.backend.keys
    monkeypatch.setattr(at.backend, "keys", lambda name: rounds.append(at.clock.now_ms()) or keys(name))
    state = at.value(builder().cleanup_incrementally(100, True).build())
    state.update(1)
    at.clock.advance(40)
    at.backend.key_context.key = "b"
    state.update(2)

    for _ in range(TTL + 1):
        at.backend.clean_up_expired(num_records=1)
        at.clock.advance(1)

    assert at.backend.num_entries() == 0
    assert rounds == [1_040, 1_000 + TTL, 1_040 + TTL]


def test_each_record_cleans_up_if_configured(at):
    state = at.list(builder().cleanup_incrementally(3, True).build())
    for key in range(10):
        at.backend.key_context.key = key
        state.add(key)
    at.clock.advance(TTL)

    at.backend.clean_up_expired(num_records=2)

    assert at.backend.num_entries() == 4


def test_a_full_snapshot_omits_expired_values(at, files):
    config = builder().cleanup_full_snapshot().build()
    at.value(config).update(1)
    at.map(config).put("old", 1)
    at.list(config).add(1)
    at.clock.advance(60)
    at.map(config).put("new", 2)
    at.clock.advance(60)

    handle = at.backend.snapshot(1, OPTIONS).write(files)

    later = Fixture(handle, files=files, now_ms=at.clock.now_ms())
    assert later.backend.num_entries() == 1
    assert later.map(config).items() == [("new", 2)]


def test_time_stamps_survive_a_restore(at, files):
    at.value(ON_WRITE).update(1)
    at.reducing(ON_WRITE).add(2)
    handle = at.backend.snapshot(1, OPTIONS).write(files)

    alive = Fixture(handle, files=files, now_ms=1_000 + TTL - 1)
    dead = Fixture(handle, files=files, now_ms=1_000 + TTL)

    assert (alive.value(ON_WRITE).value(), alive.reducing(ON_WRITE).get()) == (1, 2)
    assert (dead.value(ON_WRITE).value(), dead.reducing(ON_WRITE).get()) == (None, None)


def test_enabling_ttl_starts_it_at_the_restore(at, files):
    at.value().update(1)
    at.list().add_all([1, 2])
    at.map().put("x", 1)
    at.reducing().add(5)
    at.aggregating().add(6)
    handle = at.backend.snapshot(1, OPTIONS).write(files)

    later = Fixture(handle, files=files, now_ms=50_000)
    states = (later.value(ON_WRITE), later.list(ON_WRITE), later.map(ON_WRITE), later.reducing(ON_WRITE))
    aggregating = later.aggregating(ON_WRITE)
    later.clock.advance(TTL - 1)
    assert (states[0].value(), states[1].get(), states[2].get("x"), states[3].get()) == (1, [1, 2], 1, 5)
    assert aggregating.get() == 6
    later.clock.advance(1)
    assert (states[0].value(), states[1].get(), states[2].get("x"), states[3].get()) == (None, [], None, None)


def test_disabling_ttl_keeps_the_values(at, files):
    at.value(ON_WRITE).update(1)
    at.list(ON_WRITE).add_all([1, 2])
    at.map(ON_WRITE).put("x", 1)
    handle = at.backend.snapshot(1, OPTIONS).write(files)

    later = Fixture(handle, files=files, now_ms=50_000)

    assert (later.value().value(), later.list().get(), later.map().get("x")) == (1, [1, 2], 1)


def test_batch_access_respects_ttl(at):
    state = at.value(ON_READ)
    state.put_many(["a", "b"], [1, 2])
    at.clock.advance(60)
    assert state.get_many(["a", "c"]) == [1, None]
    at.clock.advance(60)
    assert state.get_many(["a", "b"]) == [1, None]
