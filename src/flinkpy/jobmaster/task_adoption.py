"""TaskAdoption: continues the tasks of a lost JobMaster of the job, if that is possible.

```
   ResourceManager: who has slots of the job? --> ReportTasks at each --> reconcile --> AdoptTasks at each --> continue
                                                                             |               |
                                                                             +--- refused ---+--> release, restore
```

Nothing is decided before all have reported, and the job runs only when all have agreed. A TaskExecutor that has agreed
takes orders from this JobMaster alone. Its registration waits until the scheduler knows the tasks.

docs/decisions/0088 describes the protocol. Thread: main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flinkpy._proto import job_pb2, resourcemanager_pb2, taskexecutor_pb2
from flinkpy.common.errors import FlinkError, RpcTimeoutError, RpcUnavailableError
from flinkpy.graph.spark_region import SPARK_TASK
from flinkpy.jobmaster.checkpoint_io import StartingPoint
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.resource_manager_connection import ResourceManagerConnection
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.jobmaster.scheduler.task_reconciliation import LocatedReport, RunningTask
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import Peers

logger = logging.getLogger(__name__)

#: The pause before a process that did not answer is asked again.
RETRY_PAUSE_S = 0.1
#: The maximum number of aborted checkpoints that tasks are told. More are never in progress.
MAX_ABORTED = 32


@dataclass(frozen=True, slots=True)
class AdoptionOptions:
    """The options of the adoption.

    Attributes:
        is_enabled: False if the tasks of the job fail with its JobMaster.
        report_timeout_ms: how long to wait for reports, and for agreement.
    """

    is_enabled: bool = True
    report_timeout_ms: int = 2_000


def has_tasks_to_adopt(job_graph: job_pb2.JobGraph) -> bool:
    """False if the tasks of the job can never be continued: they are Spark's, or have blocking results."""
    return not any(
        vertex.task_kind == SPARK_TASK
        or vertex.is_committer
        or any(result.type == job_pb2.BLOCKING for result in vertex.results)
        for vertex in job_graph.vertices
    )


class TaskAdoption:
    """The adoption of the tasks of one job, once."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        scheduler: DefaultScheduler,
        coordinators: OperatorCoordinators,
        resource_manager: ResourceManagerConnection,
        options: AdoptionOptions,
        *,
        job_id: str,
        job_master_id: str,
        address: str,
    ) -> None:
        self._endpoint = endpoint
        self._peers = peers
        self._scheduler = scheduler
        self._coordinators = coordinators
        self._resource_manager = resource_manager
        self._options = options
        self._job_id = job_id
        self._job_master_id = job_master_id
        self._address = address

    async def run(self, start: StartingPoint) -> tuple[RunningTask, ...]:
        """Returns the tasks that TaskExecutors run for this JobMaster now. Empty: the job must restore `start`."""
        deadline_ms = self._endpoint.clock.monotonic_ms() + self._options.report_timeout_ms
        reports: list[LocatedReport] = []
        while True:
            try:
                reports, is_complete = await self._reports()
            except FlinkError as error:
                logger.info("job %s: the ResourceManager does not tell where its tasks run: %s", self._job_id, error)
                is_complete = False
            decision = self._scheduler.reconcile(reports)
            is_final = is_complete or not decision.may_change
            if decision.tasks or is_final or self._endpoint.clock.monotonic_ms() >= deadline_ms:
                break
            await asyncio.sleep(RETRY_PAUSE_S)
        states = self._scheduler.checkpoints.restore().coordinator_states
        reason = decision.reason or self._coordinators.why_not_adopt(decision.tasks, states)
        if not reason:
            reason = await self._take_over(reports, decision.tasks, start)
        if not reason:
            return decision.tasks
        if any(located.report.tasks for located in reports):
            logger.warning("job %s restores a checkpoint, because its tasks cannot go on: %s", self._job_id, reason)
            await asyncio.gather(*(self._release(located.address) for located in reports))
        return ()

    async def _reports(self) -> tuple[list[LocatedReport], bool]:
        """Returns the reports, and whether all have reported. Raises: FlinkError of the ResourceManager."""
        addresses = await self._resource_manager.addresses_with_slots()
        found = await asyncio.gather(*(self._report(address) for address in addresses))
        return [located for located in found if located is not None], None not in found

    async def _report(self, address: str) -> LocatedReport | None:
        request = taskexecutor_pb2.TaskReportRequest(job_id=self._job_id, job_master_id=self._job_master_id)
        try:
            report = await self._gateway(address).report_tasks(request, timeout_s=self._timeout_s)
        except (RpcUnavailableError, RpcTimeoutError) as error:
            logger.info("TaskExecutor at %s does not report its tasks: %s", address, error)
            return None
        except FlinkError as error:  # one that does not know the call has nothing to report
            logger.warning("TaskExecutor at %s does not report its tasks: %s", address, error)
            return LocatedReport(address, taskexecutor_pb2.TaskReport())
        return LocatedReport(address, report)

    async def _take_over(
        self, reports: Iterable[LocatedReport], tasks: Iterable[RunningTask], start: StartingPoint
    ) -> str:
        """Takes over the tasks. Returns why that failed, or an empty string."""
        attempts: dict[str, list[str]] = {located.address: [] for located in reports if located.report.tasks}
        for task in tasks:
            attempts[task.slot.location.address].append(str(task.attempt_id))
        completed_id = 0 if start.checkpoint is None else start.checkpoint.checkpoint_id
        aborted = range(completed_id + 1, start.next_checkpoint_id)[-MAX_ABORTED:]
        calls = [
            self._gateway(address).adopt_tasks(
                taskexecutor_pb2.AdoptTasksRequest(
                    job_id=self._job_id,
                    job_master_id=self._job_master_id,
                    job_master_address=self._address,
                    execution_attempt_ids=own,
                    completed_checkpoint_id=completed_id,
                    aborted_checkpoint_ids=aborted,
                ),
                timeout_s=self._timeout_s,
            )
            for address, own in attempts.items()
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return next((str(answer) for answer in answers if isinstance(answer, BaseException)), "")

    async def _release(self, address: str) -> None:
        """Ends the tasks of the job at a TaskExecutor, whether it has agreed or not. Best effort.

        If the calls fail, the ResourceManager frees the slots.
        """
        none = taskexecutor_pb2.AdoptTasksRequest(job_id=self._job_id, job_master_id=self._job_master_id)
        leave = resourcemanager_pb2.DisconnectRequest(job_id=self._job_id, reason="it restores a checkpoint")
        gateway = self._gateway(address)
        for call in (
            gateway.adopt_tasks(none, timeout_s=self._timeout_s),
            gateway.disconnect_job_master(leave, timeout_s=self._timeout_s),
        ):
            try:
                await call
            except FlinkError as error:
                logger.debug("releasing the tasks at %s: %s", address, error)

    def _gateway(self, address: str) -> Any:
        return self._peers.gateway("TaskExecutor", address, self._job_master_id)

    @property
    def _timeout_s(self) -> float:
        return self._options.report_timeout_ms / 1000
