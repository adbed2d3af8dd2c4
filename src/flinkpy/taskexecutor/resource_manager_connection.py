"""ResourceManagerConnection: the connection of a TaskExecutor to the ResourceManager.

It registers, sends the slot report, notifies of slots that became free, and exchanges heartbeats. It registers again
after a loss and at every later leader. Jobs keep running meanwhile.

Source: org.apache.flink.runtime.taskexecutor.TaskExecutorToResourceManagerConnection.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any, Protocol

from flinkpy._proto import resourcemanager_pb2
from flinkpy.common.errors import FlinkError, NotLeaderError, NotRegisteredError, StaleFencingTokenError
from flinkpy.graph.resource_profiles import resource_profile_to_proto
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import PeerConnection, Peers, check_leader
from flinkpy.taskexecutor.options import TaskExecutorOptions
from flinkpy.taskexecutor.slot_table import FreedSlot

logger = logging.getLogger(__name__)


class ResourceManagerListener(Protocol):
    """Thread: main thread."""

    @property
    def profile(self) -> str | None:
        """The resource profile that this process serves, or None."""
        ...

    def slot_report(self) -> resourcemanager_pb2.SlotReport: ...

    def on_resource_manager_registered(self) -> None: ...

    def on_resource_manager_missing(self) -> None:
        """Handles the loss of the ResourceManager, or a change of the leader."""
        ...


class ResourceManagerConnection(PeerConnection):
    """The connection to the leading ResourceManager. Thread: main thread."""

    lost_by = (StaleFencingTokenError, NotRegisteredError, NotLeaderError)

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        listener: ResourceManagerListener,
        options: TaskExecutorOptions,
        *,
        task_executor_address: str,
        data_address: str,
    ) -> None:
        super().__init__(endpoint, peers, options, service="ResourceManager", name="ResourceManager")
        self._options = options
        self._listener = listener
        self._task_executor_address = task_executor_address
        self._data_address = data_address
        #: The fencing token of the ResourceManager; None before the registration.
        self.resource_manager_id: str | None = None
        self.instance_id = ""

    def send_slot_report(self) -> None:
        request = resourcemanager_pb2.SendSlotReportRequest(
            resource_id=self._options.resource_id, instance_id=self.instance_id, report=self._listener.slot_report()
        )
        self.call(
            self._gateway.send_slot_report(request, timeout_s=self._options.rpc_timeout_s), _log_error, "slot report to"
        )

    def notify_slot_available(self, freed: FreedSlot) -> None:
        """Notifies of a free slot. Best effort: the slot report of the next heartbeat repeats it."""
        if not self.is_registered:
            return
        request = resourcemanager_pb2.NotifySlotAvailableRequest(
            instance_id=self.instance_id,
            resource_id=self._options.resource_id,
            slot_index=freed.index,
            allocation_id=str(freed.allocation_id),
        )
        self.call(
            self._gateway.notify_slot_available(request, timeout_s=self._options.rpc_timeout_s),
            _log_error,
            "free slot to",
        )

    async def disconnect(self, reason: str) -> None:
        """Unregisters this TaskExecutor. Best effort."""
        request = resourcemanager_pb2.DisconnectRequest(resource_id=self._options.resource_id, reason=reason)
        try:
            await self._gateway.disconnect_task_executor(request, timeout_s=1.0)
        except FlinkError as error:
            logger.debug("disconnecting from the ResourceManager: %s", error)

    # ---- PeerConnection

    async def _register(self, timeout_s: float) -> Any:
        request = resourcemanager_pb2.RegisterTaskExecutorRequest(
            resource_id=self._options.resource_id,
            address=self._task_executor_address,
            data_address=self._data_address,
            pid=os.getpid(),
            host=socket.gethostname(),
            hardware=resourcemanager_pb2.HardwareDescription(
                cpu_cores=len(os.sched_getaffinity(0)), memory_bytes=_physical_memory_bytes()
            ),
            num_slots=self._options.num_slots,
            total_resource=resource_profile_to_proto(self._options.total_resource),
            default_slot_resource=resource_profile_to_proto(self._options.default_slot_resource),
            profile=self._listener.profile,
        )
        response = await self._gateway.register_task_executor(request, timeout_s=timeout_s)
        check_leader(response.resource_manager_id, self._fencing_token, self.address)
        return response

    def _on_registered(self, response: Any) -> None:
        self.resource_manager_id = response.resource_manager_id
        self.instance_id = response.instance_id
        self._use_fencing_token(response.resource_manager_id)
        logger.info("registered at the ResourceManager %s (%s)", self.address, response.resource_manager_id)
        self.send_slot_report()
        self._listener.on_resource_manager_registered()

    async def _send_heartbeat(self) -> Any:
        heartbeat = resourcemanager_pb2.TaskExecutorHeartbeat(
            resource_id=self._options.resource_id,
            instance_id=self.instance_id,
            slot_report=self._listener.slot_report(),
        )
        return await self._gateway.heartbeat_from_task_executor(heartbeat, timeout_s=self._options.rpc_timeout_s)

    def _on_heartbeat_answer(self, answer: Any) -> None:
        if answer.registered and answer.resource_manager_id == self.resource_manager_id:
            self.heard()
        else:
            self.lose("it does not know this TaskExecutor")

    def _on_lost(self, reason: str) -> None:
        logger.warning(
            "connection to the ResourceManager at %s lost: %s; registering again, jobs keep running",
            self.address,
            reason,
        )
        self.resource_manager_id = None
        self._listener.on_resource_manager_missing()

    def _on_leader_changed(self, leader: LeaderInformation | None) -> None:
        self.resource_manager_id = None
        if leader is None:
            logger.warning("no ResourceManager leads at the moment; jobs keep running")
        self._listener.on_resource_manager_missing()


def _physical_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _log_error(_: Any, error: BaseException | None) -> None:
    if error is not None:
        logger.debug("%s", error)
