"""The end of a job becomes a result or an error. The configuration selects the cluster."""

from __future__ import annotations

import pytest

from flinkpy._proto import job_pb2
from flinkpy.client.executor import remote_address
from flinkpy.client.job_results import execution_result, user_traceback
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import (
    ConfigurationError,
    FlinkError,
    FunctionError,
    JobCancelledError,
    JobExecutionError,
    NoResourceAvailableError,
)
from flinkpy.common.states import JobState
from flinkpy.datastream.cached_data_stream import ClusterDatasets
from flinkpy.rpc.error_codec import error_to_proto

TRACEBACK = 'Traceback (most recent call last):\n  File "job.py", line 3, in double\nTypeError: no\n'


def result(state: JobState, error: FlinkError | None = None) -> job_pb2.JobResult:
    message = job_pb2.JobResult(job_id="a" * 32, name="words", status=state.value, net_runtime_ms=7)  # type: ignore[arg-type]
    if error is not None:
        message.error.CopyFrom(error_to_proto(error))
    return message


def test_a_finished_job_has_a_result() -> None:
    finished = execution_result(result(JobState.FINISHED))
    assert str(finished.get_job_id()) == "a" * 32
    assert finished.get_net_runtime() == 7
    assert finished.get_all_accumulator_results() == {}


def test_the_users_traceback_comes_first() -> None:
    cause = FunctionError("Map (1/2): TypeError: no", remote_traceback=TRACEBACK)
    with pytest.raises(JobExecutionError) as caught:
        execution_result(result(JobState.FAILED, cause))
    assert str(caught.value).strip().startswith("Traceback")
    assert "job `words`" in str(caught.value)
    assert caught.value.remote_traceback == TRACEBACK
    assert isinstance(caught.value.cause, FunctionError)


def test_a_traceback_behind_another_failure_is_found() -> None:
    cause = FlinkError("recovery is suppressed")
    cause.__cause__ = FunctionError("boom", remote_traceback=TRACEBACK)
    with pytest.raises(JobExecutionError) as caught:
        execution_result(result(JobState.FAILED, cause))
    assert caught.value.remote_traceback == TRACEBACK
    lines = str(caught.value).splitlines()
    assert lines[-1].endswith("ended in FAILED: recovery is suppressed") and "FunctionError: boom" in lines
    assert caught.value.__cause__ is None, "Python would print the cause again, above the user's lines"


def test_a_search_through_causes_ends_at_an_error_that_causes_itself() -> None:
    first, second = FlinkError("first"), FlinkError("second")
    first.__cause__, second.__cause__ = second, first
    assert user_traceback(first) == ""
    assert not ClusterDatasets().forget_corrupted(first)


def test_a_failure_without_user_code_is_one_line() -> None:
    with pytest.raises(JobExecutionError) as caught:
        execution_result(result(JobState.FAILED, NoResourceAvailableError("2 of 4 slots")))
    assert str(caught.value) == f"job `words` ({'a' * 32}) ended in FAILED: 2 of 4 slots"


def test_a_canceled_job_raises_its_own_error() -> None:
    with pytest.raises(JobCancelledError, match="words"):
        execution_result(result(JobState.CANCELED))


@pytest.mark.parametrize(
    ("entries", "address"),
    [
        ({}, None),
        ({"jobmanager.rpc.address": "h"}, "h:6123"),
        ({"jobmanager.rpc.address": "h", "jobmanager.rpc.port": "7"}, "h:7"),
        ({"jobmanager.rpc.address": "h", "execution.target": "local"}, None),
        ({"jobmanager.rpc.address": "h", "execution.target": "remote"}, "h:6123"),
    ],
)
def test_the_configuration_selects_the_cluster_of_a_job(entries: dict[str, str], address: str | None) -> None:
    assert remote_address(Configuration.from_dict(entries)) == address


def test_remote_without_an_address_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"jobmanager\.rpc\.address"):
        remote_address(Configuration.from_dict({"execution.target": "remote"}))
