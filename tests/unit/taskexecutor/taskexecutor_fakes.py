"""Fakes for the TaskExecutor: virtual time, scripted peers, tasks whose thread is the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

from fake_peers import FakePeers
from virtual_time import LoopClock

from flinkpy._proto import common_pb2, job_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import FlinkError, SlotAllocationError
from flinkpy.highavailability.leader_election import LeaderRetrieval
from flinkpy.logs.context import LogContext
from flinkpy.rpc.server import CallContext
from flinkpy.taskexecutor.options import TaskExecutorOptions
from flinkpy.taskexecutor.task_executor import TaskExecutor

RESOURCE_MANAGER = "127.0.0.1:1"
JOB_MASTER = "127.0.0.1:2"
JOB = "a" * 32
OTHER_JOB = "b" * 32
JM_ID = "jm-1"
RM_ID = "rm-1"


class FakeThread:
    """A task thread run by the test: `run()` runs the body at once."""

    def __init__(self, name: str, body: Callable[[], None], on_exit: Callable[[BaseException | None], None]) -> None:
        self.name, self._body, self._on_exit = name, body, on_exit
        self.is_started = False
        self.interrupts = 0
        self.is_in_user_code = False
        self.is_alive = False
        self.stack = "the stack"

    def start(self) -> None:
        self.is_started = self.is_alive = True

    def run(self) -> None:
        assert self.is_started
        error: BaseException | None = None
        try:
            self._body()
        except BaseException as raised:  # noqa: BLE001
            error = raised
        self.is_alive = False
        self._on_exit(error)

    def interrupt(self) -> bool:
        self.interrupts += 1
        return True

    def join(self, timeout_s: float) -> bool:
        return not self.is_alive


class FakeInvokable:
    """An invokable whose `invoke` is a function of the test."""

    def __init__(self, body: Callable[[Any], None]) -> None:
        self._body = body
        self.callbacks: Any = None
        self.is_canceled = False
        #: Whether it takes no mail any more, and refuses triggers.
        self.is_ending = False
        self.events: list[tuple[str, Any]] = []
        self.checkpoints: list[tuple[Any, ...]] = []
        self.pickled_accumulators: dict[str, bytes] = {}
        self.initialization: dict[str, int] = {}

    def invoke(self) -> None:
        self._body(self)

    def cancel(self) -> None:
        self.is_canceled = True

    def dispatch_pickled_operator_event(self, operator_id: str, payload: bytes) -> None:
        self.events.append((operator_id, payload))

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: Any) -> None:
        if self.is_ending:
            raise checkpoint_error(CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING, "it is ending")
        self.checkpoints.append(("trigger", checkpoint_id, timestamp_ms, options))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.checkpoints.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        self.checkpoints.append(("aborted", checkpoint_id, latest_completed_id))

    def metrics(self) -> dict[str, int]:
        return {"num_records_in": 7}

    def accumulators(self) -> dict[str, bytes]:
        return self.pickled_accumulators


def run_to_the_end(invokable: FakeInvokable) -> None:
    invokable.callbacks.notify_running()


class FakeDeployed:
    def __init__(self, deployment: taskexecutor_pb2.TaskDeployment, invokable: FakeInvokable) -> None:
        self.execution_attempt_id = deployment.execution_attempt_id
        self.task_name = f"task {deployment.execution_attempt_id}"
        self.vertex_id = deployment.vertex_id
        self.subtask_index = deployment.subtask_index
        self.allocation_id = deployment.allocation_id
        self.log_context = LogContext("")
        self.trace_parent = None
        #: The names of blocking partitions begin with this prefix.
        self.blocking_partition_ids = tuple(
            p.result_partition_id
            for p in deployment.produced_partitions
            if p.result_partition_id.startswith("p-blocking")
        )
        self.result_partition_ids = tuple(p.result_partition_id for p in deployment.produced_partitions)
        self.invokable = invokable
        self.releases: list[BaseException | None] = []

    def subpartition_bytes(self) -> dict[str, list[int]]:
        return {partition_id: [1, 2] for partition_id in self.blocking_partition_ids}

    def create_invokable(self, callbacks: Any) -> FakeInvokable:
        self.invokable.callbacks = callbacks
        return self.invokable

    def dump_event(self, event: Any) -> bytes:
        return str(event).encode()

    def update_partition(self, input_index: int, partition: Any) -> None:
        raise AssertionError("not expected")

    def release(self, cause: BaseException | None) -> None:
        self.releases.append(cause)


class AtOnce(Executor):
    """Runs each call before `submit` returns."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args, **kwargs))
        return future


class FakeUserCode:
    is_ready = False

    def __init__(self) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_closed = False

    async def prepare(self) -> None:
        await self.ready

    def close(self) -> None:
        self.is_closed = True


class FakeDeployer:
    """Attributes: body: what invokables do; error: raised by `deploy`; is_user_code_ready: at once, or by the test."""

    def __init__(self) -> None:
        self.body: Callable[[FakeInvokable], None] = run_to_the_end
        self.error: FlinkError | None = None
        self.is_user_code_ready = True
        self.deployed: dict[str, FakeDeployed] = {}
        self.user_codes: list[FakeUserCode] = []
        self.unread_partitions: set[str] = set()
        self.released_partitions: list[str] = []
        self.input_failures: dict[str, Callable[[FlinkError], None]] = {}
        self.profile: str | None = None

    def dedicate(self, profile: str) -> None:
        if self.profile not in (None, profile):
            raise SlotAllocationError(f"dedicated to {self.profile}")
        self.profile = profile

    def user_code(self, job: taskexecutor_pb2.JobInformation) -> FakeUserCode:
        code = FakeUserCode()
        self.user_codes.append(code)
        if self.is_user_code_ready:
            code.ready.set_result(None)
        return code

    def deploy(self, job: Any, vertex: Any, deployment: Any, user_code: Any, on_input_failure: Any) -> FakeDeployed:
        if self.error is not None:
            raise self.error
        made = FakeDeployed(deployment, FakeInvokable(self.body))
        self.deployed[deployment.execution_attempt_id] = made
        self.input_failures[deployment.execution_attempt_id] = on_input_failure
        return made

    def partition_is_released(self, result_partition_id: str) -> bool:
        return result_partition_id not in self.unread_partitions

    def release_partition(self, result_partition_id: str, cause: FlinkError | None) -> None:
        self.released_partitions.append(result_partition_id)
        self.unread_partitions.discard(result_partition_id)


class Harness:
    """A TaskExecutor among fakes. Made inside the running loop."""

    def __init__(self, resource_managers: LeaderRetrieval | None = None, **options: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.peers = FakePeers()
        self.deployer = FakeDeployer()
        self.threads: dict[str, FakeThread] = {}
        self.fatal: list[FlinkError] = []
        self.options = TaskExecutorOptions(
            **{"resource_id": "te-1", "num_slots": 2, "resource_manager_address": RESOURCE_MANAGER, **options}
        )
        self.task_executor = TaskExecutor(
            self.loop,
            self.peers,
            self.deployer,
            self.options,
            on_fatal=self.fatal.append,
            clock=LoopClock(self.loop),
            make_thread=self._make_thread,
            on_renewal=self._renewed,
            resource_managers=resource_managers,
        )
        self.renewals = 0
        self.unexpected: list[BaseException] = []
        self.task_executor.on_fatal_error = self.unexpected.append
        answers = self.peers.answers
        answers["register_task_executor"] = lambda _: resourcemanager_pb2.RegisterTaskExecutorResponse(
            resource_manager_id=RM_ID, instance_id="i-1"
        )
        answers["heartbeat_from_task_executor"] = lambda _: resourcemanager_pb2.ResourceManagerHeartbeatResponse(
            resource_manager_id=RM_ID, registered=True
        )
        answers["register_task_manager"] = lambda _: jobmaster_pb2.RegisterTaskManagerResponse()
        answers["offer_slots"] = lambda r: jobmaster_pb2.OfferSlotsResponse(accepted=r.offers)
        answers["heartbeat_from_task_manager"] = self._answer_job_heartbeat

    def _answer_job_heartbeat(self, _: Any) -> Any:
        held = [str(s.allocation_id) for s in self.slots.slots if s.allocation_id is not None]
        return jobmaster_pb2.JobMasterHeartbeatResponse(registered=True, allocation_ids=held)

    def _renewed(self) -> None:
        self.renewals += 1

    def _make_thread(self, name: str, body: Any, on_exit: Any) -> FakeThread:
        self.threads[name] = FakeThread(name, body, on_exit)
        return self.threads[name]

    @property
    def slots(self) -> Any:
        return self.task_executor.service.slots

    @property
    def jobs(self) -> Any:
        return self.task_executor.service.jobs

    async def start(self) -> Harness:
        self.task_executor.start("127.0.0.1:10", "127.0.0.1:11")
        await self.settle()
        return self

    async def settle(self) -> None:
        """Runs everything that is due now."""
        for _ in range(30):
            await asyncio.sleep(0)

    async def pass_time(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)
        await self.settle()

    async def close(self) -> None:
        self.slots.validate()
        self.jobs.validate()
        await self.task_executor.close()
        for error in self.unexpected:
            raise error

    # ---- calls of the peers

    def request_slot(
        self,
        index: int = 0,
        allocation: str = "alloc",
        job: str = JOB,
        jm_id: str = JM_ID,
        token: str = RM_ID,
        profile: str = "",
    ) -> None:
        self.task_executor.request_slot(
            taskexecutor_pb2.RequestSlotRequest(
                slot_index=index,
                job_id=job,
                allocation_id=allocation,
                resource_profile=profile,
                job_master_address=JOB_MASTER,
                job_master_id=jm_id,
                resource_manager_id=token,
            ),
            context(token),
        )

    def renew(self, token: str = RM_ID) -> None:
        self.task_executor.renew(taskexecutor_pb2.RenewRequest(resource_manager_id=token), context(token))

    def free_slot(self, allocation: str = "alloc", token: str = JM_ID) -> None:
        self.task_executor.free_slot(taskexecutor_pb2.FreeSlotRequest(allocation_id=allocation), context(token))

    def submit(
        self,
        *attempts: str,
        allocation: str = "alloc",
        job: str = JOB,
        token: str = JM_ID,
        properties: Mapping[str, str] | None = None,
    ) -> Any:
        configuration = common_pb2.Configuration(entries=properties or {})
        request = taskexecutor_pb2.SubmitTasksRequest(
            job=taskexecutor_pb2.JobInformation(job_id=job, configuration=configuration),
            vertices=[job_pb2.JobVertex(id="v", name="map", parallelism=2)],
            tasks=[
                taskexecutor_pb2.TaskDeployment(
                    execution_attempt_id=attempt,
                    vertex_id="v",
                    allocation_id=allocation,
                    produced_partitions=[
                        taskexecutor_pb2.ResultPartitionDeployment(result_partition_id=f"p-{attempt}")
                    ],
                )
                for attempt in attempts
            ],
        )
        return self.task_executor.submit_tasks(request, context(token)).rejections

    def cancel(self, *attempts: str, token: str = JM_ID) -> None:
        self.task_executor.cancel_tasks(
            taskexecutor_pb2.CancelTasksRequest(job_id=JOB, execution_attempt_ids=attempts), context(token)
        )

    async def run_thread(self, attempt: str) -> None:
        self.threads[f"task {attempt}"].run()
        await self.settle()

    async def with_slot(self, allocation: str = "alloc", index: int = 0) -> Harness:
        self.request_slot(index, allocation)
        await self.settle()
        return self

    # ---- calls to the peers

    @property
    def reported(self) -> list[tuple[str, str]]:
        """(attempt, state) of every state update that was sent, in order."""
        return [
            (u.execution_attempt_id, common_pb2.ExecutionState.Name(u.state).removeprefix("EXECUTION_"))
            for request in self.peers.requests("update_task_execution_states")
            for u in request.updates
        ]

    def slot_states(self) -> list[str]:
        return [slot.state.value for slot in self.slots.slots]


def context(token: str | None) -> CallContext:
    return CallContext(fencing_token=token, client_version=None, peer="test")
