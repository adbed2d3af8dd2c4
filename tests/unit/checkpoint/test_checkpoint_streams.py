"""State is written completely, durably and with a checksum, or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from checkpoint_states import LARGE, content_of, files_below, make_storage, read_state, write_state

from flinkpy.checkpoint.storage import CheckpointStreamFactory, StateFileReader
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage
from flinkpy.common import failpoints
from flinkpy.common.errors import CheckpointStorageError, ConfigurationError, CorruptStateError
from flinkpy.state.checkpoint_streams import CheckpointedStateScope


@pytest.fixture
def location(storage):
    location = storage.location_of(1)
    storage.initialize(location)
    return location


def test_small_state_is_inlined_in_its_handle(location):
    handle = write_state(location, b"tiny")
    assert (handle.data, handle.size_bytes, handle.sha256) == (b"tiny", 4, hashlib.sha256(b"tiny").digest())
    assert files_below(location.directory) == []


def test_state_of_exactly_the_threshold_is_inlined_and_one_byte_more_is_not(location):
    threshold = location.for_tasks.inline_threshold_bytes
    assert write_state(location, b"x" * threshold).WhichOneof("location") == "data"
    assert write_state(location, b"x" * (threshold + 1)).WhichOneof("location") == "path"


def test_an_empty_state_can_be_read_back(location):
    assert read_state(write_state(location, b"")) == b""


@pytest.mark.parametrize("pieces", [[LARGE], [1] * 10 + [LARGE] * 9, [3 << 20], [300_000, 1, 300_000], [1000] * 700])
def test_bytes_written_in_any_pieces_are_read_unchanged(location, pieces):
    whole = content_of("whole", sum(pieces))
    stream = CheckpointStreamFactory(location.for_tasks, {}).create()
    position = 0
    for size in pieces:
        assert stream.write(memoryview(whole)[position : position + size]) == size
        position += size
        assert stream.tell() == position
    handle = stream.close_and_get_handle()
    assert handle.size_bytes == len(whole)
    assert read_state(handle) == whole
    assert len(files_below(location.directory)) == 1


def test_a_buffer_may_be_changed_after_it_was_written(location):
    stream = CheckpointStreamFactory(location.for_tasks, {}).create()
    data = bytearray(b"a" * LARGE)
    stream.write(data)
    data[:] = b"b" * LARGE
    assert read_state(stream.close_and_get_handle()) == b"a" * LARGE


def test_shared_state_lies_in_the_shared_directory(storage, location):
    handle = write_state(location, content_of("shared"), CheckpointedStateScope.SHARED)
    assert handle.path.startswith(storage.shared_directory + "/")


def test_a_savepoint_shares_nothing(storage, tmp_path):
    location = storage.savepoint_location(str(tmp_path / "savepoints"))
    streams = CheckpointStreamFactory(location.for_tasks, {})
    assert not streams.can_share
    handle = write_state(location, content_of("shared"), CheckpointedStateScope.SHARED)
    assert handle.path.startswith(location.directory + "/")


def test_a_local_file_is_stored_whole(location, tmp_path):
    source = tmp_path / "source.sst"
    source.write_bytes(content_of("sst", 3 << 20))
    handle = CheckpointStreamFactory(location.for_tasks, {}).store_file(source, CheckpointedStateScope.SHARED)
    target = tmp_path / "target.sst"
    StateFileReader({}).fetch(handle, target)
    assert target.read_bytes() == source.read_bytes()


def test_a_local_file_that_never_changes_is_linked_once_it_is_verified(location, tmp_path):
    source = tmp_path / "source.sst"
    source.write_bytes(content_of("sst", 3 << 20))
    handle = CheckpointStreamFactory(location.for_tasks, {}).store_file(source, CheckpointedStateScope.SHARED)
    target = tmp_path / "target.sst"
    StateFileReader({}).fetch(handle, target, never_changes=True)
    assert target.stat().st_ino == Path(handle.path).stat().st_ino
    Path(handle.path).write_bytes(b"X" * (3 << 20))
    with pytest.raises(CorruptStateError):
        StateFileReader({}).fetch(handle, tmp_path / "another.sst", never_changes=True)
    assert not (tmp_path / "another.sst").exists()
    StateFileReader({}).fetch(handle, tmp_path / "unread.sst", never_changes=True, checks_itself=True)
    Path(handle.path).write_bytes(b"shorter")
    with pytest.raises(CorruptStateError):
        StateFileReader({}).fetch(handle, tmp_path / "short.sst", never_changes=True, checks_itself=True)


def test_the_error_names_a_missing_local_file_and_nothing_is_left(location, tmp_path):
    with pytest.raises(CheckpointStorageError, match=r"gone\.sst"):
        CheckpointStreamFactory(location.for_tasks, {}).store_file(
            tmp_path / "gone.sst", CheckpointedStateScope.EXCLUSIVE
        )
    assert files_below(location.directory) == []


def test_a_stream_that_is_aborted_repeatedly_leaves_nothing(location):
    stream = CheckpointStreamFactory(location.for_tasks, {}).create()
    stream.write(b"x" * (1 << 20))
    assert len(files_below(location.directory)) == 1
    stream.abort()
    stream.abort()
    assert files_below(location.directory) == []
    with pytest.raises(CheckpointStorageError, match="closed"):
        stream.write(b"more")


@pytest.mark.parametrize("name", [name for name in failpoints.FAILPOINTS if name.startswith("state_file.")])
@pytest.mark.parametrize("action", ["error", "full"])
def test_a_failure_at_any_step_leaves_nothing_and_names_the_file(location, name, action):
    failpoints.arm(f"{name}={action}")
    with pytest.raises(CheckpointStorageError, match=location.directory) as caught:
        write_state(location, content_of("x", 1 << 20))
    assert ("the disk is full" in str(caught.value)) == (action == "full")
    assert files_below(location.directory) == []


def test_an_abandoned_checkpoint_cannot_be_written_to(storage, location):
    """Its directory is gone, and a late writer must not bring it back."""
    storage.discard_location(location)
    with pytest.raises(CheckpointStorageError, match="aborted"):
        write_state(location, content_of("late"))
    assert not Path(location.directory).exists()


def test_state_without_a_directory_is_inlined_up_to_a_limit(tmp_path):
    storage = CheckpointStorage.from_configuration({}, "job", tmp_path)
    storage.check_writable()
    location = storage.location_of(1)
    assert location.directory == str(tmp_path / "checkpoints" / "chk-1")
    assert write_state(location, b"x" * (5 << 20)).WhichOneof("location") == "data"
    with pytest.raises(CheckpointStorageError, match=r"execution\.checkpointing\.dir"):
        write_state(location, b"x" * ((5 << 20) + 1))


def test_the_error_names_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    storage = CheckpointStorage.from_configuration(
        {"execution.checkpointing.dir": str(tmp_path / "file" / "checkpoints")}, "job", tmp_path
    )
    with pytest.raises(CheckpointStorageError, match=r"file/checkpoints/job"):
        storage.check_writable()


def test_a_manual_checkpoint_of_a_job_without_periodic_ones_has_its_directories(tmp_path):
    storage = CheckpointStorage.from_configuration({"execution.checkpointing.dir": str(tmp_path)}, "job", tmp_path)
    location = storage.location_of(1)
    storage.initialize(location)
    handle = write_state(location, content_of("shared"), CheckpointedStateScope.SHARED)
    assert read_state(handle) == content_of("shared")


def test_checking_that_a_directory_is_writable_leaves_no_file(storage):
    assert files_below(storage.job_directory) == []


def test_a_completed_checkpoint_is_never_overwritten(storage, location):
    Path(location.directory, "_metadata").write_bytes(b"of another job")
    with pytest.raises(CheckpointStorageError, match="create-subdir"):
        storage.initialize(location)


def test_the_subdirectory_of_the_job_can_be_omitted(tmp_path):
    options = {"execution.checkpointing.dir": f"file://{tmp_path}/c/", "execution.checkpointing.create-subdir": "false"}
    storage = CheckpointStorage.from_configuration(options, "job", tmp_path)
    assert storage.location_of(7).directory == f"{tmp_path}/c/chk-7"


def test_a_relative_directory_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="absolute"):
        CheckpointStorage.from_configuration({"execution.checkpointing.dir": "checkpoints"}, "job", tmp_path)


def test_storage_in_files_needs_a_directory(tmp_path):
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir"):
        CheckpointStorage.from_configuration({"execution.checkpointing.storage": "filesystem"}, "job", tmp_path)


def test_a_savepoint_needs_a_directory_of_its_own_or_a_configured_one(tmp_path):
    with pytest.raises(ConfigurationError, match="savepoint-dir"):
        make_storage(tmp_path).savepoint_location()
    configured = make_storage(tmp_path, **{"execution.checkpointing.savepoint-dir": str(tmp_path / "s")})
    directory = configured.savepoint_location().directory
    assert directory.startswith(f"{tmp_path}/s/savepoint-012345-")
    assert Path(directory).is_dir()
    assert configured.savepoint_location().directory != directory


def damage(path: str, how: str) -> None:
    content = bytearray(Path(path).read_bytes())
    if how == "a flipped bit":
        content[len(content) // 2] ^= 1
    elif how == "a missing end":
        del content[-1]
    elif how == "more at its end":
        content += b"x"
    elif how == "another file's content":
        content[:] = content_of("another", len(content))
    Path(path).write_bytes(content)


@pytest.mark.parametrize("how", ["a flipped bit", "a missing end", "more at its end", "another file's content"])
def test_a_damaged_file_is_detected(location, how, tmp_path):
    handle = write_state(location, content_of("x"))
    damage(handle.path, how)
    with pytest.raises(CorruptStateError, match=handle.path):
        StateFileReader({}).open(handle)
    with pytest.raises(CorruptStateError, match=handle.path):
        StateFileReader({}).fetch(handle, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_the_error_names_a_missing_file(location):
    handle = write_state(location, content_of("x"))
    Path(handle.path).unlink()
    with pytest.raises(CorruptStateError, match=f"{handle.path} is missing"):
        StateFileReader({}).open(handle)


def test_a_reader_that_has_read_a_file_before_detects_its_damage(location):
    handle = write_state(location, content_of("x"))
    reader = StateFileReader({})
    reader.open(handle).close()
    damage(handle.path, "a flipped bit")
    with pytest.raises(CorruptStateError):
        reader.open(handle)


def test_damaged_inlined_state_is_detected(location):
    handle = write_state(location, b"tiny")
    handle.data = b"tinz"
    with pytest.raises(CorruptStateError, match="inlined"):
        StateFileReader({}).open(handle)


def test_a_file_can_be_read_from_any_position(location):
    handle = write_state(location, content_of("x"))
    with StateFileReader({}).open(handle) as file:
        file.seek(40_000)
        assert file.read(10) == content_of("x")[40_000:40_010]


def test_a_copy_on_this_host_is_read_instead_of_the_original(location, tmp_path):
    handle = write_state(location, content_of("x"))
    handle.local_path = str(tmp_path / "copy")
    Path(handle.local_path).write_bytes(content_of("x"))
    Path(handle.path).unlink()
    assert read_state(handle) == content_of("x")


@pytest.mark.parametrize("how", ["a flipped bit", "missing"])
def test_the_original_is_read_if_the_local_copy_is_unusable(location, tmp_path, how):
    handle = write_state(location, content_of("x"))
    handle.local_path = str(tmp_path / "copy")
    if how != "missing":
        Path(handle.local_path).write_bytes(content_of("x"))
        damage(handle.local_path, how)
    assert read_state(handle) == content_of("x")
