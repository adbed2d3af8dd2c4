from __future__ import annotations

import copy
import threading

import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import StateSerializationError
from flinkpy.common.key_groups import key_group_range
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkpy.state.heap_backend import HeapKeyedStateBackend
from flinkpy.state.heap_snapshot import ChunkSize

VALUE = ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY())
LIST = ListStateDescriptor("l", Types.PICKLED_BYTE_ARRAY())
MAP = MapStateDescriptor("m", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


@pytest.fixture
def files():
    streams = MemoryStreams()
    yield streams
    assert not streams.open_streams


@pytest.fixture
def backend():
    return HeapKeyedStateBackend(parameters())


def restored(files, *handles, **keywords):
    return HeapKeyedStateBackend(parameters(*handles, files=files, **keywords))


def contents(backend):
    states = {"v": backend.value_state(VALUE), "l": backend.list_state(LIST), "m": backend.map_state(MAP)}
    return {name: dict(state.table) for name, state in states.items()}


def test_a_snapshot_contains_the_state_of_its_time(backend, files):
    value, elements, entries = backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)
    backend.key_context.key = "a"
    value.update([1])
    elements.add({"x": 1})
    entries.put("k", [1])

    snapshot = backend.snapshot(1, OPTIONS)
    value.value().append(2)
    elements.get()[0]["x"] = 2
    elements.add(3)
    entries.get("k").append(2)
    entries.put("other", 1)
    handle = snapshot.write(files)
    snapshot.release()

    assert contents(restored(files, handle)) == {"v": {"a": [1]}, "l": {"a": [{"x": 1}]}, "m": {"a": {"k": [1]}}}
    assert contents(backend) == {
        "v": {"a": [1, 2]},
        "l": {"a": [{"x": 2}, 3]},
        "m": {"a": {"k": [1, 2], "other": 1}},
    }


class Uncopyable:
    """Can be pickled, but not copied by `copy.deepcopy`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __deepcopy__(self, memo: dict) -> None:
        raise RuntimeError("do not copy me")


def test_a_value_that_only_pickle_can_copy_is_isolated_from_a_running_snapshot(backend, files):
    value = backend.value_state(VALUE)
    backend.key_context.key = "a"
    value.update([Uncopyable(1)])

    snapshot = backend.snapshot(1, OPTIONS)
    value.value()[0].number = 2
    state = restored(files, snapshot.write(files)).value_state(VALUE)

    assert value.table["a"][0].number == 2 and state.table["a"][0].number == 1


def test_the_error_names_a_value_that_cannot_be_copied_during_a_snapshot(backend):
    value = backend.value_state(VALUE)
    backend.key_context.key = "a"
    value.update([threading.Lock()])
    snapshot = backend.snapshot(1, OPTIONS)

    with pytest.raises(StateSerializationError, match=r"_thread\.lock.* cannot be kept in state"):
        value.value()

    snapshot.release()


def test_key_groups_go_to_their_new_owners(backend, files):
    value = backend.value_state(VALUE)
    for key in range(1000):
        backend.key_context.key = key
        value.update(str(key))
    queue = backend.timer_queue("event")
    for key in range(100):
        queue.add(key % 7, key)
    snapshot = backend.snapshot(1, OPTIONS)
    handle = snapshot.write(files)
    snapshot.release()

    three = [restored(files, handle, key_groups=key_group_range(128, 3, subtask)) for subtask in range(3)]

    tables = [contents(part)["v"] for part in three]
    assert all(tables)
    assert sum(map(len, tables)) == 1000
    assert {key: value for table in tables for key, value in table.items()} == {i: str(i) for i in range(1000)}
    timers = [set(part.timer_queue("event").items()) for part in three]
    assert sum(map(len, timers)) == 100
    assert set().union(*timers) == {(key % 7, key) for key in range(100)}


def test_unused_state_is_kept(backend, files):
    backend.value_state(VALUE).table["a"] = 1
    backend.timer_queue("t").add(5, "a")
    first = backend.snapshot(1, OPTIONS).write(files)

    second = restored(files, first).snapshot(2, OPTIONS).write(files)

    last = restored(files, second)
    assert contents(last)["v"] == {"a": 1}
    assert list(last.timer_queue("t").items()) == [(5, "a")]


def test_empty_state_is_not_written(backend, files):
    backend.value_state(VALUE)

    assert backend.snapshot(1, OPTIONS).write(files) is None


def test_a_snapshot_is_written_while_the_task_continues(backend, files):
    value, elements, entries = backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)
    queue = backend.timer_queue("t")
    context, keys = backend.key_context, range(5_000)
    for context.key in keys:
        value.update([context.key])
        elements.add(context.key)
        entries.put("k", [context.key])
        queue.add(context.key % 50, context.key)

    def go_on():
        for context.key in keys:
            value.value().append(-1)
            elements.add(-1)
            entries.get("k").append(-1)
            entries.put(str(context.key), 1)
            queue.remove(context.key % 50, context.key)
            queue.add(7, -context.key)

    handles = []
    for _ in range(2):
        before = copy.deepcopy(contents(backend)), set(queue.items())
        snapshot = backend.snapshot(1, OPTIONS)
        writer = threading.Thread(target=lambda snapshot=snapshot: handles.append(snapshot.write(files)))
        writer.start()
        go_on()
        writer.join()
        snapshot.release()

        again = restored(files, handles[-1])
        assert (contents(again), set(again.timer_queue("t").items())) == before
        assert not value.is_shared


def test_the_chunk_size_depends_on_cpu_time_and_not_on_waiting_time() -> None:
    clock = ManualClock()
    chunks = ChunkSize(clock)
    for _ in range(10):
        chunks.run(chunks.size, clock.advance, 50)
    assert chunks.size == 16_384
    for _ in range(20):
        chunks.run(chunks.size, clock.use_cpu, 50)
    assert chunks.size <= 330
