from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from memory_checkpoints import MemoryStreams, parameters

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CorruptStateError, StateBackendError, StateRestoreError, UnsupportedOperationError
from flinkpy.common.key_groups import key_group_range
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.rocksdb import settings
from flinkpy.state.rocksdb.database import database_error

VALUE = ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY())
LIST = ListStateDescriptor("l", Types.PICKLED_BYTE_ARRAY())
MAP = MapStateDescriptor("m", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
INCREMENTAL = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}


def options(kind=checkpoint_pb2.CHECKPOINT, shared="memory:", **fields):
    message = checkpoint_pb2.CheckpointOptions(kind=kind, **fields)
    message.location.shared_directory = shared
    return message


class SharedStreams(MemoryStreams):
    """Storage whose shared files have a `path` below `memory:`. It remembers the written files."""

    can_share = True

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def store_file(self, source, scope):
        handle = super().store_file(source, scope)
        data = self.files.pop(handle.path)
        handle.path = f"memory:/{scope.name}/{len(self.files)}-{source.name}"
        self.files[handle.path] = data
        self.written += len(data)
        return handle


@pytest.fixture
def files():
    return SharedStreams()


@pytest.fixture
def make(tmp_path, files):
    made = []

    def backend(*handles, configuration=INCREMENTAL, **keywords):
        created = create_keyed_state_backend(
            parameters(*handles, files=files, directory=tmp_path, configuration=configuration, **keywords)
        )
        made.append(created)
        return created

    yield backend
    for each in made:
        each.close()
    assert list(tmp_path.rglob("*.sst")) == []


def written(backend, files, checkpoint_id, message=None):
    snapshot = backend.snapshot(checkpoint_id, message or options())
    try:
        return snapshot.write(files)
    finally:
        snapshot.release()


def fill(backend, keys, text="text"):
    value, elements, entries = backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)
    timers = backend.timer_queue("event")
    for key in keys:
        backend.key_context.key = key
        value.update(f"{text} {key} " + "x" * 500)
        elements.add(key)
        entries.put(text, key)
        timers.add(key, key)


def contents(backend, keys=range(300)):
    value, elements, entries = backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)
    found = {}
    for key in keys:
        backend.key_context.key = key
        if value.value() is not None:
            found[key] = (value.value().split(" ")[0], elements.get(), dict(entries.items()))
    return found, sorted(backend.timer_queue("event").items())


def expected(keys, text="text"):
    return {key: (text, [key], {text: key}) for key in keys}, [(key, key) for key in keys]


def shared_paths(handle):
    return {file.handle.path for file in handle.incremental.shared}


def test_a_later_checkpoint_uses_the_files_of_a_completed_one(make, files):
    backend = make()
    fill(backend, range(100))
    first = written(backend, files, 1)
    backend.notify_checkpoint_complete(1)
    fill(backend, range(100, 200))

    second = written(backend, files, 2)

    assert shared_paths(first) < shared_paths(second)
    assert contents(make(second)) == expected(range(200))
    assert contents(make(first)) == expected(range(100))


def test_files_of_a_checkpoint_that_is_not_confirmed_are_written_again(make, files):
    backend = make()
    fill(backend, range(100))
    first = written(backend, files, 1)
    second = written(backend, files, 2)
    backend.notify_checkpoint_aborted(1)
    backend.notify_checkpoint_complete(1)  # too late: it was aborted

    third = written(backend, files, 3)

    assert not shared_paths(first) & shared_paths(second)
    assert not (shared_paths(first) | shared_paths(second)) & shared_paths(third)
    backend.notify_checkpoint_complete(3)
    assert shared_paths(written(backend, files, 4)) == shared_paths(third)


def test_files_of_a_subsumed_checkpoint_are_not_used(make, files):
    backend = make()
    fill(backend, range(100))
    first = written(backend, files, 1)
    second = written(backend, files, 2)
    backend.notify_checkpoint_complete(2)
    backend.notify_checkpoint_complete(1)  # late

    assert shared_paths(written(backend, files, 3)) == shared_paths(second)
    assert not shared_paths(first) & shared_paths(second)


def test_a_full_checkpoint_shares_nothing_with_earlier_ones_but_later_ones_may_use_it(make, files):
    backend = make()
    fill(backend, range(100))
    first = written(backend, files, 1)
    backend.notify_checkpoint_complete(1)

    full = written(backend, files, 2, options(checkpoint_pb2.FULL_CHECKPOINT))
    backend.notify_checkpoint_complete(2)

    assert not shared_paths(first) & shared_paths(full)
    assert shared_paths(written(backend, files, 3)) == shared_paths(full)


def test_a_native_savepoint_stands_alone(make, files):
    backend = make()
    fill(backend, range(100))
    written(backend, files, 1)
    backend.notify_checkpoint_complete(1)

    savepoint = written(backend, files, 2, options(checkpoint_pb2.SAVEPOINT, format=checkpoint_pb2.NATIVE))
    backend.notify_checkpoint_complete(2)

    assert all("EXCLUSIVE" in path for path in shared_paths(savepoint))
    assert not shared_paths(written(backend, files, 3)) & shared_paths(savepoint)
    assert contents(make(savepoint)) == expected(range(100))


def test_no_files_are_shared_if_the_storage_cannot_share(make, files):
    files.can_share = False
    backend = make()
    fill(backend, range(100))
    first = written(backend, files, 1)
    backend.notify_checkpoint_complete(1)

    second = written(backend, files, 2)

    assert all("EXCLUSIVE" in path for path in shared_paths(first) | shared_paths(second))
    assert not shared_paths(first) & shared_paths(second)


def test_only_the_jobs_own_files_are_used_after_a_restore(make, files):
    backend = make()
    fill(backend, range(100))
    first = written(backend, files, 1)

    same_job = written(make(first), files, 2)
    other_job = written(make(first), files, 2, options(shared="memory:/another-job/shared"))

    assert shared_paths(first) <= shared_paths(same_job)
    assert not shared_paths(first) & shared_paths(other_job)
    assert contents(make(same_job)) == contents(make(other_job)) == expected(range(100))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (3, 2), (4, 4)])
@pytest.mark.parametrize("threshold", ["0.0", "1.0"])
def test_databases_are_split_and_merged(make, files, before, after, threshold):
    handles = []
    for subtask in range(before):
        key_groups = key_group_range(128, before, subtask)
        backend = make(key_groups=key_groups)
        owned = [key for key in range(300) if _group(key) in key_groups]
        if subtask:  # numbers of states differ between the databases
            backend.map_state(MAP)
        fill(backend, owned)
        handles.append(written(backend, files, 1))

    configuration = {**INCREMENTAL, "state.backend.rocksdb.restore-overlap-fraction-threshold": threshold}
    parts = []
    for subtask in range(after):
        key_groups = key_group_range(128, after, subtask)
        part = make(*handles, key_groups=key_groups, configuration=configuration)
        states, timers = contents(part)
        assert all(_group(key) in key_groups for key in states)
        assert part.num_entries() == 4 * len(states)
        parts.append((states, timers))
        # Lists grow on: numbers of chunks are not given twice.
        for key in states:
            part.key_context.key = key
            part.list_state(LIST).add("more")
        again = make(written(part, files, 2), key_groups=key_groups)
        for key in states:
            again.key_context.key = key
            assert again.list_state(LIST).get() == [key, "more"]

    assert ({k: v for states, _ in parts for k, v in states.items()}) == expected(range(300))[0]
    assert sorted(timer for _, timers in parts for timer in timers) == expected(range(300))[1]


def _group(key):
    from flinkpy.records.key_hash import hash_key

    return hash_key(key) % 128


def test_databases_and_canonical_files_are_restored_together(make, files):
    low, high = key_group_range(128, 2, 0), key_group_range(128, 2, 1)
    one, two = make(key_groups=low), make(key_groups=high, configuration={"state.backend.type": "rocksdb"})
    fill(one, [key for key in range(300) if _group(key) in low])
    fill(two, [key for key in range(300) if _group(key) in high])

    assert contents(make(written(one, files, 1), written(two, files, 1))) == expected(range(300))


def test_the_heap_backend_refuses_a_database_by_name(make, files):
    backend = make()
    fill(backend, range(10))
    handle = written(backend, files, 1)

    with pytest.raises(StateRestoreError, match="written in the native format of the backend 'rocksdb'"):
        make(handle, configuration={"state.backend.type": "hashmap"})


def test_a_damaged_file_is_detected_before_it_is_used(make, files, tmp_path):
    backend = make()
    fill(backend, range(100))
    handle = written(backend, files, 1)
    path = handle.incremental.shared[0].handle.path
    files.files[path] = files.files[path][:-1] + bytes([files.files[path][-1] ^ 1])

    with pytest.raises(CorruptStateError, match=path):
        make(handle)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_database_damaged_on_disk_is_a_typed_error(make, files, tmp_path):
    backend = make()
    fill(backend, range(2000))
    written(backend, files, 1)
    for path in tmp_path.rglob("*.sst"):
        data = bytearray(path.read_bytes())
        data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
        path.write_bytes(data)

    with pytest.raises(CorruptStateError, match=str(tmp_path)):
        list(backend.keys("v"))


def test_the_error_names_a_full_disk():
    error = database_error(OSError("IO error: No space left on device: While appending"), "flushing", Path("/disk/db"))

    assert isinstance(error, StateBackendError)
    assert "flushing the database /disk/db failed (the disk is full)" in str(error)


def test_a_failing_upload_leaves_nothing_behind(make, files, tmp_path):
    backend = make()
    fill(backend, range(100))
    files.fails_after = 100
    snapshot = backend.snapshot(1, options())
    with pytest.raises(Exception, match="the disk is full"):
        snapshot.write(files)
    snapshot.release()
    files.fails_after = None

    assert not list(tmp_path.rglob("checkpoint-*"))
    assert contents(make(written(backend, files, 2))) == expected(range(100))


@pytest.mark.parametrize("spills", [False, True])
def test_changes_made_before_a_snapshot_is_written_are_not_in_it(make, files, spills):
    backend = make()
    fill(backend, range(100))
    first = backend.snapshot(1, options())
    fill(backend, range(50, 200), "later")
    if spills:
        assert backend.num_entries() == 4 * 200
    second = backend.snapshot(2, options())
    fill(backend, range(300), "latest")

    later, earlier = second.write(files), first.write(files)
    first.release()
    second.release()

    assert contents(make(earlier)) == expected(range(100))
    states, timers = contents(make(later))
    assert {key: text for key, (text, _, _) in states.items()} == {
        key: "later" if key >= 50 else "text" for key in range(200)
    }
    assert timers == [(key, key) for key in range(200)]


def test_a_task_that_writes_while_its_snapshot_is_written_changes_nothing_in_it(make, files):
    backend = make()
    handles = []
    with ThreadPoolExecutor(1) as executor:
        for checkpoint_id in range(1, 9):
            fill(backend, range(checkpoint_id * 10 - 10, checkpoint_id * 10))
            snapshot = backend.snapshot(checkpoint_id, options())
            future = executor.submit(snapshot.write, files)
            fill(backend, [checkpoint_id * 10], "not yet")
            assert backend.num_entries() == 4 * (checkpoint_id * 10 + 1)
            handles.append(future.result())
            snapshot.release()
            backend.key_context.key = checkpoint_id * 10
            for state in (backend.value_state(VALUE), backend.list_state(LIST), backend.map_state(MAP)):
                state.clear()

    for checkpoint_id, handle in enumerate(handles, 1):
        states, _ = contents(make(handle))
        assert states == expected(range(checkpoint_id * 10))[0]


def test_a_cancelled_snapshot_links_no_files(make, files, tmp_path):
    backend = make()
    fill(backend, range(100))
    dropped = backend.snapshot(1, options())
    dropped.release()
    fill(backend, range(100, 200))

    assert backend.num_entries() == 4 * 200
    assert not list(tmp_path.rglob("checkpoint-*"))
    with pytest.raises(StateBackendError):
        dropped.write(files)
    assert contents(make(written(backend, files, 2))) == expected(range(200))


def test_files_that_cannot_be_linked_fail_only_their_checkpoint(make, files):
    backend = make()
    fill(backend, range(100))
    failing = backend.snapshot(1, options())
    failing._files.directory.mkdir()
    fill(backend, range(100, 200))
    assert backend.num_entries() == 4 * 200

    with pytest.raises(StateBackendError, match=r"linking the files of the database .* failed"):
        failing.write(files)
    failing.release()

    assert contents(make(written(backend, files, 2))) == expected(range(200))


def test_the_error_names_a_directory_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("")
    configuration = {"state.backend.type": "rocksdb", "state.backend.rocksdb.localdir": str(tmp_path / "file")}

    with pytest.raises(StateBackendError, match=f"cannot create the directory {tmp_path / 'file'}") as caught:
        create_keyed_state_backend(parameters(configuration=configuration))
    assert "Not a directory" in str(caught.value)


def test_the_error_of_a_missing_package_names_its_extra(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(settings.importlib, "import_module", missing)

    with pytest.raises(UnsupportedOperationError, match=r"pip install 'flinkpy\[rocksdb\]'"):
        settings.load_rocksdict()
