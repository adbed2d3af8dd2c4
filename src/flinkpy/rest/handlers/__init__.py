"""The operations of the REST API, a module per noun."""

from __future__ import annotations

from flinkpy.rest.handlers import (
    applications,
    cluster,
    dashboard,
    datasets,
    diagnosis,
    jars,
    job_checkpoints,
    job_control,
    job_details,
    job_metrics,
    job_submission,
    job_vertices,
    jobmanager,
    jobs,
    live,
    logs,
    openapi,
    options,
    savepoint_disposal,
    taskmanagers,
)
from flinkpy.rest.operation import Operation, operations_of

MODULES = (
    applications,
    cluster,
    dashboard,
    datasets,
    jars,
    jobmanager,
    jobs,
    job_details,
    job_vertices,
    job_checkpoints,
    job_metrics,
    diagnosis,
    options,
    job_control,
    job_submission,
    live,
    savepoint_disposal,
    taskmanagers,
    logs,
    openapi,
)


def all_operations() -> list[Operation]:
    """Returns all operations, in the order of the modules."""
    return [one for module in MODULES for one in operations_of(module)]
