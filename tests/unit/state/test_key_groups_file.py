from __future__ import annotations

import pytest
from memory_checkpoints import OPTIONS, MemoryStreams, parameters

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import (
    CheckpointStorageError,
    CorruptStateError,
    StateRestoreError,
    StateSerializationError,
)
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkpy.state import heap_snapshot
from flinkpy.state.heap_backend import HeapKeyedStateBackend
from flinkpy.state.key_groups_file import KeyGroupsFileReader, KeyGroupsFileWriter, KeyGroupsHeader
from flinkpy.state.meta_info import StateMetaInfo
from flinkpy.state.type_snapshot import PICKLED

ANY = Types.PICKLED_BYTE_ARRAY()
VALUE = ValueStateDescriptor("v", ANY)


@pytest.fixture
def files():
    streams = MemoryStreams()
    yield streams
    assert not streams.open_streams


def written(files, num_keys=100):
    backend = HeapKeyedStateBackend(parameters())
    state = backend.value_state(VALUE)
    for key in range(num_keys):
        backend.key_context.key = key
        state.update(key)
    return backend.snapshot(1, OPTIONS).write(files)


def restored(files, handle, **keywords):
    return HeapKeyedStateBackend(parameters(handle, files=files, **keywords))


def test_other_key_groups_are_found_if_some_are_missing(files):
    owned = KeyGroupRange(3, 8)
    header = KeyGroupsHeader(16, None, (StateMetaInfo("v", "value", PICKLED),))
    writer = KeyGroupsFileWriter(files.create(), header, owned)
    writer.begin_key_group(4)
    writer.write_chunk(0, ["a"], [1])
    writer.write_chunk(0, ["b"], [2])
    writer.begin_key_group(7)
    writer.write_chunk(0, ["c"], [3])
    handle = writer.finish().key_groups

    def chunks(start, end):
        with files.open(handle.file) as file:
            reader = KeyGroupsFileReader(file, handle)
            assert reader.header == header
            return [(chunk.key_group, chunk.keys_and_values()) for chunk in reader.chunks(KeyGroupRange(start, end))]

    four, seven = [(4, (["a"], [1])), (4, (["b"], [2]))], [(7, (["c"], [3]))]
    assert chunks(0, 15) == four + seven
    assert chunks(4, 6) == four
    assert chunks(5, 15) == seven
    assert chunks(9, 15) == chunks(0, 3) == chunks(8, 8) == []


def test_key_groups_are_read_in_order(files):
    writer = KeyGroupsFileWriter(stream := files.create(), KeyGroupsHeader(16, None, ()), KeyGroupRange(3, 8))
    writer.begin_key_group(5)
    for wrong in (4, 2, 9):
        with pytest.raises(ValueError, match=f"key group {wrong}"):
            writer.begin_key_group(wrong)
    stream.abort()


def test_long_lists_and_dicts_are_spread_over_chunks(files, monkeypatch):
    monkeypatch.setattr(heap_snapshot, "_FIRST_CHUNK", 10)
    monkeypatch.setattr(heap_snapshot, "_MIN_CHUNK", 10)
    monkeypatch.setattr(heap_snapshot, "_MAX_CHUNK", 10)
    backend = HeapKeyedStateBackend(parameters())
    backend.key_context.key = "a"
    elements = backend.list_state(ListStateDescriptor("l", ANY))
    elements.add_all(range(95))
    entries = backend.map_state(MapStateDescriptor("m", ANY, ANY))
    entries.put_all({i: str(i) for i in range(42)})

    handle = backend.snapshot(1, OPTIONS).write(files)

    with files.open(handle.key_groups.file) as file:
        sizes = [
            len(value)
            for chunk in KeyGroupsFileReader(file, handle.key_groups).chunks(KeyGroupRange(0, 127))
            for value in chunk.keys_and_values()[1]
        ]
    assert max(sizes) == 10
    assert len(sizes) == 10 + 5
    again = restored(files, handle)
    again.key_context.key = "a"
    assert again.list_state(ListStateDescriptor("l", ANY)).get() == list(range(95))
    assert dict(again.map_state(MapStateDescriptor("m", ANY, ANY)).items()) == {i: str(i) for i in range(42)}


def test_another_max_parallelism_is_refused(files):
    handle = written(files)
    with pytest.raises(StateRestoreError, match=r"'count words'.* max parallelism 128 and cannot be restored with 64"):
        restored(files, handle, max_parallelism=64, key_groups=KeyGroupRange(0, 63))


def test_a_newer_format_is_refused(files):
    handle = written(files)
    files.damage(handle.key_groups.file, lambda data: data[:8] + b"\x07" + data[9:])
    with pytest.raises(StateRestoreError, match="memory:0: a newer release wrote the file in format 7"):
        restored(files, handle)


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:12], lambda data: b"?" * len(data), lambda data: data[:-10]]
)
def test_a_damaged_file_is_refused(files, damage):
    handle = written(files)
    files.damage(handle.key_groups.file, damage)
    with pytest.raises(CorruptStateError, match="memory:0"):
        restored(files, handle)


def test_state_of_rocksdb_in_its_own_format_is_refused(files):
    handle = checkpoint_pb2.KeyedStateHandle(incremental=checkpoint_pb2.IncrementalKeyedStateHandle(backend_id="x"))
    with pytest.raises(StateRestoreError, match=r"'count words'.*native format of the backend 'rocksdb'"):
        restored(files, handle)


def test_a_failed_write_leaves_nothing_behind(files):
    backend = HeapKeyedStateBackend(parameters())
    backend.value_state(VALUE).table.update({key: key for key in range(1000)})
    files.fails_after = 500
    snapshot = backend.snapshot(1, OPTIONS)
    with pytest.raises(CheckpointStorageError, match="the disk is full"):
        snapshot.write(files)
    snapshot.release()
    assert not backend.value_state(VALUE).is_shared
    assert not files.files


def test_a_key_of_another_subtask_is_an_error(files):
    backend = HeapKeyedStateBackend(parameters(key_groups=KeyGroupRange(0, 63)))
    backend.value_state(VALUE).table.update({key: key for key in range(100)})
    with pytest.raises(StateRestoreError, match=r"state 'v': [0-9]+ keys are not in the key groups 0 to 63"):
        backend.snapshot(1, OPTIONS).write(files)


def test_the_error_names_a_value_that_cannot_be_pickled(files):
    backend = HeapKeyedStateBackend(parameters())
    backend.value_state(VALUE).table.update({"a": 1, "b": [lambda: 1, (value for value in ())]})
    told = r"operator 'count words', state 'v', key 'b': \[<function .* \(list\) cannot be pickled"
    with pytest.raises(StateSerializationError, match=told):
        backend.snapshot(1, OPTIONS).write(files)
