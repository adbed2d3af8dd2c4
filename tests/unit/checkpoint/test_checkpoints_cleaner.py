"""The cleaner deletes leftover files and nothing else."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from checkpoint_states import content_of, files_below, make_storage, read_all, write_checkpoint, write_state

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.checkpoints_cleaner import CLOCK_SKEW_MS
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.common import failpoints
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointPointerStore
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

LONG_AFTER_MS = 4_102_444_800_000  # 2100


@pytest.fixture
def store(storage, tmp_path):
    return CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path / "recovery"), storage, 2)


def snapshot(state):
    result = pb.TaskStateSnapshot()
    result.operators["op"].CopyFrom(state)
    return result


def shared_file(storage, name):
    return write_state(storage.location_of(1), content_of(name), CheckpointedStateScope.SHARED)


def begin(storage, checkpoint_id):
    location = storage.location_of(checkpoint_id)
    storage.initialize(location)
    write_state(location, content_of(f"pending-{checkpoint_id}"))
    return location


def test_directories_of_incomplete_checkpoints_are_deleted_with_the_next_one(storage, store):
    for checkpoint_id in (1, 2, 4, 6):
        begin(storage, checkpoint_id)
    store.add(write_checkpoint(storage, 5))
    assert store.cleaner.delete_incomplete(5, keep_ids={4}) == [storage.directory_of(1), storage.directory_of(2)]
    assert sorted(path.name for path in Path(storage.job_directory).glob("chk-*")) == ["chk-4", "chk-5", "chk-6"]


def test_a_directory_of_several_jobs_is_not_searched(tmp_path):
    storage = make_storage(tmp_path, **{"execution.checkpointing.create-subdir": "false"})
    store = CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path / "recovery"), storage)
    begin(storage, 1)
    store.add(write_checkpoint(storage, 2))
    write_checkpoint(storage, 3)
    assert store.cleaner.delete_incomplete(9, ()) == []
    assert store.cleaner.delete_leftovers(9, LONG_AFTER_MS) == []
    store.cleaner.delete_job_directory()
    assert len(list(Path(storage.job_directory).glob("chk-*"))) == 3


def test_the_shared_files_of_an_abandoned_checkpoint_are_deleted(storage, store):
    kept, new = shared_file(storage, "kept"), shared_file(storage, "new")
    store.add(write_checkpoint(storage, 1, shared=[kept]))
    location = begin(storage, 2)
    store.registry.register(2, [kept.path, new.path])
    store.cleaner.discard_pending(2, location)
    assert not Path(location.directory).exists()
    assert Path(kept.path).exists()
    assert not Path(new.path).exists()


def test_files_of_a_late_acknowledgement_are_deleted(storage, store):
    kept, new = shared_file(storage, "kept"), shared_file(storage, "new")
    completed = write_checkpoint(storage, 1, shared=[kept])
    store.add(completed)
    location = begin(storage, 2)
    late = pb.OperatorSubtaskState()
    late.keyed.add().key_groups.file.CopyFrom(write_state(location, content_of("late")))
    incremental = late.keyed.add().incremental
    incremental.shared.add(local_name="1").handle.CopyFrom(kept)
    incremental.shared.add(local_name="2").handle.CopyFrom(new)
    store.cleaner.discard_states([snapshot(late)])
    assert not Path(late.keyed[0].key_groups.file.path).exists()
    assert not Path(new.path).exists()
    assert read_all(completed.metadata)


def test_a_repeated_acknowledgement_of_a_completed_checkpoint_deletes_nothing(storage, store):
    completed = write_checkpoint(storage, 1, shared=[shared_file(storage, "kept")])
    store.add(completed)
    store.cleaner.discard_states([snapshot(completed.metadata.operators[0].subtasks[0])])
    assert read_all(completed.metadata)


def test_a_new_job_master_deletes_the_leftovers_of_the_previous_one(storage, store):
    used, unused = shared_file(storage, "used"), shared_file(storage, "unused")
    write_checkpoint(storage, 1)  # was replaced, but not deleted yet
    begin(storage, 2)
    completed = write_checkpoint(storage, 3, shared=[used])
    store.add(completed)
    write_checkpoint(storage, 4)  # never got its pointer
    begin(storage, 6)  # of this life
    deleted = store.cleaner.delete_leftovers(next_checkpoint_id=5, now_ms=LONG_AFTER_MS)
    assert deleted == [*(storage.directory_of(n) for n in (1, 2, 4)), unused.path]
    assert sorted(path.name for path in Path(storage.job_directory).glob("chk-*")) == ["chk-3", "chk-6"]
    assert read_all(completed.metadata)


def test_shared_files_that_may_be_new_are_kept(storage, store):
    store.add(write_checkpoint(storage, 1))
    young = shared_file(storage, "young")
    now_ms = 1_700_000_000_000
    os.utime(young.path, ns=((now_ms - CLOCK_SKEW_MS + 1) * 10**6,) * 2)
    assert store.cleaner.delete_leftovers(2, now_ms) == []
    os.utime(young.path, ns=((now_ms - CLOCK_SKEW_MS - 1) * 10**6,) * 2)
    assert store.cleaner.delete_leftovers(2, now_ms) == [young.path]


def test_files_of_a_killed_task_are_deleted_when_no_checkpoint_can_refer_to_them(storage, store):
    pending, orphan = shared_file(storage, "pending"), shared_file(storage, "orphan")
    store.registry.register(1, [pending.path])
    assert store.cleaner.delete_unused_shared_files(before_ms=1_000) == []
    assert store.cleaner.delete_unused_shared_files(LONG_AFTER_MS) == [orphan.path]
    assert Path(pending.path).exists()


def test_nothing_is_deleted_without_a_checkpoint_to_resume_from(storage, store):
    """Lost pointers do not turn checkpoints into garbage."""
    write_checkpoint(storage, 1)
    assert store.cleaner.delete_leftovers(2, LONG_AFTER_MS) == []


def test_a_failed_deletion_is_logged_and_repeated_later(storage, store, caplog):
    for checkpoint_id in (1, 2):
        store.add(write_checkpoint(storage, checkpoint_id))
    (replaced,) = store.add(write_checkpoint(storage, 3))
    failpoints.arm("discard.after_metadata=error")
    with caplog.at_level(logging.WARNING):
        store.cleaner.discard_completed(replaced)
    assert "Could not delete" in caplog.text
    failpoints.arm("")
    assert store.cleaner.delete_incomplete(3, ()) == [storage.directory_of(1)]


def test_discarding_deleted_files_is_no_error(storage, store):
    store.add(write_checkpoint(storage, 1))
    store.add(write_checkpoint(storage, 2))
    (replaced,) = store.add(write_checkpoint(storage, 3))
    store.cleaner.discard_completed(replaced)
    store.cleaner.discard_completed(replaced)
    store.cleaner.discard_pending(9, storage.location_of(9))
    assert {path.split("/")[0] for path in files_below(storage.job_directory)} == {"chk-2", "chk-3"}
