"""ClusterClient: what a program may ask a cluster's Dispatcher.

Source: org.apache.flink.client.program.ClusterClient.
Thread: any; gRPC channels are thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.errors import RpcTimeoutError, RpcUnavailableError
from flinkpy.common.states import JobState
from flinkpy.rpc.sync_client import SyncGateway

#: A JobGraph above this travels as a blob: a quarter of what one message may hold, and gRPC copies a message twice.
MAX_INLINE_GRAPH_BYTES = 4 * 1024 * 1024
#: Size of one message of an upload: large enough that its overhead is lost in it, small enough to flow.
BLOB_CHUNK_BYTES = 256 * 1024
#: How long one question for a job's result is left open; a silent connection is then asked anew.
RESULT_POLL_MS = 30_000


class ClusterClient:
    """A connection to the Dispatcher at `address` (host:port). A context manager."""

    def __init__(self, address: str, timeout_s: float = 60.0) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._dispatcher = SyncGateway("Dispatcher", address)

    def submit_job(self, job_graph: job_pb2.JobGraph) -> str:
        """Hand the job over; returns its id. Raises: JobSubmissionError, VersionMismatchError, RpcUnavailableError."""
        if job_graph.ByteSize() > MAX_INLINE_GRAPH_BYTES:
            request = dispatcher_pb2.SubmitJobRequest(job_graph_blob_key=self.put_blob(job_graph.SerializeToString()))
        else:
            request = dispatcher_pb2.SubmitJobRequest(job_graph=job_graph)
        return str(self._dispatcher.submit_job(request, timeout_s=self._timeout_s).job_id)

    def put_blob(self, content: bytes) -> str:
        """Upload `content`; returns its key, which is the same for the same content."""
        view = memoryview(content)

        def chunks() -> Iterator[dispatcher_pb2.BlobChunk]:
            for start in range(0, len(view), BLOB_CHUNK_BYTES):
                yield dispatcher_pb2.BlobChunk(data=bytes(view[start : start + BLOB_CHUNK_BYTES]))

        with SyncGateway("BlobServer", self.address) as blob_server:
            return str(blob_server.put_blob(chunks(), timeout_s=self._timeout_s).sha256)

    def list_jobs(self) -> list[dispatcher_pb2.JobOverview]:
        response = self._dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest(), timeout_s=self._timeout_s)
        return list(response.jobs)

    def request_job(self, job_id: str) -> job_pb2.JobDetails:
        """Vertices, metrics and failures of a job, running or finished. Raises: JobNotFoundError."""
        details: job_pb2.JobDetails = self._dispatcher.request_job(_id(job_id), timeout_s=self._timeout_s)
        return details

    def request_job_status(self, job_id: str) -> JobState:
        response = self._dispatcher.request_job_status(_id(job_id), timeout_s=self._timeout_s)
        return JobState(response.status)

    def watch_job_status(self, job_id: str) -> Iterator[JobState]:
        """The present status and then every change, up to a terminal one."""
        for response in self._dispatcher.watch_job_status(_id(job_id)):
            yield JobState(response.status)

    def wait_for_result(self, job_id: str) -> job_pb2.JobResult:
        """The result of the job once it has ended, however long that takes."""
        request = dispatcher_pb2.RequestJobResultRequest(job_id=job_id, timeout_ms=RESULT_POLL_MS)
        while True:
            try:
                response = self._dispatcher.request_job_result(
                    request, timeout_s=RESULT_POLL_MS / 1000 + self._timeout_s
                )
            except RpcTimeoutError as error:
                raise RpcUnavailableError(f"the cluster at {self.address} does not answer any more: {error}") from error
            if response.finished:
                result: job_pb2.JobResult = response.result
                return result

    def cancel_job(self, job_id: str) -> None:
        """Ask for the job to be canceled; returns before it is. Raises: JobNotFoundError."""
        self._dispatcher.cancel_job(_id(job_id), timeout_s=self._timeout_s)

    def send_coordination_request(self, job_id: str, operator_id: str, payload: bytes, timeout_s: float) -> bytes:
        """A question to the coordinator of one operator of a running job; the answer is the coordinator's."""
        request = dispatcher_pb2.CoordinationRequest(job_id=job_id, operator_id=operator_id, payload=payload)
        return bytes(self._dispatcher.send_coordination_request(request, timeout_s=timeout_s).payload)

    def request_cluster_overview(self) -> dispatcher_pb2.ClusterOverview:
        overview: dispatcher_pb2.ClusterOverview = self._dispatcher.request_cluster_overview(
            dispatcher_pb2.ClusterOverviewRequest(), timeout_s=self._timeout_s
        )
        return overview

    def close(self) -> None:
        self._dispatcher.close()

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _id(job_id: str) -> dispatcher_pb2.JobIdMessage:
    return dispatcher_pb2.JobIdMessage(job_id=job_id)
