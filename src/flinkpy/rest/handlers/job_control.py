"""Handlers that change a running job: cancellation, rescaling, client heartbeats, and requests to its coordinators."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus

from flinkpy._proto import dispatcher_pb2, job_pb2
from flinkpy.common.errors import (
    InvalidResourceRequirementsError,
    JobTerminatedWithoutCancellationError,
    UnsupportedOperationError,
)
from flinkpy.rest.errors import RestError, bad_request, not_found
from flinkpy.rest.handlers.job_inquiries import job_of
from flinkpy.rest.messages.asynchronous import TriggerResponse
from flinkpy.rest.messages.job_checkpoints import (
    ClientCoordinationRequestBody,
    ClientCoordinationResponseBody,
    JobClientHeartbeatRequestBody,
)
from flinkpy.rest.messages.job_details import (
    JobResourceRequirementsBody,
    ParallelismBounds,
    VertexResourceRequirements,
)
from flinkpy.rest.operation import POSITIVE_INTEGER, QueryParameter, RestCall, one_of, operation

#: The longest that a client may promise to be silent: a year.
_MAX_CLIENT_TIMEOUT_MS = 365 * 24 * 3_600_000
_NO_ADAPTIVE_SCHEDULER = "AdaptiveScheduler is not enabled for this job"


@operation(
    "PATCH",
    "/jobs/:jobid",
    "Terminates a job.",
    status=HTTPStatus.ACCEPTED,
    query=(
        QueryParameter("mode", "The termination mode. Only `cancel` is supported.", one_of("cancel", "stop"), "cancel"),
    ),
)
async def cancel_job(call: RestCall) -> None:
    if call.query["mode"] == "stop":
        raise RestError(
            HTTPStatus.PERMANENT_REDIRECT,
            'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" instead. '
            'For a graceful shutdown, please use "jobs/:jobId/stop" instead.',
        )
    try:
        await call.dispatcher.cancel_job(dispatcher_pb2.JobIdMessage(job_id=call.job_id))
    except JobTerminatedWithoutCancellationError as error:
        raise RestError(
            HTTPStatus.CONFLICT,
            "Job cancellation failed because the job has already reached another terminal state "
            f"({error.details.get('status', '')}).",
        ) from None


@operation(
    "PATCH",
    "/jobs/:jobid/clientHeartbeat",
    "Report the jobClient's aliveness.",
    status=HTTPStatus.ACCEPTED,
    request=JobClientHeartbeatRequestBody,
)
async def client_heartbeat(call: RestCall) -> None:
    left_ms = call.body.expired_timestamp - call.context.clock.now_ms()
    if left_ms <= 0:
        raise bad_request("expiredTimestamp must be in the future, in milliseconds since the epoch.")
    heartbeat = dispatcher_pb2.JobClientHeartbeat(job_id=call.job_id, timeout_ms=min(left_ms, _MAX_CLIENT_TIMEOUT_MS))
    await call.dispatcher.report_job_client_heartbeat(heartbeat)


@operation(
    "POST",
    "/jobs/:jobid/coordinators/:operatorUid",
    "Send a request to a specified coordinator of the specified job and get the response. The request and the response "
    "are bytes in Base64 here, which only flinkpy's own coordinators understand.",
    request=ClientCoordinationRequestBody,
    response=ClientCoordinationResponseBody,
)
async def coordination_request(call: RestCall) -> ClientCoordinationResponseBody:
    uid = call.path["operatorUid"]
    details = await job_of(call)
    operators = [operator for vertex in details.vertices for operator in vertex.operators]
    found = next((one for one in operators if uid in (one.uid, one.id)), None)
    if found is None:
        raise not_found(f"The job has no operator with the uid {uid}.")
    try:
        payload = base64.b64decode(call.body.request, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("serializedCoordinationRequest is not Base64.") from None
    answer = await call.dispatcher.send_coordination_request(
        dispatcher_pb2.CoordinationRequest(job_id=call.job_id, operator_id=found.id, payload=payload)
    )
    return ClientCoordinationResponseBody(result=base64.b64encode(answer.payload).decode())


# -- rescaling -------------------------------------------------------------------------------------------------------


@operation(
    "PATCH",
    "/jobs/:jobid/rescaling",
    "Triggers the rescaling of a job. Use `PUT /jobs/:jobid/resource-requirements` instead: the answer is 409.",
    response=TriggerResponse,
    query=(QueryParameter("parallelism", "The parallelism to rescale the job to.", POSITIVE_INTEGER),),
)
async def rescale_job(call: RestCall) -> None:
    await job_of(call)
    raise _not_elastic(call)


def _not_elastic(call: RestCall) -> RestError:
    return RestError(
        HTTPStatus.CONFLICT,
        f"Job {call.job_id} cannot be rescaled by this operation. With `jobmanager.scheduler: Adaptive`, use "
        "PUT /jobs/:jobid/resource-requirements. Otherwise stop it with a savepoint (POST /jobs/:jobid/stop) and "
        "start it from the savepoint with another parallelism.",
    )


@operation(
    "GET",
    "/jobs/:jobid/rescaling/:triggerid",
    "Returns the status of a rescaling operation.",
    response=TriggerResponse,
)
async def rescaling_status(call: RestCall) -> None:
    await job_of(call)
    raise not_found(f"There is no operation with the trigger id {call.path['triggerid']} of {call.job_id}.")


@operation(
    "GET",
    "/jobs/:jobid/resource-requirements",
    "Request details on the job's resource requirements. Without the scheduler Adaptive the parallelism is fixed.",
    response=JobResourceRequirementsBody,
)
async def resource_requirements(call: RestCall) -> dict[str, VertexResourceRequirements]:
    details = await job_of(call)
    return {
        vertex.id: VertexResourceRequirements(
            parallelism=ParallelismBounds(
                lower_bound=vertex.parallelism_lower_bound or vertex.parallelism,
                upper_bound=vertex.parallelism_upper_bound or vertex.parallelism,
            )
        )
        for vertex in details.vertices
    }


@operation(
    "PUT",
    "/jobs/:jobid/resource-requirements",
    "Request to update job's resource requirements. The answer is 409 for a job without the scheduler Adaptive.",
    request=JobResourceRequirementsBody,
)
async def update_resource_requirements(call: RestCall) -> None:
    if not call.context.options.may_rescale:
        raise RestError(HTTPStatus.FORBIDDEN, "Jobs cannot be rescaled here: web.rescale.enable is false.")
    wanted = [
        job_pb2.VertexParallelismBounds(
            vertex_id=vertex_id,
            lower_bound=one.parallelism.lower_bound,
            upper_bound=one.parallelism.upper_bound,
        )
        for vertex_id, one in call.body.items()
    ]
    requirements = job_pb2.JobResourceRequirements(vertices=wanted)
    update = job_pb2.ResourceRequirementsUpdate(job_id=call.job_id, requirements=requirements)
    try:
        await call.dispatcher.update_resource_requirements(update)
    except UnsupportedOperationError as error:
        raise RestError(HTTPStatus.CONFLICT, str(error)) from None
    except InvalidResourceRequirementsError as error:
        raise bad_request(str(error)) from None


async def _no_rescales(call: RestCall) -> None:
    await job_of(call)
    raise not_found(_NO_ADAPTIVE_SCHEDULER)


@operation("GET", "/jobs/:jobid/rescales/config", "Returns the job rescale configuration. The answer is 404.")
async def rescale_config(call: RestCall) -> None:
    await _no_rescales(call)


@operation("GET", "/jobs/:jobid/rescales/details/:rescaleuuid", "Return a job rescale details. The answer is 404.")
async def rescale_details(call: RestCall) -> None:
    await _no_rescales(call)


@operation("GET", "/jobs/:jobid/rescales/history", "Return job rescales history. The answer is 404.")
async def rescales_history(call: RestCall) -> None:
    await _no_rescales(call)


@operation("GET", "/jobs/:jobid/rescales/overview", "Return job rescales overview. The answer is 404.")
async def rescales_overview(call: RestCall) -> None:
    await _no_rescales(call)


@operation("GET", "/jobs/:jobid/rescales/summary", "Return job rescales summary. The answer is 404.")
async def rescales_summary(call: RestCall) -> None:
    await _no_rescales(call)
