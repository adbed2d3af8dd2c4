"""TaskEnvironment: everything a stream task gets from the TaskExecutor it runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from flinkpy._proto import checkpoint_pb2, job_pb2
    from flinkpy.common.clock import Clock
    from flinkpy.common.configuration import Configuration
    from flinkpy.network.input_gate import InputGate
    from flinkpy.network.result_partition import ResultPartition
    from flinkpy.state.checkpoint_streams import CheckpointStreams, StateFiles
    from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
    from flinkpy.streaming.operators.metric_group import TaskMetricGroup


class TaskStateManager(Protocol):
    """A task's ends of checkpointing: what it is restored from, where it writes, and how it reports. Thread: any.

    Source: org.apache.flink.runtime.state.TaskStateManager.
    """

    #: The checkpoint this attempt starts from; None: from the beginning.
    restored_checkpoint_id: int | None
    #: Whether every operator of the task had finished in that checkpoint.
    is_restored_as_finished: bool
    files: StateFiles
    #: A directory of this attempt's own for backends that keep files; removed after the task.
    directory: Path
    #: Runs the asynchronous parts of snapshots.
    io_executor: Executor

    def restored_state(self, operator_id: str) -> checkpoint_pb2.OperatorSubtaskState | None: ...

    def checkpoint_streams(
        self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions
    ) -> CheckpointStreams: ...

    def acknowledge(
        self,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None:
        """Everything is written. To the CheckpointCoordinator, at least once."""
        ...

    def decline(self, checkpoint_id: int, error: BaseException) -> None: ...

    def notify_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is completed: older local copies may go. Called by the StreamTask."""
        ...

    def notify_aborted(self, checkpoint_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ShippedFiles:
    """What a job has sent along, as far as the TaskExecutor has it on disk for functions that run elsewhere.

    `python_path`: directories that functions import from. `working_directory`: of archives; None: there are none.
    """

    python_path: tuple[str, ...] = ()
    working_directory: str | None = None


class TaskEnvironment(Protocol):
    """Thread: attributes are read by the task thread and never change; methods say which thread may call them.

    Source: org.apache.flink.runtime.execution.Environment.
    """

    job_id: str
    job_name: str
    configuration: Configuration
    vertex: job_pb2.JobVertex
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    execution_attempt_id: str
    #: Name of the vertex with the subtask: `Source: numbers -> Map (1/2)`.
    task_name: str
    clock: Clock
    #: By position in `vertex.results`.
    result_partitions: list[ResultPartition]
    #: (input of the head operator, position in `vertex.inputs`, gate).
    input_gates: list[tuple[int, int, InputGate]]
    state: TaskStateManager
    metric_group: TaskMetricGroup
    #: Of the task's functions.
    accumulators: AccumulatorRegistry
    #: Paths of the job's cached files by name.
    cached_files: Mapping[str, str]

    def load_pickle(self, data: bytes) -> Any:
        """Unpickle user code or a type of this job, with the job's own modules importable."""
        ...

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        """To the operator's coordinator in the JobMaster; events of one task arrive in order. Any thread."""
        ...

    def notify_running(self) -> None:
        """The task has opened its operators: INITIALIZING -> RUNNING. Task thread."""
        ...

    def notify_end_of_data(self) -> None:
        """The task has processed everything and waits for a checkpoint that contains that. Task thread."""
        ...


#: Makes the task of an environment; what `flinkpy.streaming.tasks.create_stream_task` is.
StreamTaskFactory = Callable[[TaskEnvironment], Any]
