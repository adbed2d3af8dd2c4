"""JobClient, the client of one submitted job, and JobListener, the callbacks for the jobs of an environment.

Source: pyflink.common.JobClient, org.apache.flink.core.execution.JobListener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.completable_future import CompletableFuture
    from flinkpy.common.ids import JobID
    from flinkpy.common.job_execution_result import JobExecutionResult

__all__ = ["JobClient", "JobListener"]


class JobClient:
    """Sends requests about one job to the cluster; `execute_async` returns it. Thread: any.

    Example:
        client = env.execute_async("words")
        path = client.trigger_savepoint("/savepoints").result()
        client.cancel().result()

    Args:
        j_job_client: sends the requests, a `flinkpy.client.job_client.RemoteJobClient`.
    """

    def __init__(self, j_job_client: Any) -> None:
        self._client = j_job_client

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return self._client.get_job_id()

    def get_job_status(self) -> CompletableFuture:
        """Returns a future of the current JobStatus."""
        return self._client.get_job_status()

    def cancel(self) -> CompletableFuture:
        """Cancels the job. The future completes when the cluster accepts the request; the job ends soon after."""
        return self._client.cancel()

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Takes a savepoint, processes no record after it, and finishes the job.

        Args:
            advance_to_end_of_event_time: emit the maximum watermark first, so that all event-time timers fire.
            savepoint_directory: directory for the savepoint; by default `execution.checkpointing.savepoint-dir`.

        Returns:
            A future of the savepoint's path.
        """
        return self._client.stop_with_savepoint(advance_to_end_of_event_time, savepoint_directory)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Takes a savepoint; the job continues.

        Args:
            savepoint_directory: directory for the savepoint; by default `execution.checkpointing.savepoint-dir`.

        Returns:
            A future of the savepoint's path.
        """
        return self._client.trigger_savepoint(savepoint_directory)

    def trigger_checkpoint(self, full: bool = False) -> CompletableFuture:
        """Takes a checkpoint now and returns a future of its id. Beyond PyFlink.

        Args:
            full: write all state, even if the job takes incremental checkpoints.
        """
        return self._client.trigger_checkpoint(full)

    def get_checkpoint_statistics(self) -> CompletableFuture:
        """Returns a future of the CheckpointStatisticsResponse (checkpoint.proto). Beyond PyFlink."""
        return self._client.get_checkpoint_statistics()

    def get_accumulators(self) -> CompletableFuture:
        """Returns a future of the accumulators' values by name; they are final once the job has ended."""
        return self._client.get_accumulators()

    def get_job_execution_result(self) -> CompletableFuture:
        """Returns a future of the JobExecutionResult. It fails with the error of the job if the job does not finish."""
        return self._client.get_job_execution_result()


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
