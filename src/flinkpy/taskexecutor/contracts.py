"""What the control path and the data path of a TaskExecutor know of each other.

Tasks and jobs (control) are written against these; `task_deployer` implements them with network and streaming (data),
and tests implement them with fakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from flinkpy._proto import checkpoint_pb2, taskexecutor_pb2
from flinkpy.common.errors import FlinkError


class Invokable(Protocol):
    """What a task runs: a StreamTask. Source: org.apache.flink.runtime.jobgraph.tasks.TaskInvokable."""

    def invoke(self) -> None:
        """Run to the end of the input. Thread: task thread."""
        ...

    def cancel(self) -> None:
        """Make `invoke` return or raise soon. Thread: any; idempotent."""
        ...

    def dispatch_pickled_operator_event(self, operator_id: str, payload: bytes) -> object:
        """Thread: any; in order. Unpickled on the task thread."""
        ...

    def trigger_checkpoint(
        self, checkpoint_id: int, timestamp_ms: int, options: checkpoint_pb2.CheckpointOptions
    ) -> None:
        """Begin a checkpoint here, at a source. Returns when it is in the mailbox: operator events dispatched later are
        processed after it. Thread: any."""
        ...

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Thread: any."""
        ...

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """`latest_completed_id`: 0 where there is none. Thread: any."""
        ...

    def metrics(self) -> dict[str, int]:
        """Fields of IOMetrics. Thread: any."""
        ...

    def accumulators(self) -> dict[str, bytes]:
        """The user's accumulators, pickled, as of the last snapshot; may ask for a newer one. Thread: any."""
        ...


class TaskCallbacks(Protocol):
    """What the invokable may tell while it runs. Thread: any."""

    def notify_running(self) -> None: ...

    def send_operator_event(self, operator_id: str, event: Any) -> None: ...

    def acknowledge_checkpoint(
        self,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None: ...

    def decline_checkpoint(self, checkpoint_id: int, error: BaseException) -> None: ...

    def notify_end_of_data(self) -> None: ...


class DeployedTask(Protocol):
    """What the deployer made for an attempt: its partitions and gates exist, its user code is not loaded yet."""

    execution_attempt_id: str
    task_name: str
    vertex_id: str
    subtask_index: int
    allocation_id: str
    result_partition_ids: tuple[str, ...]
    #: Those of them that can be read again and again, from the task's end on.
    blocking_partition_ids: tuple[str, ...]

    def subpartition_bytes(self) -> dict[str, list[int]]:
        """Of its blocking results, by id: what each subpartition has, before compression. It has finished."""
        ...

    def create_invokable(self, callbacks: TaskCallbacks) -> Invokable:
        """Load the operators. Thread: task thread (it runs user code)."""
        ...

    def dump_event(self, event: Any) -> bytes:
        """Pickle an operator event for a coordinator. Thread: any."""
        ...

    def update_partition(self, input_index: int, partition: taskexecutor_pb2.ShuffleDescriptor) -> None:
        """Where a producer is. Raises: UnsupportedOperationError where the gate reads from elsewhere already."""
        ...

    def release(self, cause: BaseException | None) -> None:
        """Close the gates, and with a `cause` release the partitions too; without one they stay until they are
        read."""
        ...


class JobUserCode(Protocol):
    """The user code of one job; `flinkpy.taskexecutor.user_code.UserCode`."""

    def prepare(self) -> Awaitable[None]: ...

    def close(self) -> None: ...


class TaskDeployer(Protocol):
    """Makes what tasks need on the data path. Thread: main thread."""

    @property
    def profile(self) -> str | None:
        """The resource profile that this process is dedicated to; None: to none yet."""
        ...

    def dedicate(self, profile: str) -> None:
        """Serve this resource profile and no other. Raises: SlotAllocationError where it serves another one."""
        ...

    def user_code(self, job: taskexecutor_pb2.JobInformation) -> JobUserCode: ...

    def deploy(
        self,
        job: taskexecutor_pb2.JobInformation,
        vertex: Any,
        deployment: taskexecutor_pb2.TaskDeployment,
        user_code: Any,
        on_input_failure: Callable[[FlinkError], None],
    ) -> DeployedTask:
        """Create partitions and gates. `on_input_failure`: any thread. Raises: FlinkError, with nothing left
        behind."""
        ...

    def partition_is_released(self, result_partition_id: str) -> bool: ...

    def release_partition(self, result_partition_id: str, cause: FlinkError | None) -> None: ...


class JobUserCodeSlot:
    """A job's user code and whether it is ready."""

    __slots__ = ("is_ready", "user_code")

    def __init__(self, user_code: JobUserCode) -> None:
        self.user_code = user_code
        self.is_ready = False
