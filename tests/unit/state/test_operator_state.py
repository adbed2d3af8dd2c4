from __future__ import annotations

import pytest
from memory_checkpoints import OPTIONS, MemoryStreams

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError, FlinkError, StateRestoreError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor
from flinkpy.state.operator_state import OperatorStateBackend
from flinkpy.state.pickling import loads

ANY = Types.PICKLED_BYTE_ARRAY()
LIST = ListStateDescriptor("list", ANY)
UNION = ListStateDescriptor("union", ANY)
RULES = MapStateDescriptor("rules", Types.STRING(), ANY)


@pytest.fixture
def files():
    streams = MemoryStreams()
    yield streams
    assert not streams.open_streams


def written(backend, files):
    snapshot = backend.snapshot(1, OPTIONS)
    handle = snapshot.write(files)
    snapshot.release()
    return handle


def restored(files, *handles):
    return OperatorStateBackend(handles, files, "source")


def test_a_snapshot_contains_the_state_of_its_time(files):
    backend = OperatorStateBackend()
    elements, plain, rules = (
        backend.get_list_state(LIST),
        backend.get_union_list_state(UNION),
        backend.get_broadcast_state(RULES),
    )
    changed = {"position": 1}
    elements.add(changed)
    plain.add_all([1, (2, "x")])
    rules["a"] = [1]

    snapshot = backend.snapshot(1, OPTIONS)
    changed["position"] = 2
    elements.add("later")
    plain.clear()
    rules.get("a").append(2)
    rules["b"] = 1
    again = restored(files, snapshot.write(files))

    assert again.get_list_state(LIST).get() == [{"position": 1}]
    assert again.get_union_list_state(UNION).get() == [1, (2, "x")]
    assert again.get_broadcast_state(RULES).items() == [("a", [1])]


def test_each_element_can_be_redistributed_by_its_offset(files):
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add_all(["a", ["b"], {"c": 1}])
    handle = written(backend, files)
    (state,) = handle.states
    with files.open(handle.file) as file:
        read = []
        for offset, length in zip(state.offsets, state.lengths):
            file.seek(offset)
            read.append(loads(file.read(length)))
    assert read == ["a", ["b"], {"c": 1}]

    part = checkpoint_pb2.OperatorStateHandle()
    part.CopyFrom(handle)
    del part.states[0].offsets[0]
    del part.states[0].lengths[0]
    assert restored(files, part).get_list_state(LIST).get() == [["b"], {"c": 1}]


def test_elements_of_several_subtasks_are_merged(files):
    handles = []
    for number in range(3):
        backend = OperatorStateBackend()
        backend.get_list_state(LIST).add(number)
        backend.get_union_list_state(UNION).add(-number)
        backend.get_broadcast_state(RULES).put("k", "v")
        handles.append(written(backend, files))

    again = restored(files, *handles)

    assert again.get_list_state(LIST).get() == [0, 1, 2]
    assert again.get_union_list_state(UNION).get() == [0, -1, -2]
    assert again.get_broadcast_state(RULES).items() == [("k", "v")]


def test_unused_state_is_kept(files):
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add_all([1, 2])
    backend.get_broadcast_state(RULES).put("k", "v")
    first = written(backend, files)

    again = restored(files, first)
    again.get_list_state(LIST).add(3)
    second = written(again, files)

    last = restored(files, second)
    assert last.get_list_state(LIST).get() == [1, 2, 3]
    assert last.get_broadcast_state(RULES).items() == [("k", "v")]


def test_parts_of_two_types_under_one_name_are_distinguished(files):
    old, new = ListStateDescriptor("n", Types.ROW_NAMED(["a"], [ANY])), ListStateDescriptor("n", Types.LONG())
    handles = []
    for descriptor, value in ((ListStateDescriptor("n", Types.INT()), 1), (new, 2)):
        backend = OperatorStateBackend()
        backend.get_list_state(descriptor).add(value)
        handles.append(written(backend, files))
    both = written(restored(files, *handles), files)

    assert restored(files, both).get_list_state(new).get() == [1, 2]
    with pytest.raises(StateRestoreError, match="operator 'source', state 'n': was INT and is ROW<a PICKLED> now"):
        restored(files, both).get_list_state(old)


def test_another_mode_is_refused(files):
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(1)
    again = restored(files, written(backend, files))

    with pytest.raises(StateRestoreError, match="'list': it was stored as SPLIT_DISTRIBUTE and is requested as UNION"):
        again.get_union_list_state(LIST)


def test_empty_state_is_not_written(files):
    backend = OperatorStateBackend()
    backend.get_list_state(LIST)
    assert written(backend, files) is None


def test_the_error_names_an_element_that_cannot_be_pickled(files):
    backend = OperatorStateBackend(operator_name="source")
    backend.get_list_state(LIST).add(value for value in ())
    with pytest.raises(FlinkError, match=r"operator 'source', state 'list': <generator object .* cannot be pickled"):
        backend.snapshot(1, OPTIONS)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"x" * len(data), lambda data: data[:-2]])
def test_a_damaged_file_is_refused(files, damage):
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(1)
    handle = written(backend, files)
    files.damage(handle.file, damage)
    with pytest.raises(CorruptStateError, match="memory:0"):
        restored(files, handle)


def test_a_newer_format_is_refused(files):
    backend = OperatorStateBackend()
    backend.get_list_state(LIST).add(1)
    handle = written(backend, files)
    files.damage(handle.file, lambda data: data[:8] + b"\x09" + data[9:])
    with pytest.raises(StateRestoreError, match="memory:0: a newer release wrote the file in format 9"):
        restored(files, handle)
