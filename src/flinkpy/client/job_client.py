"""RemoteJobClient: the handle that `execute_async` returns. Also the heartbeat of the client, and the result of a job.

Source: org.apache.flink.client.deployment.ClusterClientJobClientAdapter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flinkpy._proto import job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.job_results import accumulators_of, execution_result
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import (
    ConfigurationError,
    FlinkError,
    JobNotFoundError,
    VersionMismatchError,
)
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.configuration import client_options
from flinkpy.configuration.options import read_option

if TYPE_CHECKING:
    from flinkpy.client.job_watch import JobWatch
    from flinkpy.common.completable_future import CompletableFuture

logger = logging.getLogger(__name__)


class RemoteJobClient:
    """PyFlink's JobClient for a job of a cluster.

    Each call to the cluster runs on its own thread and returns a future at once.

    Thread: any.
    """

    def __init__(
        self,
        client: ClusterClient,
        job_id: str,
        job_name: str,
        *,
        watch: JobWatch | None = None,
        heartbeat: ClientHeartbeat | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._job_id = job_id
        self.job_name = job_name
        self._watch = watch
        self._heartbeat = heartbeat
        self._on_end = on_end
        self._lock = threading.Lock()
        self._result: Future[job_pb2.JobResult] | None = None
        if watch is not None or heartbeat is not None or on_end is not None:
            self.job_result()  # starts the wait: others learn of the end even if the program does not wait

    @property
    def cluster_client(self) -> ClusterClient:
        return self._client

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return JobID(self._job_id)

    def get_job_status(self) -> CompletableFuture:
        """Returns a future of the job's current JobStatus."""
        from flinkpy.common.job_status import JobStatus

        def status() -> JobStatus:
            with self._lock:
                end = self._result
            # A job that has ended may have been the last one of its cluster.
            if end is not None and end.done() and end.exception() is None:
                return JobStatus[JobState(end.result().status).name]
            return JobStatus[self._client.request_job_status(self._job_id).name]

        return self._async(status, "status")

    def cancel(self) -> CompletableFuture:
        """Cancels the job. The future is done when the cluster has accepted the request."""
        return self._async(lambda: self._client.cancel_job(self._job_id), "cancel")

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Stops the job with a savepoint. The job processes no record after the savepoint.

        Args:
            advance_to_end_of_event_time: first advance event time to its end, so that all windows and timers fire. Do
                not use it if the job will be resumed from the savepoint.
            savepoint_directory: directory or URI; None means execution.checkpointing.savepoint-dir.

        Returns:
            A future of the savepoint's path.

        Example:
            >>> path = job_client.stop_with_savepoint(False, "s3://bucket/savepoints").result()
        """
        return self._async(
            lambda: self._client.stop_with_savepoint(
                self._job_id, savepoint_directory, drain=advance_to_end_of_event_time
            ),
            "stop",
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Takes a savepoint. The job continues.

        Args:
            savepoint_directory: directory or URI; None means execution.checkpointing.savepoint-dir.

        Returns:
            A future of the savepoint's path.
        """
        return self._async(lambda: self._client.trigger_savepoint(self._job_id, savepoint_directory), "savepoint")

    def trigger_checkpoint(self, full: bool = False) -> CompletableFuture:
        """Takes a checkpoint now. Beyond PyFlink.

        Args:
            full: do not share files with earlier checkpoints.

        Returns:
            A future of the checkpoint's id, done when the checkpoint is complete.
        """
        return self._async(lambda: self._client.trigger_checkpoint(self._job_id, full=full).checkpoint_id, "checkpoint")

    def get_checkpoint_statistics(self) -> CompletableFuture:
        """Returns a future of the job's CheckpointStatisticsResponse (checkpoint.proto)."""
        return self._async(lambda: self._client.request_checkpoint_statistics(self._job_id), "checkpoint statistics")

    def get_accumulators(self) -> CompletableFuture:
        """Returns a future of the current values of the accumulators by name. Failed accumulators are left out."""
        return self._async(
            lambda: {
                name: value
                for name, value in accumulators_of(self._client.request_accumulators(self._job_id)).items()
                if not isinstance(value, AccumulatorFailure)
            },
            "accumulators",
        )

    def get_job_execution_result(self) -> CompletableFuture:
        """Returns a future of the JobExecutionResult, done when the job has ended.

        The future raises JobExecutionError if the job failed and JobCancelledError if it was canceled.
        """
        return self._async(lambda: execution_result(self.job_result().result()), "result")

    def job_result(self) -> Future[job_pb2.JobResult]:
        """Returns the future of the job's result, for any kind of end. All callers share one request."""
        with self._lock:
            if self._result is None:
                self._result = _run_on_thread(self._await_end, f"await {self._job_id}")
            return self._result

    def tell(self, text: str) -> None:
        """Shows a message about the job where its progress is shown, or nowhere if it is not watched."""
        if self._watch is not None:
            self._watch.tell(text)

    @contextmanager
    def reporting_restarts(self) -> Iterator[None]:
        """Logs restarts of the job while the context lasts, unless the job is watched anyway."""
        if self._watch is not None:
            yield
            return
        from flinkpy.client.job_watch import JobWatch, RestartReporter

        watch = JobWatch(self._client, self._job_id, RestartReporter(self._job_id, self.job_name))
        try:
            yield
        finally:
            watch.stop()

    def _await_end(self) -> job_pb2.JobResult:
        status = JobState.SUSPENDED  # reported if the connection to the cluster is lost
        try:
            result = self._client.wait_for_result(self._job_id)
            status = JobState(result.status)
            return result
        finally:
            if self._heartbeat is not None:
                self._heartbeat.stop()
            if self._watch is not None:
                self._watch.end(status)
            if self._on_end is not None:
                self._on_end()

    def _async(self, call: Callable[[], Any], what: str) -> CompletableFuture:
        from flinkpy.common.completable_future import CompletableFuture

        return CompletableFuture(_run_on_thread(call, f"{what} {self._job_id}"))


def _run_on_thread(call: Callable[[], Any], name: str) -> Future[Any]:
    future: Future[Any] = Future()

    def run() -> None:
        try:
            result, failure = call(), None
        except BaseException as error:  # noqa: BLE001 - the future raises it
            result, failure = None, error
        try:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)
        except InvalidStateError:
            return  # the caller has canceled the future

    # A daemon thread, because a program may end before its job does.
    threading.Thread(target=run, name=f"flinkpy-client {name}", daemon=True).start()
    return future


def heartbeat_settings(configuration: Configuration) -> tuple[int, int]:
    """Returns interval and timeout in ms. Raises: ConfigurationError if the interval is not the shorter one."""
    interval_ms = read_option(configuration, client_options.CLIENT_HEARTBEAT_INTERVAL)
    timeout_ms = read_option(configuration, client_options.CLIENT_HEARTBEAT_TIMEOUT)
    if interval_ms >= timeout_ms:
        raise ConfigurationError(
            f"option `{client_options.CLIENT_HEARTBEAT_INTERVAL.key}` ({interval_ms} ms) must be shorter than "
            f"`{client_options.CLIENT_HEARTBEAT_TIMEOUT.key}` ({timeout_ms} ms)"
        )
    return interval_ms, timeout_ms


class ClientHeartbeat:
    """Sends heartbeats for the client of a job until `stop` or the end of the process.

    Source: org.apache.flink.client.ClientUtils#reportHeartbeatPeriodically.
    Thread: its own daemon thread, so that the program cannot delay the heartbeats.
    """

    def __init__(self, client: ClusterClient, job_id: str, interval_ms: int, timeout_ms: int) -> None:
        self._client = client
        self._job_id = job_id
        self._interval_s = interval_ms / 1000
        self._timeout_ms = timeout_ms
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name=f"flinkpy-heartbeat {job_id}", daemon=True).start()

    def stop(self) -> None:
        """Stops the heartbeats after the end of the job. Returns at once; one more heartbeat may still be sent."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self._client.report_heartbeat(self._job_id, self._timeout_ms)
            except JobNotFoundError:
                return
            except VersionMismatchError as error:
                logger.debug("The cluster does not support client heartbeats: %s", error)
                return
            except FlinkError as error:  # the next one may arrive: the timeout is longer than the interval
                logger.debug("A client heartbeat for job %s failed: %s", self._job_id, error)
