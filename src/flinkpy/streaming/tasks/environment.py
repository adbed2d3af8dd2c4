"""TaskEnvironment: everything a stream task gets from the TaskExecutor it runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flinkpy._proto import job_pb2
    from flinkpy.common.clock import Clock
    from flinkpy.common.configuration import Configuration
    from flinkpy.network.input_gate import InputGate
    from flinkpy.network.result_partition import ResultPartition


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

    def load_pickle(self, data: bytes) -> Any:
        """Unpickle user code or a type of this job, with the job's own modules importable."""
        ...

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        """To the operator's coordinator in the JobMaster; events of one task arrive in order. Any thread."""
        ...

    def notify_running(self) -> None:
        """The task has opened its operators: INITIALIZING -> RUNNING. Task thread."""
        ...


#: Makes the task of an environment; what `flinkpy.streaming.tasks.create_stream_task` is.
StreamTaskFactory = Callable[[TaskEnvironment], Any]
