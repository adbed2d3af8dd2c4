"""States with time-to-live agree with a model that stores every value with the time of its last access."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.clock import ManualClock
from flinkpy.common.time import Time
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkpy.state.heap_backend import HeapKeyedStateBackend

TTL = 10

keys = st.sampled_from(["a", "b"])
numbers = st.integers(1, 9)
steps = st.lists(
    st.tuples(st.just("advance"), st.integers(1, 7))
    | st.tuples(st.just("snapshot"), st.booleans())
    | st.tuples(st.sampled_from(["set_value", "add_to_list", "reduce"]), keys, numbers)
    | st.tuples(st.just("set_list"), keys, st.lists(numbers, max_size=2))
    | st.tuples(st.just("put"), keys, st.integers(0, 1), numbers)
    | st.tuples(st.sampled_from(["get_entry", "contains"]), keys, st.integers(0, 1))
    | st.tuples(st.sampled_from(["get_value", "get_list", "get_reduced", "get_entries", "is_empty"]), keys),
    max_size=30,
)


class Model:
    """Stores [value, time] of all written values, even expired ones. Its reads return the expected values."""

    def __init__(self, renews_on_read):
        self.renews = renews_on_read
        self.now = 0
        self.value, self.list, self.map, self.reduced = {}, {}, {}, {}

    def alive(self, stamped):
        return stamped[1] + TTL > self.now

    def seen(self, stamped):
        if stamped is None or not self.alive(stamped):
            return None
        if self.renews:
            stamped[1] = self.now
        return stamped[0]


class Fixture:
    def __init__(self, config, clock, files, *handles):
        self.config, self.clock, self.files = config, clock, files
        self.backend = backend = HeapKeyedStateBackend(parameters(*handles, files=files, clock=clock))
        descriptors = [
            ValueStateDescriptor("v", Types.INT()),
            ListStateDescriptor("l", Types.INT()),
            MapStateDescriptor("m", Types.INT(), Types.INT()),
            ReducingStateDescriptor("r", lambda a, b: a + b, Types.INT()),
        ]
        for descriptor in descriptors:
            descriptor.enable_time_to_live(config)
        self.value, self.list = backend.value_state(descriptors[0]), backend.list_state(descriptors[1])
        self.map, self.reducing = backend.map_state(descriptors[2]), backend.reducing_state(descriptors[3])

    def restored(self):
        snapshot = self.backend.snapshot(1, OPTIONS)
        handle = snapshot.write(self.files)
        snapshot.release()
        return Fixture(self.config, self.clock, self.files, *([] if handle is None else [handle]))


def step(at, model, name, key, *arguments):
    """Applies an operation to state and model. Reads must agree."""
    at.backend.key_context.key = key
    if name == "set_value":
        at.value.update(*arguments)
        model.value[key] = [*arguments, model.now]
    elif name == "get_value":
        assert at.value.value() == model.seen(model.value.get(key))
    elif name == "set_list":
        at.list.update(*arguments)
        model.list[key] = [[value, model.now] for value in arguments[0]]
    elif name == "add_to_list":
        at.list.add(*arguments)
        model.list.setdefault(key, []).append([*arguments, model.now])
    elif name == "get_list":
        kept = [stamped for stamped in model.list.get(key, []) if model.alive(stamped)]
        assert at.list.get() == [model.seen(stamped) for stamped in kept]
    elif name == "reduce":
        at.reducing.add(*arguments)
        known = model.reduced.get(key)
        total = known[0] if known is not None and model.alive(known) else 0
        model.reduced[key] = [total + arguments[0], model.now]
    elif name == "get_reduced":
        assert at.reducing.get() == model.seen(model.reduced.get(key))
    elif name == "put":
        at.map.put(*arguments)
        model.map.setdefault(key, {})[arguments[0]] = [arguments[1], model.now]
    elif name == "get_entry":
        assert at.map.get(*arguments) == model.seen(model.map.get(key, {}).get(*arguments))
    elif name == "contains":
        assert at.map.contains(*arguments) == (model.seen(model.map.get(key, {}).get(*arguments)) is not None)
    elif name == "is_empty":
        assert at.map.is_empty() == (not any(map(model.alive, model.map.get(key, {}).values())))
    else:
        alive = {name: stamped for name, stamped in model.map.get(key, {}).items() if model.alive(stamped)}
        assert dict(at.map.items()) == {name: model.seen(stamped) for name, stamped in alive.items()}


CLEANUPS = {
    "none": lambda builder: builder.disable_cleanup_in_background(),
    "background": lambda builder: builder,
    "incremental": lambda builder: builder.cleanup_incrementally(1, True),
    "full snapshot": lambda builder: builder.disable_cleanup_in_background().cleanup_full_snapshot(),
}


@pytest.mark.parametrize(("renews", "cleanup"), list(itertools.product([False, True], CLEANUPS)))
@given(steps)
@settings(max_examples=80, deadline=None)
def test_reads_return_exactly_the_values_that_have_not_expired(renews, cleanup, steps):
    builder = CLEANUPS[cleanup](StateTtlConfig.new_builder(Time.milliseconds(TTL)))
    if renews:
        builder = builder.update_ttl_on_read_and_write()
    clock = ManualClock(0)
    at, model = Fixture(builder.build(), clock, MemoryStreams()), Model(renews)
    for name, *arguments in steps:
        if name == "advance":
            clock.advance(*arguments)
            model.now += arguments[0]
        elif name == "snapshot":
            at = at.restored()
        else:
            step(at, model, name, *arguments)
        at.backend.clean_up_expired(num_records=1)
