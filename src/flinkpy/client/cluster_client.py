"""ClusterClient: the calls of a program to the Dispatcher of a cluster.

Source: org.apache.flink.client.program.ClusterClient.
Thread: any; gRPC channels are thread-safe.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2, metrics_pb2, thread_samples_pb2
from flinkpy.common.errors import (
    DuplicateJobSubmissionError,
    FlinkError,
    NotLeaderError,
    RpcTimeoutError,
    RpcUnavailableError,
)
from flinkpy.common.states import JobState
from flinkpy.configuration import client_options, jobmanager_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.rpc.services import service_methods
from flinkpy.rpc.sync_client import SyncGateway
from flinkpy.security import SecurityContext
from flinkpy.traces.trace_context import SpanContext, using_context

logger = logging.getLogger(__name__)

#: Names the span that the submission of a job belongs to, by the convention of OpenTelemetry for processes.
TRACEPARENT_VARIABLE = "TRACEPARENT"

#: A larger JobGraph is sent as a blob. This is a quarter of the largest message; gRPC copies a message twice.
MAX_INLINE_GRAPH_BYTES = 4 * 1024 * 1024
#: Size of one message of an upload: large enough to hide the overhead per message, small enough for flow control.
BLOB_CHUNK_BYTES = 256 * 1024
#: Time limit of one request for a job's result. The client then sends it again.
RESULT_POLL_MS = 30_000
#: Time limit of one request for a checkpoint or savepoint. The client then repeats it with the same trigger id.
OPERATION_POLL_S = 30.0
#: The same if the leader can change: the client must not wait for a Dispatcher that hangs.
FOLLOWING_POLL_S = 5.0
#: Time limit of other calls if the leader can change.
FOLLOWING_TIMEOUT_S = 10.0
#: Pause between two attempts to reach a Dispatcher that restarts.
RETRY_PAUSE_S = 0.2


class LeadingDispatcher:
    """A gateway to the Dispatcher that is leader, with the calls of a SyncGateway of `Dispatcher`.

    Each call goes to the Dispatcher that is believed to be leader. If it is not, or does not answer, the call raises
    the error, and the next call goes to another Dispatcher. The caller decides how often to retry.

    Thread: any.

    Args:
        addresses: addresses of Dispatchers that may be leader. The first is tried first.
        security: credentials of the client.
        find_leader: blocks and returns the address of the leader, or raises a FlinkError if there is none.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        security: SecurityContext,
        find_leader: Callable[[], str] | None = None,
    ) -> None:
        self._addresses = list(addresses)
        self._security = security
        self._find_leader = find_leader
        self._lock = threading.Lock()
        self._gateways: dict[str, SyncGateway] = {}
        self._address = self._addresses[0]

    @property
    def address(self) -> str:
        """Address of the Dispatcher that is believed to be leader."""
        return self._address

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def unary(request: Any, timeout_s: float | None = None) -> Any:
            address, gateway = self._gateway()
            try:
                return getattr(gateway, name)(request, timeout_s=timeout_s)
            except (NotLeaderError, RpcUnavailableError, RpcTimeoutError) as error:
                self.turn_from(address, error)
                raise

        def stream(request: Any, timeout_s: float | None = None) -> Iterator[Any]:
            address, gateway = self._gateway()
            try:
                yield from getattr(gateway, name)(request, timeout_s=timeout_s)
            except (NotLeaderError, RpcUnavailableError, RpcTimeoutError) as error:
                self.turn_from(address, error)
                raise

        method = service_methods("Dispatcher").get(name)
        if method is None:
            raise AttributeError(f"service Dispatcher has no call {name!r}")
        # Like SyncGateway, this does not cache the function.
        return stream if method.server_streaming else unary

    def turn_from(self, address: str, error: FlinkError) -> None:
        """Turns to another Dispatcher, if there is one, because that at `address` is not leader or did not answer."""
        leader = error.details.get("leader_address") if isinstance(error, NotLeaderError) else None
        if leader is None and self._find_leader is not None:
            try:
                leader = self._find_leader()
            except FlinkError as unknown:
                logger.debug("No leader is known: %s", unknown)
        with self._lock:
            if self._address != address:
                return  # another thread has already changed it
            if leader is not None and leader != address:
                self._address = leader
            elif address not in self._addresses:
                self._address = self._addresses[0]
            elif self._find_leader is None:
                position = self._addresses.index(address)
                self._address = self._addresses[(position + 1) % len(self._addresses)]

    def _gateway(self) -> tuple[str, SyncGateway]:
        with self._lock:
            gateway = self._gateways.get(self._address)
            if gateway is None:
                gateway = SyncGateway("Dispatcher", self._address, security=self._security)
                self._gateways[self._address] = gateway
            return self._address, gateway

    def close(self) -> None:
        with self._lock:
            gateways = list(self._gateways.values())
            self._gateways.clear()
        for gateway in gateways:
            gateway.close()


class ClusterClient:
    """A connection to the Dispatcher of a cluster. A context manager.

    Calls that wait for a job's end or a savepoint survive a restart of the Dispatcher, if it answers again within
    `timeout_s`. All other calls fail at once if the Dispatcher does not answer.

    With several addresses or `find_leader`, all calls go to the leader among the Dispatchers and survive its change.

    Args:
        address: `host:port` of the Dispatcher, or several separated by commas.
        timeout_s: time limit for a call, and for a Dispatcher that does not answer.
        security: credentials of the client.
        find_leader: blocks and returns the address of the leader, or raises a FlinkError.
        on_close: called by `close`.
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
        """Address of the Dispatcher that is believed to be leader."""
        return self._dispatcher.address

    def submit_job(self, job_graph: job_pb2.JobGraph) -> str:
        """Submits the job and returns its id.

        If the answer was lost with a leader, the job is submitted again. The next leader knows it if it was accepted.

        Raises:
            JobSubmissionError: the cluster refuses the job.
            VersionMismatchError: the cluster has another release.
            RpcUnavailableError: no Dispatcher answers.
        """
        if job_graph.ByteSize() > MAX_INLINE_GRAPH_BYTES:
            request = dispatcher_pb2.SubmitJobRequest(job_graph_blob_key=self.put_blob(job_graph.SerializeToString()))
        else:
            request = dispatcher_pb2.SubmitJobRequest(job_graph=job_graph)
        patience = _Patience(self)
        is_repeated = False
        while True:
            try:
                with using_context(SpanContext.parse(os.environ.get(TRACEPARENT_VARIABLE))):
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
        """Uploads `content` and returns its key. Equal content has the same key."""
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
        """Calls the leader, and after a change of leader the next one. The call must be idempotent."""
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
        """True if a second attempt can succeed. After a NotLeaderError, another Dispatcher or this one will lead."""
        return self._follows or isinstance(error, NotLeaderError)

    def list_jobs(self) -> list[dispatcher_pb2.JobOverview]:
        response = self._call("list_jobs", dispatcher_pb2.ListJobsRequest(), timeout_s=self._timeout_s)
        return list(response.jobs)

    def request_job(self, job_id: str, *, without_subtasks: bool = False) -> job_pb2.JobDetails:
        """Returns the vertices, metrics and failures of a job, even after its end. Raises: JobNotFoundError.

        Args:
            job_id: id of the job.
            without_subtasks: leave out the subtasks, which are large in a large job.
        """
        request = job_pb2.JobDetailsRequest(job_id=job_id, without_subtasks=without_subtasks)
        details: job_pb2.JobDetails = self._call("request_job", request, timeout_s=self._timeout_s)
        return details

    def request_job_status(self, job_id: str) -> JobState:
        response = self._call("request_job_status", _id(job_id), timeout_s=self._timeout_s)
        return JobState(response.status)

    def watch_job_status(self, job_id: str) -> Iterator[JobState]:
        """Yields the current status and then each change, up to a terminal status."""
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
                continue  # `_watch` limits the time of each call
            except (RpcUnavailableError, NotLeaderError) as error:
                patience.wait_or_raise(error)

    def _watch(self, job_id: str) -> Iterator[Any]:
        if self._follows:  # a Dispatcher that hangs would block for ever
            return self._dispatcher.watch_job_status(_id(job_id), timeout_s=FOLLOWING_POLL_S)  # type: ignore[no-any-return]
        return self._dispatcher.watch_job_status(_id(job_id))  # type: ignore[no-any-return]

    def wait_for_result(self, job_id: str) -> job_pb2.JobResult:
        """Waits until the job has ended and returns its result."""
        poll_ms = int(FOLLOWING_POLL_S * 1000) if self._follows else RESULT_POLL_MS
        answer_s = FOLLOWING_TIMEOUT_S if self._follows else self._timeout_s
        request = dispatcher_pb2.RequestJobResultRequest(job_id=job_id, timeout_ms=poll_ms)
        patience = _Patience(self)
        while True:
            try:
                response = self._dispatcher.request_job_result(request, timeout_s=poll_ms / 1000 + answer_s)
            except RpcTimeoutError as error:
                unavailable = RpcUnavailableError(
                    f"the cluster at {self.address} no longer answers: {error}", details=error.details
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
        """Requests the cancellation of a job. It does not wait for the job's end. Raises: JobNotFoundError.

        Args:
            job_id: id of the job.
            timeout_s: time limit for the answer; None means the client's timeout.
        """
        self._call("cancel_job", _id(job_id), timeout_s=self._timeout_s if timeout_s is None else timeout_s)

    def update_resource_requirements(
        self, job_id: str, vertices: Iterable[job_pb2.VertexParallelismBounds], timeout_s: float | None = None
    ) -> None:
        """Sets the parallelism that the vertices of a running job may have. Each of its vertices must be named.

        Args:
            job_id: id of the job, which must have the scheduler Adaptive.
            vertices: the bounds for each vertex.
            timeout_s: time limit for the answer; None means the client's timeout.

        Raises: JobNotFoundError, InvalidResourceRequirementsError, UnsupportedOperationError.
        """
        requirements = job_pb2.JobResourceRequirements(vertices=vertices)
        request = job_pb2.ResourceRequirementsUpdate(job_id=job_id, requirements=requirements)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        self._call("update_resource_requirements", request, timeout_s=limit_s)

    def report_heartbeat(self, job_id: str, timeout_ms: int) -> None:
        """Reports that the client of the job is alive. The next report is due within `timeout_ms`.

        Raises: JobNotFoundError (also if the job has ended), RpcUnavailableError, RpcTimeoutError.
        """
        request = dispatcher_pb2.JobClientHeartbeat(job_id=job_id, timeout_ms=timeout_ms)
        self._call("report_job_client_heartbeat", request, timeout_s=self._timeout_s)

    def trigger_checkpoint(
        self, job_id: str, *, full: bool = False, trigger_id: str | None = None
    ) -> checkpoint_pb2.CheckpointResult:
        """Takes a checkpoint and returns its result when it is complete.

        Args:
            job_id: id of the job.
            full: do not share files with earlier checkpoints.
            trigger_id: identifies the request. Repeated requests with the same id get the same checkpoint.

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
        """Takes a savepoint and returns its path when it is complete.

        Args:
            job_id: id of the job.
            target_directory: directory or URI; None means execution.checkpointing.savepoint-dir.
            native: use the state backend's own format.
            trigger_id: see `trigger_checkpoint`.

        Raises: see `trigger_checkpoint`.
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
        """Stops a job with a savepoint and returns the path. The job processes no record after the savepoint.

        Args:
            job_id: id of the job.
            target_directory: see `trigger_savepoint`.
            drain: first advance event time to its end, so that all windows and timers fire. Do not use it if the job
                will be resumed from the savepoint.
            native: see `trigger_savepoint`.
            trigger_id: see `trigger_checkpoint`.

        Raises: see `trigger_checkpoint`.
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
        """Returns the checkpoint statistics of a job, also after its end. Raises: JobNotFoundError."""
        request = checkpoint_pb2.CheckpointStatisticsRequest(job_id=job_id)
        statistics: checkpoint_pb2.CheckpointStatisticsResponse = self._call(
            "request_checkpoint_statistics", request, timeout_s=self._timeout_s
        )
        return statistics

    def request_accumulators(self, job_id: str) -> list[job_pb2.AccumulatorResult]:
        """Returns the accumulators of a job, merged over its subtasks: current or final. Raises: JobNotFoundError."""
        request = job_pb2.AccumulatorsRequest(job_id=job_id)
        response = self._call("request_accumulators", request, timeout_s=self._timeout_s)
        return list(response.accumulators)

    def request_metrics(self, job_id: str, kinds: Sequence[str] = ()) -> list[metrics_pb2.MetricGroupDump]:
        """Returns the current metrics of a running job.

        Args:
            kinds: `task` (with operators), `coordinator` and `job`; by default only those of tasks.

        Raises: JobNotFoundError (also if the job has ended).
        """
        return self._metrics(metrics_pb2.MetricsRequest(job_id=job_id, kinds=kinds))

    def request_process_metrics(self, resource_id: str = "") -> list[metrics_pb2.MetricGroupDump]:
        """Returns the metrics of a TaskExecutor's process; without an id those of the cluster and its Dispatcher.

        Raises: UserError if there is no such TaskExecutor.
        """
        return self._metrics(metrics_pb2.MetricsRequest(resource_id=resource_id, kinds=["process"]))

    def _metrics(self, request: metrics_pb2.MetricsRequest) -> list[metrics_pb2.MetricGroupDump]:
        return list(self._call("request_metrics", request, timeout_s=self._timeout_s).groups)

    def request_diagnosis(self, job_id: str) -> job_pb2.JobDiagnosis:
        """Returns why a job has no output; without findings if it has ended. Raises: JobNotFoundError."""
        request = job_pb2.DiagnosisRequest(job_id=job_id)
        diagnosis: job_pb2.JobDiagnosis = self._call("request_diagnosis", request, timeout_s=self._timeout_s)
        return diagnosis

    def request_thread_samples(
        self,
        job_id: str,
        vertex_id: str = "",
        subtask_index: int | None = None,
        *,
        num_samples: int = 100,
        delay_ms: int = 50,
        max_depth: int = 100,
    ) -> thread_samples_pb2.JobThreadSamples:
        """Samples the threads of a running job, of all its vertices or of one, and returns their stacks.

        Blocks while the samples are taken: `num_samples * delay_ms`, or half as long again if they cost much CPU.

        Raises: JobNotFoundError (also if the job has ended), UserError for numbers out of bounds.
        """
        request = thread_samples_pb2.ThreadSamplesRequest(
            job_id=job_id,
            vertex_id=vertex_id,
            subtask_index=subtask_index,
            num_samples=num_samples,
            delay_ms=delay_ms,
            max_depth=max_depth,
        )
        sampling_s = num_samples * delay_ms / 1000
        samples: thread_samples_pb2.JobThreadSamples = self._call(
            "request_thread_samples", request, timeout_s=self._timeout_s + 2 * sampling_s
        )
        return samples

    def request_job_logs(self, job_id: str, positions: Mapping[str, int]) -> dispatcher_pb2.JobLogs:
        """Returns the next part of each TaskExecutor's log for a job, from `positions` (by resource id) on.

        Raises: JobNotFoundError, RpcUnavailableError.
        """
        request = dispatcher_pb2.JobLogsRequest(job_id=job_id, positions=positions)
        logs: dispatcher_pb2.JobLogs = self._call("request_job_logs", request, timeout_s=self._timeout_s)
        return logs

    def request_job_log_records(self, request: common_pb2.LogRecordsRequest) -> dispatcher_pb2.JobLogRecords:
        """Returns log records of a job from all its processes. Raises: JobNotFoundError, RpcUnavailableError."""
        logs: dispatcher_pb2.JobLogRecords = self._call("request_job_log_records", request, timeout_s=self._timeout_s)
        return logs

    def change_log_levels(self, request: common_pb2.LogLevelsRequest) -> dispatcher_pb2.JobLogLevels:
        """Changes log levels of running processes, and returns all. Raises: JobNotFoundError, UserError."""
        levels: dispatcher_pb2.JobLogLevels = self._call("change_log_levels", request, timeout_s=self._timeout_s)
        return levels

    def dispose_savepoint(self, path: str) -> None:
        """Deletes a savepoint. The cluster resolves the path. Raises: CheckpointStorageError."""
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
                patience.renew()  # the operation is still running
            except (RpcUnavailableError, NotLeaderError) as error:
                patience.wait_or_raise(error)

    def send_coordination_request(self, job_id: str, operator_id: str, payload: bytes, timeout_s: float) -> bytes:
        """Sends a request to the coordinator of one operator of a running job and returns its answer."""
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
    """Limits the time that a waiting call tolerates a Dispatcher that does not answer."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._since_s: float | None = None

    def renew(self) -> None:
        """Restarts the time limit, because the Dispatcher has answered."""
        self._since_s = None

    def wait_or_raise(self, error: FlinkError) -> None:
        """Pauses before the next attempt. Raises the error if the last answer is too long ago."""
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


def configured_addresses(configuration: AnyConfiguration) -> str | None:
    """Returns `host:port` of the Dispatcher, or several separated by commas. None if none is configured."""
    host = read_option(configuration, jobmanager_options.ADDRESS)
    if not host:
        return None
    if "," in host or _has_port(host):
        return host
    return f"{host}:{read_option(configuration, jobmanager_options.PORT)}"


def _has_port(address: str) -> bool:
    host, separator, port = address.rpartition(":")
    is_ip_6 = ":" in host and not host.endswith("]")
    return bool(separator and host and port.isdigit() and not is_ip_6)


def is_elected(configuration: AnyConfiguration) -> bool:
    """True if ZooKeeper names the leading Dispatcher."""
    from flinkpy.highavailability.services import is_highly_available

    return is_highly_available(configuration)


def connect(configuration: AnyConfiguration, addresses: str | None = None) -> ClusterClient:
    """Returns a client of the cluster at `addresses`, or by default of the cluster that the configuration names.

    | `high-availability.type` | `jobmanager.rpc.address` | Dispatcher                          |
    |--------------------------|--------------------------|-------------------------------------|
    | ZOOKEEPER                | any                      | the leader according to ZooKeeper   |
    | NONE                     | `host:port,host:port`    | the leader among these              |
    | NONE                     | `host`                   | at `host` and `jobmanager.rpc.port` |

    Raises:
        HighAvailabilityError: ZooKeeper does not answer, or no Dispatcher is leader.
        ConfigurationError: an option is wrong.
        SecretError: the secret or the token cannot be read.
    """
    timeout_s = read_option(configuration, client_options.CLIENT_TIMEOUT) / 1000
    security = SecurityContext.of_client(configuration)
    if addresses is None and is_elected(configuration):
        return _connect_to_leader(configuration, timeout_s, security)
    addresses = addresses or configured_addresses(configuration)
    assert addresses is not None, "the caller checks that an address is configured"
    return ClusterClient(addresses, timeout_s, security=security)


def _connect_to_leader(configuration: AnyConfiguration, timeout_s: float, security: SecurityContext) -> ClusterClient:
    from flinkpy.highavailability.services import create_high_availability_services

    services = create_high_availability_services(configuration, security, None, process="client")
    try:
        return ClusterClient(
            services.find_dispatcher(timeout_s).address,
            timeout_s,
            security=security,
            find_leader=lambda: services.find_dispatcher(0).address,
            on_close=services.close,
        )
    except BaseException:
        services.close()
        raise
