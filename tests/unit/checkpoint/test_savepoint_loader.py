"""Jobs start from savepoints, and savepoints are disposed of."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from checkpoint_states import (
    JOB_ID,
    content_of,
    files_below,
    make_storage,
    metadata_of,
    read_all,
    write_checkpoint,
    write_state,
)

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.checkpoints_cleaner import delete_files
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.checkpoint.metadata import encode_metadata
from flinkpy.checkpoint.savepoint_loader import (
    RecoveryClaimMode,
    SavepointRestoreSettings,
    dispose_savepoint,
    load_savepoint,
)
from flinkpy.checkpoint.storage import FileSystems
from flinkpy.checkpoint.storage.local_file_system import open_regular
from flinkpy.common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptStateError
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointPointerStore
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

FILES = FileSystems()


def test_a_job_starts_without_state_by_default():
    assert SavepointRestoreSettings.from_configuration({}) is None


def test_restore_settings_use_the_options_of_flink():
    settings = SavepointRestoreSettings.from_configuration(
        {
            "execution.state-recovery.path": "/s",
            "execution.state-recovery.claim-mode": "claim",
            "execution.state-recovery.ignore-unclaimed-state": "true",
        }
    )
    assert settings == SavepointRestoreSettings("/s", RecoveryClaimMode.CLAIM, True)


@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_only_claimed_savepoints_are_owned(storage, mode):
    written = write_checkpoint(storage, 3, savepoint=True)
    loaded = load_savepoint(SavepointRestoreSettings(written.external_path, mode), FILES)
    assert loaded.is_owned == (mode is RecoveryClaimMode.CLAIM)
    assert loaded.is_savepoint
    assert read_all(loaded.metadata)["large"] == content_of("large-3")


def test_the_error_of_a_missing_file_names_the_file_and_the_savepoint(storage):
    written = write_checkpoint(storage, 3, savepoint=True)
    path = Path(written.metadata.operators[0].subtasks[0].keyed[0].key_groups.file.path)
    path.unlink()
    with pytest.raises(CorruptStateError, match=rf"savepoint at {written.external_path} is not complete.*{path.name}"):
        load_savepoint(SavepointRestoreSettings(written.external_path), FILES)


def test_disposing_deletes_only_the_files_of_the_savepoint(storage, tmp_path):
    first, second = (write_checkpoint(storage, n, savepoint=True) for n in (1, 2))
    Path(first.external_path, "my notes").write_text("keep")
    Path(second.external_path, "f00.12345678.unfinished").write_text("of a task that was killed")
    dispose_savepoint(f"{first.external_path}/_metadata", FILES)
    dispose_savepoint(second.external_path, FILES)
    assert files_below(tmp_path / "checkpoints" / "savepoints") == [f"{Path(first.external_path).name}/my notes"]
    assert not Path(second.external_path).exists()


def test_a_directory_without_a_savepoint_is_not_changed(storage, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("keep")
    with pytest.raises(CheckpointNotFoundError):
        dispose_savepoint(str(tmp_path / "home"), FILES)
    (tmp_path / "home" / "_metadata").write_text("of something else")
    with pytest.raises(CorruptStateError):
        dispose_savepoint(str(tmp_path / "home"), FILES)
    assert files_below(tmp_path / "home") == ["_metadata", "thesis"]


def test_disposing_a_retained_checkpoint_deletes_shared_files_that_only_it_needs(storage):
    a, b = (write_state(storage.location_of(1), content_of(n), CheckpointedStateScope.SHARED) for n in "ab")
    first, second = write_checkpoint(storage, 1, shared=[a, b]), write_checkpoint(storage, 2, shared=[b])
    dispose_savepoint(first.external_path, FILES)
    assert not Path(a.path).exists()
    assert read_all(second.metadata)
    dispose_savepoint(second.external_path, FILES)
    assert files_below(storage.job_directory) == []


def test_shared_files_with_unknown_owners_are_kept(storage):
    a = write_state(storage.location_of(1), content_of("a"), CheckpointedStateScope.SHARED)
    first, second = write_checkpoint(storage, 1, shared=[a]), write_checkpoint(storage, 2, shared=[a])
    Path(second.external_path, "_metadata").write_bytes(b"?")
    with pytest.raises(CheckpointStorageError, match=r"chk-1 is not deleted.*chk-2"):
        dispose_savepoint(first.external_path, FILES)
    assert read_all(first.metadata)


def forge(directory: Path, *, own: str = "", shared: str = "", relative: str = "", kind: int = pb.SAVEPOINT) -> Path:
    """A snapshot whose metadata is well-formed and names a file that is not its own."""
    directory.mkdir(parents=True, exist_ok=True)
    state = pb.OperatorSubtaskState()
    keyed = state.keyed.add()
    if shared:
        keyed.incremental.shared.add(local_name="0.sst").handle.path = shared
        keyed.incremental.meta.data = b""
    elif relative:
        keyed.key_groups.file.relative_path = relative
    else:
        keyed.key_groups.file.path = own
    (directory / "_metadata").write_bytes(encode_metadata(metadata_of(1, {"a": state}, kind)))
    return directory


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "home" / "thesis"
    file.parent.mkdir()
    file.write_text("keep")
    yield file
    assert file.read_text() == "keep"


SNAPSHOT = "checkpoints/savepoint-1"


@pytest.mark.parametrize("as_what", ["own", "shared", "relative"])
@pytest.mark.parametrize("climb", ["", f"{SNAPSHOT}/../../", f"{SNAPSHOT}/./../../", f"{SNAPSHOT}//../../"])
@pytest.mark.parametrize("kind", [pb.SAVEPOINT, pb.CHECKPOINT])
def test_disposing_of_a_forged_snapshot_deletes_nothing(tmp_path, victim, as_what, climb, kind):
    path = "../../home/thesis" if as_what == "relative" else f"{tmp_path}/{climb}home/thesis"
    forged = forge(tmp_path / SNAPSHOT, **{as_what: path}, kind=kind)
    with pytest.raises(CorruptStateError, match=r"savepoint-1.*names .*home/thesis'"):
        dispose_savepoint(str(forged), FILES)
    assert (forged / "_metadata").exists()


def test_a_forged_snapshot_cannot_name_files_of_another_file_system(tmp_path, victim):
    forged = forge(tmp_path / SNAPSHOT, shared=f"file:{victim}")
    with pytest.raises(CorruptStateError, match="names"):
        dispose_savepoint(str(forged), FILES)


@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_no_job_starts_from_a_forged_snapshot(tmp_path, victim, mode):
    forged = forge(tmp_path / "checkpoints" / JOB_ID / "chk-1", shared=str(victim), kind=pb.CHECKPOINT)
    with pytest.raises(CorruptStateError, match=r"names .*thesis.*neither in this directory nor shared state"):
        load_savepoint(SavepointRestoreSettings(str(forged), mode), FILES)


def test_a_checkpoint_does_not_dispose_of_shared_files_of_other_jobs(tmp_path):
    other = tmp_path / "checkpoints" / ("f" * 32) / "shared" / "file"
    other.parent.mkdir(parents=True)
    other.write_text("keep")
    forged = forge(tmp_path / "checkpoints" / JOB_ID / "chk-1", shared=str(other), kind=pb.CHECKPOINT)
    dispose_savepoint(str(forged), FILES)
    assert other.read_text() == "keep"
    assert not forged.exists()


@pytest.mark.parametrize("savepoint_name", ["chk-1", "savepoint-1"])
def test_disposing_a_savepoint_deletes_no_shared_files(tmp_path, savepoint_name):
    beside = tmp_path / "checkpoints" / "shared" / "file"
    beside.parent.mkdir(parents=True)
    beside.write_text("keep")
    dispose_savepoint(str(forge(tmp_path / "checkpoints" / savepoint_name, shared=str(beside))), FILES)
    assert beside.read_text() == "keep"


def test_shared_files_are_not_deleted_through_a_link(tmp_path, victim):
    job_directory = tmp_path / "checkpoints" / JOB_ID
    job_directory.mkdir(parents=True)
    (job_directory / "shared").symlink_to(victim.parent)
    forged = forge(job_directory / "chk-1", shared=str(job_directory / "shared" / victim.name), kind=pb.CHECKPOINT)
    with pytest.raises(CorruptStateError, match="a link"):
        dispose_savepoint(str(forged), FILES)
    assert (forged / "_metadata").exists()
    with pytest.raises(CheckpointStorageError, match="symbolic link"):
        delete_files(FILES, [str(job_directory / "shared" / victim.name)])


def test_a_claimed_checkpoint_claims_only_shared_files_under_the_same_directory(storage, tmp_path):
    elsewhere = tmp_path / "elsewhere" / "shared" / "file"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(content_of("x"))
    own = write_state(storage.location_of(1), content_of("a"), CheckpointedStateScope.SHARED)
    foreign = pb.StreamStateHandle()
    foreign.CopyFrom(own)
    foreign.path, foreign.sha256 = str(elsewhere), hashlib.sha256(content_of("x")).digest()
    written = write_checkpoint(storage, 1, shared=[own, foreign])
    claimed = load_savepoint(SavepointRestoreSettings(written.external_path, RecoveryClaimMode.CLAIM), FILES)
    other_storage = make_storage(tmp_path, "f" * 32)
    store = CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path / "recovery"), other_storage, 1)
    store.add(claimed)
    (replaced,) = store.add(write_checkpoint(other_storage, 2))
    store.cleaner.discard_completed(replaced)
    assert not Path(own.path).exists()
    assert elsewhere.exists()


@pytest.mark.parametrize("name", ["_metadata", "state"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "socket", "device"])
def test_only_regular_files_are_opened(tmp_path, name, kind, monkeypatch):
    forged = forge(tmp_path / "checkpoints" / "savepoint-1", relative="state")
    path = forged / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        # The absolute path of a socket may be too long: 107 bytes are the limit.
        monkeypatch.chdir(forged)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(name)
    with pytest.raises(CorruptStateError, match=rf"{name} is not a regular file"):
        load_savepoint(SavepointRestoreSettings(str(forged)), FILES)
    with pytest.raises(CorruptStateError, match=rf"{name} is not a regular file"):
        open_regular(str(path))


def test_metadata_that_is_too_large_is_not_read_into_memory(tmp_path):
    forged = forge(tmp_path / SNAPSHOT, relative="state")
    os.truncate(forged / "_metadata", 1 << 40)
    with pytest.raises(CorruptStateError, match=r"_metadata has 1,099,511,627,776 bytes"):
        load_savepoint(SavepointRestoreSettings(str(forged)), FILES)


@pytest.mark.parametrize("shared", ["../../home/thesis", "memory://place/{0}/../home/thesis", "memory://place/thesis"])
def test_a_forged_snapshot_on_an_object_store_deletes_nothing(shared):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    state = pb.OperatorSubtaskState()
    handle = state.keyed.add().key_groups.file
    if shared.startswith("memory"):
        handle.path = shared.format("savepoint-1")
    else:
        handle.relative_path = shared
    files.pipe("/place/savepoint-1/_metadata", encode_metadata(metadata_of(1, {"a": state}, pb.SAVEPOINT)))
    files.pipe("/place/home/thesis", b"keep")
    files.pipe("/place/thesis", b"keep")
    with pytest.raises(CorruptStateError, match="names"):
        dispose_savepoint("memory://place/savepoint-1", FILES)
    assert files.exists("/place/home/thesis")
    assert files.exists("/place/thesis")
    assert files.exists("/place/savepoint-1/_metadata")
