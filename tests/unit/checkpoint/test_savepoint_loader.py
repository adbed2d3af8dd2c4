"""Starting from a savepoint, and getting rid of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_states import content_of, files_below, make_storage, read_all, write_checkpoint, write_state

from flinkpy.checkpoint.savepoint_loader import (
    RecoveryClaimMode,
    SavepointRestoreSettings,
    dispose_savepoint,
    load_savepoint,
)
from flinkpy.checkpoint.storage import FileSystems
from flinkpy.common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptStateError
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

FILES = FileSystems()


@pytest.fixture
def storage(tmp_path):
    return make_storage(tmp_path)


def test_a_job_starts_from_nothing_unless_it_is_told_otherwise():
    assert SavepointRestoreSettings.from_configuration({}) is None


def test_the_settings_of_a_restore_are_flinks():
    settings = SavepointRestoreSettings.from_configuration(
        {
            "execution.state-recovery.path": "/s",
            "execution.state-recovery.claim-mode": "claim",
            "execution.state-recovery.ignore-unclaimed-state": "true",
        }
    )
    assert settings == SavepointRestoreSettings("/s", RecoveryClaimMode.CLAIM, True)


@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_only_what_is_claimed_is_owned(storage, mode):
    written = write_checkpoint(storage, 3, savepoint=True)
    loaded = load_savepoint(SavepointRestoreSettings(written.external_path, mode), FILES)
    assert loaded.is_owned == (mode is RecoveryClaimMode.CLAIM)
    assert loaded.is_savepoint
    assert read_all(loaded.metadata)["large"] == content_of("large-3")


def test_a_savepoint_with_a_file_missing_is_refused_with_the_name_of_both(storage):
    written = write_checkpoint(storage, 3, savepoint=True)
    path = Path(written.metadata.operators[0].subtasks[0].keyed[0].key_groups.file.path)
    path.unlink()
    with pytest.raises(CorruptStateError, match=rf"savepoint at {written.external_path} is not complete.*{path.name}"):
        load_savepoint(SavepointRestoreSettings(written.external_path), FILES)


def test_disposing_deletes_what_belongs_to_the_savepoint_and_nothing_beside_it(storage, tmp_path):
    first, second = (write_checkpoint(storage, n, savepoint=True) for n in (1, 2))
    Path(first.external_path, "my notes").write_text("keep")
    Path(second.external_path, "f00.12345678.unfinished").write_text("of a task that was killed")
    dispose_savepoint(f"{first.external_path}/_metadata", FILES)
    dispose_savepoint(second.external_path, FILES)
    assert files_below(tmp_path / "checkpoints" / "savepoints") == [f"{Path(first.external_path).name}/my notes"]
    assert not Path(second.external_path).exists()


def test_a_directory_that_is_no_savepoint_is_not_touched(storage, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("keep")
    with pytest.raises(CheckpointNotFoundError):
        dispose_savepoint(str(tmp_path / "home"), FILES)
    (tmp_path / "home" / "_metadata").write_text("of something else")
    with pytest.raises(CorruptStateError):
        dispose_savepoint(str(tmp_path / "home"), FILES)
    assert files_below(tmp_path / "home") == ["_metadata", "thesis"]


def test_a_retained_checkpoint_is_disposed_of_with_the_shared_files_that_only_it_needs(storage):
    a, b = (write_state(storage.location_of(1), content_of(n), CheckpointedStateScope.SHARED) for n in "ab")
    first, second = write_checkpoint(storage, 1, shared=[a, b]), write_checkpoint(storage, 2, shared=[b])
    dispose_savepoint(first.external_path, FILES)
    assert not Path(a.path).exists()
    assert read_all(second.metadata)
    dispose_savepoint(second.external_path, FILES)
    assert files_below(storage.job_directory) == []


def test_shared_files_stay_where_it_cannot_be_told_who_needs_them(storage):
    a = write_state(storage.location_of(1), content_of("a"), CheckpointedStateScope.SHARED)
    first, second = write_checkpoint(storage, 1, shared=[a]), write_checkpoint(storage, 2, shared=[a])
    Path(second.external_path, "_metadata").write_bytes(b"?")
    with pytest.raises(CheckpointStorageError, match=r"chk-1 is not deleted.*chk-2"):
        dispose_savepoint(first.external_path, FILES)
    assert read_all(first.metadata)
