"""Local recovery: which files are copied, how long copies are kept, and that damaged copies are not used."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from taskexecutor_fakes import AtOnce

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import CheckpointStorageError, CorruptStateError
from flinkpy.state.checkpoint_streams import CheckpointedStateScope
from flinkpy.taskexecutor.local_state_store import (
    LocalBackupStreams,
    LocalFirstStateFiles,
    LocalStateIndex,
    LocalStateStore,
)
from flinkpy.taskexecutor.task_state_manager import SubtaskStateManager

OWNER = ("v", 0)


class DirectoryStorage:
    """CheckpointStreams and StateFiles over a directory; up to `inline_bytes` are inlined."""

    can_share = True

    def __init__(self, directory: Path, inline_bytes: int = 4) -> None:
        self.directory, self.inline_bytes = directory, inline_bytes
        self.opened: list[str] = []

    def create(self, scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE) -> Any:
        return _Stream(self)

    def store_file(self, source: Path, scope: CheckpointedStateScope) -> checkpoint_pb2.StreamStateHandle:
        stream = self.create(scope)
        stream.write(source.read_bytes())
        return stream.close_and_get_handle()

    def open(self, handle: checkpoint_pb2.StreamStateHandle) -> BinaryIO:
        if handle.WhichOneof("location") == "data":
            return io.BytesIO(handle.data)
        self.opened.append(handle.path)
        try:
            data = Path(handle.path).read_bytes()
        except OSError as error:
            raise CheckpointStorageError(f"{handle.path}: {error}") from error
        if hashlib.sha256(data).digest() != handle.sha256:
            raise CorruptStateError(f"{handle.path} is not what was written")
        return io.BytesIO(data)

    def fetch(
        self,
        handle: checkpoint_pb2.StreamStateHandle,
        target: Path,
        *,
        never_changes: bool = False,
        checks_itself: bool = False,
    ) -> None:
        target.write_bytes(self.open(handle).read())


class _Stream:
    def __init__(self, storage: DirectoryStorage) -> None:
        self._storage, self._data = storage, bytearray()

    def write(self, data: Any) -> int:
        self._data += data
        return len(data)

    def tell(self) -> int:
        return len(self._data)

    def close_and_get_handle(self) -> checkpoint_pb2.StreamStateHandle:
        digest = hashlib.sha256(self._data).digest()
        if len(self._data) <= self._storage.inline_bytes:
            return checkpoint_pb2.StreamStateHandle(data=bytes(self._data), size_bytes=len(self._data), sha256=digest)
        path = self._storage.directory / digest.hex()
        path.write_bytes(self._data)
        return checkpoint_pb2.StreamStateHandle(path=str(path), size_bytes=len(self._data), sha256=digest)

    def abort(self) -> None:
        self._data.clear()


class Harness:
    def __init__(self, root: Path) -> None:
        self.remote = root / "remote"
        self.remote.mkdir()
        self.local = root / "local"
        self.storage = DirectoryStorage(self.remote)
        self.store = LocalStateStore([self.local], AtOnce())
        self.files = LocalFirstStateFiles(self.storage, self.store)

    def streams(self, checkpoint_id: int) -> LocalBackupStreams:
        return LocalBackupStreams(self.storage, self.store, OWNER, checkpoint_id, self.storage.inline_bytes)

    def write(self, checkpoint_id: int, *chunks: bytes) -> checkpoint_pb2.StreamStateHandle:
        stream = self.streams(checkpoint_id).create()
        for chunk in chunks:
            stream.write(chunk)
        return stream.close_and_get_handle()

    @property
    def copies(self) -> list[Path]:
        return sorted(self.local.iterdir()) if self.local.exists() else []


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def test_a_restore_reads_the_copy_and_not_the_storage(h: Harness) -> None:
    handle = h.write(1, b"ab", b"cdef", b"gh")
    shutil.rmtree(h.remote)
    assert h.files.open(handle).read() == b"abcdefgh"
    assert (h.files.num_local, h.files.local_bytes, h.files.num_remote) == (1, 8, 0)


def test_small_state_is_inlined_and_not_copied(h: Harness) -> None:
    handle = h.write(1, b"ab")
    assert handle.data == b"ab" and h.copies == []
    assert h.files.open(handle).read() == b"ab"


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(b"abcdefgX"), lambda p: p.unlink()])
def test_a_damaged_or_missing_copy_is_dropped_and_the_original_read(h: Harness, damage: Any, tmp_path: Path) -> None:
    handle = h.write(1, b"abcdefgh")
    (copy,) = h.copies
    damage(copy)
    target = tmp_path / "target"
    h.files.fetch(handle, target)
    assert target.read_bytes() == b"abcdefgh"
    assert (h.files.num_local, h.files.num_remote) == (0, 1)
    assert h.copies == [] and len(h.store) == 0


def test_a_file_is_linked_when_it_is_stored(h: Harness, tmp_path: Path) -> None:
    source = tmp_path / "000012.sst"
    source.write_bytes(b"sorted strings")
    handle = h.streams(1).store_file(source, CheckpointedStateScope.SHARED)
    (copy,) = h.copies
    assert copy.stat().st_ino == source.stat().st_ino
    source.unlink()
    assert h.files.open(handle).read() == b"sorted strings" and h.storage.opened == [str(copy)]


def test_a_file_that_never_changes_is_restored_as_a_link_to_its_untouched_copy(h: Harness, tmp_path: Path) -> None:
    source = tmp_path / "000012.sst"
    source.write_bytes(b"sorted strings")
    handle = h.streams(1).store_file(source, CheckpointedStateScope.SHARED)
    (copy,) = h.copies
    h.files.fetch(handle, tmp_path / "linked", never_changes=True)
    assert (tmp_path / "linked").stat().st_ino == copy.stat().st_ino
    assert h.storage.opened == [], "it is not read to be verified"
    assert (h.files.num_local, h.files.local_bytes) == (1, 14)
    h.files.fetch(handle, tmp_path / "copied")
    assert (tmp_path / "copied").stat().st_ino != copy.stat().st_ino, "a database writes to its other files"


def test_a_copy_that_somebody_has_written_to_is_not_linked(h: Harness, tmp_path: Path) -> None:
    handle = h.write(1, b"abcdefgh")
    (copy,) = h.copies
    copy.write_bytes(b"abcdefgX")
    os.utime(copy, ns=(0, 0))
    h.files.fetch(handle, tmp_path / "target", never_changes=True)
    assert (tmp_path / "target").read_bytes() == b"abcdefgh"
    assert h.files.num_remote == 1


def test_a_copy_that_cannot_be_written_does_not_fail_the_checkpoint(h: Harness) -> None:
    h.local.write_bytes(b"a file where the directory should be")
    handle = h.write(1, b"abcdefgh")
    assert h.files.open(handle).read() == b"abcdefgh"
    assert h.files.num_remote == 1


def test_an_aborted_stream_leaves_no_copy(h: Harness) -> None:
    stream = h.streams(1).create()
    stream.write(b"abcdefgh")
    stream.abort()
    assert h.copies == []


def test_a_completed_checkpoint_removes_the_copies_of_older_ones(h: Harness) -> None:
    first, second = h.write(1, b"state at one"), h.write(2, b"state at two")
    h.store.acknowledged(OWNER, 1, [first.path])
    h.store.acknowledged(OWNER, 2, [second.path])
    h.store.completed(OWNER, 1)
    assert len(h.copies) == 2
    h.store.completed(OWNER, 2)
    assert [copy.read_bytes() for copy in h.copies] == [b"state at two"]


def test_a_shared_file_is_kept_while_a_kept_checkpoint_refers_to_it(h: Harness) -> None:
    shared = h.write(1, b"shared by both")
    h.store.acknowledged(OWNER, 1, [shared.path])
    own = h.write(2, b"only of the second")
    h.store.acknowledged(OWNER, 2, [shared.path, own.path])
    h.store.completed(OWNER, 2)
    assert len(h.copies) == 2
    h.store.acknowledged(OWNER, 3, [own.path])
    h.store.completed(OWNER, 3)
    assert [copy.read_bytes() for copy in h.copies] == [b"only of the second"]


def test_the_copies_of_an_aborted_checkpoint_are_removed(h: Harness) -> None:
    h.write(1, b"never acknowledged")
    h.store.aborted(OWNER, 1)
    assert h.copies == []


def test_the_end_of_the_job_removes_everything(h: Harness) -> None:
    h.write(1, b"abcdefgh")
    late = h.streams(2).create()
    late.write(b"still being written")
    h.store.close()
    late.close_and_get_handle()
    assert h.copies == []


class Tells:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def acknowledge_checkpoint(self, *args: Any) -> None:
        self.told.append(("ack", *args))

    def decline_checkpoint(self, *args: Any) -> None:
        self.told.append(("decline", *args))


def manager(h: Harness, restore: checkpoint_pb2.TaskRestore | None = None, *, backup: bool = True) -> Any:
    made = SubtaskStateManager(
        task_name="map (1/1)",
        owner=OWNER,
        restore=restore,
        streams_of_location=lambda location: h.storage,
        files=h.storage,
        directory=h.remote,
        io_executor=AtOnce(),
        backup=h.store if backup else None,
        local=h.store,
    )
    made.callbacks = Tells()
    return made


def options(kind: Any = checkpoint_pb2.CHECKPOINT) -> checkpoint_pb2.CheckpointOptions:
    location = checkpoint_pb2.CheckpointLocation(exclusive_directory="/c/chk-1", inline_threshold_bytes=4)
    return checkpoint_pb2.CheckpointOptions(kind=kind, location=location)


def state_of(handle: checkpoint_pb2.StreamStateHandle) -> checkpoint_pb2.TaskStateSnapshot:
    keyed = checkpoint_pb2.KeyedStateHandle(key_groups=checkpoint_pb2.KeyGroupsStateHandle(file=handle))
    return checkpoint_pb2.TaskStateSnapshot(operators={"op": checkpoint_pb2.OperatorSubtaskState(keyed=[keyed])})


def test_the_next_attempt_is_restored_from_the_copies_of_the_last(h: Harness) -> None:
    first = manager(h)
    stream = first.checkpoint_streams(7, options()).create()
    stream.write(b"state of seven")
    state = state_of(stream.close_and_get_handle())
    metrics = checkpoint_pb2.CheckpointMetrics()
    first.acknowledge(7, metrics, state)
    assert first.callbacks.told == [("ack", 7, metrics, state)]
    first.notify_complete(7)
    stray = first.checkpoint_streams(8, options()).create()
    stray.write(b"state of eight")
    stray.close_and_get_handle()

    second = manager(h, checkpoint_pb2.TaskRestore(checkpoint_id=7, state=state))
    assert second.restored_checkpoint_id == 7 and not second.is_restored_as_finished
    assert second.restored_state("other") is None
    handle = second.restored_state("op").keyed[0].key_groups.file
    assert second.files.open(handle).read() == b"state of seven"
    assert [copy.read_bytes() for copy in h.copies] == [b"state of seven"]
    assert h.storage.opened == [str(h.copies[0])]


def test_savepoints_are_not_copied(h: Harness) -> None:
    stream = manager(h).checkpoint_streams(7, options(checkpoint_pb2.SAVEPOINT)).create()
    stream.write(b"state of seven")
    stream.close_and_get_handle()
    assert h.copies == []


def test_a_declined_checkpoint_leaves_no_copies(h: Harness) -> None:
    made = manager(h)
    stream = made.checkpoint_streams(7, options()).create()
    stream.write(b"state of seven")
    stream.close_and_get_handle()
    error = ValueError("no")
    made.decline(7, error)
    assert h.copies == [] and made.callbacks.told == [("decline", 7, error)]


class IndexMachine(RuleBasedStateMachine):
    """Compares with a simple model: a copy lives while a kept checkpoint of its owner refers to it."""

    owners = st.sampled_from(["a", "b"])
    ids = st.integers(1, 6)
    paths = st.sampled_from([f"p{i}" for i in range(8)])

    def __init__(self) -> None:
        super().__init__()
        self.index = LocalStateIndex()
        self.copies: dict[str, Path] = {}
        self.count = 0

    def expect(self, removed: list[Path]) -> None:
        gone = {path for path, copy in self.copies.items() if copy in removed}
        assert len(gone) == len(removed), "only existing copies are removed, and once"
        for path in gone:
            del self.copies[path]

    @rule(owner=owners, checkpoint_id=ids, path=paths)
    def add(self, owner: str, checkpoint_id: int, path: str) -> None:
        self.count += 1
        replaced = self.index.add(owner, checkpoint_id, path, Path(str(self.count)))
        assert replaced == self.copies.get(path)
        self.copies[path] = Path(str(self.count))

    @rule(owner=owners, checkpoint_id=ids, paths=st.sets(paths))
    def acknowledged(self, owner: str, checkpoint_id: int, paths: set[str]) -> None:
        known = paths & set(self.copies)
        self.expect(self.index.acknowledged(owner, checkpoint_id, paths))
        assert known <= set(self.copies)

    @rule(owner=owners, checkpoint_id=ids, what=st.sampled_from(["completed", "aborted", "restored"]))
    def ended(self, owner: str, checkpoint_id: int, what: str) -> None:
        self.expect(getattr(self.index, what)(owner, checkpoint_id))

    @rule(path=paths)
    def drop(self, path: str) -> None:
        assert self.index.drop(path) == self.copies.pop(path, None)

    @invariant()
    def the_index_knows_the_copies(self) -> None:
        self.index.validate()
        assert {path: self.index.find(path) for path in self.copies} == self.copies
        assert len(self.index) == len(self.copies)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
