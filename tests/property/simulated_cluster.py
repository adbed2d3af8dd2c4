"""A simulated cluster on one virtual-time loop: the real JobMaster, fake TaskExecutors, and a network with faults.

One seed determines all random choices, so the same seed gives the same run. Each endpoint is a simulated process on a
host of its own. Every call between two endpoints passes through `HostNetwork`, which may lose, repeat or delay it.

The simulated data plane consists of a source whose subtasks count, and a sink. Each sink subtask remembers the position
of each source subtask and commits it once when a checkpoint is confirmed. This shows whether a restored state is one
consistent cut, and whether committed output is repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from simulated_processes import ProcessLoop, SimulatedProcess, unwind
from simulated_rpc import HostNetwork, SimulatedRpcClient, SimulatedRpcServer
from virtual_time import LoopClock

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import common_pb2, job_pb2, jobmaster_pb2, resourcemanager_pb2, taskexecutor_pb2
from flinkpy.checkpoint.coordinator.pending_checkpoint import inline_handle
from flinkpy.checkpoint.metadata import load_metadata
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import (
    CheckpointError,
    CheckpointStorageError,
    FlinkError,
    FunctionError,
    NotRegisteredError,
    RpcTimeoutError,
    RpcUnavailableError,
    TaskSubmissionError,
)
from flinkpy.jobmaster.job_master import JobMaster
from flinkpy.jobmaster.job_master_environment import JobMasterEnvironment
from flinkpy.jobmaster.servicer import JobMasterServicer
from flinkpy.rpc.error_codec import error_to_proto

ACK = common_pb2.Acknowledge()
PORT = 1
RM = f"rm:{PORT}"
DISPATCHER = f"dispatcher:{PORT}"
#: The interval in which records move and tasks work.
TICK_S = 0.02


class FakeDispatcher:
    """A Dispatcher that only records the end of the job."""

    def __init__(self) -> None:
        self.result: job_pb2.JobResult | None = None

    def notify_job_master_started(self, request: Any, context: Any) -> Any:
        return ACK

    def notify_job_status(self, request: Any, context: Any) -> Any:
        return ACK

    def notify_job_terminated(self, request: Any, context: Any) -> Any:
        self.result = request.result
        return ACK


class FakeResourceManager:
    """A ResourceManager that gives every free slot to the single job while it needs slots."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._job_master: tuple[str, str] | None = None
        self._wanted = 0
        self._sequence_number = 0

    def register_job_master(self, request: Any, context: Any) -> Any:
        if self._job_master != (request.address, request.job_master_id):
            self._job_master = (request.address, request.job_master_id)
            self._wanted = self._sequence_number = 0
        return resourcemanager_pb2.RegisterJobMasterResponse(resource_manager_id="rm", resource_id="rm")

    def declare_required_resources(self, request: Any, context: Any) -> Any:
        if self._job_master is None or request.job_master_id != self._job_master[1]:
            raise NotRegisteredError("another JobMaster leads the job")
        if request.sequence_number > self._sequence_number:
            self._sequence_number = request.sequence_number
            self._wanted = sum(requirement.num_slots for requirement in request.requirements)
        return ACK

    def request_task_manager_info(self, request: Any, context: Any) -> Any:
        """Its TaskExecutors give up their tasks with their JobMaster, so there are none to continue."""
        return resourcemanager_pb2.TaskManagerInfoResponse()

    def heartbeat_from_job_master(self, request: Any, context: Any) -> Any:
        return resourcemanager_pb2.ResourceManagerHeartbeatResponse(registered=self._job_master is not None)

    def disconnect_job_master(self, request: Any, context: Any) -> Any:
        self._wanted = 0
        return ACK

    def tick(self) -> None:
        if self._job_master is None:
            return
        held = sum(len(executor.slots) for executor in self._cluster.executors if executor.serves(self._job_master))
        for executor in self._cluster.executors:
            while held < self._wanted and executor.take_slot(self._job_master):
                held += 1


class FakeTask:
    """A subtask of the source or the sink. Its state contains the first `seen[i]` records of source subtask i."""

    def __init__(self, deployment: taskexecutor_pb2.TaskDeployment, parallelism: int) -> None:
        self.attempt = deployment.execution_attempt_id
        self.vertex_id = deployment.vertex_id
        self.index = deployment.subtask_index
        self.allocation_id = deployment.allocation_id
        self.is_source = self.vertex_id == "source"
        self.is_running = False
        self.is_stopped = False  # by a synchronous savepoint, until it is confirmed
        self.seen = [0] * parallelism
        self.restored_id = deployment.restore.checkpoint_id
        if deployment.HasField("restore"):
            self.seen = _decode(deployment.restore.state.operators[f"{self.vertex_id}-op"])
        self.producers = [p.result_partition_id for gate in deployment.input_gates for p in gate.partitions]
        #: The in-flight records and barriers by producer, in order.
        self.inputs: dict[str, deque[Any]] = {}
        self.consumers: list[FakeTask] = []
        self.aligning: pb.TriggerCheckpointsRequest | None = None
        self.arrived: set[str] = set()
        self.newest_barrier = 0
        self.snapshots: dict[int, list[int]] = {}
        self.synchronous_ids: set[int] = set()


def _encode(vertex_id: str, seen: list[int]) -> pb.TaskStateSnapshot:
    state = pb.TaskStateSnapshot()
    data = ",".join(map(str, seen)).encode()
    handle = state.operators[f"{vertex_id}-op"].operator.add(file=inline_handle(data))
    handle.states.add(name="seen", mode=pb.SPLIT_DISTRIBUTE, offsets=[0], lengths=[len(data)])
    return state


def _decode(state: pb.OperatorSubtaskState) -> list[int]:
    return [int(text) for text in state.operator[0].file.data.decode().split(",")]


class FakeTaskExecutor:
    """A TaskExecutor whose messages arrive in order and at least once, as in production. Its tasks die with it."""

    NUM_SLOTS = 2

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self.name = f"tm{number}"
        self.address = f"{self.name}:{PORT}"
        self.process = cluster.start_process(self.name)
        self._client = cluster.client_of(self.process)
        self.job_master: tuple[str, str] | None = None
        self.slots: dict[str, None] = {}
        self.tasks: dict[str, FakeTask] = {}
        self.is_alive = True
        self._is_registered = False
        self._known_attempts: set[str] = set()
        self._outbox: deque[tuple[str, Any]] = deque()
        self._is_sending = False
        self._num_allocations = 0
        cluster.serve(self.process, "TaskExecutor", self)
        cluster.run(self._live(), self.process)

    @property
    def fencing_token(self) -> str:
        return self.job_master[1] if self.job_master is not None else "nobody"

    def serves(self, job_master: tuple[str, str]) -> bool:
        return self.is_alive and self.job_master == job_master

    def die(self) -> None:
        self.is_alive = False
        self.process.kill()
        self._leave()

    # towards the JobMaster

    def take_slot(self, job_master: tuple[str, str]) -> bool:
        if not self.is_alive:
            return False
        if self.job_master != job_master:
            self._leave()
            self.job_master = job_master
        if len(self.slots) >= self.NUM_SLOTS:
            return False
        self._num_allocations += 1
        self.slots[f"{self.name}-{self._num_allocations}"] = None
        self._is_registered = False  # the new slot is offered with the next registration
        return True

    def _leave(self) -> None:
        self.job_master = None
        self.slots.clear()
        self.tasks.clear()
        self._outbox.clear()
        self._is_registered = False

    async def _live(self) -> None:
        while self.is_alive:
            await asyncio.sleep(0.1)
            job_master = self.job_master
            if job_master is None:
                continue
            try:
                await (self._heartbeat(job_master) if self._is_registered else self._register(job_master))
            except (RpcTimeoutError, RpcUnavailableError):
                continue  # the ResourceManager gives the slots to the next JobMaster if this one is gone
            except FlinkError:
                if self.job_master == job_master:
                    self._leave()

    async def _register(self, job_master: tuple[str, str]) -> None:
        gateway = self._client.gateway("JobMaster", *job_master)
        await gateway.register_task_manager(
            jobmaster_pb2.RegisterTaskManagerRequest(
                job_id="job", resource_id=self.name, address=self.address, data_address=f"{self.name}:2"
            ),
            timeout_s=1.0,
        )
        offered = list(self.slots)
        offers = [jobmaster_pb2.SlotOffer(allocation_id=slot, slot_index=i) for i, slot in enumerate(offered)]
        answer = await gateway.offer_slots(
            jobmaster_pb2.OfferSlotsRequest(job_id="job", resource_id=self.name, offers=offers), timeout_s=1.0
        )
        if self.job_master != job_master:
            return
        accepted = {offer.allocation_id for offer in answer.accepted}
        for slot in offered:
            if slot not in accepted:
                self._free(slot)
        self._is_registered = True

    async def _heartbeat(self, job_master: tuple[str, str]) -> None:
        gateway = self._client.gateway("JobMaster", *job_master)
        answer = await gateway.heartbeat_from_task_manager(self._report(), timeout_s=1.0)
        if self.job_master == job_master and not answer.registered:
            self._leave()
        await asyncio.sleep(0.5)

    def _report(self) -> jobmaster_pb2.TaskManagerToJobMasterHeartbeat:
        return jobmaster_pb2.TaskManagerToJobMasterHeartbeat(
            job_id="job", resource_id=self.name, deployed_execution_attempts=list(self.tasks)
        )

    def _tell(self, method: str, request: Any) -> None:
        self._outbox.append((method, request))
        if not self._is_sending:
            self._is_sending = True
            self._cluster.run(self._send(), self.process)

    async def _send(self) -> None:
        while self._outbox and self.job_master is not None:
            method, request = self._outbox[0]
            gateway = self._client.gateway("JobMaster", *self.job_master)
            try:
                await getattr(gateway, method)(request, timeout_s=1.0)
            except (RpcTimeoutError, RpcUnavailableError):
                await asyncio.sleep(TICK_S)
                continue
            except FlinkError:
                self._leave()
                break
            if self._outbox and self._outbox[0][1] is request:
                self._outbox.popleft()
        self._is_sending = False

    def _update(self, task: FakeTask, state: str, error: FlinkError | None = None) -> None:
        update = jobmaster_pb2.TaskExecutionStateUpdate(
            execution_attempt_id=task.attempt,
            state=f"EXECUTION_{state}",  # type: ignore[arg-type]
        )
        if error is not None:
            update.error.CopyFrom(error_to_proto(error))
        request = jobmaster_pb2.UpdateTaskExecutionStatesRequest(job_id="job", updates=[update])
        self._tell("update_task_execution_states", request)

    def _end(self, task: FakeTask, state: str, error: FlinkError | None = None) -> None:
        if self.tasks.pop(task.attempt, None) is not None:
            self._update(task, state, error)

    def acknowledge(self, task: FakeTask, checkpoint_id: int) -> None:
        if self._cluster.network.is_faulty and self._cluster.random.random() < 0.05:
            self.decline(task.attempt, checkpoint_id, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
            return
        self._tell(
            "acknowledge_checkpoint",
            pb.AcknowledgeCheckpointRequest(
                job_id="job",
                execution_attempt_id=task.attempt,
                checkpoint_id=checkpoint_id,
                state=_encode(task.vertex_id, task.snapshots[checkpoint_id]),
            ),
        )

    def decline(self, attempt: str, checkpoint_id: int, reason: CheckpointFailureReason) -> None:
        self._tell(
            "decline_checkpoint",
            pb.DeclineCheckpointRequest(
                job_id="job",
                execution_attempt_id=attempt,
                checkpoint_id=checkpoint_id,
                reason=error_to_proto(checkpoint_error(reason)),
            ),
        )

    def fail(self, task: FakeTask) -> None:
        self._end(task, "FAILED", FunctionError("boom"))

    # from the JobMaster

    def submit_tasks(self, request: Any, context: Any) -> Any:
        response = taskexecutor_pb2.SubmitTasksResponse()
        for deployment in request.tasks:
            attempt = deployment.execution_attempt_id
            if attempt in self._known_attempts:
                continue
            if deployment.allocation_id not in self.slots:
                error = error_to_proto(TaskSubmissionError("no such slot"))
                response.rejections.add(execution_attempt_id=attempt, error=error)
                continue
            self._known_attempts.add(attempt)
            task = self.make_task(request, deployment)
            self.tasks[attempt] = task
            self._update(task, "INITIALIZING")
            self._update(task, "RUNNING")
            task.is_running = True
        return response

    def make_task(self, request: Any, deployment: taskexecutor_pb2.TaskDeployment) -> FakeTask:
        task = FakeTask(deployment, self._cluster.parallelism)
        self._cluster.check_restore(task)
        return task

    def cancel_tasks(self, request: Any, context: Any) -> Any:
        for attempt in request.execution_attempt_ids:
            self._known_attempts.add(attempt)
            if attempt in self.tasks:
                self._end(self.tasks[attempt], "CANCELED")
        return ACK

    def trigger_checkpoints(self, request: Any, context: Any) -> Any:
        for attempt in request.execution_attempt_ids:
            task = self.tasks.get(attempt)
            if task is None or not self._cluster.barrier(self, task, request):
                reason = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
                self.decline(attempt, request.checkpoint_id, reason)
        return ACK

    def confirm_checkpoints(self, request: Any, context: Any) -> Any:
        for attempt in request.execution_attempt_ids:
            task = self.tasks.get(attempt)
            if task is not None:
                self._cluster.confirm(task, request.checkpoint_id)
                if request.checkpoint_id in task.synchronous_ids:
                    self._end(task, "FINISHED")
        return ACK

    def abort_checkpoints(self, request: Any, context: Any) -> Any:
        for attempt in request.execution_attempt_ids:
            task = self.tasks.get(attempt)
            if task is not None and task.aligning is not None and task.aligning.checkpoint_id == request.checkpoint_id:
                task.aligning = None
                task.arrived.clear()
        return ACK

    def _free(self, allocation_id: str) -> None:
        self.slots.pop(allocation_id, None)
        for task in [task for task in self.tasks.values() if task.allocation_id == allocation_id]:
            self._end(task, "CANCELED")

    def free_slot(self, request: Any, context: Any) -> Any:
        self._free(request.allocation_id)
        return ACK

    def release_partitions(self, request: Any, context: Any) -> Any:
        return ACK

    def heartbeat_from_job_master(self, request: Any, context: Any) -> Any:
        """The two sides may differ about slots where an answer was lost."""
        for allocation_id in request.allocation_ids:
            if allocation_id not in self.slots:
                fail = jobmaster_pb2.FailSlotRequest(job_id="job", resource_id=self.name, allocation_id=allocation_id)
                self._tell("fail_slot", fail)
        if self._is_registered:
            for allocation_id in [slot for slot in self.slots if slot not in request.allocation_ids]:
                self._free(allocation_id)
        return self._report()

    def disconnect_job_master(self, request: Any, context: Any) -> Any:
        self._leave()
        return ACK


class Cluster:
    """A cluster with one job: `source` and `sink`, connected all to all. Each invariant is asserted where it could
    break.
    """

    def __init__(self, loop: ProcessLoop, random: Random, directory: Path, configuration: dict[str, str]) -> None:
        self.random = random
        self.loop = loop
        self.directory = directory
        self.parallelism = 2
        self.network = HostNetwork(loop, random)
        self.dispatcher = FakeDispatcher()
        self.serve(self.start_process("dispatcher"), "Dispatcher", self.dispatcher)
        self.resource_manager = FakeResourceManager(self)
        self.serve(self.start_process("rm"), "ResourceManager", self.resource_manager)
        self._client = self.client_of(self.start_process("client"))
        self._configuration = configuration
        self.errors = self.network.errors
        self.executors: list[FakeTaskExecutor] = []
        self._num_executors = 0
        self._num_job_masters = 0
        self.used_ids: set[int] = set()
        #: The metadata of each completed checkpoint, from the moment it is durable.
        self.completed: dict[int, pb.CheckpointMetadata] = {}
        self.counting: set[int] = set()
        #: Records of each source subtask that each sink subtask has committed.
        self.committed = [[0] * self.parallelism for _ in range(self.parallelism)]
        self.confirmed: set[int] = set()
        self.is_disk_faulty = True
        loop.disk_of = self._disk
        for _ in range(2):
            self.start_executor()
        self.start_job_master()
        #: Runs the data plane and the clients. It never dies.
        self._world = self.start_process("world")
        self.run(self._tick(), self._world)

    def start_process(self, name: str) -> SimulatedProcess:
        """Starts a process on a host of the same name."""
        return SimulatedProcess(self.loop, name, name, len(self.loop.processes))

    def client_of(self, process: SimulatedProcess) -> SimulatedRpcClient:
        return process.context.copy().run(_BoundClient, self.network)

    def serve(self, process: SimulatedProcess, service: str, endpoint: Any) -> None:
        server = process.context.copy().run(_BoundServer, self.network)
        server.add_endpoint(service, endpoint)
        server.listen()

    def run(self, coroutine: Any, process: SimulatedProcess) -> None:
        process.spawn(coroutine).add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.errors.append(task.exception())  # type: ignore[arg-type]

    def _disk(self, process: SimulatedProcess) -> None:
        is_running = self.job_master is not None and self.job_master.state.name != "INITIALIZING"
        if self.is_disk_faulty and is_running and self.random.random() < 0.03:
            self.network.num_faults += 1
            raise CheckpointStorageError("the disk is full")

    # the job, and who runs it

    def make_job_graph(self) -> job_pb2.JobGraph:
        return _job_graph(self.parallelism)

    def make_executor(self, number: int) -> FakeTaskExecutor:
        return FakeTaskExecutor(self, number)

    # processes

    def start_executor(self) -> None:
        self._num_executors += 1
        self.executors.append(self.make_executor(self._num_executors))

    def crash_executor(self) -> None:
        executor = self.executors.pop(self.random.randrange(len(self.executors)))
        executor.die()
        self.loop.call_later(self.random.uniform(0.1, 2.0), self.start_executor)

    def start_job_master(self) -> None:
        self._num_job_masters += 1
        number = self._num_job_masters
        self.address, self.job_master_id = f"jm{number}:{PORT}", f"leader{number}"
        self.job_master_process = self.start_process(f"jm{number}")
        self.job_master = self.job_master_process.context.copy().run(self._make_job_master, number)

    def _make_job_master(self, number: int) -> JobMaster:
        peers = self.client_of(self.job_master_process)
        environment = JobMasterEnvironment(
            peers=peers,  # type: ignore[arg-type]
            resource_id=f"jm{number}",
            address=self.address,
            dispatcher=peers.gateway("Dispatcher", DISPATCHER),
            dispatcher_address=DISPATCHER,
            fetch_blob=lambda _: None,  # type: ignore[arg-type,return-value]
            working_directory=self.directory,
            random=self.random,
            graph_id=f"g{number}",
            recovery_directory=self.directory / "recovery",
        )
        job_master = JobMaster(
            self.loop,
            job_graph=self.make_job_graph(),
            job_master_id=self.job_master_id,
            resource_manager_address=RM,
            cluster_configuration=self._configuration,
            submitted_ms=0,
            environment=environment,
            clock=LoopClock(self.loop),
        )
        job_master.on_fatal_error = self.errors.append
        self._observe(job_master)
        servicer = JobMasterServicer(f"jm{number}")
        servicer.attach(job_master, self.job_master_id)
        self.serve(self.job_master_process, "JobMaster", servicer)
        job_master.start()
        return job_master

    def _observe(self, job_master: JobMaster) -> None:
        """Observes checkpoints at the moment they become durable."""
        io = job_master._checkpoint_io
        make_location, finalize = io.make_location, io.finalize

        def observed_location(effect: Any) -> Any:
            self._note(lambda: self._check_id(effect.checkpoint_id))
            return make_location(effect)

        def observed_finalize(effect: Any) -> Any:
            finalized = finalize(effect)
            self._note(lambda: self._check_cut(effect.metadata))
            self.completed[effect.checkpoint_id] = effect.metadata
            if effect.metadata.kind != pb.SAVEPOINT:
                self.counting.add(effect.checkpoint_id)
            return finalized

        io.make_location, io.finalize = observed_location, observed_finalize  # type: ignore[method-assign]

    def _note(self, check: Callable[[], None]) -> None:
        """Runs a check whose failure must not look like a failure of the disk."""
        if self.loop.is_unwinding:
            return
        try:
            check()
        except AssertionError as error:
            self.errors.append(error)

    def _check_id(self, checkpoint_id: int) -> None:
        assert checkpoint_id not in self.used_ids, f"checkpoint id {checkpoint_id} is used again"
        self.used_ids.add(checkpoint_id)

    async def crash_job_master(self) -> None:
        self.job_master = None
        self.job_master_process.kill()
        await asyncio.sleep(self.random.uniform(0.1, 1.0))
        self.start_job_master()

    def fail_a_task(self) -> None:
        running = [(executor, task) for executor in self.executors for task in executor.tasks.values()]
        if running:
            executor, task = self.random.choice(running)
            executor.fail(task)

    # the data plane

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.resource_manager.tick()
            everything = [(executor, task) for executor in self.executors for task in executor.tasks.values()]
            for _, task in everything:
                consumers = self._consumers(task) if task.is_source and not task.is_stopped else None
                if consumers is not None:
                    task.seen[task.index] += 1
                    for queue in consumers:
                        queue.append(task.index)
            for executor, task in everything:
                if not task.is_source:
                    self._consume(executor, task)

    def _consumers(self, source: FakeTask) -> list[deque[Any]] | None:
        """Returns the channels to all sinks, or None while one of them is missing."""
        channels = []
        for executor in self.executors:
            for task in executor.tasks.values():
                for partition in task.producers:
                    if partition.partition("@")[2] == source.attempt and task.is_running:
                        channels.append(task.inputs.setdefault(partition, deque()))
        return channels if len(channels) == self.parallelism else None

    def barrier(self, executor: FakeTaskExecutor, source: FakeTask, request: Any) -> bool:
        """Appends a barrier to the records that the source has sent. A repeated trigger adds no barrier."""
        if request.checkpoint_id <= source.newest_barrier:
            return True
        consumers = self._consumers(source)
        if consumers is None or source.is_stopped:
            return False
        source.newest_barrier = request.checkpoint_id
        for queue in consumers:
            queue.append(request)
        self._snapshot(executor, source, request)
        return True

    def _snapshot(self, executor: FakeTaskExecutor, task: FakeTask, request: Any) -> None:
        task.snapshots[request.checkpoint_id] = list(task.seen)
        if request.options.kind in (pb.SYNC_SAVEPOINT_SUSPEND, pb.SYNC_SAVEPOINT_TERMINATE):
            task.is_stopped = True
            task.synchronous_ids.add(request.checkpoint_id)

        def written() -> None:
            if task.attempt in executor.tasks:
                executor.acknowledge(task, request.checkpoint_id)

        self.loop.call_later(self.random.uniform(0.001, 0.1), written)

    def _consume(self, executor: FakeTaskExecutor, sink: FakeTask) -> None:
        for partition, queue in sink.inputs.items():
            for _ in range(self.random.randint(0, 4)):
                if not queue or (sink.aligning is not None and partition in sink.arrived) or sink.is_stopped:
                    break
                item = queue.popleft()
                if isinstance(item, int):
                    sink.seen[item] += 1
                    continue
                self._align(executor, sink, partition, item)

    def _align(self, executor: FakeTaskExecutor, sink: FakeTask, partition: str, request: Any) -> None:
        if request.checkpoint_id < sink.newest_barrier:
            return
        if request.checkpoint_id > sink.newest_barrier:
            sink.newest_barrier = request.checkpoint_id
            sink.aligning = request
            sink.arrived = set()
        if sink.aligning is None:  # it has been aborted
            return
        sink.arrived.add(partition)
        if sink.arrived == set(sink.producers):
            sink.aligning = None
            self._snapshot(executor, sink, request)

    # invariants

    def _check_cut(self, metadata: pb.CheckpointMetadata) -> None:
        """Checks that the sinks' state contains exactly the records that the sources' state counts as sent."""
        operators = {operator.operator_id: operator for operator in metadata.operators}
        sent = [_decode(operators["source-op"].subtasks[i])[i] for i in range(self.parallelism)]
        for index in range(self.parallelism):
            assert _decode(operators["sink-op"].subtasks[index]) == sent, "not one cut through the job"

    def check_restore(self, task: FakeTask) -> None:
        if task.restored_id == 0:
            assert not self.confirmed, "a job with committed results began from nothing"
            return
        assert task.restored_id in self.counting, f"restored from {task.restored_id}, which does not count"
        operators = {operator.operator_id: operator for operator in self.completed[task.restored_id].operators}
        assert task.seen == _decode(operators[f"{task.vertex_id}-op"].subtasks[task.index])
        if not task.is_source:
            self._commit(task.index, task.seen)

    def confirm(self, task: FakeTask, checkpoint_id: int) -> None:
        assert checkpoint_id in self.counting, f"checkpoint {checkpoint_id} is confirmed and does not count"
        self.confirmed.add(checkpoint_id)
        if checkpoint_id in task.snapshots and not task.is_source:
            self._commit(task.index, task.snapshots[checkpoint_id])

    def _commit(self, sink_index: int, seen: list[int]) -> None:
        """Commits output up to these positions. They must include all previously committed output."""
        before = self.committed[sink_index]
        if all(new <= old for new, old in zip(seen, before, strict=True)):
            return  # committed before: a restore or a confirmation may be repeated
        assert all(new >= old for new, old in zip(seen, before, strict=True))
        self.committed[sink_index] = list(seen)

    def raise_errors(self) -> None:
        if self.errors:
            raise self.errors[0]

    # the run

    async def misbehave(self, for_s: float) -> None:
        """Causes faults of every kind at random times."""
        until = self.loop.time() + for_s
        number = 0
        while self.loop.time() < until:
            await asyncio.sleep(self.random.uniform(0.2, 1.5))
            self.raise_errors()
            what = self.random.random()
            if what < 0.35:
                self.fail_a_task()
            elif what < 0.5 and len(self.executors) > 1:
                self.crash_executor()
            elif what < 0.6:
                await self.crash_job_master()
            elif what < 0.8:
                number += 1
                self.run(self._ask_for_savepoint(f"t{number}"), self._world)

    async def _ask_for_savepoint(self, trigger_id: str) -> None:
        request = pb.TriggerSavepointRequest(
            job_id="job", trigger_id=trigger_id, target_directory=str(self.directory / "savepoints")
        )
        for _ in range(3):  # a client without an answer repeats the call
            gateway = self._client.gateway("JobMaster", self.address, self.job_master_id)
            try:
                result = await asyncio.wait_for(gateway.trigger_savepoint(request, timeout_s=1.0), 5.0)
            except (FlinkError, TimeoutError):
                continue
            self._check_cut(load_metadata(FileSystems(), result.path)[1])
            return

    async def heal_and_stop(self) -> str:
        """Stops all faults, checks that the job makes progress, and stops it. Returns the path of the savepoint."""
        self.network.is_faulty = self.is_disk_faulty = False
        before = max(self.confirmed, default=0)
        await self._until(lambda: max(self.confirmed, default=0) >= before + 3, "no checkpoint is completed any more")
        result = await self._stop()
        await self._until(lambda: self.dispatcher.result is not None, "the Dispatcher does not hear of the end")
        assert self.job_master is not None
        await asyncio.wait_for(self.job_master.terminated.wait(), 60.0)
        return result.path

    async def _stop(self) -> pb.CheckpointResult:
        """Stops the job with a savepoint. Repeats the request while earlier faults still restart the job."""
        for number in range(20):
            request = pb.StopWithSavepointRequest(
                job_id="job", trigger_id=f"stop{number}", target_directory=str(self.directory / "savepoints")
            )
            gateway = self._client.gateway("JobMaster", self.address, self.job_master_id)
            try:
                return await asyncio.wait_for(gateway.stop_with_savepoint(request, timeout_s=None), 60.0)
            except CheckpointError:
                await asyncio.sleep(1.0)
        raise AssertionError("the job cannot be stopped")

    async def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        for _ in range(2_000):
            if condition():
                return
            await asyncio.sleep(0.1)
            self.raise_errors()
        raise AssertionError(otherwise)

    async def close(self) -> None:
        await unwind(self.loop)


class _BoundClient(SimulatedRpcClient):
    def __init__(self, network: HostNetwork) -> None:
        super().__init__()
        self.network = network


class _BoundServer(SimulatedRpcServer):
    def __init__(self, network: HostNetwork) -> None:
        self.network = network
        super().__init__(port=PORT)


def _job_graph(parallelism: int) -> job_pb2.JobGraph:
    def vertex(name: str, **rest: Any) -> job_pb2.JobVertex:
        chain = [job_pb2.OperatorDescriptor(operator_id=f"{name}-op", name=name)]
        return job_pb2.JobVertex(id=name, name=name, parallelism=parallelism, max_parallelism=-1, chain=chain, **rest)

    data = job_pb2.IntermediateDataSet(
        id="data", type=job_pb2.PIPELINED_BOUNDED, distribution=job_pb2.ALL_TO_ALL, partitioner_name="REBALANCE"
    )
    edge = job_pb2.JobEdge(source_data_set_id="data")
    return job_pb2.JobGraph(
        job_id="job", name="job", vertices=[vertex("source", results=[data]), vertex("sink", inputs=[edge])]
    )
