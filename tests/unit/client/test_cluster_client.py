"""Waiting calls of the ClusterClient survive restarts of the Dispatcher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flinkpy._proto import checkpoint_pb2, common_pb2, dispatcher_pb2, job_pb2
from flinkpy.client.cluster_client import ClusterClient
from flinkpy.client.job_client import RemoteJobClient
from flinkpy.common.errors import CheckpointError, JobNotFoundError, RpcTimeoutError, RpcUnavailableError
from flinkpy.common.job_client import JobClient
from flinkpy.common.states import JobState
from flinkpy.security import SecurityContext

JOB = "a" * 32
GONE = RpcUnavailableError("nobody answers")
SLOW = RpcTimeoutError("no answer in time")


class FakeDispatcher:
    """A SyncGateway that answers from a list and repeats the last answer."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(request: Any, timeout_s: float | None = None) -> Any:
            self.requests.append(request)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def watch_job_status(self, request: Any) -> Iterator[Any]:
        for answer in self.answers.pop(0):
            if isinstance(answer, Exception):
                raise answer
            yield dispatcher_pb2.JobStatusResponse(job_id=JOB, status=answer)

    def close(self) -> None:
        return


@pytest.fixture
def client() -> Iterator[ClusterClient]:
    client = ClusterClient("127.0.0.1:1", timeout_s=60, security=SecurityContext.insecure())
    client._dispatcher.close()
    yield client
    client.close()


def use(client: ClusterClient, *answers: Any) -> FakeDispatcher:
    dispatcher = FakeDispatcher(*answers)
    client._dispatcher = dispatcher  # type: ignore[assignment]
    return dispatcher


FINISHED = dispatcher_pb2.RequestJobResultResponse(
    finished=True, result=job_pb2.JobResult(job_id=JOB, status=common_pb2.FINISHED)
)
NOT_YET = dispatcher_pb2.RequestJobResultResponse(finished=False)


def test_waiting_for_a_result_survives_a_restart_of_the_dispatcher(client: ClusterClient) -> None:
    use(client, NOT_YET, GONE, GONE, NOT_YET, FINISHED)
    assert client.wait_for_result(JOB).status == common_pb2.FINISHED


def test_waiting_fails_if_the_dispatcher_does_not_come_back() -> None:
    client = ClusterClient("127.0.0.1:1", timeout_s=0, security=SecurityContext.insecure())
    client._dispatcher.close()
    use(client, GONE)
    with pytest.raises(RpcUnavailableError, match="nobody answers"):
        client.wait_for_result(JOB)
    with pytest.raises(RpcUnavailableError):
        client.trigger_savepoint(JOB)


def test_waiting_fails_if_the_dispatcher_has_lost_the_job(client: ClusterClient) -> None:
    use(client, GONE, JobNotFoundError("there is no job"))
    with pytest.raises(JobNotFoundError):
        client.wait_for_result(JOB)


def test_a_watch_continues_after_a_restart_and_repeats_no_status(client: ClusterClient) -> None:
    use(
        client,
        [common_pb2.RUNNING, GONE],
        [GONE],
        [common_pb2.RUNNING, common_pb2.RESTARTING, GONE],
        [common_pb2.RUNNING, common_pb2.FINISHED],
    )
    seen = list(client.watch_job_status(JOB))
    assert seen == [JobState.RUNNING, JobState.RESTARTING, JobState.RUNNING, JobState.FINISHED]


def test_a_savepoint_request_is_repeated_with_the_same_id(client: ClusterClient) -> None:
    dispatcher = use(client, SLOW, GONE, SLOW, checkpoint_pb2.CheckpointResult(path="/s/1"))
    assert client.trigger_savepoint(JOB, "/s") == "/s/1"
    first, *others = dispatcher.requests
    assert len(others) == 3 and all(other == first for other in others)
    assert (len(first.trigger_id), first.target_directory, first.format) == (32, "/s", checkpoint_pb2.CANONICAL)

    client.trigger_savepoint(JOB, trigger_id="mine", native=True)
    assert (dispatcher.requests[-1].trigger_id, dispatcher.requests[-1].format) == ("mine", checkpoint_pb2.NATIVE)
    client.trigger_savepoint(JOB)
    assert dispatcher.requests[-1].trigger_id not in ("mine", first.trigger_id)


def test_an_error_of_a_savepoint_is_raised(client: ClusterClient) -> None:
    use(client, CheckpointError("a task declined"))
    with pytest.raises(CheckpointError, match="a task declined"):
        client.stop_with_savepoint(JOB, "/s", drain=True)


def test_the_job_client_returns_futures(client: ClusterClient) -> None:
    dispatcher = use(client, checkpoint_pb2.CheckpointResult(checkpoint_id=7, path="/s/1"))
    job_client = JobClient(RemoteJobClient(client, JOB, "job"))

    assert job_client.trigger_savepoint("/s").result() == "/s/1"
    assert job_client.stop_with_savepoint(True, "/s").result() == "/s/1"
    assert dispatcher.requests[-1].drain
    assert job_client.stop_with_savepoint(False).result() == "/s/1"
    assert not dispatcher.requests[-1].drain and dispatcher.requests[-1].target_directory == ""
    assert job_client.trigger_checkpoint(full=True).result() == 7

    use(client, checkpoint_pb2.CheckpointStatisticsResponse(num_completed=3))
    assert job_client.get_checkpoint_statistics().result().num_completed == 3
    use(client, CheckpointError("no"))
    assert isinstance(job_client.trigger_savepoint().exception(), CheckpointError)
