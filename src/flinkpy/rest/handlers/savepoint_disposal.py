"""Deletion of savepoints."""

from __future__ import annotations

from http import HTTPStatus

from flinkpy._proto import checkpoint_pb2
from flinkpy.rest.asynchronous_operations import outcome_body
from flinkpy.rest.errors import bad_request
from flinkpy.rest.messages.asynchronous import AsynchronousOperationResult, TriggerResponse
from flinkpy.rest.messages.savepoint_disposal import SavepointDisposalRequest
from flinkpy.rest.operation import RestCall, operation

_KIND = "savepoint disposal"


@operation(
    "POST",
    "/savepoint-disposal",
    "Triggers the disposal of a savepoint. This async operation would return a 'triggerid' for further query "
    "identifier.",
    request=SavepointDisposalRequest,
    response=TriggerResponse,
    status=HTTPStatus.OK,
)
async def trigger_savepoint_disposal(call: RestCall) -> TriggerResponse:
    path = call.body.savepoint_path
    if not path:
        raise bad_request("The field `savepoint-path` is empty.")
    dispatcher = call.dispatcher

    async def dispose(trigger_id: str) -> None:
        await dispatcher.dispose_savepoint(checkpoint_pb2.DisposeSavepointRequest(path=path))

    return TriggerResponse(request_id=call.context.operations.trigger(_KIND, "", dispose))


@operation(
    "GET",
    "/savepoint-disposal/:triggerid",
    "Returns the status of a savepoint disposal operation.",
    response=AsynchronousOperationResult,
)
async def savepoint_disposal_status(call: RestCall) -> AsynchronousOperationResult:
    return outcome_body(call.context.operations.outcome(_KIND, "", call.path["triggerid"]))
