"""Handles on submitted jobs: what `execute_async` returns, and how a job's end becomes a result or an error.

Source: org.apache.flink.client.deployment.ClusterClientJobClientAdapter.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flinkpy._proto import job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.error_text import USER_ERRORS, describe
from flinkpy.common.errors import (
    FlinkError,
    JobCancelledError,
    JobExecutionError,
)
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.rpc.error_codec import error_from_proto

if TYPE_CHECKING:
    from flinkpy.client.client_heartbeat import ClientHeartbeat
    from flinkpy.client.job_watch import JobWatch
    from flinkpy.common.completable_future import CompletableFuture


class RemoteJobClient:
    """PyFlink's JobClient for a job of a cluster. Thread: any.

    Every call that needs the cluster runs on a thread of its own, so that its future may be waited for or left alone.
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
            self.job_result()  # somebody else is to be told of the end, whether the program waits for it or not

    @property
    def cluster_client(self) -> ClusterClient:
        return self._client

    def get_job_id(self) -> JobID:
        return JobID(self._job_id)

    def get_job_status(self) -> CompletableFuture:
        """The job's status now, a JobStatus."""
        from flinkpy.common.job_status import JobStatus

        return self._async(lambda: JobStatus[self._client.request_job_status(self._job_id).name], "status")

    def cancel(self) -> CompletableFuture:
        """Cancel the job; the future is done when the cluster has taken the request."""
        return self._async(lambda: self._client.cancel_job(self._job_id), "cancel")

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture:
        """Of the savepoint's path; the job then finishes.

        Args:
            advance_to_end_of_event_time: windows and timers fire before: for a job that is not to go on from there.
            savepoint_directory: None: execution.checkpointing.savepoint-dir.
        """
        return self._async(
            lambda: self._client.stop_with_savepoint(
                self._job_id, savepoint_directory, drain=advance_to_end_of_event_time
            ),
            "stop",
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture:
        """Of the savepoint's path."""
        return self._async(lambda: self._client.trigger_savepoint(self._job_id, savepoint_directory), "savepoint")

    def trigger_checkpoint(self, full: bool = False) -> CompletableFuture:
        """Of the checkpoint's id, when it is complete."""
        return self._async(lambda: self._client.trigger_checkpoint(self._job_id, full=full).checkpoint_id, "checkpoint")

    def get_checkpoint_statistics(self) -> CompletableFuture:
        """Of the CheckpointStatisticsResponse of checkpoint.proto."""
        return self._async(lambda: self._client.request_checkpoint_statistics(self._job_id), "checkpoint statistics")

    def get_accumulators(self) -> CompletableFuture:
        """The values of the job's accumulators by name, as of now; those that failed are left out."""
        return self._async(
            lambda: {
                name: value
                for name, value in accumulators_of(self._client.request_accumulators(self._job_id)).items()
                if not isinstance(value, AccumulatorFailure)
            },
            "accumulators",
        )

    def get_job_execution_result(self) -> CompletableFuture:
        """The JobExecutionResult once the job has ended; fails with what `execution_result` raises."""
        return self._async(lambda: execution_result(self.job_result().result()), "result")

    def job_result(self) -> Future[job_pb2.JobResult]:
        """How the job ended, whatever the end; asked for once, however many wait for it."""
        with self._lock:
            if self._result is None:
                self._result = _run_on_thread(self._await_end, f"await {self._job_id}")
            return self._result

    @contextmanager
    def reporting_restarts(self) -> Iterator[None]:
        """While somebody waits, restarts are logged, unless the job is watched anyway."""
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
        status = JobState.SUSPENDED  # what is known where the cluster is lost
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
        except BaseException as error:  # noqa: BLE001 - raised where the future is asked for
            result, failure = None, error
        try:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)
        except InvalidStateError:
            return  # whoever asked has given up waiting

    # A daemon: a program that does not wait for its job may end before the job does.
    threading.Thread(target=run, name=f"flinkpy-client {name}", daemon=True).start()
    return future


def execution_result(result: job_pb2.JobResult) -> Any:
    """PyFlink's JobExecutionResult of a finished job.

    Raises:
        JobExecutionError: the job failed; the message begins with the user's own traceback.
        JobCancelledError: it was canceled.
    """
    state = JobState(result.status)
    if state is JobState.FINISHED:
        from flinkpy.common.job_execution_result import JobExecutionResult

        return JobExecutionResult(JobID(result.job_id), result.net_runtime_ms, accumulators_of(result.accumulators))
    if state is JobState.CANCELED:
        raise JobCancelledError(f"job `{result.name}` ({result.job_id}) was canceled", details={"job": result.job_id})
    raise job_execution_error(result)


def job_execution_error(result: job_pb2.JobResult) -> JobExecutionError:
    """The error of a job that failed: the user's own traceback first, then what flinkpy knows of the failure."""
    cause = error_from_proto(result.error)
    headline = f"job `{result.name}` ({result.job_id}) ended in {JobState(result.status).name}: {cause}"
    traceback = user_traceback(cause)
    link = cause.__cause__
    behind = []
    while link is not None:
        if str(link) not in headline:
            behind.append(f"{type(link).__name__}: {link}")
        link = link.__cause__
    told = [traceback.rstrip(), *reversed(behind), headline]
    message = "\n\n" + "\n\n".join(filter(None, told)) if traceback or behind else headline
    error = JobExecutionError(message, details={"job": result.job_id, **cause.details}, remote_traceback=traceback)
    # Not its `__cause__`: the message tells it, and Python would show it once more above the user's traceback.
    error.cause = cause
    return error


def user_traceback(cause: FlinkError) -> str:
    """The traceback of the user's own code in an error of a job, or an empty text."""
    link: BaseException | None = cause
    while link is not None:
        if isinstance(link, FlinkError) and link.remote_traceback:
            return link.remote_traceback
        link = link.__cause__
    return ""


def accumulators_of(results: Iterable[job_pb2.AccumulatorResult]) -> dict[str, Any]:
    """Their values by name, an AccumulatorFailure where there is none: made by the user's own functions, in the user's
    own job."""
    return {result.name: _loaded(result) for result in results}


def _loaded(result: job_pb2.AccumulatorResult) -> Any:
    try:
        return pickle.loads(result.value_pickle)
    except USER_ERRORS as error:  # a class that this program does not have
        return AccumulatorFailure(result.name, f"cannot be loaded here: {describe(error)}")
