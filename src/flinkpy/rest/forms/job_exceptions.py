"""Makes the exception history of a job. Source: org.apache.flink.runtime.rest.handler.job.JobExceptionsHandler."""

from __future__ import annotations

from msgspec import UNSET

from flinkpy._proto import common_pb2, job_pb2
from flinkpy.rest.forms.job_details import UNASSIGNED
from flinkpy.rest.messages.job_details import (
    ExceptionInfo,
    JobExceptionHistory,
    JobExceptionsInfoWithHistory,
    RootExceptionInfo,
)

#: The number of entries if the caller does not say. Source: JobExceptionsHandler.MAX_NUMBER_EXCEPTION_TO_REPORT.
DEFAULT_MAX_EXCEPTIONS = 20
#: The longest chain of causes that is shown.
MAX_CAUSES = 16


def job_exceptions_info(
    details: job_pb2.JobDetails, max_exceptions: int = DEFAULT_MAX_EXCEPTIONS, labels: tuple[str, ...] = ()
) -> JobExceptionsInfoWithHistory:
    """Returns the last failures.

    Args:
        labels: `key:value` pairs; only failures with all these labels are returned.
    """
    wanted = [label.partition(":")[::2] for label in labels]
    failures = [one for one in details.exception_history if all(one.labels.get(key) == value for key, value in wanted)]
    return JobExceptionsInfoWithHistory(
        exception_history=JobExceptionHistory(
            entries=[_root(failure) for failure in failures[:max_exceptions]],
            truncated=details.is_exception_history_truncated or len(failures) > max_exceptions,
        )
    )


def _root(failure: job_pb2.ExceptionHistoryEntry) -> RootExceptionInfo:
    plain = _exception(failure)
    return RootExceptionInfo(
        exception_name=plain.exception_name,
        stacktrace=plain.stacktrace,
        timestamp=plain.timestamp,
        failure_labels=plain.failure_labels,
        task_name=plain.task_name,
        endpoint=plain.endpoint,
        task_manager_id=plain.task_manager_id,
        concurrent_exceptions=[_exception(other) for other in failure.concurrent],
    )


def _exception(failure: job_pb2.ExceptionHistoryEntry) -> ExceptionInfo:
    is_of_task = bool(failure.task_name)
    return ExceptionInfo(
        exception_name=failure.error.type,
        stacktrace=stack_trace(failure.error),
        timestamp=failure.timestamp_ms,
        failure_labels=dict(failure.labels),
        task_name=failure.task_name if is_of_task else UNSET,
        endpoint=(failure.endpoint or UNASSIGNED) if is_of_task else UNSET,
        task_manager_id=(failure.resource_id or UNASSIGNED) if is_of_task else UNSET,
    )


def stack_trace(error: common_pb2.ErrorInfo) -> str:
    """Returns the error with its traceback, and then its causes, as Java prints exceptions."""
    parts: list[str] = []
    link: common_pb2.ErrorInfo | None = error
    while link is not None and len(parts) < MAX_CAUSES:
        traceback = link.traceback.strip()
        parts.append(f"{link.type}: {link.message}" + (f"\n{traceback}" if traceback else ""))
        link = link.cause if link.HasField("cause") else None
    return "\nCaused by: ".join(parts) + "\n"
