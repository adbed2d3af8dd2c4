"""JobOperations: checkpoints and savepoints that clients ask for, handed to the JobMasters of their jobs.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.ids import JobID
from flinkpy.dispatcher.operation_cache import OperationCache
from flinkpy.dispatcher.running_jobs import RunningJobs

#: How long after a stop-with-savepoint the Dispatcher may be without the result of the job.
END_TIMEOUT_S = 10.0


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
            # No time-out: a checkpoint has its own, and a JobMaster that is gone breaks the connection.
            result: checkpoint_pb2.CheckpointResult = await getattr(gateway, method)(request, timeout_s=None)
            stopped = self._jobs.find(job_id) if method == "stop_with_savepoint" else None
            if stopped is not None:  # whoever has the answer finds the job ended
                await asyncio.wait({stopped.ended}, timeout=END_TIMEOUT_S)
            return result

        self._jobs.status_of(job_id)  # raises where nobody knows the job
        return await self._cache.run((request.job_id, method, request.trigger_id), ask)
