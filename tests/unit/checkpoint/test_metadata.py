"""`_metadata`: what makes a directory a checkpoint."""

from __future__ import annotations

import hashlib
import shutil
import struct
from pathlib import Path

import pytest
from checkpoint_states import content_of, files_below, make_storage, read_all, write_checkpoint, write_state

from flinkpy.checkpoint.metadata import FORMAT_VERSION, encode_metadata, load_metadata
from flinkpy.checkpoint.state_handles import handles_of_metadata
from flinkpy.checkpoint.storage import FileSystems
from flinkpy.common import failpoints
from flinkpy.common.errors import (
    CheckpointNotFoundError,
    CheckpointStorageError,
    CorruptStateError,
    StateRestoreError,
)
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

FILES = FileSystems()


def test_metadata_is_loaded_by_its_directory_or_its_own_path(tmp_path):
    written = write_checkpoint(make_storage(tmp_path), 3)
    for path in (written.external_path, f"{written.external_path}/_metadata", f"file://{written.external_path}/"):
        directory, metadata = load_metadata(FILES, path)
        assert directory == written.external_path
        assert list(metadata.operators) == list(written.metadata.operators)
        assert read_all(metadata)["large"] == content_of("large-3")


def test_a_savepoint_may_be_moved(tmp_path):
    written = write_checkpoint(make_storage(tmp_path), 3, savepoint=True)
    moved = tmp_path / "elsewhere" / "named as you like"
    shutil.move(written.external_path, moved)
    _, metadata = load_metadata(FILES, str(moved))
    assert read_all(metadata) == {"large": content_of("large-3"), "small": content_of("small-3", 100)}


def test_shared_files_keep_their_absolute_paths(tmp_path):
    storage = make_storage(tmp_path)
    shared = write_state(storage.location_of(3), content_of("shared"), CheckpointedStateScope.SHARED)
    written = write_checkpoint(storage, 3, shared=[shared])
    _, metadata = load_metadata(FILES, written.external_path)
    assert shared.path in {handle.path for handle in handles_of_metadata(metadata)}


def test_writing_metadata_does_not_change_the_callers_handles(tmp_path):
    written = write_checkpoint(make_storage(tmp_path), 3)
    assert {handle.WhichOneof("location") for handle in handles_of_metadata(written.metadata)} == {"path", "data"}


def test_a_newer_format_is_refused_with_both_versions(tmp_path):
    written = write_checkpoint(make_storage(tmp_path), 3)
    body = bytearray(encode_metadata(written.metadata)[:-32])
    body[8:12] = struct.pack(">I", FORMAT_VERSION + 41)
    Path(written.external_path, "_metadata").write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(StateRestoreError, match=rf"version {FORMAT_VERSION + 41}.*up to {FORMAT_VERSION}"):
        load_metadata(FILES, written.external_path)


@pytest.mark.parametrize("position", [0, 3, 9, 15, 40, -33, -1])
def test_a_flipped_bit_is_detected(tmp_path, position):
    written = write_checkpoint(make_storage(tmp_path), 3)
    path = Path(written.external_path, "_metadata")
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)
    with pytest.raises(CorruptStateError, match="_metadata is damaged"):
        load_metadata(FILES, written.external_path)


@pytest.mark.parametrize("length", [0, 1, 20, 100, -1])
def test_a_truncated_file_is_detected(tmp_path, length):
    written = write_checkpoint(make_storage(tmp_path), 3)
    path = Path(written.external_path, "_metadata")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptStateError):
        load_metadata(FILES, written.external_path)


def test_the_error_names_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(CheckpointNotFoundError, match=r"no-such-place: no such directory"):
        load_metadata(FILES, str(tmp_path / "no-such-place"))


def test_the_directory_of_a_job_names_the_checkpoints_in_it(tmp_path):
    storage = make_storage(tmp_path)
    for checkpoint_id in (9, 10, 11):
        write_checkpoint(storage, checkpoint_id)
    storage.initialize(storage.location_of(12))
    with pytest.raises(CheckpointNotFoundError, match="chk-9, chk-10, chk-11: name one"):
        load_metadata(FILES, storage.job_directory)


def test_the_error_of_an_incomplete_checkpoint_says_so(tmp_path):
    storage = make_storage(tmp_path)
    storage.initialize(storage.location_of(12))
    with pytest.raises(CheckpointNotFoundError, match="never completed"):
        load_metadata(FILES, storage.location_of(12).directory)


@pytest.mark.parametrize("name", [name for name in failpoints.FAILPOINTS if name.startswith("metadata.")])
def test_a_failure_at_any_step_leaves_no_metadata(tmp_path, name):
    storage = make_storage(tmp_path)
    failpoints.arm(f"{name}=full")
    with pytest.raises(CheckpointStorageError, match=r"chk-4/_metadata: the disk is full"):
        write_checkpoint(storage, 4)
    assert not any("_metadata" in name for name in files_below(storage.job_directory))
