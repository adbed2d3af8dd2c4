"""The store decides which checkpoint a job resumes from, and when checkpoints may be deleted."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from checkpoint_states import (
    JOB_ID,
    content_of,
    files_below,
    make_storage,
    read_all,
    write_checkpoint,
    write_state,
)

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention, CompletedCheckpoint
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.common import failpoints
from flinkpy.common.errors import (
    CheckpointStorageError,
    CommitError,
    CommittablesLostError,
    CorruptStateError,
    StateRestoreError,
)
from flinkpy.common.job_status import JobStatus
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointIDCounter, FileCheckpointPointerStore
from flinkpy.state.checkpoint_streams import CheckpointedStateScope


@pytest.fixture
def new_store(storage, tmp_path):
    """Each iteration is a new JobMaster."""
    return lambda retained=1: CompletedCheckpointStore(
        FileCheckpointPointerStore(tmp_path / "recovery"), storage, retained
    )


def add(store, storage, checkpoint_id, **options):
    checkpoint = write_checkpoint(storage, checkpoint_id, **options)
    for replaced in store.add(checkpoint):
        store.cleaner.discard_completed(replaced)
    store.registry.validate()
    return checkpoint


def shared_file(storage, name):
    return write_state(storage.location_of(1), content_of(name), CheckpointedStateScope.SHARED)


def ids(checkpoints):
    return [checkpoint.checkpoint_id for checkpoint in checkpoints]


def damage(checkpoint, which="large"):
    operator = next(o for o in checkpoint.metadata.operators if o.operator_id == which)
    path = Path(operator.subtasks[0].keyed[0].key_groups.file.path)
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)


def test_a_job_without_checkpoints_starts_from_nothing(new_store):
    assert new_store().recover() is None


def test_the_next_job_master_finds_the_last_checkpoint(new_store, storage):
    first = new_store()
    for checkpoint_id in (1, 2, 3):
        add(first, storage, checkpoint_id)
    recovered = new_store().recover()
    assert recovered.checkpoint_id == 3
    assert read_all(recovered.metadata)["large"] == content_of("large-3")


def test_the_configured_number_of_checkpoints_is_retained_and_others_are_deleted(new_store, storage):
    store = new_store(2)
    for checkpoint_id in (1, 2, 5, 6):
        add(store, storage, checkpoint_id)
    assert ids(store.checkpoints) == [5, 6]
    assert {path.split("/")[0] for path in files_below(storage.job_directory)} == {"chk-5", "chk-6"}
    again = new_store(2)
    again.recover()
    assert ids(again.checkpoints) == [5, 6]


def test_a_replaced_checkpoint_stays_complete_until_it_is_discarded(new_store, storage):
    store = new_store()
    add(store, storage, 1)
    (replaced,) = store.add(write_checkpoint(storage, 2))
    assert read_all(replaced.metadata)["large"] == content_of("large-1")


def test_a_checkpoint_in_use_is_never_discarded(new_store, storage):
    store = new_store()
    checkpoint = add(store, storage, 1)
    with pytest.raises(ValueError, match="in use"):
        store.cleaner.discard_completed(checkpoint)
    with pytest.raises(ValueError, match="complete and in use"):
        store.cleaner.discard_pending(1, storage.location_of(1))
    assert read_all(checkpoint.metadata)


def test_a_checkpoint_whose_pointers_cannot_be_written_does_not_count(new_store, storage):
    store = new_store()
    add(store, storage, 1)
    failpoints.arm("durable_file.before_rename=full")
    with pytest.raises(CheckpointStorageError, match=r"chk-2: the disk is full"):
        store.add(write_checkpoint(storage, 2))
    failpoints.arm("")
    assert store.latest.checkpoint_id == 1
    assert new_store().recover().checkpoint_id == 1


def test_pointers_that_may_have_been_written_never_refer_to_deleted_files(new_store, storage):
    """The rename happened, but its fsync failed. The checkpoint is deleted, although the disk may have its pointer."""
    store = new_store()
    add(store, storage, 1)
    failpoints.arm("durable_file.before_directory_sync=error")
    with pytest.raises(CheckpointStorageError):
        store.add(write_checkpoint(storage, 2))
    failpoints.arm("")
    store.cleaner.discard_pending(2, storage.location_of(2))
    assert new_store().recover().checkpoint_id == 1


@pytest.mark.parametrize("how", ["truncated", "missing", "metadata gone", "metadata of another checkpoint"])
def test_the_store_falls_back_from_a_damaged_checkpoint_and_logs_it(new_store, storage, caplog, how):
    store = new_store(2)
    add(store, storage, 1)
    newest = add(store, storage, 2)
    path = Path(newest.metadata.operators[0].subtasks[0].keyed[0].key_groups.file.path)
    metadata_path = Path(newest.external_path, "_metadata")
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "missing":
        path.unlink()
    elif how == "metadata gone":
        metadata_path.unlink()
    else:
        metadata_path.write_bytes(Path(store.checkpoints[0].external_path, "_metadata").read_bytes())
    with caplog.at_level(logging.ERROR):
        assert new_store(2).recover().checkpoint_id == 1
    assert "checkpoint 2 cannot be used" in caplog.text
    assert "continuing from checkpoint 1" in caplog.text
    assert Path(newest.external_path).is_dir()


def test_a_flipped_bit_is_detected_if_everything_is_read(new_store, storage):
    store = new_store(2)
    add(store, storage, 1)
    damage(add(store, storage, 2))
    assert new_store(2).recover(read_everything=True).checkpoint_id == 1


def test_a_job_without_a_usable_checkpoint_does_not_start_from_nothing(new_store, storage):
    checkpoint = add(new_store(), storage, 1)
    Path(checkpoint.external_path, "_metadata").unlink()
    with pytest.raises(CorruptStateError, match=f"{JOB_ID}.*none of them can be used.*checkpoint 1"):
        new_store().recover()


def test_a_checkpoint_of_another_job_is_refused(new_store, storage, tmp_path):
    other = CompletedCheckpoint(pb.CheckpointMetadata(checkpoint_id=1, job_id="other", job_name="Other"), "")
    location = storage.location_of(1)
    storage.initialize(location)
    storage.write_metadata(location, other.metadata)
    pointers = pb.CompletedCheckpointPointers()
    pointers.pointers.add(checkpoint_id=1, external_path=location.directory, is_owned=True, job_id=JOB_ID)
    FileCheckpointPointerStore(tmp_path / "recovery").save(pointers)
    with pytest.raises(StateRestoreError, match=f"'Other'.*not to job {JOB_ID}"):
        new_store().recover()


def test_damaged_pointers_are_rebuilt_from_the_directory_of_the_job(new_store, storage, tmp_path, caplog):
    store = new_store(2)
    for checkpoint_id in (8, 9, 10):
        add(store, storage, checkpoint_id)
    storage.initialize(storage.location_of(11))
    path = tmp_path / "recovery" / "completed-checkpoints"
    path.write_bytes(path.read_bytes()[:-3])
    again = new_store(2)
    assert again.recover().checkpoint_id == 10
    assert ids(again.checkpoints) == [9, 10]
    assert "damaged" in caplog.text
    assert "cannot be used" not in caplog.text


def test_damaged_pointers_of_a_shared_directory_are_an_error(tmp_path):
    storage = make_storage(tmp_path, **{"execution.checkpointing.create-subdir": "false"})
    store = CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path / "recovery"), storage)
    add(store, storage, 1)
    (tmp_path / "recovery" / "completed-checkpoints").write_bytes(b"?")
    with pytest.raises(CorruptStateError, match="cannot be found"):
        CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path / "recovery"), storage).recover()


def test_damage_found_by_a_task_drops_the_checkpoint_and_those_before_that_are_damaged_too(new_store, storage):
    store = new_store(3)
    add(store, storage, 1)
    damage(add(store, storage, 2))
    damage(add(store, storage, 3))
    assert ids(store.drop_damaged()) == [3, 2]
    assert store.latest.checkpoint_id == 1
    assert new_store(3).recover().checkpoint_id == 1


def test_nothing_is_dropped_if_nothing_is_damaged(new_store, storage):
    store = new_store(2)
    add(store, storage, 1)
    add(store, storage, 2)
    assert store.drop_damaged() == ()
    assert store.latest.checkpoint_id == 2


def test_damage_of_the_last_checkpoint_is_an_error(new_store, storage):
    store = new_store()
    damage(add(store, storage, 1))
    with pytest.raises(CorruptStateError, match="are damaged"):
        store.drop_damaged()


@pytest.mark.parametrize(
    ("retention", "is_kept"),
    [(CheckpointRetention.RETAIN_ON_CANCELLATION, True), (CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS, False)],
)
def test_damaged_checkpoints_are_retained_like_intact_ones_after_they_failed_the_job(
    new_store, storage, retention, is_kept
):
    store = new_store(2)
    damaged = [damage(add(store, storage, checkpoint_id)) or store.latest.external_path for checkpoint_id in (1, 2)]
    Path(damaged[0], "_metadata").unlink()
    with pytest.raises(CorruptStateError):
        store.drop_damaged()
    store.shut_down(JobStatus.FAILED, retention)
    assert [Path(path).exists() for path in damaged] == [is_kept, is_kept]


def test_a_shared_file_lives_as_long_as_a_checkpoint_needs_it(new_store, storage):
    store = new_store(2)
    a, b, c = (shared_file(storage, name) for name in "abc")
    add(store, storage, 1, shared=[a, b])
    add(store, storage, 2, shared=[b, c])
    add(store, storage, 3, shared=[c])
    assert not Path(a.path).exists()
    assert Path(b.path).exists()
    add(store, storage, 4)
    assert not Path(b.path).exists()
    assert Path(c.path).exists()


def test_a_checkpoint_that_builds_on_a_deleted_file_does_not_count(new_store, storage):
    """Its task had not heard that a later checkpoint, without that file, was completed."""
    store = new_store()
    a = shared_file(storage, "a")
    add(store, storage, 1, shared=[a])
    add(store, storage, 2)
    late = write_checkpoint(storage, 3)
    late.metadata.operators[0].subtasks[0].keyed.add().incremental.shared.add().handle.CopyFrom(a)
    with pytest.raises(CheckpointStorageError, match=f"checkpoint 3 needs {a.path}"):
        store.add(late)
    store.registry.validate()
    assert new_store().recover().checkpoint_id == 2


def test_the_next_job_master_finds_the_shared_files(new_store, storage):
    first = new_store(2)
    a = shared_file(storage, "a")
    add(first, storage, 1, shared=[a])
    add(first, storage, 2, shared=[a])
    second = new_store(2)
    second.recover()
    add(second, storage, 3)
    assert Path(a.path).exists()
    add(second, storage, 4)
    assert not Path(a.path).exists()


def restored(tmp_path, *, claimed):
    """A retained checkpoint of another job, with a shared file, as the next job gets it."""
    foreign = make_storage(tmp_path / "foreign", job_id="f" * 32)
    shared = write_state(foreign.location_of(40), content_of("foreign"), CheckpointedStateScope.SHARED)
    checkpoint = write_checkpoint(foreign, 40, shared=[shared])
    (tmp_path / "foreign" / "note.txt").write_text("the user's")
    return CompletedCheckpoint(checkpoint.metadata, checkpoint.external_path, claimed), shared


def test_unclaimed_checkpoints_are_never_deleted(new_store, storage, tmp_path):
    checkpoint, shared = restored(tmp_path, claimed=False)
    before = files_below(tmp_path / "foreign")
    store = new_store()
    store.add(checkpoint)
    recovered = new_store().recover()
    assert (recovered.checkpoint_id, recovered.is_owned) == (40, False)
    # A backend may wrongly keep using the file, which still belongs to another owner.
    add(store, storage, 41, shared=[shared])
    add(store, storage, 42)
    store.shut_down(JobStatus.FINISHED, CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    assert files_below(tmp_path / "foreign") == before
    assert not Path(storage.job_directory).exists()


def test_claimed_checkpoints_are_deleted_when_not_needed(new_store, storage, tmp_path):
    checkpoint, shared = restored(tmp_path, claimed=True)
    store = new_store()
    store.add(checkpoint)
    add(store, storage, 41, shared=[shared])
    assert not Path(checkpoint.external_path).exists()
    assert Path(shared.path).exists()
    add(store, storage, 42)
    assert files_below(tmp_path / "foreign") == ["note.txt"]


ENDS = [JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED]
KEPT = {
    CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: {JobStatus.SUSPENDED},
    CheckpointRetention.DELETE_ON_CANCELLATION: {JobStatus.SUSPENDED, JobStatus.FAILED},
    CheckpointRetention.RETAIN_ON_CANCELLATION: {JobStatus.SUSPENDED, JobStatus.FAILED, JobStatus.CANCELED},
}


@pytest.mark.parametrize("status", ENDS)
def test_checkpoints_of_a_job_that_failed_because_of_lost_records_are_always_retained(new_store, storage, status):
    store = new_store(2)
    checkpoints = [add(store, storage, 1), add(store, storage, 2)]
    cause = CommitError("cannot be committed")
    cause.__cause__ = CommittablesLostError("the transaction was rolled back")
    store.shut_down(status, CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS, cause)
    is_kept = status in (JobStatus.FAILED, JobStatus.SUSPENDED)
    assert [Path(checkpoint.external_path).exists() for checkpoint in checkpoints] == [is_kept, is_kept]


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("retention", list(CheckpointRetention))
def test_retention_decides_which_checkpoints_outlive_the_job(new_store, storage, tmp_path, status, retention):
    store = new_store(2)
    shared = shared_file(storage, "a")
    kept = [add(store, storage, 1), add(store, storage, 2, shared=[shared])]
    storage.initialize(storage.location_of(3))
    store.shut_down(status, retention)
    if status in KEPT[retention]:
        assert all(read_all(checkpoint.metadata) for checkpoint in kept)
    else:
        assert not Path(storage.job_directory).exists()
    assert (tmp_path / "recovery" / "completed-checkpoints").exists() == (status is JobStatus.SUSPENDED)
    assert Path(storage.location_of(3).directory).exists() == (status is JobStatus.SUSPENDED)


def test_the_counter_never_gives_an_id_twice(tmp_path):
    counter = FileCheckpointIDCounter(tmp_path)
    assert [counter.get_and_increment() for _ in range(3)] == [1, 2, 3]
    assert FileCheckpointIDCounter(tmp_path).get_and_increment() == 4
    counter.advance_to(58)
    counter.advance_to(7)
    assert FileCheckpointIDCounter(tmp_path).next_id == 58


def test_a_damaged_counter_continues_above_the_known_ids(tmp_path):
    FileCheckpointIDCounter(tmp_path).advance_to(30)
    (tmp_path / "checkpoint-id-counter").write_bytes(b"?")
    assert FileCheckpointIDCounter(tmp_path, at_least=31).get_and_increment() == 31


def test_an_id_that_could_not_be_stored_is_not_used(tmp_path):
    counter = FileCheckpointIDCounter(tmp_path)
    failpoints.arm("durable_file.before_sync=full")
    with pytest.raises(OSError, match="No space"):
        counter.get_and_increment()
    failpoints.arm("")
    assert counter.get_and_increment() == 1
