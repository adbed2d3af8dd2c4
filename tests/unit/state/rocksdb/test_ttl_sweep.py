from __future__ import annotations

import pytest
from memory_checkpoints import parameters

from flinkpy.common.clock import ManualClock
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flinkpy.state.factory import create_keyed_state_backend


@pytest.fixture
def clock():
    return ManualClock(1_000)


@pytest.fixture
def backend(tmp_path, clock):
    configuration = {"state.backend.type": "rocksdb"}
    created = create_keyed_state_backend(parameters(directory=tmp_path, configuration=configuration, clock=clock))
    yield created
    created.close()


def with_ttl(descriptor, builder):
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def a_second():
    return StateTtlConfig.new_builder(Time.seconds(1))


def fill(backend, kind, config):
    if kind == "value":
        state = backend.value_state(with_ttl(ValueStateDescriptor("s", Types.INT()), config))
        add = state.update
    elif kind == "list":
        state = backend.list_state(with_ttl(ListStateDescriptor("s", Types.INT()), config))
        add = state.add
    else:
        state = backend.map_state(with_ttl(MapStateDescriptor("s", Types.INT(), Types.INT()), config))

        def add(value):
            state.put(value, value)

    for key in range(100):
        backend.key_context.key = key
        add(1)
        add(2)
    assert len(list(backend.keys("s"))) == 100
    return state, add


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_expired_values_are_removed_without_being_read(backend, clock, kind):
    _, add = fill(backend, kind, a_second().cleanup_in_rocksdb_compact_filter(10))
    clock.advance(1_500)
    backend.key_context.key = 1_000

    for _ in range(1_100):
        add(1)

    assert list(backend.keys("s")) == [1_000]
    assert backend.key_context.key == 1_000


def test_values_that_have_not_expired_are_kept(backend, clock):
    _, add = fill(backend, "value", a_second().cleanup_in_rocksdb_compact_filter(10))
    clock.advance(500)
    backend.key_context.key = 1_000

    for _ in range(1_100):
        add(1)

    assert len(list(backend.keys("s"))) == 101


def test_nothing_is_swept_if_the_sweep_is_disabled(backend, clock):
    _, add = fill(backend, "value", a_second().disable_cleanup_in_background())
    clock.advance(1_500)
    backend.key_context.key = 1_000

    for _ in range(1_100):
        add(1)

    assert len(list(backend.keys("s"))) == 101
