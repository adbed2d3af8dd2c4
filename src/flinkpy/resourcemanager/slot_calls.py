"""SlotCalls: the SlotManager's effects that are calls to TaskExecutors and JobMasters.

Thread: the ResourceManager's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flinkpy._proto import jobmaster_pb2, taskexecutor_pb2
from flinkpy.common.errors import JobMasterLostError
from flinkpy.resourcemanager.effects import (
    FreeSlot,
    NotifyTaskExecutorLost,
    RenewTaskExecutor,
    RequestSlot,
    SlotManagerEffect,
)
from flinkpy.resourcemanager.job_leader_service import JobLeaderService
from flinkpy.resourcemanager.slot_manager import SlotManager
from flinkpy.resourcemanager.task_executor_tracker import TaskExecutorInfo
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import error_to_proto
from flinkpy.rpc.peers import Peers

logger = logging.getLogger(__name__)


class SlotCalls:
    """Outcomes go to the SlotManager as events; what it answers goes to `run_effects`."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        *,
        peers: Peers,
        resource_manager_id: str,
        rpc_timeout_s: float,
        slot_manager: SlotManager,
        job_leaders: JobLeaderService,
        run_effects: Callable[[Iterable[SlotManagerEffect]], None],
    ) -> None:
        self._endpoint = endpoint
        self._peers = peers
        self._resource_manager_id = resource_manager_id
        self._rpc_timeout_s = rpc_timeout_s
        self._slot_manager = slot_manager
        self._job_leaders = job_leaders
        self._run_effects = run_effects

    def executor_gateway(self, info: TaskExecutorInfo) -> Any:
        return self._peers.gateway("TaskExecutor", info.description.address, self._resource_manager_id)

    def request_slot(self, effect: RequestSlot) -> None:
        info = self._slot_manager.task_executors.find(effect.instance_id)
        if info is None:
            return
        slot = (effect.instance_id, effect.slot_index, effect.allocation_id)

        def answered(_: Any, error: BaseException | None) -> None:
            if error is None:
                self._run_effects(self._slot_manager.slot_request_acknowledged(*slot))
                return
            logger.info("slot %d of %s was not to be had: %s", effect.slot_index, info.resource_id, error)
            self._run_effects(self._slot_manager.slot_request_failed(*slot, self._endpoint.awake_ms()))

        request = taskexecutor_pb2.RequestSlotRequest(
            slot_index=effect.slot_index,
            job_id=str(effect.job_id),
            allocation_id=str(effect.allocation_id),
            resource_profile=effect.resource_profile,
            job_master_address=effect.job_master_address,
            job_master_id=str(effect.job_master_id),
            resource_manager_id=self._resource_manager_id,
        )
        call = self.executor_gateway(info).request_slot(request, timeout_s=self._rpc_timeout_s)
        self._endpoint.run_async(call, answered, f"request slot {effect.slot_index} of {info.resource_id}")

    def renew(self, effect: RenewTaskExecutor) -> None:
        info = self._slot_manager.task_executors.find(effect.instance_id)
        if info is None:
            return
        logger.info("TaskExecutor %s begins anew: its packages are not those of the jobs that wait", info.resource_id)

        def answered(_: Any, error: BaseException | None) -> None:
            if error is not None:
                logger.info("TaskExecutor %s does not begin anew: %s", info.resource_id, error)
                self._run_effects(self._slot_manager.renewal_failed(effect.instance_id))

        request = taskexecutor_pb2.RenewRequest(resource_manager_id=self._resource_manager_id)
        call = self.executor_gateway(info).renew(request, timeout_s=self._rpc_timeout_s)
        self._endpoint.run_async(call, answered, f"renew {info.resource_id}")

    def free_slot(self, effect: FreeSlot) -> None:
        info = self._slot_manager.task_executors.find(effect.instance_id)
        if info is None:
            return
        request = taskexecutor_pb2.FreeSlotRequest(
            allocation_id=str(effect.allocation_id),
            job_id=str(effect.job_id),
            cause=error_to_proto(JobMasterLostError(effect.reason)),
        )
        call = self.executor_gateway(info).free_slot(request, timeout_s=self._rpc_timeout_s)
        # Should it fail, the next slot report shows the slot still held, and it is freed again.
        self._endpoint.run_async(call, None, f"free slot {effect.allocation_id} of {info.resource_id}")

    def notify_task_executor_lost(self, effect: NotifyTaskExecutorLost) -> None:
        leader = self._job_leaders.find(effect.job_id)
        if leader is None:
            return
        request = jobmaster_pb2.DisconnectTaskManagerRequest(
            job_id=str(effect.job_id), resource_id=str(effect.resource_id), reason=effect.reason
        )
        gateway = self._peers.gateway("JobMaster", leader.address, str(leader.job_master_id))
        # A hint that comes sooner than the JobMaster's own heartbeat would: it is not repeated where it fails.
        call = gateway.disconnect_task_manager(request, timeout_s=self._rpc_timeout_s)
        self._endpoint.run_async(call, None, f"tell job {effect.job_id} that {effect.resource_id} is lost")
