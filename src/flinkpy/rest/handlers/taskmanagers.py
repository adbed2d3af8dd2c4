"""Operations of TaskManagers.

The ResourceManager knows which there are. What one TaskManager alone knows is asked of it; if it does not answer in
time, the details say that they are stale.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from flinkpy._proto import metrics_pb2, resourcemanager_pb2, taskexecutor_pb2
from flinkpy.common.errors import ExternalError, UserError
from flinkpy.common.resource_profile import ResourceProfile
from flinkpy.graph.resource_profiles import resource_profile_from_proto
from flinkpy.rest.context import RestContext
from flinkpy.rest.errors import not_found
from flinkpy.rest.forms.metrics import AGGREGATIONS, aggregated_metrics, metric_collection
from flinkpy.rest.handlers.jobmanager import GET_PARAMETER, NO_PROFILER, no_profiling
from flinkpy.rest.log_parts import TAIL_PARAMETER, ByteRange, log_response
from flinkpy.rest.messages.jobmanager import (
    LogInfo,
    LogListInfo,
    ProfilingInfo,
    ProfilingInfoList,
    ProfilingRequestBody,
    ThreadDumpInfo,
    ThreadInfo,
)
from flinkpy.rest.messages.metrics import AggregatedMetrics, MetricCollection
from flinkpy.rest.messages.taskmanagers import (
    GarbageCollectorInfo,
    HardwareDescription,
    ResourceProfileInfo,
    SlotInfo,
    TaskExecutorMemoryConfiguration,
    TaskManagerDetailsInfo,
    TaskManagerInfo,
    TaskManagerMetricsInfo,
    TaskManagersInfo,
)
from flinkpy.rest.operation import TEXTS, QueryParameter, RestCall, operation, some_of
from flinkpy.security import Role

logger = logging.getLogger(__name__)

#: How long details wait for a TaskManager. A person waits for them, and the page asks again.
DETAILS_TIMEOUT_S = 2.0
#: How long an operation waits if it has no answer without the TaskManager.
TASK_MANAGER_TIMEOUT_S = 10.0
#: How long the list of TaskManagers waits for the ResourceManager.
RESOURCE_MANAGER_TIMEOUT_S = 5.0
#: The value of a figure that is not known.
UNKNOWN = -1


async def task_managers(context: RestContext, resource_id: str = "") -> list[resourcemanager_pb2.TaskManagerInfo]:
    """Returns all registered TaskManagers, or the one with this id."""
    gateway = await context.cluster.resource_manager()
    request = resourcemanager_pb2.TaskManagerInfoRequest(resource_id=resource_id)
    answer = await gateway.request_task_manager_info(request, timeout_s=RESOURCE_MANAGER_TIMEOUT_S)
    return list(answer.task_managers)


async def task_manager_of(call: RestCall) -> resourcemanager_pb2.TaskManagerInfo:
    """Returns the TaskManager that the path names. Raises: RestError with status 404."""
    resource_id = str(call.path["taskmanagerid"])
    found = await task_managers(call.context, resource_id)
    if not found:
        raise not_found(f"Could not find TaskExecutor {resource_id}")
    return found[0]


async def _gateway(call: RestCall) -> Any:
    """Returns the gateway of the TaskManager that the path names. Raises: RestError with status 404."""
    return call.context.cluster.task_executor((await task_manager_of(call)).address)


@operation("GET", "/taskmanagers", "Returns an overview over all task managers.", response=TaskManagersInfo)
async def task_managers_overview(call: RestCall) -> TaskManagersInfo:
    found = await task_managers(call.context)
    return TaskManagersInfo(taskmanagers=[TaskManagerInfo(**_info(one)) for one in found])


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid",
    "Returns details for a task manager.",
    response=TaskManagerDetailsInfo,
)
async def task_manager_details(call: RestCall) -> TaskManagerDetailsInfo:
    found = await task_manager_of(call)
    values = await process_values(call.context, found, DETAILS_TIMEOUT_S)
    details = TaskManagerDetailsInfo(
        **_info(found),
        metrics=_metrics(values or {}),
        allocated_slots=[
            SlotInfo(resource=_slot_resource(found, slot), job_id=slot.job_id, assigned_tasks=slot.num_tasks)
            for slot in found.slots
            if slot.allocation_id
        ],
    )
    if values is None:
        details.stale = True
    else:
        configured = details.memory_configuration
        configured.network_memory = _known(values, "Status.Shuffle.Netty.TotalMemory")
        configured.managed_memory = _known(values, "Status.Flink.Memory.Managed.Total")
        total = resource_profile_from_proto(found, "total_resource", ResourceProfile.ANY)
        if not total.is_any:
            configured.task_heap, configured.task_off_heap = total.task_heap_bytes, total.task_off_heap_bytes
        budget = _known(values, "Status.Flink.Memory.Process.Total")
        configured.total_process_memory = None if budget == UNKNOWN else budget
        details.hardware.managed_memory = configured.managed_memory or 0
    return details


async def process_values(
    context: RestContext, task_manager: resourcemanager_pb2.TaskManagerInfo, timeout_s: float
) -> dict[str, int | float] | None:
    """Returns the metrics of a TaskManager's process, or None if it does not answer in time."""
    gateway = context.cluster.task_executor(task_manager.address)
    try:
        dump: metrics_pb2.MetricsDump = await gateway.request_process_metrics(
            taskexecutor_pb2.ProcessMetricsRequest(), timeout_s=timeout_s
        )
    except ExternalError as error:
        logger.info("TaskExecutor %s does not tell its metrics: %s", task_manager.resource_id, error)
        return None
    return {
        metric.name: metric.number if metric.WhichOneof("value") == "number" else metric.real
        for group in dump.groups
        for metric in group.metrics
    }


def _info(found: resourcemanager_pb2.TaskManagerInfo) -> dict[str, Any]:
    total = resource_profile_from_proto(found, "total_resource", ResourceProfile.ANY)
    left = resource_profile_from_proto(found, "free_resource", ResourceProfile.ANY)
    default_slot = resource_profile_from_proto(found, "default_slot_resource", ResourceProfile.ANY)
    num_free = sum(not slot.allocation_id for slot in found.slots)
    port = found.data_address.rpartition(":")[2]
    return {
        "id": found.resource_id,
        "path": found.address,
        "data_port": int(port) if port.isdigit() else UNKNOWN,
        "jmx_port": UNKNOWN,
        "time_since_last_heartbeat": found.last_heartbeat_ms,
        "slots_number": found.num_slots or len(found.slots),
        "free_slots": left.num_slots_within(default_slot, num_free),
        "assigned_tasks": sum(slot.num_tasks for slot in found.slots),
        "total_resource": _resource(total),
        "free_resource": _resource(left),
        "hardware": HardwareDescription(
            cpu_cores=found.hardware.cpu_cores,
            physical_memory=found.hardware.memory_bytes,
            free_memory=found.hardware.memory_bytes,
            managed_memory=0,
        ),
        "memory_configuration": TaskExecutorMemoryConfiguration(),
        "blocked": False,
    }


def _slot_resource(
    found: resourcemanager_pb2.TaskManagerInfo, slot: resourcemanager_pb2.SlotStatus
) -> ResourceProfileInfo:
    """Returns the resources of a slot: those that it was cut with, or those of a default slot."""
    default_slot = resource_profile_from_proto(found, "default_slot_resource", ResourceProfile.ANY)
    return _resource(resource_profile_from_proto(slot, "resources", default_slot))


def _resource(profile: ResourceProfile) -> ResourceProfileInfo:
    """Returns resources in Flink's units: CPU cores and whole megabytes. Zeros if there is no limit."""
    return ResourceProfileInfo(
        cpu_cores=profile.cpu_cores,
        task_heap_memory=profile.task_heap_bytes >> 20,
        task_off_heap_memory=profile.task_off_heap_bytes >> 20,
        managed_memory=profile.managed_bytes >> 20,
        network_memory=profile.network_bytes >> 20,
        extended_resources=dict(profile.external),
    )


def _known(values: dict[str, int | float], name: str) -> int | None:
    value = values.get(name)
    return None if value is None else int(value)


def _metrics(values: dict[str, int | float]) -> TaskManagerMetricsInfo:
    def value(name: str) -> int:
        return int(values.get(name, UNKNOWN))

    collector = "Status.JVM.GarbageCollector.Python"
    collectors = []
    if f"{collector}.Count" in values:
        collectors = [
            GarbageCollectorInfo(name="Python", count=value(f"{collector}.Count"), time=value(f"{collector}.Time"))
        ]
    netty = "Status.Shuffle.Netty"
    return TaskManagerMetricsInfo(
        heap_used=value("Status.JVM.Memory.Heap.Used"),
        heap_committed=value("Status.JVM.Memory.Heap.Committed"),
        heap_max=value("Status.JVM.Memory.Heap.Max"),
        direct_used=value("Status.JVM.Memory.Direct.MemoryUsed"),
        netty_shuffle_memory_segments_available=value(f"{netty}.AvailableMemorySegments"),
        netty_shuffle_memory_segments_used=value(f"{netty}.UsedMemorySegments"),
        netty_shuffle_memory_segments_total=value(f"{netty}.TotalMemorySegments"),
        netty_shuffle_memory_available=value(f"{netty}.AvailableMemory"),
        netty_shuffle_memory_used=value(f"{netty}.UsedMemory"),
        netty_shuffle_memory_total=value(f"{netty}.TotalMemory"),
        garbage_collectors=collectors,
    )


# --- metrics ----------------------------------------------------------------------------------------------------------


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/metrics",
    "Provides access to task manager metrics.",
    response=MetricCollection,
    query=(GET_PARAMETER,),
)
async def task_manager_metrics(call: RestCall) -> MetricCollection:
    """Answers with an empty list if the TaskManager does not answer, as Flink does while it has no metrics."""
    values = await process_values(call.context, await task_manager_of(call), DETAILS_TIMEOUT_S)
    return metric_collection(_texts(values or {}), call.query["get"])


@operation(
    "GET",
    "/taskmanagers/metrics",
    "Provides access to aggregated task manager metrics.",
    response=AggregatedMetrics,
    query=(
        GET_PARAMETER,
        QueryParameter(
            "agg",
            "Comma-separated list of aggregation modes which should be calculated: min, max, sum, avg, skew.",
            some_of(*AGGREGATIONS),
        ),
        QueryParameter("taskmanagers", "Comma-separated list of TaskManager ids to select.", TEXTS),
    ),
)
async def aggregated_task_manager_metrics(call: RestCall) -> AggregatedMetrics:
    """Leaves out TaskManagers that are unknown or do not answer."""
    wanted = call.query["taskmanagers"]
    found = [one for one in await task_managers(call.context) if not wanted or one.resource_id in wanted]
    values = await asyncio.gather(*(process_values(call.context, one, DETAILS_TIMEOUT_S) for one in found))
    return aggregated_metrics([_texts(one) for one in values if one], call.query["get"], call.query["agg"])


def _texts(values: dict[str, int | float]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


# --- logs and threads -------------------------------------------------------------------------------------------------


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/logs",
    "Returns the list of log files on a TaskManager.",
    response=LogListInfo,
)
async def task_manager_logs(call: RestCall) -> LogListInfo:
    found = await _log_list(await _gateway(call))
    return LogListInfo(logs=[LogInfo(name=one.name, size=one.size_bytes, mtime=one.modified_ms) for one in found.files])


async def _log_list(gateway: Any) -> taskexecutor_pb2.LogList:
    answer: taskexecutor_pb2.LogList = await gateway.request_log_list(
        taskexecutor_pb2.LogListRequest(), timeout_s=TASK_MANAGER_TIMEOUT_S
    )
    return answer


# Logs may contain records of users, which the role READ does not show.
@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/logs/:filename",
    "Returns a log file of a TaskManager.",
    response=None,
    role=Role.SUBMIT,
    query=(TAIL_PARAMETER,),
)
async def task_manager_custom_log(call: RestCall) -> Response:
    gateway = await _gateway(call)
    name = str(call.path["filename"])
    return await _log(call, gateway, await _log_list(gateway), name, name)


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/log",
    "Returns the log of a TaskManager.",
    response=None,
    role=Role.SUBMIT,
    query=(TAIL_PARAMETER,),
)
async def task_manager_log(call: RestCall) -> Response:
    gateway = await _gateway(call)
    found = await _log_list(gateway)
    return await _log(call, gateway, found, found.log_name, "LOG")


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/stdout",
    "Returns the output of a TaskManager.",
    response=None,
    role=Role.SUBMIT,
    query=(TAIL_PARAMETER,),
)
async def task_manager_stdout(call: RestCall) -> Response:
    gateway = await _gateway(call)
    found = await _log_list(gateway)
    return await _log(call, gateway, found, found.stdout_name, "STDOUT")


async def _log(call: RestCall, gateway: Any, files: taskexecutor_pb2.LogList, name: str, shown: str) -> Response:
    missing = not_found(f"The file {shown} does not exist on the TaskExecutor.")
    size = next((one.size_bytes for one in files.files if one.name == name), None)
    if size is None:
        raise missing

    async def read(part: ByteRange) -> AsyncIterator[bytes]:
        request = taskexecutor_pb2.FileRequest(name=name, offset=part.start, length=part.end - part.start)
        pieces = gateway.request_file(request)
        try:
            piece = await asyncio.wait_for(anext(pieces, None), TASK_MANAGER_TIMEOUT_S)
            while piece is not None:
                yield piece.data
                piece = await anext(pieces, None)
        except UserError:
            raise missing from None  # it was removed meanwhile
        finally:
            await pieces.aclose()

    return await log_response(call, size, read)


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/thread-dump",
    "Returns the thread dump of the requested TaskManager.",
    response=ThreadDumpInfo,
)
async def task_manager_thread_dump(call: RestCall) -> ThreadDumpInfo:
    gateway = await _gateway(call)
    dump = await gateway.request_thread_dump(taskexecutor_pb2.ThreadDumpRequest(), timeout_s=TASK_MANAGER_TIMEOUT_S)
    return ThreadDumpInfo(
        thread_infos=[ThreadInfo(thread_name=one.name, stringified_thread_info=one.stack) for one in dump.threads]
    )


# --- the profiler of the JVM ------------------------------------------------------------------------------------------


@operation(
    "GET",
    "/taskmanagers/:taskmanagerid/profiler",
    "Returns the list of profiling result files on a TaskManager.",
    response=ProfilingInfoList,
)
async def task_manager_profiling_list(call: RestCall) -> ProfilingInfoList:
    await task_manager_of(call)
    return ProfilingInfoList(profiling_list=[])


@operation(
    "POST",
    "/taskmanagers/:taskmanagerid/profiler",
    "Returns the profiling instance of the requested TaskManager.",
    request=ProfilingRequestBody,
    response=ProfilingInfo,
)
async def task_manager_profiling(call: RestCall) -> ProfilingInfo:
    await task_manager_of(call)
    return no_profiling(call)


@operation("GET", "/taskmanagers/:taskmanagerid/profiler/:filename", "Returns a result of the profiler.", response=None)
async def task_manager_profiling_file(call: RestCall) -> Response:
    raise not_found(NO_PROFILER)
