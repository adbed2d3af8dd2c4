"""Turns the result of a job into what a program gets: a JobExecutionResult or an error.

It knows nothing of RPC, so a program that runs where no cluster is can use it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.error_text import USER_ERRORS, describe
from flinkpy.common.errors import FlinkError, JobCancelledError, JobExecutionError, chain_of_causes
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.rpc.error_codec import error_from_proto


def execution_result(result: job_pb2.JobResult) -> Any:
    """Returns PyFlink's JobExecutionResult of a finished job.

    Raises:
        JobExecutionError: the job failed. The message begins with the traceback of the user's code.
        JobCancelledError: the job was canceled.
    """
    state = JobState(result.status)
    if state is JobState.FINISHED:
        from flinkpy.common.job_execution_result import JobExecutionResult

        return JobExecutionResult(JobID(result.job_id), result.net_runtime_ms, accumulators_of(result.accumulators))
    if state is JobState.CANCELED:
        raise JobCancelledError(f"job `{result.name}` ({result.job_id}) was canceled", details={"job": result.job_id})
    raise job_execution_error(result)


def job_execution_error(result: job_pb2.JobResult) -> JobExecutionError:
    """Returns the error of a failed job. Its message has the user's traceback, the causes and a headline."""
    cause = error_from_proto(result.error)
    headline = f"job `{result.name}` ({result.job_id}) ended in {JobState(result.status).name}: {cause}"
    traceback = user_traceback(cause)
    causes = list(chain_of_causes(cause))[1:]
    described = [f"{type(link).__name__}: {link}" for link in causes if str(link) not in headline]
    parts = [traceback.rstrip(), *reversed(described), headline]
    message = "\n\n" + "\n\n".join(filter(None, parts)) if traceback or described else headline
    error = JobExecutionError(message, details={"job": result.job_id, **cause.details}, remote_traceback=traceback)
    # Not `__cause__`: Python would print it again above the traceback of the user's code.
    error.cause = cause
    return error


def user_traceback(cause: FlinkError) -> str:
    """Returns the traceback of the user's code in an error of a job, or an empty text."""
    tracebacks = (link.remote_traceback for link in chain_of_causes(cause) if isinstance(link, FlinkError))
    return next(filter(None, tracebacks), "")


def accumulators_of(results: Iterable[job_pb2.AccumulatorResult]) -> dict[str, Any]:
    """Returns the values of accumulators by name, with an AccumulatorFailure for each that has no value.

    The values are pickled objects that the user's own job created.
    """
    return {result.name: _loaded(result) for result in results}


def _loaded(result: job_pb2.AccumulatorResult) -> Any:
    try:
        return pickle.loads(result.value_pickle)
    except USER_ERRORS as error:  # e.g. this program does not have the class
        return AccumulatorFailure(result.name, f"cannot be loaded here: {describe(error)}")
