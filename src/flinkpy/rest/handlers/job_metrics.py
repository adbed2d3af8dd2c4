"""The metrics of jobs, vertices and subtasks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.errors import FlinkError
from flinkpy.rest.errors import bad_request
from flinkpy.rest.forms.metrics import (
    AGGREGATIONS,
    WATERMARK,
    Values,
    aggregated_metrics,
    metric_collection,
    subtask_values,
    values_by_subtask,
    values_of_group,
    vertex_values,
)
from flinkpy.rest.handlers.job_inquiries import (
    coordinator_metrics_of,
    job_master_values_of,
    job_values_of,
    subtask_of,
    task_metrics_of,
    vertex_of,
)
from flinkpy.rest.messages.metrics import AggregatedMetrics, MetricCollection
from flinkpy.rest.operation import TEXT, TEXTS, QueryParameter, RestCall, id_list, operation, some_of

_VERTEX = "/jobs/:jobid/vertices/:vertexid"
_GET = QueryParameter("get", "Comma-separated list of string values to select specific metrics.", TEXTS)
_AGG = QueryParameter(
    "agg",
    'Comma-separated list of aggregation modes which should be calculated. Available aggregations are: "min, max, '
    'sum, avg, skew".',
    some_of(*AGGREGATIONS),
)
#: Suffixes of the statistics of histograms.
_STATISTIC = re.compile(r"_(count|sum|min|max|mean|median|stddev|p\d+)$")


@operation("GET", "/jobs/:jobid/metrics", "Provides access to job metrics.", response=MetricCollection, query=(_GET,))
async def job_metrics(call: RestCall) -> MetricCollection:
    return metric_collection(await job_values_of(call, call.job_id), call.query["get"])


@operation(
    "GET",
    "/jobs/:jobid/jobmanager/metrics",
    "Provides access to the metrics of the process that runs a job, and of the job.",
    response=MetricCollection,
    query=(_GET,),
    is_internal=True,
)
async def job_master_metrics(call: RestCall) -> MetricCollection:
    return metric_collection(await job_master_values_of(call), call.query["get"])


@operation(
    "GET",
    "/jobs/metrics",
    "Provides access to aggregated job metrics.",
    response=AggregatedMetrics,
    query=(_GET, _AGG, QueryParameter("jobs", "Comma-separated list of job ids to select.", id_list("jobid"))),
)
async def aggregated_job_metrics(call: RestCall) -> AggregatedMetrics:
    """Leaves out jobs that are unknown or whose JobMaster does not answer."""
    found = await call.dispatcher.list_jobs(dispatcher_pb2.ListJobsRequest())
    chosen = call.query["jobs"]
    ids = [job.job_id for job in found.jobs if not chosen or job.job_id in chosen]
    stores = await asyncio.gather(*(_job_values(call, job_id) for job_id in ids))
    return aggregated_metrics([store for store in stores if store], call.query["get"], call.query["agg"])


async def _job_values(call: RestCall, job_id: str) -> Values:
    try:
        return await job_values_of(call, job_id)
    except FlinkError:
        return {}


@operation("GET", f"{_VERTEX}/metrics", "Provides access to task metrics.", response=MetricCollection, query=(_GET,))
async def vertex_metrics(call: RestCall) -> MetricCollection:
    vertex = await vertex_of(call)
    groups = await task_metrics_of(call, vertex.id, metric_names(call.query["get"]))
    return metric_collection(vertex_values(groups), call.query["get"])


@operation(
    "GET",
    f"{_VERTEX}/subtasks/:subtaskindex/metrics",
    "Provides access to subtask metrics.",
    response=MetricCollection,
    query=(_GET,),
)
async def subtask_metrics(call: RestCall) -> MetricCollection:
    vertex = await vertex_of(call)
    subtask = subtask_of(call, vertex)
    groups = await task_metrics_of(call, vertex.id, metric_names(call.query["get"]))
    return metric_collection(subtask_values(groups, subtask.subtask_index), call.query["get"])


@operation(
    "GET",
    f"{_VERTEX}/subtasks/metrics",
    "Provides access to aggregated subtask metrics.",
    response=AggregatedMetrics,
    query=(
        _GET,
        _AGG,
        QueryParameter(
            "subtasks", 'Comma-separated list of integer ranges (e.g. "1,3,5-9") to select specific subtasks.', TEXT
        ),
    ),
)
async def aggregated_subtask_metrics(call: RestCall) -> AggregatedMetrics:
    vertex = await vertex_of(call)
    chosen = parse_subtasks(call.query["subtasks"], vertex.parallelism)
    groups = await task_metrics_of(call, vertex.id, metric_names(call.query["get"]))
    stores = [store for index, store in sorted(values_by_subtask(groups).items()) if index in chosen]
    return aggregated_metrics(stores, call.query["get"], call.query["agg"])


@operation(
    "GET",
    f"{_VERTEX}/watermarks",
    "Returns the watermarks for all subtasks of a task.",
    response=MetricCollection,
)
async def watermarks(call: RestCall) -> MetricCollection:
    vertex = await vertex_of(call)
    groups = await task_metrics_of(call, vertex.id, [WATERMARK])
    values = vertex_values(group for group in groups if not group.operator_id)
    return metric_collection(values, sorted(values, key=lambda name: int(name.split(".")[0]))) if values else []


@operation(
    "GET",
    f"{_VERTEX}/jm-operator-metrics",
    "Provides access to jobmanager operator metrics.",
    response=MetricCollection,
    query=(_GET,),
)
async def job_manager_operator_metrics(call: RestCall) -> MetricCollection:
    vertex = await vertex_of(call)
    groups = await coordinator_metrics_of(call, vertex.id)
    return metric_collection(dict(pair for group in groups for pair in values_of_group(group)), call.query["get"])


def metric_names(wanted: Iterable[str] | None) -> set[str]:
    """Returns the names that TaskExecutors may have for the wanted metrics; empty: all are wanted.

    A wanted name may have the index of a subtask and the name of an operator before it, and a statistic after it.
    """
    names: set[str] = set()
    for name in wanted or ():
        parts = _STATISTIC.sub("", name).split(".")
        names.update(".".join(parts[start:]) for start in range(len(parts)))
        names.update(".".join(name.split(".")[start:]) for start in range(len(parts)))
    return names


def parse_subtasks(text: str | None, parallelism: int) -> set[int]:
    """Returns the subtasks of a list of indexes and ranges, e.g. `1,3,5-9`; all without a list.

    Raises: RestError with status 400.
    """
    if not text:
        return set(range(max(parallelism, 0)))
    chosen: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        if match is None:
            raise bad_request(f'Cannot resolve query parameter (subtasks) from value "{text[:200]}".')
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            raise bad_request(f'Cannot resolve query parameter (subtasks) from value "{text[:200]}": {part} is empty.')
        chosen.update(range(first, min(last, parallelism - 1) + 1))
    return chosen
