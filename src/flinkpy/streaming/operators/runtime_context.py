"""StreamingRuntimeContext: the RuntimeContext that a user function gets in `open`.

Source: org.apache.flink.streaming.api.operators.StreamingRuntimeContext, pyflink RuntimeContext.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from flinkpy.common.accumulators import Accumulator, DoubleCounter, Histogram, IntCounter, LongCounter
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.external_resource import ExternalResourceInfo
from flinkpy.common.ids import JobID
from flinkpy.common.task_info import DistributedCache, JobInfo, TaskInfo
from flinkpy.configuration import read_option
from flinkpy.configuration.metric_options import PYTHON_METRIC_ENABLED
from flinkpy.configuration.pipeline_options import GLOBAL_JOB_PARAMETERS
from flinkpy.functions.function import RuntimeContext
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup

if TYPE_CHECKING:
    from flinkpy.state.backend import KeyedStateBackend
    from flinkpy.streaming.operators.stream_operator import OperatorContext


class StreamingRuntimeContext(RuntimeContext):
    """Gives a user function access to its task. Thread: task thread.

    Args:
        keyed_state: the keyed state of the operator; None if it is not keyed.
    """

    def __init__(self, context: OperatorContext, keyed_state: KeyedStateBackend | None = None) -> None:
        self._context = context
        self._environment = context.environment
        self._keyed_state = keyed_state

    def get_task_name(self) -> str:
        return self._environment.vertex.name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._environment.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._environment.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._environment.subtask_index

    def get_attempt_number(self) -> int:
        return self._environment.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        return self.get_task_info().get_task_name_with_subtasks()

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """Returns a global job parameter (`pipeline.global-job-parameters`)."""
        return self.get_global_job_parameters().get(key, default_value)

    def get_global_job_parameters(self) -> dict[str, str]:
        parameters = read_option(self._environment.configuration, GLOBAL_JOB_PARAMETERS)
        return dict(parameters or {})

    def get_job_info(self) -> JobInfo:
        return JobInfo(JobID(self._environment.job_id), self._environment.job_name)

    def get_task_info(self) -> TaskInfo:
        environment = self._environment
        return TaskInfo(
            environment.vertex.name,
            environment.subtask_index,
            environment.parallelism,
            environment.max_parallelism,
            environment.attempt_number,
        )

    def get_metrics_group(self) -> OperatorMetricGroup:
        if not read_option(self._environment.configuration, PYTHON_METRIC_ENABLED):
            raise UnsupportedOperationError(
                "Metric has not been enabled. You can enable metric with the 'python.metric.enabled' configuration."
            )
        return self._context.metrics

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        self._environment.accumulators.add(name, accumulator)

    def get_accumulator(self, name: str) -> Accumulator | None:
        return self._environment.accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        return self._environment.accumulators.get_or_add(name, IntCounter)

    def get_long_counter(self, name: str) -> LongCounter:
        return self._environment.accumulators.get_or_add(name, LongCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        return self._environment.accumulators.get_or_add(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram:
        return self._environment.accumulators.get_or_add(name, Histogram)

    def get_external_resource_infos(self, resource_name: str) -> Set[ExternalResourceInfo]:
        return self._environment.external_resources.get(resource_name, frozenset())

    def get_distributed_cache(self) -> DistributedCache:
        return DistributedCache(self._environment.cached_files)

    def get_state(self, state_descriptor: Any) -> Any:
        return self._backend(state_descriptor).value_state(state_descriptor)

    def get_list_state(self, state_descriptor: Any) -> Any:
        return self._backend(state_descriptor).list_state(state_descriptor)

    def get_map_state(self, state_descriptor: Any) -> Any:
        return self._backend(state_descriptor).map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        return self._backend(state_descriptor).reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        return self._backend(state_descriptor).aggregating_state(state_descriptor)

    def _backend(self, descriptor: Any) -> KeyedStateBackend:
        if self._keyed_state is None:
            raise UnsupportedOperationError(
                f"operator {self._context.name}: state {descriptor.get_name()!r} needs a keyed stream: call key_by "
                "first"
            )
        return self._keyed_state
