"""JobListener: callbacks for the jobs of an environment. Source: org.apache.flink.core.execution.JobListener."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkpy.common.job_client import JobClient
    from flinkpy.common.job_execution_result import JobExecutionResult

__all__ = ["JobListener"]


class JobListener:
    """Base class of listeners for `StreamExecutionEnvironment.register_job_listener`. Beyond PyFlink.

    Thread: the thread that calls `execute` or `execute_async`. An exception of a listener propagates from that call.
    """

    def on_job_submitted(self, job_client: JobClient | None, error: BaseException | None) -> None:
        """Called after the submission of a job.

        Args:
            job_client: client of the job; None if the submission failed.
            error: the error if the submission failed, otherwise None.
        """
        return

    def on_job_executed(self, job_execution_result: JobExecutionResult | None, error: BaseException | None) -> None:
        """Called after the end of a job that `execute` waited for; never for a job of `execute_async`.

        Args:
            job_execution_result: result of the job; None if the job failed.
            error: the error if the job failed, otherwise None.
        """
        return
