"""The checkpoints of a job, and the operations that take checkpoints and savepoints."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from flinkpy._proto import checkpoint_pb2, dispatcher_pb2
from flinkpy.common.error_text import bounded_text
from flinkpy.configuration import checkpointing_options, read_option
from flinkpy.rest.asynchronous_operations import failure_of
from flinkpy.rest.errors import bad_request, not_found
from flinkpy.rest.forms.job_checkpoints import (
    checkpoint_config_info,
    checkpoint_statistics,
    checkpointing_statistics,
    find_checkpoint,
    task_checkpoint_statistics,
)
from flinkpy.rest.handlers.job_details import job_configuration
from flinkpy.rest.handlers.job_inquiries import checkpoints_of, job_of, marked_if_old
from flinkpy.rest.messages.asynchronous import QueueStatus, TriggerResponse
from flinkpy.rest.messages.job_checkpoints import (
    AnyCheckpointStatistics,
    CheckpointConfigInfo,
    CheckpointInfo,
    CheckpointingStatistics,
    CheckpointOperationResult,
    CheckpointTriggerRequestBody,
    SavepointInfo,
    SavepointOperationResult,
    SavepointTriggerRequestBody,
    StopWithSavepointRequestBody,
    TaskCheckpointStatisticsWithSubtaskDetails,
)
from flinkpy.rest.operation import RestCall, operation

_TRIGGER_ID = re.compile("[0-9a-fA-F]{32}")
IN_PROGRESS, COMPLETED = QueueStatus(id="IN_PROGRESS"), QueueStatus(id="COMPLETED")
#: Kinds of operations. A stop with a savepoint is asked for as a savepoint, as in Flink.
_CHECKPOINT, _SAVEPOINT = "checkpoint", "savepoint"


@operation(
    "GET",
    "/jobs/:jobid/checkpoints",
    "Returns checkpointing statistics for a job.",
    response=CheckpointingStatistics,
)
async def job_checkpoints(call: RestCall) -> CheckpointingStatistics:
    details = await job_of(call)
    if details.is_batch:
        raise not_found("Checkpointing has not been enabled.")
    return marked_if_old(call, checkpointing_statistics(await checkpoints_of(call)))


@operation(
    "GET",
    "/jobs/:jobid/checkpoints/config",
    "Returns the checkpointing configuration.",
    response=CheckpointConfigInfo,
)
async def checkpoint_config(call: RestCall) -> CheckpointConfigInfo:
    details = await job_of(call)
    if details.is_batch:
        raise not_found(f"Checkpointing is not enabled for this job ({call.job_id}).")
    return checkpoint_config_info(job_configuration(call, details))


@operation(
    "GET",
    "/jobs/:jobid/checkpoints/details/:checkpointid",
    "Returns details for a checkpoint.",
    response=AnyCheckpointStatistics,
)
async def checkpoint_details(call: RestCall) -> AnyCheckpointStatistics:
    return checkpoint_statistics(await _checkpoint_of(call), with_tasks=True)


async def _checkpoint_of(call: RestCall) -> checkpoint_pb2.CheckpointStatistics:
    """Raises: JobNotFoundError, RestError with status 404."""
    checkpoint_id = call.path["checkpointid"]
    found = find_checkpoint(await checkpoints_of(call, checkpoint_id), checkpoint_id)
    if found is None:
        raise not_found(f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
    return found


@operation(
    "GET",
    "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid",
    "Returns checkpoint statistics for a task and its subtasks.",
    response=TaskCheckpointStatisticsWithSubtaskDetails,
)
async def task_checkpoint_details(call: RestCall) -> TaskCheckpointStatisticsWithSubtaskDetails:
    checkpoint = await _checkpoint_of(call)
    vertex_id = call.path["vertexid"]
    task = next((one for one in checkpoint.vertices if one.vertex_id == vertex_id), None)
    if task is None:
        raise not_found(f"There is no checkpoint statistics for task {vertex_id}.")
    return task_checkpoint_statistics(checkpoint, task)


# -- operations ------------------------------------------------------------------------------------------------------


@operation(
    "POST",
    "/jobs/:jobid/checkpoints",
    "Triggers a checkpoint. The 'checkpointType' parameter does not support 'INCREMENTAL' option for now.",
    status=HTTPStatus.ACCEPTED,
    request=CheckpointTriggerRequestBody,
    response=TriggerResponse,
)
async def trigger_checkpoint(call: RestCall) -> TriggerResponse:
    body: CheckpointTriggerRequestBody = call.body
    if body.checkpoint_type == "INCREMENTAL":
        raise bad_request("Flink does not support triggering incremental checkpoint explicitly.")
    trigger_id = await _checked(call, body.trigger_id)
    dispatcher = call.dispatcher

    async def take(trigger_id: str) -> Any:
        request = checkpoint_pb2.TriggerCheckpointRequest(
            job_id=call.job_id, trigger_id=trigger_id, full=body.checkpoint_type == "FULL"
        )
        return await dispatcher.trigger_checkpoint(request, timeout_s=None)

    return _triggered(call, _CHECKPOINT, take, trigger_id)


@operation(
    "GET",
    "/jobs/:jobid/checkpoints/:triggerid",
    "Returns the status of a checkpoint trigger operation.",
    response=CheckpointOperationResult,
)
async def checkpoint_trigger_status(call: RestCall) -> CheckpointOperationResult:
    task = call.context.operations.outcome(_CHECKPOINT, call.job_id, call.path["triggerid"])
    if not task.done():
        return CheckpointOperationResult(status=IN_PROGRESS)
    failure = failure_of(task)
    if failure is not None:
        return CheckpointOperationResult(status=COMPLETED, operation=CheckpointInfo(failure_cause=failure))
    return CheckpointOperationResult(
        status=COMPLETED, operation=CheckpointInfo(checkpoint_id=task.result().checkpoint_id)
    )


@operation(
    "POST",
    "/jobs/:jobid/savepoints",
    "Triggers a savepoint, and optionally cancels the job afterwards. This async operation would return a 'triggerid' "
    "for further query identifier.",
    status=HTTPStatus.ACCEPTED,
    request=SavepointTriggerRequestBody,
    response=TriggerResponse,
)
async def trigger_savepoint(call: RestCall) -> TriggerResponse:
    body: SavepointTriggerRequestBody = call.body
    await _check_target(call, body.target_directory, "target-directory")
    trigger_id = await _checked(call, body.trigger_id)
    dispatcher = call.dispatcher

    async def take(trigger_id: str) -> Any:
        request = checkpoint_pb2.TriggerSavepointRequest(
            job_id=call.job_id,
            trigger_id=trigger_id,
            target_directory=body.target_directory or "",
            format=_format(body.format_type),
            cancel_job=bool(body.cancel_job),
        )
        return await dispatcher.trigger_savepoint(request, timeout_s=None)

    return _triggered(call, _SAVEPOINT, take, trigger_id)


@operation(
    "POST",
    "/jobs/:jobid/stop",
    "Stops a job with a savepoint. Optionally, it can also emit a MAX_WATERMARK before taking the savepoint to flush "
    "out any state waiting for timers to fire. This async operation would return a 'triggerid' for further query "
    "identifier.",
    status=HTTPStatus.ACCEPTED,
    request=StopWithSavepointRequestBody,
    response=TriggerResponse,
)
async def stop_with_savepoint(call: RestCall) -> TriggerResponse:
    body: StopWithSavepointRequestBody = call.body
    await _check_target(call, body.target_directory, "targetDirectory")
    trigger_id = await _checked(call, body.trigger_id)
    dispatcher = call.dispatcher

    async def stop(trigger_id: str) -> Any:
        request = checkpoint_pb2.StopWithSavepointRequest(
            job_id=call.job_id,
            trigger_id=trigger_id,
            target_directory=body.target_directory or "",
            format=_format(body.format_type),
            drain=bool(body.drain),
        )
        return await dispatcher.stop_with_savepoint(request, timeout_s=None)

    return _triggered(call, _SAVEPOINT, stop, trigger_id)


@operation(
    "GET",
    "/jobs/:jobid/savepoints/:triggerid",
    "Returns the status of a savepoint operation.",
    response=SavepointOperationResult,
)
async def savepoint_status(call: RestCall) -> SavepointOperationResult:
    task = call.context.operations.outcome(_SAVEPOINT, call.job_id, call.path["triggerid"])
    if not task.done():
        return SavepointOperationResult(status=IN_PROGRESS)
    failure = failure_of(task)
    if failure is not None:
        return SavepointOperationResult(status=COMPLETED, operation=SavepointInfo(failure_cause=failure))
    return SavepointOperationResult(status=COMPLETED, operation=SavepointInfo(location=task.result().path))


def _format(format_type: str | None) -> checkpoint_pb2.SavepointFormatType:
    return checkpoint_pb2.NATIVE if format_type == "NATIVE" else checkpoint_pb2.CANONICAL


async def _check_target(call: RestCall, directory: str | None, field: str) -> None:
    """Checks that there is a directory for the savepoint. Raises: RestError with status 400, JobNotFoundError."""
    option = checkpointing_options.SAVEPOINT_DIRECTORY
    if not directory and not read_option(job_configuration(call, await job_of(call)), option):
        raise bad_request(f"Config key [{option.key}] is not set. Property [{field}] must be provided.")


async def _checked(call: RestCall, trigger_id: str | None) -> str | None:
    """Returns the trigger id in lower case. Raises: RestError with status 400, JobNotFoundError."""
    if trigger_id is not None and _TRIGGER_ID.fullmatch(trigger_id) is None:
        raise bad_request(f'"{bounded_text(trigger_id, 100)}" is not a trigger id: expected 32 hexadecimal digits')
    await call.dispatcher.request_job_status(dispatcher_pb2.JobIdMessage(job_id=call.job_id))
    return None if trigger_id is None else trigger_id.lower()


def _triggered(
    call: RestCall, kind: str, start: Callable[[str], Awaitable[Any]], trigger_id: str | None
) -> TriggerResponse:
    return TriggerResponse(request_id=call.context.operations.trigger(kind, call.job_id, start, trigger_id))  # type: ignore[arg-type]
