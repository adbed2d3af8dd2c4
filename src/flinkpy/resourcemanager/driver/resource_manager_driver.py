"""ResourceManagerDriver: how the ResourceManager gets and gives back workers.

Source: org.apache.flink.runtime.resourcemanager.active.ResourceManagerDriver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flinkpy.common.ids import ResourceID

#: Called on the endpoint's loop with the worker and how it ended ("exit code 1", "killed by SIGKILL").
OnWorkerTerminated = Callable[[ResourceID, str], None]


class ResourceManagerDriver(Protocol):
    """Thread: the endpoint's loop."""

    @property
    def can_start_workers(self) -> bool:
        """False where workers come by themselves and nothing is ever requested."""
        ...

    def start(self, resource_manager_address: str, on_worker_terminated: OnWorkerTerminated) -> None:
        """Called once, when the address that workers register at is known."""
        ...

    async def start_worker(self, resource_id: ResourceID) -> None:
        """Start a process that will register under `resource_id`; returns when it runs. Raises where it cannot."""
        ...

    async def stop_worker(self, resource_id: ResourceID) -> None:
        """End the worker and return when it is gone; one that is unknown or gone already is fine."""
        ...

    async def close(self) -> None:
        """End every worker that was started and return when none is left."""
        ...
