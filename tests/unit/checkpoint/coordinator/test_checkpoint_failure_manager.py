from __future__ import annotations

from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointFailureManager
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error

DECLINED = checkpoint_error(Reason.CHECKPOINT_DECLINED, "disk full")


def test_a_failure_of_a_checkpoint_older_than_the_last_completed_does_not_count():
    failures = CheckpointFailureManager(0)
    failures.completed(5)
    failures.completed(3)  # it was written later
    assert failures.failed(4, PERIODIC, DECLINED) is None
    assert failures.failed(6, PERIODIC, DECLINED) is not None


def test_a_failure_of_the_job_resets_the_count():
    failures = CheckpointFailureManager(1)
    outcomes = [failures.failed(number, FULL, DECLINED) is not None for number in (1, 2, 3, 4)]
    assert outcomes == [False, True, False, True]


def test_the_failure_of_the_job_names_the_failed_checkpoint_and_the_reason():
    error = checkpoint_error(Reason.CHECKPOINT_DECLINED, "disk full")
    error.remote_traceback = "Traceback of the task"
    failure = CheckpointFailureManager(0).failed(7, PERIODIC, error)
    assert failure is not None
    assert str(failure).startswith("checkpoint 7 failed")
    assert "disk full" in str(failure)
    assert failure.details == {"failure_reason": "CHECKPOINT_DECLINED"}
    assert failure.remote_traceback == "Traceback of the task"
    assert failure.__cause__ is error
