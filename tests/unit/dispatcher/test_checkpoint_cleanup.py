"""Checkpoints that a dead JobMaster left behind, removed or kept as the job said."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_states import JOB_ID, files_below, make_storage, write_checkpoint

from flinkpy._proto import common_pb2, job_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_clean_up import clean_up_checkpoints
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointPointerStore
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.standalone_services import StandaloneHaServices

RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


def terminated(root: Path, status: common_pb2.JobStatus, retention: str) -> pb.JobTerminated:
    entries = {"execution.checkpointing.dir": str(root / "checkpoints"), RETENTION: retention}
    details = job_pb2.JobDetails(job_id=JOB_ID, configuration=common_pb2.Configuration(entries=entries))
    return pb.JobTerminated(job_id=JOB_ID, result=job_pb2.JobResult(job_id=JOB_ID, status=status), details=details)


def recovery_directory(root: Path) -> Path:
    path = root / "recovery" / JOB_ID
    path.mkdir(parents=True, exist_ok=True)
    return path


def clean_up(terminated: pb.JobTerminated, root: Path) -> None:
    services = StandaloneHaServices({}, directory=root)
    clean_up_checkpoints(terminated, root / "recovery" / JOB_ID, {}, services, Leadership("token"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A job took a checkpoint, and its JobMaster died."""
    storage = make_storage(tmp_path)
    store = CompletedCheckpointStore(FileCheckpointPointerStore(recovery_directory(tmp_path)), storage, 1)
    store.add(write_checkpoint(storage, 3))
    return tmp_path


@pytest.mark.parametrize(
    ("status", "retention", "kept"),
    [
        (common_pb2.FINISHED, "RETAIN_ON_CANCELLATION", False),
        (common_pb2.CANCELED, "RETAIN_ON_CANCELLATION", True),
        (common_pb2.CANCELED, "DELETE_ON_CANCELLATION", False),
        (common_pb2.FAILED, "DELETE_ON_CANCELLATION", True),
        (common_pb2.FAILED, "NO_EXTERNALIZED_CHECKPOINTS", False),
    ],
)
def test_checkpoints_of_an_ended_job_are_deleted_unless_they_are_retained(
    root: Path, status: common_pb2.JobStatus, retention: str, kept: bool
) -> None:
    for _ in range(2):  # it may be interrupted and done again
        clean_up(terminated(root, status, retention), root)
        assert bool(files_below(root / "checkpoints")) == kept


def test_nothing_is_read_if_the_job_master_has_already_cleaned_up(tmp_path: Path) -> None:
    clean_up(terminated(tmp_path, common_pb2.FINISHED, "nonsense"), tmp_path)
    recovery_directory(tmp_path)
    clean_up(terminated(tmp_path, common_pb2.FINISHED, "nonsense"), tmp_path)


def test_files_that_cannot_be_deleted_are_reported_and_kept(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = files_below(root / "checkpoints")

    clean_up(terminated(root, common_pb2.FINISHED, "nonsense"), root)

    assert f"could not remove the checkpoints of job {JOB_ID} (FINISHED)" in caplog.text
    assert files_below(root / "checkpoints") == before


def test_a_recovery_directory_with_a_retained_checkpoint_is_kept(tmp_path: Path) -> None:
    directories = JobRecoveryDirectories(tmp_path)
    directories.create(JobID("kept"))
    directories.create(JobID("gone"))
    metadata = tmp_path / "kept" / "checkpoints" / "chk-3" / "_metadata"
    metadata.parent.mkdir(parents=True)
    metadata.write_bytes(b"x")
    for job_id in ("kept", "gone", "never"):
        directories.remove(JobID(job_id))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
