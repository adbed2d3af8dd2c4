"""TaskEnvironment: everything that a TaskExecutor provides to a stream task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from flinkpy._proto import checkpoint_pb2, job_pb2
    from flinkpy.common.clock import Clock
    from flinkpy.common.configuration import Configuration
    from flinkpy.common.external_resource import ExternalResourceInfos
    from flinkpy.network.input_gate import InputGate
    from flinkpy.network.result_partition import ResultPartition
    from flinkpy.state.checkpoint_streams import CheckpointStreams, StateFiles
    from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
    from flinkpy.streaming.operators.metric_group import TaskMetricGroup


class TaskStateManager(Protocol):
    """Gives a task its restored state and the streams of its snapshots, and reports its checkpoints. Thread: any.

    Source: org.apache.flink.runtime.state.TaskStateManager.
    """

    #: The checkpoint from which this attempt starts; None if it starts without state.
    restored_checkpoint_id: int | None
    #: True if every operator of the task had finished in that checkpoint.
    is_restored_as_finished: bool
    files: StateFiles
    #: A directory for backends that keep files. It belongs to this attempt and is removed after the task.
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
        """Reports to the CheckpointCoordinator, at least once, that the snapshot of the task has been written."""
        ...

    def decline(self, checkpoint_id: int, error: BaseException) -> None: ...

    def notify_complete(self, checkpoint_id: int) -> None:
        """Removes older local copies, because the checkpoint is complete. Called by the StreamTask."""
        ...

    def notify_aborted(self, checkpoint_id: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ShippedFiles:
    """The files of a job that the TaskExecutor has on disk, for functions that run in another process.

    Attributes:
        python_path: the directories from which functions import.
        working_directory: the directory of the extracted archives; None if there are none.
        import_path: `sys.path` for a process that runs functions of this job only; empty if it is that of this process.
    """

    python_path: tuple[str, ...] = ()
    working_directory: str | None = None
    import_path: tuple[str, ...] = ()


class TaskEnvironment(Protocol):
    """Everything that a TaskExecutor provides to a task.

    Thread: the attributes never change; the task thread reads them. Each method says which thread may call it.

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
    #: The name of the vertex and the number of the subtask: `Source: numbers -> Map (1/2)`.
    task_name: str
    clock: Clock
    #: By position in `vertex.results`.
    result_partitions: list[ResultPartition]
    #: Tuples of (input of the head operator, position in `vertex.inputs`, gate).
    input_gates: list[tuple[int, int, InputGate]]
    state: TaskStateManager
    metric_group: TaskMetricGroup
    #: The accumulators of the task's functions.
    accumulators: AccumulatorRegistry
    #: The paths of the job's cached files, by name.
    cached_files: Mapping[str, str]
    #: The external resources of the TaskExecutor.
    external_resources: ExternalResourceInfos
    #: The positions in `vertex.results` of committables that the JobMaster has from an earlier attempt of this task and
    #: all other subtasks. What this attempt writes there is dropped.
    final_results: frozenset[int]

    def load_pickle(self, data: bytes) -> Any:
        """Unpickles user code or a type of this job. The job's own modules are importable."""
        ...

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        """Sends an event to the operator's coordinator in the JobMaster. Events of a task stay in order. Any thread."""
        ...

    def notify_running(self) -> None:
        """Reports that the operators are open: INITIALIZING -> RUNNING. Task thread."""
        ...

    def notify_end_of_data(self) -> None:
        """Reports that the task has processed its input and waits for its final checkpoint. Task thread."""
        ...
