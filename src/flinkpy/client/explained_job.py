"""ExplainedJobClient: the client of a job that `flinkpy explain` does not run. The job has finished without results."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from flinkpy._proto import job_pb2
from flinkpy.client.job_results import execution_result
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.ids import JobID
from flinkpy.common.states import JobState
from flinkpy.connectors.collect_protocol import CollectResponse

if TYPE_CHECKING:
    from flinkpy.common.completable_future import CompletableFuture


class ExplainedJobClient:
    """Has the methods of RemoteJobClient. Thread: any."""

    def __init__(self, job_graph: job_pb2.JobGraph) -> None:
        self.job_name = job_graph.name
        self._result: Future[job_pb2.JobResult] = Future()
        self._result.set_result(
            job_pb2.JobResult(
                job_id=job_graph.job_id,
                name=job_graph.name,
                status=JobState.FINISHED.value,  # type: ignore[arg-type]
            )
        )

    @property
    def cluster_client(self) -> ExplainedJobClient:
        """Answers the requests of `execute_and_collect`."""
        return self

    def send_coordination_request(self, *arguments: Any) -> bytes:
        return pickle.dumps(CollectResponse({}, finished=True))

    def get_job_id(self) -> JobID:
        return JobID(self._result.result().job_id)

    def get_job_status(self) -> CompletableFuture:
        from flinkpy.common.job_status import JobStatus

        return _done(JobStatus.FINISHED)

    def cancel(self) -> CompletableFuture:
        return _done(None)

    def get_accumulators(self) -> CompletableFuture:
        return _done({})

    def job_result(self) -> Future[job_pb2.JobResult]:
        return self._result

    def get_job_execution_result(self) -> CompletableFuture:
        from flinkpy.common.completable_future import CompletableFuture

        return CompletableFuture(self._result, execution_result)

    def stop_with_savepoint(self, *arguments: Any, **named: Any) -> CompletableFuture:
        raise UnsupportedOperationError("`flinkpy explain` runs no jobs, so there are no checkpoints or savepoints")

    trigger_savepoint = trigger_checkpoint = get_checkpoint_statistics = stop_with_savepoint


def _done(value: Any) -> CompletableFuture:
    from flinkpy.common.completable_future import CompletableFuture

    future: Future[Any] = Future()
    future.set_result(value)
    return CompletableFuture(future)
