"""StandaloneDriver: workers are started by somebody else.

Source: org.apache.flink.runtime.resourcemanager.StandaloneResourceManager.
"""

from __future__ import annotations

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.ids import ResourceID
from flinkpy.resourcemanager.driver.resource_manager_driver import OnWorkerTerminated


class StandaloneDriver:
    @property
    def can_start_workers(self) -> bool:
        return False

    def start(self, resource_manager_address: str, on_worker_terminated: OnWorkerTerminated) -> None:
        """Nothing to prepare."""

    async def start_worker(self, resource_id: ResourceID) -> None:
        raise UnsupportedOperationError(
            f"worker {resource_id} was asked of a standalone cluster, where TaskExecutors are started by hand "
            "(`flinkpy taskexecutor`); set flinkpy.resourcemanager.local-driver to have them started"
        )

    async def stop_worker(self, resource_id: ResourceID) -> None:
        """Nothing was started, so nothing is stopped."""

    async def close(self) -> None:
        """Nothing was started, so nothing is stopped."""
