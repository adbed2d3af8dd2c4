"""ClusterClient: what a program may ask a cluster's Dispatcher.

Source: org.apache.flink.client.program.ClusterClient.
Thread: any; gRPC channels are thread-safe.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flinkpy._proto import checkpoint_pb2, dispatcher_pb2, job_pb2, metrics_pb2
from flinkpy.client.leading_dispatcher import LeadingDispatcher
from flinkpy.common.errors import (
    DuplicateJobSubmissionError,
    FlinkError,
    NotLeaderError,
    RpcTimeoutError,
    RpcUnavailableError,
)
from flinkpy.common.states import JobState
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import SecurityContext

#: A JobGraph above this travels as a blob: a quarter of what one message may hold, and gRPC copies a message twice.
MAX_INLINE_GRAPH_BYTES = 4 * 1024 * 1024
#: Size of one message of an upload: large enough that its overhead is lost in it, small enough to flow.
BLOB_CHUNK_BYTES = 256 * 1024
#: How long one question for a job's result is left open; a silent connection is then asked anew.
RESULT_POLL_MS = 30_000
#: How long one question for a checkpoint or savepoint is left open; then it is repeated, with the same trigger id.
OPERATION_POLL_S = 30.0
#: The same where another Dispatcher may lead by then: one that hangs must not be waited for.
FOLLOWING_POLL_S = 5.0
#: How long a call that does not wait is left open there.
FOLLOWING_TIMEOUT_S = 10.0
#: Pause between two attempts to reach a Dispatcher that is being restarted.
RETRY_PAUSE_S = 0.2


class ClusterClient:
    """A connection to the Dispatcher at `address` (host:port). A context manager.

    Calls that wait for something - a job's end, a savepoint - outlive a restart of the Dispatcher, if it answers again
    within `timeout_s`. All others fail at once where nobody answers.

    Where several Dispatchers may lead, all calls go to the one that does, and outlive a change of it. That is so where
    `address` is several (`host:port,host:port`), or `find_leader` looks the leader up: it blocks and returns an
    address, or raises a FlinkError.
    """

    def __init__(
        self,
        address: str,
        timeout_s: float = 60.0,
        *,
        security: SecurityContext,
        find_leader: Callable[[], str] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        addresses = [part.strip() for part in address.split(",") if part.strip()]
        self._follows = len(addresses) > 1 or find_leader is not None
        self._on_close = on_close
        self._security = security
        self._timeout_s = timeout_s
        self._closed = threading.Event()
        self._dispatcher = LeadingDispatcher(addresses, security=security, find_leader=find_leader)

    @property
    def address(self) -> str:
        """Of the Dispatcher that is thought to lead."""
        return self._dispatcher.address

    def submit_job(self, job_graph: job_pb2.JobGraph) -> str:
        """Hand the job over; returns its id. Raises: JobSubmissionError, VersionMismatchError, RpcUnavailableError.

        Where an answer was lost with a leader, the job is handed over again, and is known then if it was accepted.
        """
        if job_graph.ByteSize() > MAX_INLINE_GRAPH_BYTES:
            request = dispatcher_pb2.SubmitJobRequest(job_graph_blob_key=self.put_blob(job_graph.SerializeToString()))
        else:
            request = dispatcher_pb2.SubmitJobRequest(job_graph=job_graph)
        patience = _Patience(self)
        is_repeated = False
        while True:
            try:
                return str(self._dispatcher.submit_job(request, timeout_s=self._timeout_s).job_id)
            except DuplicateJobSubmissionError:
                if is_repeated:
                    return job_graph.job_id
                raise
            except (NotLeaderError, RpcUnavailableError, RpcTimeoutError) as error:
                if not self._may_try_again(error):
                    raise
                is_repeated = True
                patience.wait_or_raise(error)

    def put_blob(self, content: bytes) -> str:
        """Upload `content`; returns its key, which is the same for the same content."""
        view = memoryview(content)

        def chunks() -> Iterator[dispatcher_pb2.BlobChunk]:
            for start in range(0, len(view), BLOB_CHUNK_BYTES):
                yield dispatcher_pb2.BlobChunk(data=bytes(view[start : start + BLOB_CHUNK_BYTES]))

        patience = _Patience(self)
        while True:
            address = self.address
            try:
                with SyncGateway("BlobServer", address, security=self._security) as blob_server:
                    return str(blob_server.put_blob(chunks(), timeout_s=self._timeout_s).sha256)
            except (RpcUnavailableError, RpcTimeoutError) as error:
                if not self._may_try_again(error):
                    raise
                self._dispatcher.turn_from(address, error)
                patience.wait_or_raise(error)

    def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        """At the leader; where that changes, at the next one. What is asked may be asked twice."""
        patience = _Patience(self)
        while True:
            try:
                return getattr(self._dispatcher, method)(
                    request, timeout_s=min(timeout_s, FOLLOWING_TIMEOUT_S) if self._follows else timeout_s
                )
            except (NotLeaderError, RpcUnavailableError, RpcTimeoutError) as error:
                if not self._may_try_again(error):
                    raise
                patience.wait_or_raise(error)

    def _may_try_again(self, error: FlinkError) -> bool:
        """One that does not lead says who does, or is about to lead itself."""
        return self._follows or isinstance(error, NotLeaderError)

    def list_jobs(self) -> list[dispatcher_pb2.JobOverview]:
        response = self._call("list_jobs", dispatcher_pb2.ListJobsRequest(), timeout_s=self._timeout_s)
        return list(response.jobs)

    def request_job(self, job_id: str) -> job_pb2.JobDetails:
        """Vertices, metrics and failures of a job, running or finished. Raises: JobNotFoundError."""
        details: job_pb2.JobDetails = self._call("request_job", _id(job_id), timeout_s=self._timeout_s)
        return details

    def request_job_status(self, job_id: str) -> JobState:
        response = self._call("request_job_status", _id(job_id), timeout_s=self._timeout_s)
        return JobState(response.status)

    def watch_job_status(self, job_id: str) -> Iterator[JobState]:
        """The present status and then every change, up to a terminal one."""
        patience = _Patience(self)
        last: JobState | None = None
        while last is None or not last.is_terminal:
            try:
                for response in self._watch(job_id):
                    patience.renew()
                    status = JobState(response.status)
                    if status is not last:
                        last = status
                        yield status
                    if status is JobState.SUSPENDED:
                        return
            except RpcTimeoutError:
                continue  # `_watch` asks anew now and then
            except (RpcUnavailableError, NotLeaderError) as error:
                patience.wait_or_raise(error)

    def _watch(self, job_id: str) -> Iterator[Any]:
        if self._follows:  # one that hangs says nothing for ever
            return self._dispatcher.watch_job_status(_id(job_id), timeout_s=FOLLOWING_POLL_S)  # type: ignore[no-any-return]
        return self._dispatcher.watch_job_status(_id(job_id))  # type: ignore[no-any-return]

    def wait_for_result(self, job_id: str) -> job_pb2.JobResult:
        """The result of the job once it has ended, however long that takes."""
        poll_ms = int(FOLLOWING_POLL_S * 1000) if self._follows else RESULT_POLL_MS
        answer_s = FOLLOWING_TIMEOUT_S if self._follows else self._timeout_s
        request = dispatcher_pb2.RequestJobResultRequest(job_id=job_id, timeout_ms=poll_ms)
        patience = _Patience(self)
        while True:
            try:
                response = self._dispatcher.request_job_result(request, timeout_s=poll_ms / 1000 + answer_s)
            except RpcTimeoutError as error:
                unavailable = RpcUnavailableError(
                    f"the cluster at {self.address} does not answer any more: {error}", details=error.details
                )
                if not self._follows:
                    raise unavailable from error
                patience.wait_or_raise(unavailable)
                continue
            except (RpcUnavailableError, NotLeaderError) as error:
                patience.wait_or_raise(error)
                continue
            patience.renew()
            if response.finished:
                result: job_pb2.JobResult = response.result
                return result

    def cancel_job(self, job_id: str, timeout_s: float | None = None) -> None:
        """Ask for the job to be canceled; returns before it is. Raises: JobNotFoundError.

        Args:
            timeout_s: how long one Dispatcher may take to answer; None: as for all other calls.
        """
        self._call("cancel_job", _id(job_id), timeout_s=self._timeout_s if timeout_s is None else timeout_s)

    def report_heartbeat(self, job_id: str, timeout_ms: int) -> None:
        """Tell that the client of the job lives, and may be silent for `timeout_ms` from now on.

        Raises: JobNotFoundError (also where the job has ended), RpcUnavailableError, RpcTimeoutError.
        """
        request = dispatcher_pb2.JobClientHeartbeat(job_id=job_id, timeout_ms=timeout_ms)
        self._call("report_job_client_heartbeat", request, timeout_s=self._timeout_s)

    def trigger_checkpoint(
        self, job_id: str, *, full: bool = False, trigger_id: str | None = None
    ) -> checkpoint_pb2.CheckpointResult:
        """Take a checkpoint now; returns when it is complete.

        Args:
            full: it shares no file with earlier ones.
            trigger_id: the same id is the same checkpoint, however often it is asked for.

        Raises: JobNotFoundError, CheckpointError, RpcUnavailableError.
        """
        request = checkpoint_pb2.TriggerCheckpointRequest(job_id=job_id, trigger_id=_trigger(trigger_id), full=full)
        return self._operation("trigger_checkpoint", request)

    def trigger_savepoint(
        self,
        job_id: str,
        target_directory: str | None = None,
        *,
        native: bool = False,
        trigger_id: str | None = None,
    ) -> str:
        """Take a savepoint; returns its path when it is complete.

        Args:
            target_directory: None: execution.checkpointing.savepoint-dir.
            native: in the state backend's own format.

        Raises: as `trigger_checkpoint`.
        """
        request = checkpoint_pb2.TriggerSavepointRequest(
            job_id=job_id,
            trigger_id=_trigger(trigger_id),
            target_directory=target_directory or "",
            format=_format(native),
        )
        return self._operation("trigger_savepoint", request).path

    def stop_with_savepoint(
        self,
        job_id: str,
        target_directory: str | None = None,
        *,
        drain: bool = False,
        native: bool = False,
        trigger_id: str | None = None,
    ) -> str:
        """Take a savepoint after which nothing more is processed, and let the job finish; returns the path.

        Args:
            drain: event time ends before: windows and timers fire. Not for a job that is to go on from there.

        Raises: as `trigger_checkpoint`.
        """
        request = checkpoint_pb2.StopWithSavepointRequest(
            job_id=job_id,
            trigger_id=_trigger(trigger_id),
            target_directory=target_directory or "",
            format=_format(native),
            drain=drain,
        )
        return self._operation("stop_with_savepoint", request).path

    def request_checkpoint_statistics(self, job_id: str) -> checkpoint_pb2.CheckpointStatisticsResponse:
        """Raises: JobNotFoundError (also where the job has ended)."""
        request = checkpoint_pb2.CheckpointStatisticsRequest(job_id=job_id)
        statistics: checkpoint_pb2.CheckpointStatisticsResponse = self._call(
            "request_checkpoint_statistics", request, timeout_s=self._timeout_s
        )
        return statistics

    def request_accumulators(self, job_id: str) -> list[job_pb2.AccumulatorResult]:
        """The accumulators of a job over all its subtasks: as they are, or final. Raises: JobNotFoundError."""
        response = self._call("request_accumulators", _id(job_id), timeout_s=self._timeout_s)
        return list(response.accumulators)

    def request_metrics(self, job_id: str) -> list[metrics_pb2.MetricGroupDump]:
        """What the metrics of a running job's tasks and operators say now. Raises: JobNotFoundError (also where the
        job has ended)."""
        request = metrics_pb2.MetricsRequest(job_id=job_id)
        return list(self._call("request_metrics", request, timeout_s=self._timeout_s).groups)

    def request_job_logs(self, job_id: str, positions: Mapping[str, int]) -> dispatcher_pb2.JobLogs:
        """The next piece of what each TaskExecutor has logged for a job, from `positions` (by resource id) on.

        Raises: JobNotFoundError, RpcUnavailableError.
        """
        request = dispatcher_pb2.JobLogsRequest(job_id=job_id, positions=positions)
        logs: dispatcher_pb2.JobLogs = self._call("request_job_logs", request, timeout_s=self._timeout_s)
        return logs

    def dispose_savepoint(self, path: str) -> None:
        """Delete the files of a savepoint, as the cluster sees them. Raises: CheckpointStorageError."""
        self._call("dispose_savepoint", checkpoint_pb2.DisposeSavepointRequest(path=path), timeout_s=self._timeout_s)

    def _operation(self, method: str, request: Any) -> checkpoint_pb2.CheckpointResult:
        patience = _Patience(self)
        while True:
            try:
                result: checkpoint_pb2.CheckpointResult = getattr(self._dispatcher, method)(
                    request, timeout_s=FOLLOWING_POLL_S if self._follows else OPERATION_POLL_S
                )
                return result
            except RpcTimeoutError:
                patience.renew()  # it is still under way
            except (RpcUnavailableError, NotLeaderError) as error:
                patience.wait_or_raise(error)

    def send_coordination_request(self, job_id: str, operator_id: str, payload: bytes, timeout_s: float) -> bytes:
        """A question to the coordinator of one operator of a running job; the answer is the coordinator's."""
        request = dispatcher_pb2.CoordinationRequest(job_id=job_id, operator_id=operator_id, payload=payload)
        patience = _Patience(self)
        while True:
            try:
                return bytes(self._dispatcher.send_coordination_request(request, timeout_s=timeout_s).payload)
            except NotLeaderError as error:
                patience.wait_or_raise(error)
            except RpcUnavailableError as error:
                if not self._follows:
                    raise
                patience.wait_or_raise(error)

    def request_cluster_overview(self) -> dispatcher_pb2.ClusterOverview:
        overview: dispatcher_pb2.ClusterOverview = self._call(
            "request_cluster_overview", dispatcher_pb2.ClusterOverviewRequest(), timeout_s=self._timeout_s
        )
        return overview

    def close(self) -> None:
        self._closed.set()
        self._dispatcher.close()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Patience:
    """How long a waiting call puts up with a Dispatcher that does not answer."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._since_s: float | None = None

    def renew(self) -> None:
        """It has answered."""
        self._since_s = None

    def wait_or_raise(self, error: FlinkError) -> None:
        """Pause before the next attempt. Raises the error where the last answer is too long ago."""
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self._client._timeout_s or self._client._closed.wait(RETRY_PAUSE_S):
            raise error


def _trigger(trigger_id: str | None) -> str:
    return trigger_id or secrets.token_hex(16)


def _format(native: bool) -> checkpoint_pb2.SavepointFormatType:
    return checkpoint_pb2.NATIVE if native else checkpoint_pb2.CANONICAL


def _id(job_id: str) -> dispatcher_pb2.JobIdMessage:
    return dispatcher_pb2.JobIdMessage(job_id=job_id)
