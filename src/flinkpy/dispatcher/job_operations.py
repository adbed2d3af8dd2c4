"""JobOperations: checkpoints and savepoints that clients ask for, handed to the JobMasters of their jobs.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import StopWithSavepointStoppingError
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.common.states import JobState
from flinkpy.dispatcher.operation_cache import OperationCache
from flinkpy.dispatcher.running_jobs import RunningJob, RunningJobs

#: How often it is looked whether the JobMaster that has stopped a job still leads it.
LOOK_INTERVAL_S = 0.2


class JobOperations:
    """`start(coroutine, on_done, name)` runs a call, as `RpcEndpoint.run_async` does."""

    def __init__(self, jobs: RunningJobs, start: Callable[[Coroutine[Any, Any, Any], Any, str], Any]) -> None:
        self._jobs = jobs
        self._cache = OperationCache(start)

    async def run(self, method: str, request: Any) -> checkpoint_pb2.CheckpointResult:
        """The answer of the job's JobMaster, which is asked once for each trigger id, however often this is called.

        The operation goes on when the caller gives up waiting: repeated, the call is answered by what the first one
        began.

        Raises: JobNotFoundError, RpcUnavailableError, and what the JobMaster raises.
        """
        job_id = JobID(request.job_id)
        if not request.trigger_id:
            request.trigger_id = secrets.token_hex(16)

        async def ask() -> checkpoint_pb2.CheckpointResult:
            gateway = await self._jobs.leader_of(job_id)
            job = self._jobs.find(job_id)
            asked = None if job is None else job.runner.job_master_id
            # No time-out: a checkpoint has its own, and a JobMaster that is gone breaks the connection.
            result: checkpoint_pb2.CheckpointResult = await getattr(gateway, method)(request, timeout_s=None)
            if job is not None and method == "stop_with_savepoint":
                await _ended(job, asked, result.path)
            return result

        self._jobs.status_of(job_id)  # raises where nobody knows the job
        return await self._cache.run((request.job_id, method, request.trigger_id), ask)


async def _ended(job: RunningJob, stopped_by: JobMasterId | None, path: str) -> None:
    """Returns when the result of the job that was stopped is stored: whoever has the answer finds it ended, for good.

    Raises: StopWithSavepointStoppingError where the JobMaster did not live to bring it, and the job runs again.
    """
    while job.runner.job_master_id == stopped_by:
        await asyncio.wait({job.ended}, timeout=LOOK_INTERVAL_S)
        if job.ended.done():
            if JobState(job.ended.result().result.status) is JobState.FINISHED:
                return
            break
    raise StopWithSavepointStoppingError(
        f"savepoint {path} was written, but the JobMaster was lost before it had told that the job is over",
        details={"savepoint_path": path},
    )
