"""The operations that the dashboard polls: the state of a job or vertex as far as it changed. They are not Flink's."""

from __future__ import annotations

from flinkpy.rest.forms.job_details import job_state_of
from flinkpy.rest.forms.live import LIVE_METRICS, job_table, vertex_table
from flinkpy.rest.handlers.job_inquiries import job_of, live_metrics_of, vertex_of
from flinkpy.rest.messages.live import LiveJob, LiveVertex
from flinkpy.rest.operation import TEXT, QueryParameter, RestCall, operation

_SINCE = QueryParameter("since", "The `version` of the answer that the caller knows; without it, all is new.", TEXT)


@operation(
    "GET",
    "/jobs/:jobid/live",
    "Returns the state, load, rates and watermarks of the vertices of a job, as far as they changed.",
    response=LiveJob,
    query=(_SINCE,),
    is_internal=True,
)
async def live_job(call: RestCall) -> LiveJob:
    details = await job_of(call)
    metrics = await live_metrics_of(call, "", LIVE_METRICS)
    table = call.context.live_tables.updated(
        call.job_id, (details, metrics), lambda: job_table(details, metrics.groups)
    )
    is_full, columns = table.changes(call.query["since"])
    return LiveJob(
        version=table.version,
        full=is_full,
        now=call.context.clock.now_ms(),
        age=call.age_ms,
        state=job_state_of(details.status),
        columns=columns,
    )


@operation(
    "GET",
    "/jobs/:jobid/vertices/:vertexid/live",
    "Returns the state, load, rates and watermarks of the subtasks of a vertex, as far as they changed.",
    response=LiveVertex,
    query=(_SINCE,),
    is_internal=True,
)
async def live_vertex(call: RestCall) -> LiveVertex:
    vertex = await vertex_of(call)
    metrics = await live_metrics_of(call, vertex.id, LIVE_METRICS)
    table = call.context.live_tables.updated(
        (call.job_id, vertex.id), (vertex, metrics), lambda: vertex_table(vertex, metrics.groups)
    )
    is_full, columns = table.changes(call.query["since"])
    return LiveVertex(
        version=table.version,
        full=is_full,
        now=call.context.clock.now_ms(),
        age=call.age_ms,
        columns=columns,
    )
