"""The interfaces between the control path and the data path of a TaskExecutor.

The control path (tasks, jobs) uses these interfaces. `task_deployer` implements them on the data path (network,
streaming), and tests with fakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from flinkpy._proto import checkpoint_pb2, taskexecutor_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.logs.context import LogContext
from flinkpy.traces.trace_context import SpanContext


class Invokable(Protocol):
    """The code that a task runs: a StreamTask. Source: org.apache.flink.runtime.jobgraph.tasks.TaskInvokable."""

    @property
    def initialization(self) -> Mapping[str, int]:
        """The measurements of the initialization by Flink's names, complete when the task runs. Thread: any."""
        ...

    def invoke(self) -> None:
        """Runs to the end of the input. Thread: task thread."""
        ...

    def cancel(self) -> None:
        """Makes `invoke` return or raise soon. Idempotent. Thread: any."""
        ...

    def dispatch_pickled_operator_event(self, operator_id: str, payload: bytes) -> object:
        """Delivers an event to an operator, in order. It is unpickled on the task thread. Thread: any."""
        ...

    def trigger_checkpoint(
        self, checkpoint_id: int, timestamp_ms: int, options: checkpoint_pb2.CheckpointOptions
    ) -> None:
        """Triggers a checkpoint at a source. Thread: any.

        The trigger is in the mailbox when this returns, so operator events that are dispatched later come after it.

        Raises: CheckpointError if the invokable is ending and takes no mail.
        """
        ...

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Confirms a checkpoint. Thread: any."""
        ...

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """Aborts a checkpoint. `latest_completed_id` is 0 if none has completed. Thread: any."""
        ...

    @property
    def reported_bytes(self) -> int:
        """The size of the data in memory of the operators that know it. Thread: any."""
        ...

    def set_paused(self, is_paused: bool) -> None:
        """Stops or continues processing input. Mail and timers are still processed. Idempotent. Thread: any."""
        ...

    def release_memory(self) -> None:
        """Lets operators write to files what they can, before the next batch. Thread: any."""
        ...

    def metrics(self) -> dict[str, int]:
        """Returns the fields of IOMetrics. Thread: any."""
        ...

    def accumulators(self) -> dict[str, bytes]:
        """Returns the last snapshot of the user's accumulators, pickled. May request a newer one. Thread: any."""
        ...


class TaskCallbacks(Protocol):
    """The calls that an invokable makes while it runs. Thread: any."""

    def notify_running(self, restored: Mapping[str, int] = MappingProxyType({})) -> None:
        """Reports that the task runs.

        Args:
            restored: the measurements of the restore by Flink's names; empty if there was no state.
        """
        ...

    def send_operator_event(self, operator_id: str, event: Any) -> None: ...

    def acknowledge_checkpoint(
        self,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None: ...

    def decline_checkpoint(self, checkpoint_id: int, error: BaseException) -> None: ...

    def notify_end_of_data(self) -> None: ...

    def store_result(self, result_partition_id: str, pieces: Iterable[bytes]) -> None:
        """Stores a result at the JobMaster. Returns when it is on disk there. Thread: task thread.

        Raises: FlinkError if the JobMaster refuses it, or if the task is canceled.
        """
        ...

    def fetch_result(self, result_partition_id: str) -> Iterator[bytes]:
        """Yields a result that is stored at the JobMaster, in pieces. Thread: task thread.

        Raises: CommittablesLostError if it is lost; FlinkError if the task is canceled.
        """
        ...


class DeployedTask(Protocol):
    """A deployed execution attempt, whose partitions and gates exist and whose user code is not loaded yet."""

    execution_attempt_id: str
    task_name: str
    vertex_id: str
    subtask_index: int
    allocation_id: str
    result_partition_ids: tuple[str, ...]
    #: The blocking ones among them, which can be read repeatedly after the end of the task.
    blocking_partition_ids: tuple[str, ...]
    #: The job and the attempt in log lines.
    log_context: LogContext
    #: The span that causes what the task does; None: the job is not traced.
    trace_parent: SpanContext | None

    def subpartition_bytes(self) -> dict[str, list[int]]:
        """Returns the uncompressed sizes of the subpartitions of each blocking result of a finished task."""
        ...

    def create_invokable(self, callbacks: TaskCallbacks) -> Invokable:
        """Loads the operators, which runs user code. Thread: task thread."""
        ...

    def dump_event(self, event: Any) -> bytes:
        """Pickles an operator event for a coordinator. Thread: any."""
        ...

    def update_partition(self, input_index: int, partition: taskexecutor_pb2.ShuffleDescriptor) -> None:
        """Sets the location of a producer. Raises: UnsupportedOperationError if the gate reads another location."""
        ...

    def release(self, cause: BaseException | None) -> None:
        """Closes the gates. Releases the partitions if there is a `cause`; otherwise they stay until they are read."""
        ...


class JobUserCode(Protocol):
    """The user code of one job. Implemented by `flinkpy.taskexecutor.user_code.UserCode`.

    Attributes:
        is_ready: True if `prepare` has succeeded. The TaskExecutor sets it.
    """

    is_ready: bool

    def prepare(self) -> Awaitable[None]: ...

    def close(self) -> None: ...


class TaskDeployer(Protocol):
    """Creates the data path of tasks. Thread: main thread."""

    @property
    def profile(self) -> str | None:
        """The resource profile that this process serves; None if it serves none yet."""
        ...

    def dedicate(self, profile: str) -> None:
        """Makes this process serve the resource profile. Raises: SlotAllocationError if it serves another one."""
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
        """Creates the partitions and gates of a task. Raises: FlinkError; nothing is left then.

        Args:
            on_input_failure: called on any thread if an input fails.
        """
        ...

    def partition_is_released(self, result_partition_id: str) -> bool: ...

    def release_partition(self, result_partition_id: str, cause: FlinkError | None) -> None: ...
