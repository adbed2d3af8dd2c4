"""LocalTaskExecutorDriver: workers are child processes on the ResourceManager's host.

The end of a child process is noticed at once. No child outlives this process: children ask the kernel to be killed when
their parent ends. Thread: the endpoint's loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence

from flinkpy.common.child_process import ChildOutput, ChildProcess, spawn_child
from flinkpy.common.ids import ResourceID
from flinkpy.resourcemanager.driver.resource_manager_driver import OnWorkerTerminated
from flinkpy.security.confidential_settings import settings_for_child

logger = logging.getLogger(__name__)

#: A TaskExecutor that is told to stop cancels its tasks first. It is killed after this time.
STOP_GRACE_S = 10.0


class LocalTaskExecutorDriver:
    """Starts `flinkpy taskexecutor` with the cluster's configuration, as child processes.

    Args:
        configuration: the cluster's configuration, passed to every worker.
        output: where the output of workers goes; by default to the output of this process.
    """

    def __init__(self, configuration: Mapping[str, str], *, output: ChildOutput = ChildOutput.INHERIT) -> None:
        self._configuration = dict(configuration)
        self._output = output
        self._children: dict[ResourceID, ChildProcess] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._address = ""
        self._on_worker_terminated: OnWorkerTerminated | None = None

    @property
    def can_start_workers(self) -> bool:
        return True

    def start(self, resource_manager_address: str, on_worker_terminated: OnWorkerTerminated) -> None:
        self._address = resource_manager_address
        self._on_worker_terminated = on_worker_terminated

    async def recover_workers(self) -> list[ResourceID]:
        """Returns none: workers end with the process that started them."""
        return []

    async def start_worker(self, resource_id: ResourceID) -> None:
        name = f"TaskExecutor {resource_id}"
        with settings_for_child(self._settings(resource_id)) as settings:
            child = await spawn_child(
                self._command(settings.arguments),
                name=name,
                output=self._output,
                environment=settings.environment,
                pass_fds=settings.descriptors,
            )
        self._children[resource_id] = child
        watch = asyncio.get_running_loop().create_task(self._watch(resource_id, child), name=f"watch {resource_id}")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        logger.info("started TaskExecutor %s (pid %d)", resource_id, child.pid)

    async def stop_worker(self, resource_id: ResourceID) -> None:
        child = self._children.get(resource_id)
        if child is not None:
            await child.stop(STOP_GRACE_S)

    async def close(self) -> None:
        await asyncio.gather(*(child.stop(STOP_GRACE_S) for child in list(self._children.values())))
        await asyncio.gather(*self._watches)

    @property
    def worker_pids(self) -> dict[ResourceID, int]:
        return {resource_id: child.pid for resource_id, child in self._children.items()}

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "flinkpy.cli.main", "taskexecutor", *arguments]

    def _settings(self, resource_id: ResourceID) -> dict[str, str]:
        host, _, port = self._address.rpartition(":")
        return {
            **self._configuration,
            "resourcemanager.rpc.address": host,
            "resourcemanager.rpc.port": port,
            "taskmanager.resource-id": str(resource_id),
            # Several workers share this host, so none of them can have a fixed port.
            "taskmanager.rpc.port": "0",
            "taskmanager.data.port": "0",
        }

    async def _watch(self, resource_id: ResourceID, child: ChildProcess) -> None:
        ending = await child.wait()
        del self._children[resource_id]
        logger.info("TaskExecutor %s ended: %s", resource_id, ending)
        if self._on_worker_terminated is not None:
            self._on_worker_terminated(resource_id, str(ending))
