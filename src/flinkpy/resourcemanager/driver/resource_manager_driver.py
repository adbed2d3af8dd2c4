"""ResourceManagerDriver: starts and stops workers for the ResourceManager.

Source: org.apache.flink.runtime.resourcemanager.active.ResourceManagerDriver, StandaloneResourceManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.ids import ResourceID

#: Called on the endpoint's loop with the worker and how it ended ("exit code 1", "killed by SIGKILL").
OnWorkerTerminated = Callable[[ResourceID, str], None]


class ResourceManagerDriver(Protocol):
    """Thread: the endpoint's loop."""

    @property
    def can_start_workers(self) -> bool:
        """False if workers are started by other means, and this driver is never asked for one."""
        ...

    def start(self, resource_manager_address: str, on_worker_terminated: OnWorkerTerminated) -> None:
        """Called once, when the address at which workers register is known."""
        ...

    async def recover_workers(self) -> list[ResourceID]:
        """Returns the running workers that an earlier ResourceManager has started. Called once, after `start`.

        No other worker is started before it returns.
        """
        ...

    async def start_worker(self, resource_id: ResourceID) -> None:
        """Starts a process that will register under `resource_id`, and returns when it runs. Raises if it cannot."""
        ...

    async def stop_worker(self, resource_id: ResourceID) -> None:
        """Ends the worker and returns when it has ended. Does nothing if the worker is unknown or has ended."""
        ...

    async def close(self) -> None:
        """Ends every worker that does not outlive the ResourceManager, and returns when all have ended."""
        ...


class StandaloneDriver:
    """The driver of a cluster whose TaskExecutors are started by other means."""

    @property
    def can_start_workers(self) -> bool:
        return False

    def start(self, resource_manager_address: str, on_worker_terminated: OnWorkerTerminated) -> None:
        """Does nothing."""

    async def recover_workers(self) -> list[ResourceID]:
        """Returns none: no worker was started."""
        return []

    async def start_worker(self, resource_id: ResourceID) -> None:
        raise UnsupportedOperationError(
            f"cannot start worker {resource_id}: TaskExecutors of a standalone cluster are started with "
            "`flinkpy taskexecutor`. Set flinkpy.resourcemanager.driver to let the ResourceManager start them"
        )

    async def stop_worker(self, resource_id: ResourceID) -> None:
        """Does nothing: no worker was started."""

    async def close(self) -> None:
        """Does nothing: no worker was started."""
