"""StoredJobGraphs: changes of stored jobs, which a later Dispatcher and later JobMasters must know.

Thread: the Dispatcher's loop; graphs are written on I/O threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.errors import ExternalError, FlinkError, LeadershipLostError, NotLeaderError
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_manager_runner import JobManagerRunner
from flinkpy.highavailability.job_stores import JobGraphStore
from flinkpy.rpc.endpoint import RpcEndpoint


class StoredJobGraphs:
    """Stores cancellations and resource requirements with the graphs of the jobs, before clients are told of them.

    So a job is canceled even if its JobMaster and this Dispatcher die before: the next Dispatcher finds the request
    with the graph and passes it on to the JobMaster that leads the job then. Likewise the next JobMaster starts with
    the requirements.

    Invariant: the graph of a job is written once at a time, and each version has the changes of all earlier ones.
    """

    def __init__(self, endpoint: RpcEndpoint, job_graphs: JobGraphStore) -> None:
        self._endpoint = endpoint
        self._job_graphs = job_graphs
        #: The cancellations of unfinished jobs that are stored or being stored.
        self._cancellations: dict[JobID, asyncio.Future[None]] = {}
        #: The last write of each unfinished job.
        self._last_writes: dict[JobID, asyncio.Future[None]] = {}

    async def keep_cancellation(self, runner: JobManagerRunner, ended: asyncio.Future[Any]) -> None:
        """Stores the cancellation, and returns when it is stored. Raises: NotLeaderError, ExternalError."""
        if runner.is_over:
            await asyncio.shield(ended)  # when its result is stored
        elif not runner.job_graph.is_cancel_requested:  # by a former Dispatcher
            await asyncio.shield(self._cancellations.get(runner.job_id) or self._cancel(runner))

    async def keep_requirements(self, runner: JobManagerRunner, requirements: job_pb2.JobResourceRequirements) -> None:
        """Stores the requirements, and returns when they are stored. Raises: NotLeaderError, ExternalError."""
        if not runner.is_over:
            runner.job_graph.resource_requirements.CopyFrom(requirements)
            is_cancelled = runner.job_id in self._cancellations
            await asyncio.shield(self._write(runner, "the resource requirements", is_cancelled=is_cancelled))

    def after(self, job_id: JobID, action: Callable[[], None]) -> None:
        """Runs `action` when the graph is not being written: a late write would restore a removed graph."""
        self._cancellations.pop(job_id, None)
        written = self._last_writes.pop(job_id, None)
        if written is None or written.done():
            action()
        else:
            written.add_done_callback(lambda _: self._endpoint.run_in_main_thread(action))

    def _cancel(self, runner: JobManagerRunner) -> asyncio.Future[None]:
        kept = self._write(runner, "the cancellation", is_cancelled=True)
        self._cancellations[runner.job_id] = kept

        def forget_failure(future: asyncio.Future[None]) -> None:
            if future.exception() is not None and self._cancellations.get(runner.job_id) is future:
                del self._cancellations[runner.job_id]  # the next request tries again

        kept.add_done_callback(forget_failure)
        return kept

    def _write(self, runner: JobManagerRunner, what: str, *, is_cancelled: bool) -> asyncio.Future[None]:
        """Stores this version of the graph after all earlier ones."""
        version = job_pb2.JobGraph()
        version.CopyFrom(runner.job_graph)
        version.is_cancel_requested |= is_cancelled
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written(_: None, error: BaseException | None) -> None:
            if error is None:
                kept.set_result(None)
            else:
                kept.set_exception(not_stored(f"{what} of job {runner.job_id}", error))
                kept.exception()  # mark it as retrieved: its caller may have gone

        def begin(_: object = None) -> None:
            self._endpoint.run_blocking(
                lambda: self._job_graphs.put(version), written, f"keep {what} of {runner.job_id}"
            )

        previous = self._last_writes.get(runner.job_id)
        self._last_writes[runner.job_id] = kept
        if previous is None or previous.done():
            begin()
        else:
            previous.add_done_callback(begin)
        return kept


def not_stored(what: str, error: BaseException) -> FlinkError:
    """Returns the error for a client whose request could not be stored.

    If another Dispatcher leads by now, it tells the client to look for the leader.
    """
    if isinstance(error, LeadershipLostError):
        return NotLeaderError(f"{what} was not stored: {error}")
    return ExternalError(f"{what} could not be stored: {error}")
