"""Conversions between the messages of jobmaster.proto and the types of the JobMaster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from flinkpy._proto import common_pb2, job_pb2, jobmaster_pb2, taskexecutor_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.common.ids import AllocationID, ExecutionAttemptID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.graph.resource_profiles import resource_profile_from_proto
from flinkpy.jobmaster.executiongraph.execution import IO_METRIC_NAMES, IOMetrics
from flinkpy.jobmaster.scheduler.events import TaskMetricsReported, TaskStateUpdated
from flinkpy.jobmaster.slotpool.physical_slot import SlotOffer
from flinkpy.rpc.error_codec import error_from_proto, error_to_proto


def io_metrics_from_proto(message: common_pb2.IOMetrics) -> IOMetrics:
    return IOMetrics(*(getattr(message, name) for name in IO_METRIC_NAMES))


def io_metrics_to_proto(metrics: IOMetrics) -> common_pb2.IOMetrics:
    return common_pb2.IOMetrics(**{name: getattr(metrics, name) for name in IO_METRIC_NAMES})


def job_status(state: JobState) -> common_pb2.JobStatus:
    return cast("common_pb2.JobStatus", state.value)  # the values are those of the proto enum


def execution_state(state: ExecutionState) -> common_pb2.ExecutionState:
    return cast("common_pb2.ExecutionState", state.value)  # the values are those of the proto enum


def attempt_ids(texts: Iterable[str]) -> frozenset[ExecutionAttemptID]:
    return frozenset(ExecutionAttemptID.parse(text) for text in texts)


def state_update(message: jobmaster_pb2.TaskExecutionStateUpdate) -> TaskStateUpdated:
    return TaskStateUpdated(
        ExecutionAttemptID.parse(message.execution_attempt_id),
        ExecutionState(message.state),
        error_from_proto(message.error) if message.HasField("error") else None,
        io_metrics_from_proto(message.metrics) if message.HasField("metrics") else None,
        dict(message.accumulators_pickle),
        {one.result_partition_id: tuple(one.subpartition_bytes) for one in message.result_partition_bytes},
        dict(message.initialization),
    )


def metrics_report(messages: Sequence[jobmaster_pb2.TaskExecutionStateUpdate]) -> TaskMetricsReported:
    return TaskMetricsReported(
        tuple(
            (ExecutionAttemptID.parse(message.execution_attempt_id), io_metrics_from_proto(message.metrics))
            for message in messages
            if message.HasField("metrics")
        ),
        tuple(
            (ExecutionAttemptID.parse(message.execution_attempt_id), dict(message.accumulators_pickle))
            for message in messages
            if message.accumulators_pickle
        ),
    )


def job_information(job_graph: job_pb2.JobGraph, blob_server_address: str) -> taskexecutor_pb2.JobInformation:
    """Returns the information about the job for its TaskExecutors."""
    return taskexecutor_pb2.JobInformation(
        job_id=job_graph.job_id,
        name=job_graph.name,
        configuration=job_graph.configuration,
        artifacts=job_graph.artifacts,
        python_path=job_graph.python_path,
        working_directory=job_graph.working_directory,
        blob_server_address=blob_server_address,
    )


def offers(messages: Iterable[jobmaster_pb2.SlotOffer]) -> tuple[SlotOffer, ...]:
    return tuple(
        SlotOffer(
            AllocationID(message.allocation_id),
            message.slot_index,
            resource_profile_from_proto(message, "resources"),
        )
        for message in messages
    )


def as_flink_error(error: BaseException) -> FlinkError:
    """Returns a FlinkError unchanged, and any other error as an InternalError with its traceback."""
    return error if isinstance(error, FlinkError) else error_from_proto(error_to_proto(error))
