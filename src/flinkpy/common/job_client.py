"""JobClient: a handle on one submitted job. Source: pyflink.common.JobClient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.completable_future import CompletableFuture
    from flinkpy.common.ids import JobID

__all__ = ["JobClient"]


class JobClient:
    """Everything is asked of the cluster, which answers by futures.

    `j_job_client` does the asking: `flinkpy.client.job_client.RemoteJobClient`.
    """

    def __init__(self, j_job_client: Any) -> None:
        self._client = j_job_client

    def get_job_id(self) -> JobID:
        return self._client.get_job_id()

    def get_job_status(self) -> CompletableFuture:
        """Of the present JobStatus."""
        return self._client.get_job_status()

    def cancel(self) -> CompletableFuture:
        """Done when the cluster has taken the request; the job ends a little later."""
        return self._client.cancel()

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Of the path of a savepoint after which nothing is processed any more; then the job finishes."""
        return self._client.stop_with_savepoint(advance_to_end_of_event_time, savepoint_directory)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Of the path of a savepoint; the job goes on."""
        return self._client.trigger_savepoint(savepoint_directory)

    def trigger_checkpoint(self, full: bool = False) -> CompletableFuture:
        """Of the id of a checkpoint taken now. Beyond PyFlink."""
        return self._client.trigger_checkpoint(full)

    def get_checkpoint_statistics(self) -> CompletableFuture:
        """Of the CheckpointStatisticsResponse of checkpoint.proto. Beyond PyFlink."""
        return self._client.get_checkpoint_statistics()

    def get_accumulators(self) -> CompletableFuture:
        """Of the accumulators' values by name: as they are now, or final once the job has ended."""
        return self._client.get_accumulators()

    def get_job_execution_result(self) -> CompletableFuture:
        """Of the JobExecutionResult, once the job has finished; fails with why it did not."""
        return self._client.get_job_execution_result()
