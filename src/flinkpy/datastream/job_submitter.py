"""JobSubmitter: submits the jobs of a StreamExecutionEnvironment and notifies its job listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.job_client import JobListener
from flinkpy.configuration.core_options import EXECUTION_TARGET, LOCAL_THREADS
from flinkpy.configuration.options import read_option
from flinkpy.datastream.explained_programs import ExplainingExecutor, is_explaining

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2
    from flinkpy.client.cluster_client import ClusterClient
    from flinkpy.client.job_client import RemoteJobClient
    from flinkpy.common.job_client import JobClient
    from flinkpy.common.job_execution_result import JobExecutionResult


class JobSubmitter:
    """Submits job graphs as configured, and notifies the listeners of the outcome.

    Attributes:
        listeners: the job listeners of the environment.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.listeners: list[JobListener] = []

    def submit(self, job_graph: job_pb2.JobGraph, *, needs_client: bool = False) -> RemoteJobClient:
        """Submits a job, and returns its client without waiting for the end of the job.

        Args:
            job_graph: the job.
            needs_client: True if the job is useless without this process. The cluster cancels it when this process is
                gone.
        """
        from flinkpy.common.job_client import JobClient

        try:
            client = self._executor().execute(job_graph, self._configuration, needs_client=needs_client)
        except Exception as error:
            self._notify_submitted(None, error)
            raise
        self._notify_submitted(JobClient(client), None)
        return client

    def cluster_client(self) -> ClusterClient | None:
        """Returns a client of the cluster that jobs are submitted to; None if the embedded one has not been started.

        Raises: UnsupportedOperationError if jobs run in a Spark session.
        """
        if read_option(self._configuration, EXECUTION_TARGET) == "spark":
            raise UnsupportedOperationError(
                "There is no cluster of flinkpy: with 'execution.target' = 'spark' jobs run in a Spark session."
            )
        client: ClusterClient | None = self._cluster_executor().cluster_client(self._configuration)
        return client

    def submit_and_await(self, job_graph: job_pb2.JobGraph) -> JobExecutionResult:
        """Submits a job, and waits for its end unless it is detached.

        Raises: JobExecutionError without the frames of flinkpy, which would hide the user's call.
        """
        executor = self._executor()
        client = self.submit(job_graph, needs_client=executor.ends_with_its_client(self._configuration))
        try:
            result: JobExecutionResult = executor.result_of(client, self._configuration)
        except Exception as error:  # noqa: BLE001 - raised again
            self._notify_executed(None, error)
            raise error.with_traceback(None) from None
        except KeyboardInterrupt as interrupt:
            raise interrupt.with_traceback(None) from None
        self._notify_executed(result, None)
        return result

    def _executor(self) -> Any:
        """Returns what runs the jobs: a cluster, or the Spark session of this process, or nothing."""
        if is_explaining():
            return ExplainingExecutor()
        if read_option(self._configuration, EXECUTION_TARGET) == "spark":
            from flinkpy.spark.driver import executor as spark_executor

            return spark_executor
        return self._cluster_executor()

    def _cluster_executor(self) -> Any:
        if read_option(self._configuration, EXECUTION_TARGET) == LOCAL_THREADS:
            from flinkpy.minicluster import executor as local_executor

            return local_executor
        from flinkpy.client import executor

        return executor

    def _notify_submitted(self, job_client: JobClient | None, error: BaseException | None) -> None:
        for listener in tuple(self.listeners):
            listener.on_job_submitted(job_client, error)

    def _notify_executed(self, result: JobExecutionResult | None, error: BaseException | None) -> None:
        for listener in tuple(self.listeners):
            listener.on_job_executed(result, error)
