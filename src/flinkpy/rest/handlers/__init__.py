"""The operations of the REST API, a module per noun."""

from __future__ import annotations

from flinkpy.rest.handlers import cluster, dashboard, datasets, jobmanager, jobs, savepoint_disposal, taskmanagers
from flinkpy.rest.operation import Operation, operations_of

MODULES = (cluster, dashboard, datasets, jobmanager, jobs, savepoint_disposal, taskmanagers)


def all_operations() -> list[Operation]:
    """Returns all operations, in the order of the modules."""
    return [one for module in MODULES for one in operations_of(module)]
