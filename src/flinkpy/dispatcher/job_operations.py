"""JobOperations: passes checkpoints and savepoints that clients trigger to the JobMasters of their jobs.

Source: org.apache.flink.runtime.dispatcher.DispatcherOperationCaches.

Thread: the Dispatcher's loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import ErrorRetry, FlinkError, InternalError, StopWithSavepointStoppingError
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.common.states import JobState
from flinkpy.dispatcher.running_jobs import RunningJob, RunningJobs

#: How often to check whether the JobMaster that stopped a job still leads it.
LOOK_INTERVAL_S = 0.2


T = TypeVar("T")
Key = tuple[str, ...]

#: The maximum number of finished operations that are kept. It does not limit running operations.
MAX_FINISHED = 1_000


class OperationCache:
    """Runs each operation once per key, however often clients repeat the call.

    A client whose connection broke or whose call timed out repeats the call with the same id. It gets the answer of the
    operation that it started, whether that has finished or not. `start(coroutine, on_done, name)` runs an operation, as
    `RpcEndpoint.run_async` does.
    """

    def __init__(self, start: Callable[[Coroutine[Any, Any, Any], Any, str], Any]) -> None:
        self._start = start
        self._under_way: dict[Key, asyncio.Future[Any]] = {}
        self._finished: OrderedDict[Key, asyncio.Future[Any]] = OrderedDict()

    async def run(self, key: Key, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Returns the result of the operation with this key, and starts it if there is none. It outlives its caller.

        An error is not kept if it says that the same call may succeed later.
        """
        future = self._under_way.get(key) or self._finished.get(key)
        if future is None:
            future = self._begin(key, operation)
        result: T = await asyncio.shield(future)
        return result

    def _begin(self, key: Key, operation: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future

        def done(result: Any, error: BaseException | None) -> None:
            del self._under_way[key]
            if not (isinstance(error, FlinkError) and error.retry is ErrorRetry.BACKOFF):
                self._finished[key] = future
                while len(self._finished) > MAX_FINISHED:
                    self._finished.popitem(last=False)
            if error is None:
                future.set_result(result)
                return
            future.set_exception(error if isinstance(error, Exception) else InternalError(str(error)))
            future.exception()  # mark it as retrieved: its caller may have gone

        self._start(operation(), done, f"operation {'/'.join(key)}")
        return future


class JobOperations:
    """Runs operations on jobs. `start(coroutine, on_done, name)` runs a call, as `RpcEndpoint.run_async` does."""

    def __init__(self, jobs: RunningJobs, start: Callable[[Coroutine[Any, Any, Any], Any, str], Any]) -> None:
        self._jobs = jobs
        self._cache = OperationCache(start)

    async def run(self, method: str, request: Any) -> checkpoint_pb2.CheckpointResult:
        """Calls `method` of the job's JobMaster, once for each trigger id, and returns its answer.

        The operation continues if the caller stops waiting. A repeated call gets the answer of the first one.

        Raises: JobNotFoundError, RpcUnavailableError, and the errors of the JobMaster.
        """
        job_id = JobID(request.job_id)
        if not request.trigger_id:
            request.trigger_id = secrets.token_hex(16)

        async def ask() -> checkpoint_pb2.CheckpointResult:
            gateway = await self._jobs.leader_of(job_id)
            job = self._jobs.find(job_id)
            asked = None if job is None else job.runner.job_master_id
            # Without a time-out: a checkpoint has its own, and a JobMaster that ends breaks the connection.
            result: checkpoint_pb2.CheckpointResult = await getattr(gateway, method)(request, timeout_s=None)
            if job is not None and method == "stop_with_savepoint":
                await _ended(job, asked, result.path)
            return result

        self._jobs.status_of(job_id)  # raises JobNotFoundError
        return await self._cache.run((request.job_id, method, request.trigger_id), ask)


async def _ended(job: RunningJob, stopped_by: JobMasterId | None, path: str) -> None:
    """Returns when the result of a stopped job is stored, so that the caller finds the job ended.

    Raises: StopWithSavepointStoppingError if the JobMaster was lost before it reported the result, and the job runs
        again.
    """
    while job.runner.job_master_id == stopped_by:
        await asyncio.wait({job.ended}, timeout=LOOK_INTERVAL_S)
        if job.ended.done():
            if JobState(job.ended.result().result.status) is JobState.FINISHED:
                return
            break
    raise StopWithSavepointStoppingError(
        f"savepoint {path} was written, but the JobMaster was lost before it reported the end of the job",
        details={"savepoint_path": path},
    )
