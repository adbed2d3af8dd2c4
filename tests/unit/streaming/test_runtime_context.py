"""The RuntimeContext of a function: its task info, metrics, accumulators, cached files and state."""

from __future__ import annotations

from typing import Any

import pytest
from streaming_fakes import FakeTaskEnvironment

from flinkpy._proto import job_pb2
from flinkpy.common.accumulators import DoubleCounter, Histogram, IntCounter, LongCounter
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import InputNotFoundError, UnsupportedOperationError
from flinkpy.common.ids import JobID
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.functions import RuntimeContext
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService
from flinkpy.taskexecutor.gpu_driver import GPUInfo


def context_of(**overrides: Any) -> StreamingRuntimeContext:
    vertex = job_pb2.JobVertex(id="v", name="Source: numbers -> Map")
    environment = FakeTaskEnvironment(vertex, subtask_index=1, parallelism=3, attempt_number=2, **overrides)
    group = environment.metric_group.add_operator("op", "Map")
    service = ProcessingTimeService(environment.clock)
    return StreamingRuntimeContext(OperatorContext("op", "Map", environment, TaskMailbox(), service, group))


def test_a_function_can_read_its_task_info() -> None:
    context = context_of()
    assert isinstance(context, RuntimeContext)
    assert context.get_task_name() == "Source: numbers -> Map"
    assert context.get_task_name_with_subtasks() == "Source: numbers -> Map (2/3)#2"
    assert (context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks()) == (1, 3)
    assert (context.get_max_number_of_parallel_subtasks(), context.get_attempt_number()) == (128, 2)
    task, job = context.get_task_info(), context.get_job_info()
    assert (task.get_task_name(), task.get_index_of_this_subtask(), task.get_attempt_number()) == (
        "Source: numbers -> Map",
        1,
        2,
    )
    assert (job.get_job_id(), job.get_job_name()) == (JobID("job"), "test job")


def test_global_job_parameters_are_read_one_by_one_or_all() -> None:
    configuration = Configuration.from_dict({"pipeline.global-job-parameters": "a:1,b:two"})
    context = context_of(configuration=configuration)
    assert context.get_job_parameter("a", "0") == "1"
    assert context.get_job_parameter("c", "0") == "0"
    assert context.get_global_job_parameters() == {"a": "1", "b": "two"}


def test_metrics_belong_to_the_operator_unless_they_are_disabled() -> None:
    context = context_of()
    context.get_metrics_group().counter("hits").inc()
    assert context.get_metrics_group().get_all_variables()["<operator_name>"] == "Map"
    off = context_of(configuration=Configuration.from_dict({"python.metric.enabled": "false"}))
    with pytest.raises(UnsupportedOperationError, match=r"Metric has not been enabled.*python\.metric\.enabled"):
        off.get_metrics_group()


def test_functions_can_use_accumulators_of_every_kind() -> None:
    context = context_of()
    assert type(context.get_int_counter("i")) is IntCounter
    assert type(context.get_long_counter("l")) is LongCounter
    assert type(context.get_double_counter("d")) is DoubleCounter
    assert type(context.get_histogram("h")) is Histogram
    context.add_accumulator("mine", IntCounter(3))
    assert context.get_accumulator("mine") is not None and context.get_accumulator("other") is None


def test_cached_files_are_found_by_name() -> None:
    context = context_of(cached_files={"table": "/somewhere/table"})
    assert context.get_distributed_cache().get_file("table") == "/somewhere/table"
    with pytest.raises(InputNotFoundError, match=r"no cached file is registered as 'x' \(registered: table\)"):
        context.get_distributed_cache().get_file("x")


def test_keyed_state_needs_a_keyed_stream() -> None:
    with pytest.raises(UnsupportedOperationError, match="key_by first"):
        context_of().get_state(ValueStateDescriptor("s", Types.LONG()))


def test_functions_see_the_external_resources_of_their_task_executor() -> None:
    gpus = frozenset({GPUInfo("0")})
    context = context_of(external_resources={"gpu": gpus})
    assert context.get_external_resource_infos("gpu") == gpus
    assert context.get_external_resource_infos("fpga") == frozenset()
