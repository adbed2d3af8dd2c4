"""CloseableIterator, the results of `execute_and_collect`, and CollectedResults, which fetches them from the job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

from flinkpy.common.errors import (
    FlinkError,
    JobCancelledError,
    JobTerminatedWithoutCancellationError,
    RpcTimeoutError,
    RpcUnavailableError,
    UserError,
)
from flinkpy.common.interruptible import wait_for
from flinkpy.common.typeinfo import TypeInformation

#: The timeout of one request to the sink's coordinator. It answers immediately, so this only covers a busy cluster.
_REQUEST_TIMEOUT_S = 30.0
#: The time to wait for the failure of the job after a failed request. Tasks are canceled before the job has failed.
_JOB_END_WAIT_S = 10.0
#: How long to wait for the replacement of a dead JobMaster or Dispatcher, and the pause between two requests.
_REPLACEMENT_WAIT_S = 60.0
_RETRY_PAUSE_S = 0.2


class CollectedResults(Iterator[Any]):
    """Iterates over the records until the job has finished. If the job fails, raises its error.

    If a user function raised, the message of the error begins with its traceback.

    Args:
        client: the `flinkpy.client.job_client.RemoteJobClient` of the job.
        operator_id: the id of the CollectSink.
        is_one_of_many: True if the job may have other collect sinks. The end of these results is then not the end of
            the job.
    """

    def __init__(self, client: Any, operator_id: str, *, is_one_of_many: bool = False) -> None:
        from flinkpy.connectors.collect_iterator import CollectIterator

        self._client = client
        self._operator_id = operator_id
        self._end = client.job_result()
        self._is_over = False
        self._is_one_of_many = is_one_of_many
        self._records = CollectIterator(self._request)

    def batches(self) -> CollectedResults:
        """Returns the results as an iterator of Batches. Instead of iterating over these results."""
        from flinkpy.connectors.collect_iterator import CollectIterator
        from flinkpy.connectors.collect_protocol import decode_batch

        self._records = CollectIterator(self._request, decode=decode_batch)
        return self

    @property
    def job_client(self) -> Any:
        """The client of the job."""
        return self._client

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        try:
            return next(self._records)
        except StopIteration:
            self._is_over = True
            if not self._is_one_of_many or self._end.done():
                self._raise_unless_finished()
            raise
        except FlinkError as error:
            self._is_over = True
            try:
                self._raise_unless_finished(after=error)
            finally:
                if not self._end.done():
                    self._client.cancel()  # its results can no longer be read
            raise

    def close(self) -> None:
        """Cancels the job if it still runs, and waits for its end."""
        if not self._is_over:
            self._is_over = True
            self._records.close()
            if not self._end.done():
                self._cancel()

    def _cancel(self) -> None:
        try:
            self._client.cancel().result()
        except FlinkError as error:
            # The closed iterator released the sink, so the job may have ended already.
            if not isinstance(error, JobTerminatedWithoutCancellationError) and not self._end.done():
                raise
        wait_for(self._end)
        self._end.result()

    def _request(self, payload: bytes) -> bytes:
        """Sends a request. Repeats it while the JobMaster or the Dispatcher is being replaced."""
        deadline_s = time.monotonic() + _REPLACEMENT_WAIT_S
        while True:
            if self._end.done() and not self._is_over:
                self._raise_unless_finished()
            try:
                return self._client.cluster_client.send_coordination_request(
                    str(self._client.get_job_id()), self._operator_id, payload, _REQUEST_TIMEOUT_S
                )
            except (RpcUnavailableError, RpcTimeoutError):
                if time.monotonic() >= deadline_s or self._is_over or self._end.done():
                    raise
                wait([self._end], _RETRY_PAUSE_S)

    def _raise_unless_finished(self, after: FlinkError | None = None) -> None:
        """Raises the error of the job, unless it has finished.

        Args:
            after: the error of a request that failed. The error of the job says more, so it is waited for. If it does
                not arrive in time, or the job was cancelled, `after` is raised.
        """
        from flinkpy.client.job_results import execution_result

        try:
            wait_for(self._end, None if after is None else _JOB_END_WAIT_S)
            execution_result(self._end.result(timeout=0))
        except (JobCancelledError, TimeoutError) as error:
            raise (after or error) from error


class ResultsToCome(Iterator[Any]):
    """The results of `collect_async`, for a job that is executed later."""

    def __init__(self, operator_id: str) -> None:
        self._operator_id = operator_id
        self._results: CollectedResults | None = None

    def start(self, client: Any) -> None:
        """Connects the results to the job that now runs."""
        self._results = CollectedResults(client, self._operator_id, is_one_of_many=True)

    def __next__(self) -> Any:
        if self._results is None:
            raise UserError("collect_async: there are no results before execute_async of the environment is called")
        return next(self._results)

    def close(self) -> None:
        if self._results is not None:
            self._results.close()


class CloseableIterator(Iterator[Any]):
    """Iterates over the results of a job while it runs. It is also a context manager.

    Closing it before its end cancels the job.

    Source: pyflink CloseableIterator.
    """

    def __init__(self, j_closeable_iterator: Any, type_info: TypeInformation | None = None) -> None:
        self._results = j_closeable_iterator
        self._type_info = type_info

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    def next(self) -> Any:
        """Returns the next record. Raises: StopIteration after the last one."""
        return next(self)

    def close(self) -> None:
        """Cancels the job if it still runs."""
        self._results.close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
