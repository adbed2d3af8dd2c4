"""Cluster data sets.

Flink keeps them as result partitions of TaskManagers. flinkpy keeps a cached stream as files that its program manages
(`CachedDataStream`), so the cluster has none to list or to delete.
"""

from __future__ import annotations

from http import HTTPStatus

from flinkpy.common.errors import UserError
from flinkpy.rest.asynchronous_operations import outcome_body
from flinkpy.rest.messages.asynchronous import AsynchronousOperationResult, TriggerResponse
from flinkpy.rest.messages.datasets import ClusterDataSetListResponseBody
from flinkpy.rest.operation import RestCall, operation

_KIND = "data set deletion"


@operation("GET", "/datasets", "Returns all cluster data sets.", response=ClusterDataSetListResponseBody)
async def cluster_data_sets(call: RestCall) -> ClusterDataSetListResponseBody:
    return ClusterDataSetListResponseBody(data_sets=[])


@operation(
    "DELETE",
    "/datasets/:datasetid",
    "Triggers the deletion of a cluster data set. This async operation would return a 'triggerid' for further query "
    "identifier.",
    response=TriggerResponse,
    status=HTTPStatus.ACCEPTED,
)
async def trigger_data_set_deletion(call: RestCall) -> TriggerResponse:
    data_set_id = call.path["datasetid"]

    async def delete(trigger_id: str) -> None:
        raise UserError(f"There is no cluster data set {data_set_id}.")

    return TriggerResponse(request_id=call.context.operations.trigger(_KIND, "", delete))


@operation(
    "GET",
    "/datasets/delete/:triggerid",
    "Returns the status for the delete operation of a cluster data set.",
    response=AsynchronousOperationResult,
)
async def data_set_deletion_status(call: RestCall) -> AsynchronousOperationResult:
    return outcome_body(call.context.operations.outcome(_KIND, "", call.path["triggerid"]))
