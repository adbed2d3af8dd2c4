"""JobCancellations: what clients want canceled, kept with the job's graph before they are told that it will be.

So the job is canceled also where its JobMaster and this Dispatcher die before it is: the next Dispatcher finds the
wish with the graph, and hands it on to whichever JobMaster leads the job then.

Thread: the Dispatcher's loop; graphs are written on I/O threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from flinkpy._proto import job_pb2
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.job_manager_runner import JobManagerRunner
from flinkpy.dispatcher.submission_check import not_stored
from flinkpy.highavailability.job_stores import JobGraphStore
from flinkpy.rpc.endpoint import RpcEndpoint


class JobCancellations:
    def __init__(self, endpoint: RpcEndpoint, job_graphs: JobGraphStore) -> None:
        self._endpoint = endpoint
        self._job_graphs = job_graphs
        #: of jobs that have not ended; those that could not be kept are not there
        self._kept: dict[JobID, asyncio.Future[None]] = {}

    async def keep(self, runner: JobManagerRunner, ended: asyncio.Future[Any]) -> None:
        """Returns when no other Dispatcher would run the canceled job on. Raises: NotLeaderError, ExternalError."""
        if runner.is_over:
            await asyncio.shield(ended)  # when its result is stored
        elif not runner.job_graph.is_cancel_requested:  # by a former Dispatcher
            await asyncio.shield(self._kept.get(runner.job_id) or self._begin(runner.job_graph))

    def after(self, job_id: JobID, action: Callable[[], None]) -> None:
        """Do that when no write is under way that would bring the graph of a job that has ended back."""
        kept = self._kept.pop(job_id, None)
        if kept is None or kept.done():
            action()
        else:
            kept.add_done_callback(lambda _: self._endpoint.run_in_main_thread(action))

    def _begin(self, job_graph: job_pb2.JobGraph) -> asyncio.Future[None]:
        job_id = JobID(job_graph.job_id)
        marked = job_pb2.JobGraph()
        marked.CopyFrom(job_graph)
        marked.is_cancel_requested = True
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kept[job_id] = kept

        def written(_: None, error: BaseException | None) -> None:
            if error is None:
                kept.set_result(None)
                return
            if self._kept.get(job_id) is kept:
                del self._kept[job_id]  # who asks again has it tried again
            kept.set_exception(not_stored(f"the cancellation of job {job_id}", error))
            kept.exception()  # seen, also where the caller has gone

        self._endpoint.run_blocking(lambda: self._job_graphs.put(marked), written, f"keep cancellation of {job_id}")
        return kept
