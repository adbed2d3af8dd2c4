"""Tasks without user code: a counting source, and a sink that commits the position of each source once.

They run inside real TaskExecutors, which deploy, trigger and cancel them on virtual time. `SimulatedDeployer` is their
TaskDeployer. `DataPlane.tick` moves the records between them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from simulated_cluster import _decode, _encode
from simulated_processes import ProcessLoop, SimulatedProcess, no_process
from simulated_rpc import HostNetwork

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.errors import FlinkError, FunctionError
from flinkpy.logs.context import LogContext

#: The interval in which records move and tasks work.
TICK_S = 0.05


class SimulatedThread:
    """A task thread that runs on the loop. Its function returns at once, and `finish` ends it."""

    running: SimulatedThread | None = None

    def __init__(self, name: str, body: Callable[[], None], on_exit: Callable[[BaseException | None], None]) -> None:
        self._body = body
        self._on_exit = on_exit
        self.process: SimulatedProcess | None = None
        self.is_alive = False
        self.is_in_user_code = False
        self.stack = ""

    def start(self) -> None:
        from simulated_processes import CURRENT

        self.process = CURRENT.get()
        assert self.process is not None
        self.is_alive = True
        self.process.loop.call_later(0.001, self._run, context=self.process.context.copy())

    def _run(self) -> None:
        SimulatedThread.running = self
        try:
            self._body()
        except Exception as error:  # noqa: BLE001 - as a thread does
            self.finish(error)
        finally:
            SimulatedThread.running = None

    def finish(self, error: BaseException | None = None) -> None:
        if self.is_alive:
            self.is_alive = False
            self._on_exit(error)

    def interrupt(self) -> bool:
        return False

    def join(self, timeout_s: float) -> bool:
        return not self.is_alive


class SimulatedTask:
    """A DeployedTask and its Invokable. Its state contains the first `seen[i]` records of source subtask i."""

    blocking_partition_ids: tuple[str, ...] = ()

    def __init__(
        self,
        plane: DataPlane,
        process: SimulatedProcess,
        job_id: str,
        deployment: taskexecutor_pb2.TaskDeployment,
        job_master_id: str,
    ) -> None:
        self.plane = plane
        self.process = process
        self.job_id = job_id
        self.job_master_id = job_master_id
        self.execution_attempt_id = deployment.execution_attempt_id
        self.vertex_id = deployment.vertex_id
        self.subtask_index = deployment.subtask_index
        self.task_name = f"{self.vertex_id}-{self.subtask_index}-{self.execution_attempt_id[-12:]}"
        self.allocation_id = deployment.allocation_id
        self.log_context = LogContext("")
        self.trace_parent = None
        self.result_partition_ids = tuple(p.result_partition_id for p in deployment.produced_partitions)
        self.is_source = self.vertex_id == "source"
        self.job = plane.jobs[job_id]
        self.seen = [0] * self.job.parallelism
        self.restored_id = deployment.restore.checkpoint_id if deployment.HasField("restore") else 0
        if deployment.HasField("restore"):
            self.seen = _decode(deployment.restore.state.operators[f"{self.vertex_id}-op"])
        self.producers = [p.result_partition_id for gate in deployment.input_gates for p in gate.partitions]
        #: The in-flight records and barriers by producer, in order.
        self.inputs: dict[str, deque[Any]] = {}
        self.is_running = False
        self.is_stopped = False
        self.aligning: tuple[int, pb.CheckpointOptions] | None = None
        self.arrived: set[str] = set()
        self.newest_barrier = 0
        self.snapshots: dict[int, list[int]] = {}
        self.synchronous_ids: set[int] = set()
        self._callbacks: Any = None
        self._thread: SimulatedThread | None = None

    # DeployedTask

    def subpartition_bytes(self) -> dict[str, list[int]]:
        return {}

    def create_invokable(self, callbacks: Any) -> SimulatedTask:
        self._callbacks = callbacks
        self._thread = SimulatedThread.running
        return self

    def dump_event(self, event: Any) -> bytes:
        return b""

    def update_partition(self, input_index: int, partition: Any) -> None:
        return

    def release(self, cause: BaseException | None) -> None:
        self.plane.tasks.pop(self.execution_attempt_id, None)

    # Invokable

    @property
    def initialization(self) -> dict[str, int]:
        return {}

    def invoke(self) -> None:
        self.plane.check_restore(self)
        self.is_running = True
        self._callbacks.notify_running()

    def cancel(self) -> None:
        self._end(None)

    def fail(self) -> None:
        self._end(FunctionError("boom"))

    def _end(self, error: FlinkError | None) -> None:
        self.is_running = False
        if self._thread is not None:
            self._later(self.plane.network.random.uniform(0.001, 0.1), self._thread.finish, error)

    def dispatch_pickled_operator_event(self, operator_id: str, payload: bytes) -> object:
        return None

    def metrics(self) -> dict[str, int]:
        return {}

    def accumulators(self) -> dict[str, bytes]:
        return {}

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, options: pb.CheckpointOptions) -> None:
        if checkpoint_id > self.newest_barrier and self.is_source:
            self.plane.emit_barrier(self, checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.plane.confirm(self, checkpoint_id)
        if checkpoint_id in self.synchronous_ids:
            self._end(None)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        if self.aligning is not None and self.aligning[0] == checkpoint_id:
            self.aligning = None
            self.arrived.clear()

    # The data plane

    def snapshot(self, checkpoint_id: int, options: pb.CheckpointOptions) -> None:
        self.snapshots[checkpoint_id] = list(self.seen)
        if options.kind in (pb.SYNC_SAVEPOINT_SUSPEND, pb.SYNC_SAVEPOINT_TERMINATE):
            self.is_stopped = True
            self.synchronous_ids.add(checkpoint_id)
        state = _encode(self.vertex_id, self.seen)
        self._later(self.plane.network.random.uniform(0.001, 0.1), self._written, checkpoint_id, state)

    def decline(self, checkpoint_id: int) -> None:
        self._callbacks.decline_checkpoint(checkpoint_id, FunctionError("it does not want to"))

    def _written(self, checkpoint_id: int, state: pb.TaskStateSnapshot) -> None:
        network = self.plane.network
        if network.is_faulty and network.random.random() < 0.03:
            self.decline(checkpoint_id)
        elif self.is_running:
            self._callbacks.acknowledge_checkpoint(checkpoint_id, pb.CheckpointMetrics(), state)

    def _later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        self.process.loop.call_later(delay_s, action, *args, context=self.process.context.copy())


class SimulatedDeployer:
    """The TaskDeployer of one TaskExecutor."""

    profile: str | None = None

    def __init__(self, plane: DataPlane, process: SimulatedProcess, token_of: Callable[[str], str]) -> None:
        self._plane = plane
        self._process = process
        #: Returns the JobMasterId of a job on this TaskExecutor.
        self._token_of = token_of

    def dedicate(self, profile: str) -> None:
        self.profile = profile

    def user_code(self, job: Any) -> Any:
        return _NoUserCode()

    def deploy(self, job: Any, vertex: Any, deployment: Any, user_code: Any, on_input_failure: Any) -> SimulatedTask:
        task = SimulatedTask(self._plane, self._process, job.job_id, deployment, self._token_of(job.job_id))
        self._plane.deployed(task)
        return task

    def partition_is_released(self, result_partition_id: str) -> bool:
        return True

    def release_partition(self, result_partition_id: str, cause: FlinkError | None) -> None:
        return


class _NoUserCode:
    is_ready = False

    async def prepare(self) -> None:
        return

    def close(self) -> None:
        return


class SimulatedJob:
    """The external view of a job: its durable checkpoints and the output that its sinks have committed."""

    def __init__(self, job_id: str, parallelism: int) -> None:
        self.id = job_id
        self.parallelism = parallelism
        self.used_ids: set[int] = set()
        #: The metadata of each completed checkpoint, from the moment it is durable.
        self.completed: dict[int, pb.CheckpointMetadata] = {}
        #: Checkpoints whose completion a JobMaster has tried to record. It may not know if it succeeded.
        self.tried: set[int] = set()
        #: Checkpoints whose completion has been recorded.
        self.counting: set[int] = set()
        self.confirmed: set[int] = set()
        self.first_confirmed_s = math.inf
        #: Records of each source subtask that each sink subtask has committed.
        self.committed = [[0] * parallelism for _ in range(parallelism)]


class DataPlane:
    """All tasks of all jobs, and the data in flight between them."""

    def __init__(self, loop: ProcessLoop, network: HostNetwork) -> None:
        self.loop = loop
        self.network = network
        self.jobs: dict[str, SimulatedJob] = {}
        self.tasks: dict[str, SimulatedTask] = {}
        self.errors = network.errors
        #: Called for each deployment that a TaskExecutor has accepted.
        self.on_deployed: Callable[[SimulatedTask], None] = lambda task: None

    def start(self) -> None:
        self.loop.call_later(TICK_S, self._tick, context=no_process())

    def deployed(self, task: SimulatedTask) -> None:
        self.tasks[task.execution_attempt_id] = task
        self.network.trace.note("deployed", task.process.name, task.task_name, task.restored_id)
        self._checked(lambda: self.on_deployed(task))

    def living(self) -> list[SimulatedTask]:
        for attempt in [attempt for attempt, task in self.tasks.items() if task.process.is_dead]:
            del self.tasks[attempt]
        return [task for task in self.tasks.values() if task.is_running]

    def _tick(self) -> None:
        if self.loop.is_unwinding:
            return
        everything = self.living()
        for task in everything:
            consumers = self._consumers(task, everything) if task.is_source and not task.is_stopped else None
            if consumers is not None:
                task.seen[task.subtask_index] += 1
                for queue in consumers:
                    queue.append(task.subtask_index)
        for task in everything:
            if not task.is_source:
                self._consume(task)
        self.loop.call_later(TICK_S, self._tick, context=no_process())

    def _consumers(self, source: SimulatedTask, everything: list[SimulatedTask]) -> list[deque[Any]] | None:
        """Returns the channels to all sinks, or None while one of them is missing or unreachable."""
        channels = []
        for task in everything:
            for partition in task.producers:
                if partition.partition("@")[2] == source.execution_attempt_id:
                    if not self.network.connects(source.process.host, task.process.host):
                        return None
                    channels.append(task.inputs.setdefault(partition, deque()))
        return channels if len(channels) == source.job.parallelism else None

    def emit_barrier(self, source: SimulatedTask, checkpoint_id: int, options: pb.CheckpointOptions) -> None:
        """Appends a barrier to the records that the source has sent."""
        consumers = self._consumers(source, self.living())
        if consumers is None or source.is_stopped:
            source.decline(checkpoint_id)
            return
        source.newest_barrier = checkpoint_id
        for queue in consumers:
            queue.append((checkpoint_id, options))
        source.snapshot(checkpoint_id, options)

    def _consume(self, sink: SimulatedTask) -> None:
        for partition, queue in sink.inputs.items():
            for _ in range(self.network.random.randint(0, 4)):
                if not queue or (sink.aligning is not None and partition in sink.arrived) or sink.is_stopped:
                    break
                item = queue.popleft()
                if isinstance(item, int):
                    sink.seen[item] += 1
                else:
                    self._align(sink, partition, *item)

    def _align(self, sink: SimulatedTask, partition: str, checkpoint_id: int, options: pb.CheckpointOptions) -> None:
        if checkpoint_id < sink.newest_barrier:
            return
        if checkpoint_id > sink.newest_barrier:
            sink.newest_barrier = checkpoint_id
            sink.aligning = (checkpoint_id, options)
            sink.arrived = set()
        if sink.aligning is None:  # it has been aborted
            return
        sink.arrived.add(partition)
        if sink.arrived == set(sink.producers):
            sink.aligning = None
            sink.snapshot(checkpoint_id, options)

    # Invariants

    def _checked(self, check: Callable[[], None]) -> None:
        """Runs a check whose failure must not look like a failure of the task."""
        try:
            check()
        except AssertionError as error:
            self.errors.append(error)

    def check_cut(self, job: SimulatedJob, metadata: pb.CheckpointMetadata) -> None:
        """Checks that the sinks' state contains exactly the records that the sources' state counts as sent."""
        operators = {operator.operator_id: operator for operator in metadata.operators}
        sent = [_decode(operators["source-op"].subtasks[i])[i] for i in range(job.parallelism)]
        for index in range(job.parallelism):
            assert _decode(operators["sink-op"].subtasks[index]) == sent, "not one cut through the job"

    def check_restore(self, task: SimulatedTask) -> None:
        self._checked(lambda: self._check_restore(task))

    def _check_restore(self, task: SimulatedTask) -> None:
        job = task.job
        if task.restored_id == 0:
            submitted_s = self.network.submitted_s[task.execution_attempt_id]
            assert submitted_s <= job.first_confirmed_s, "a job with committed results began from nothing"
            return
        assert task.restored_id in job.tried, f"restored from {task.restored_id}, which does not count"
        operators = {operator.operator_id: operator for operator in job.completed[task.restored_id].operators}
        assert task.seen == _decode(operators[f"{task.vertex_id}-op"].subtasks[task.subtask_index])
        if not task.is_source:
            self._commit(job, task.subtask_index, task.seen)

    def confirm(self, task: SimulatedTask, checkpoint_id: int) -> None:
        self._checked(lambda: self._confirm(task, checkpoint_id))

    def _confirm(self, task: SimulatedTask, checkpoint_id: int) -> None:
        job = task.job
        assert checkpoint_id in job.counting, f"checkpoint {checkpoint_id} is confirmed and does not count"
        job.confirmed.add(checkpoint_id)
        job.first_confirmed_s = min(job.first_confirmed_s, self.loop.time())
        if checkpoint_id in task.snapshots and not task.is_source:
            self.network.trace.note("commit", task.task_name, checkpoint_id)
            self._commit(job, task.subtask_index, task.snapshots[checkpoint_id])

    def _commit(self, job: SimulatedJob, sink_index: int, seen: list[int]) -> None:
        """Commits output up to these positions. They must include all previously committed output."""
        before = job.committed[sink_index]
        if all(new <= old for new, old in zip(seen, before, strict=True)):
            return  # committed before: a restore or a confirmation may be repeated
        assert all(new >= old for new, old in zip(seen, before, strict=True))
        job.committed[sink_index] = list(seen)
