from __future__ import annotations

import pickle
from concurrent.futures import Future
from typing import Any

import pytest

from flinkpy._proto import common_pb2, job_pb2
from flinkpy.common.errors import JobExecutionError, JobNotFoundError
from flinkpy.connectors.collect_protocol import (
    CollectRequest,
    CollectResponse,
    CollectStart,
    Guarantee,
    SubtaskResult,
    encode_payload,
)
from flinkpy.datastream.collected_results import CloseableIterator, CollectedResults
from flinkpy.records.batch import Batch


class TestingJobClient:
    """A job whose coordinator gives the given answers, and then fails every request."""

    __test__ = False

    def __init__(self, *responses: tuple[list[Any], bool]) -> None:
        self.responses = list(responses)
        self.requests: list[CollectRequest] = []
        self.is_canceled = False
        self.end: Future[job_pb2.JobResult] = Future()

    @property
    def cluster_client(self) -> TestingJobClient:
        return self

    def get_job_id(self) -> str:
        return "a" * 32

    def job_result(self) -> Future[job_pb2.JobResult]:
        return self.end

    def finish(self, status: common_pb2.JobStatus, message: str = "") -> None:
        error = common_pb2.ErrorInfo(
            type="FunctionError", message=message, traceback=f"Traceback\nValueError: {message}"
        )
        self.end.set_result(job_pb2.JobResult(job_id="a" * 32, name="j", status=status, error=error))

    def cancel(self) -> Future[None]:
        self.is_canceled = True
        if not self.end.done():
            self.finish(common_pb2.CANCELED)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def send_coordination_request(self, job_id: str, operator_id: str, payload: bytes, timeout_s: float) -> bytes:
        request = pickle.loads(payload)
        self.requests.append(request)
        if request.close:
            return pickle.dumps(CollectResponse({}, True))
        if not self.responses:
            raise JobNotFoundError("gone")
        if 0 not in request.positions:
            return pickle.dumps(CollectResponse({0: SubtaskResult(START, 0)}))
        records, finished = self.responses.pop(0)
        _, sequence = request.positions[0]
        batch = (sequence, encode_payload(Batch(records), None))
        return pickle.dumps(CollectResponse({0: SubtaskResult(START, sequence + 1, (batch,))}, finished))


#: The sink has one subtask, which gives everything at once.
START = CollectStart("version", 0, 0, Guarantee.NONE)


def answer(*records: Any, finished: bool = False) -> tuple[list[Any], bool]:
    return list(records), finished


def test_records_end_when_the_job_has_finished() -> None:
    client = TestingJobClient(answer(1, 2), answer(3, finished=True))
    client.finish(common_pb2.FINISHED)

    with CloseableIterator(CollectedResults(client, "op")) as results:
        assert list(results) == [1, 2, 3]
    assert not client.is_canceled


def test_failed_job_raises_its_own_error_instead_of_the_request_error() -> None:
    client = TestingJobClient(answer(1))
    results = CollectedResults(client, "op")
    assert next(results) == 1
    client.finish(common_pb2.FAILED, "user's mistake")

    with pytest.raises(JobExecutionError, match="user's mistake"):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_job_that_fails_at_its_very_end_raises_after_the_last_record() -> None:
    client = TestingJobClient(answer(1, finished=True))
    results = CollectedResults(client, "op")
    assert next(results) == 1
    client.finish(common_pb2.FAILED, "in close()")

    with pytest.raises(JobExecutionError, match=r"in close\(\)"):
        next(results)


def test_canceled_job_raises_the_error_of_the_request() -> None:
    client = TestingJobClient()
    client.end.set_result(job_pb2.JobResult(job_id="a" * 32, name="j", status=common_pb2.CANCELED))

    with pytest.raises(Exception, match="canceled"):
        next(CollectedResults(client, "op"))


def test_closing_early_cancels_the_job() -> None:
    client = TestingJobClient(answer(1, 2))
    results = CollectedResults(client, "op")
    next(results)
    results.close()
    results.close()

    assert client.is_canceled
    assert [request.close for request in client.requests] == [False, False, True]
    with pytest.raises(StopIteration):
        next(results)
