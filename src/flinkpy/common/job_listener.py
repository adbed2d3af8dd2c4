"""JobListener: told of the jobs that an environment executes. Source: org.apache.flink.core.execution.JobListener."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkpy.common.job_client import JobClient
    from flinkpy.common.job_execution_result import JobExecutionResult

__all__ = ["JobListener"]


class JobListener:
    """Derive from it and give it to `StreamExecutionEnvironment.register_job_listener`. Beyond PyFlink.

    Thread: the one that calls `execute` or `execute_async`. An exception that a method raises leaves that call.
    """

    def on_job_submitted(self, job_client: JobClient | None, error: BaseException | None) -> None:
        """A job has been submitted; or it could not be, which `error` says, and there is no client."""
        return

    def on_job_executed(self, job_execution_result: JobExecutionResult | None, error: BaseException | None) -> None:
        """The job that `execute` waited for has ended; or it failed, which `error` says, and there is no result.

        Not called for `execute_async`: nobody waits for such a job.
        """
        return
