"""WorkerEnvironment: the environment of a chain of operators in a Spark task."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from flinkpy._proto import job_pb2
from flinkpy.common.clock import SystemClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.metrics.metric_registry import MetricScope
from flinkpy.spark.translation.program import PassProgram
from flinkpy.spark.worker_files import resolved
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry
from flinkpy.streaming.operators.metric_group import TaskMetricGroup


class ChainHost(Protocol):
    def load_spec(self, data: bytes) -> Any:
        """Returns the spec of the next operator from its pickle."""
        ...

    def on_operator_event(self, operator_id: str, event: Any) -> None:
        """Handles an event from an operator to its coordinator."""
        ...


class _NoFiles:
    def open(self, handle: Any) -> Any:
        raise UnsupportedOperationError("there are no checkpoints in Spark")


class _NoState:
    """Implements TaskStateManager without state. Every attempt starts from the beginning."""

    restored_checkpoint_id: int | None = None
    is_restored_as_finished = False

    def __init__(self) -> None:
        self.files: Any = _NoFiles()
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self.io_executor = ThreadPoolExecutor(max_workers=1)

    @property
    def directory(self) -> Path:
        if self._directory is None:
            # Spark removes its local directories when the application ends, even if a worker was killed.
            place = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
            self._directory = tempfile.TemporaryDirectory(prefix="flinkpy-", dir=place)
        return Path(self._directory.name)

    def restored_state(self, operator_id: str) -> None:
        return None

    def checkpoint_streams(self, checkpoint_id: int, options: Any) -> Any:
        raise UnsupportedOperationError("there are no checkpoints in Spark")

    def acknowledge(self, checkpoint_id: int, metrics: Any, state: Any) -> None:
        raise UnsupportedOperationError("there are no checkpoints in Spark")

    def decline(self, checkpoint_id: int, error: BaseException) -> None:
        return

    def notify_complete(self, checkpoint_id: int) -> None:
        return

    def notify_aborted(self, checkpoint_id: int) -> None:
        return

    def close(self) -> None:
        self.io_executor.shutdown()
        if self._directory is not None:
            self._directory.cleanup()


class WorkerEnvironment:
    """Implements TaskEnvironment. Thread: the chain's.

    Args:
        vertex: has the chain of operators.
        host: runs the chain.
    """

    def __init__(
        self,
        program: PassProgram,
        vertex: job_pb2.JobVertex,
        subtask_index: int,
        attempt_number: int,
        host: ChainHost,
    ) -> None:
        job = program.job
        self.job_id = job.job_id
        self.job_name = job.job_name
        self.configuration = Configuration.from_dict(dict(job.configuration))
        self.vertex = vertex
        self.subtask_index = subtask_index
        # If Spark chooses the partitions, there may be more than the parallelism of the operator.
        self.parallelism = max(program.parallelism, subtask_index + 1)
        self.max_parallelism = max(program.max_parallelism, self.parallelism)
        self.attempt_number = attempt_number
        self.execution_attempt_id = f"{job.job_id}-{vertex.id}-{subtask_index}-{attempt_number}"
        self.task_name = f"{vertex.name} ({subtask_index + 1}/{self.parallelism})"
        self.clock = SystemClock()
        self.result_partitions: list[Any] = []
        self.input_gates: list[Any] = []
        self.state = _NoState()
        self.accumulators = AccumulatorRegistry(self.clock)
        self.cached_files: Mapping[str, str] = resolved(job.cached_files)
        self._host = host
        variables = {
            "<host>": "localhost",
            "<tm_id>": "spark",
            "<job_id>": job.job_id,
            "<job_name>": job.job_name,
            "<task_id>": vertex.id,
            "<task_name>": vertex.name,
            "<task_attempt_id>": self.execution_attempt_id,
            "<task_attempt_num>": str(attempt_number),
            "<subtask_index>": str(subtask_index),
        }
        scope = MetricScope(job.job_id, vertex.id, subtask_index, attempt_number)
        self.metric_group = TaskMetricGroup(scope, variables, self.configuration)

    def load_pickle(self, data: bytes) -> Any:
        return self._host.load_spec(data)

    def send_operator_event(self, operator_id: str, event: Any) -> None:
        self._host.on_operator_event(operator_id, event)

    def notify_running(self) -> None:
        return

    def notify_end_of_data(self) -> None:
        return

    def close(self) -> None:
        self.metric_group.close()
        self.state.close()
