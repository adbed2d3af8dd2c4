"""CollectedResults: what a CollectSink sends back, with the fate of its job."""

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

#: One question to the sink's coordinator; it answers at once, so this only covers a busy cluster.
_REQUEST_TIMEOUT_S = 30.0
#: How long after a failed request the job's own failure is waited for: tasks are canceled before a job has failed.
_JOB_END_WAIT_S = 10.0
#: How long a JobMaster or Dispatcher may take to be replaced, and the pause between two questions meanwhile.
_REPLACEMENT_WAIT_S = 60.0
_RETRY_PAUSE_S = 0.2


class CollectedResults(Iterator[Any]):
    """Ends when the job has finished; where it fails, raises why, the user's own traceback first.

    Args:
        client: `flinkpy.client.job_client.RemoteJobClient` of the job.
        operator_id: of its CollectSink.
        is_one_of_many: the job has others, whose results somebody may read after these: their end is not the job's.
    """

    def __init__(self, client: Any, operator_id: str, *, is_one_of_many: bool = False) -> None:
        from flinkpy.connectors.collect_iterator import CollectIterator

        self._client = client
        self._operator_id = operator_id
        self._end = client.job_result()
        self._is_over = False
        self._is_one_of_many = is_one_of_many
        self._records = CollectIterator(self._request)

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
                    self._client.cancel()  # nobody will read its results any more
            raise

    def close(self) -> None:
        """Want no more: cancels the job where it still runs, and waits for its end."""
        if not self._is_over:
            self._is_over = True
            self._records.close()
            if not self._end.done():
                self._cancel()

    def _cancel(self) -> None:
        try:
            self._client.cancel().result()
        except FlinkError as error:
            # The sink lets go of a job whose results nobody wants, so it may have ended by itself meanwhile.
            if not isinstance(error, JobTerminatedWithoutCancellationError) and not self._end.done():
                raise
        wait_for(self._end)
        self._end.result()

    def _request(self, payload: bytes) -> bytes:
        """Asked again where nobody answers: JobMaster and Dispatcher are replaced when they die."""
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
        """Raises why the job failed, which says more than the request that failed `after` the job had.

        A request may fail a moment before the job's end is known, or while the job goes on: then `after` is all there
        is to say.
        """
        from flinkpy.client.job_client import execution_result

        try:
            wait_for(self._end, None if after is None else _JOB_END_WAIT_S)
            execution_result(self._end.result(timeout=0))
        except (JobCancelledError, TimeoutError) as error:
            raise (after or error) from error


class ResultsToCome(Iterator[Any]):
    """What `collect_async` gives: the results of a job that is still to be executed."""

    def __init__(self, operator_id: str) -> None:
        self._operator_id = operator_id
        self._results: CollectedResults | None = None

    def start(self, client: Any) -> None:
        """The program is executed."""
        self._results = CollectedResults(client, self._operator_id, is_one_of_many=True)

    def __next__(self) -> Any:
        if self._results is None:
            raise UserError("collect_async: there are results only after execute_async of the environment")
        return next(self._results)

    def close(self) -> None:
        if self._results is not None:
            self._results.close()
