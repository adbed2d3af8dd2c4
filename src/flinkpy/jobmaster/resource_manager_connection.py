"""ResourceManagerConnection: declares at the ResourceManager which slots the job needs.

It registers at the leading ResourceManager, with a growing delay between attempts. If the ResourceManager is lost, or
another one leads, the job continues and the registration starts again. A declaration names all slots by their
resources, so only the latest one matters, and a failed one is repeated.

Source: org.apache.flink.runtime.jobmaster.JobMaster.ResourceManagerConnection and
org.apache.flink.runtime.jobmaster.slotpool.DefaultDeclareResourceRequirementServiceConnectionManager.
Thread: main thread.
"""

from __future__ import annotations

import logging
from typing import Any, TypedDict

from flinkpy._proto import job_pb2, resourcemanager_pb2
from flinkpy.common.errors import (
    FlinkError,
    NotLeaderError,
    NotRegisteredError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.common.ids import AllocationID, ResourceID
from flinkpy.common.python_environment import environment_profile
from flinkpy.common.resource_profile import ResourceCounter
from flinkpy.graph.required_slots import required_slots, runs_in_stages
from flinkpy.graph.resource_profiles import resource_profile_to_proto
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.peer_connection import PeerConnection, PeerOptions, Peers, check_leader

logger = logging.getLogger(__name__)

#: The pause before an unanswered declaration is repeated.
DECLARE_RETRY_DELAY_MS = 500

#: The slots, and the TaskExecutors of which the job wants no new ones.
_Wanted = tuple[ResourceCounter, frozenset[ResourceID]]
_NOTHING = ResourceCounter()


class SlotWishes(TypedDict):
    """The properties that all slot requests of a job share."""

    environment_profile: str
    slots_at_once: int


def slot_wishes(job_graph: job_pb2.JobGraph) -> SlotWishes:
    return SlotWishes(
        environment_profile=environment_profile(job_graph.artifacts),
        slots_at_once=required_slots(job_graph) if runs_in_stages(job_graph) else 0,
    )


class ResourceManagerConnection(PeerConnection):
    """The connection of one job to the leading ResourceManager."""

    lost_by = (StaleFencingTokenError, NotRegisteredError, NotLeaderError)

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        options: PeerOptions,
        *,
        job_id: str,
        job_master_id: str,
        resource_id: str,
        job_master_address: str,
        environment_profile: str = "",
        slots_at_once: int = 0,
    ) -> None:
        """Creates the connection.

        Args:
            slots_at_once: the number of slots that the job can use at the same time, for a job that runs in stages.
                Further slots are not worth new processes. 0: the job needs all slots at once.
        """
        super().__init__(endpoint, peers, options, service="ResourceManager", name="ResourceManager")
        self._job_id = job_id
        self._job_master_id = job_master_id
        self._resource_id = resource_id
        self._job_master_address = job_master_address
        self._environment_profile = environment_profile
        self._slots_at_once = slots_at_once
        self._timeout_s = options.rpc_timeout_s
        self._wanted: _Wanted = (_NOTHING, frozenset())
        #: The last declaration that the ResourceManager acknowledged in this registration.
        self._acknowledged: _Wanted | None = None
        self._sequence_number = 0
        self._is_declaring = False
        #: Slots of former JobMasters that this one goes on using.
        self.adopted_allocations: frozenset[AllocationID] = frozenset()

    def declare(self, requirements: ResourceCounter, blocked: frozenset[ResourceID] = frozenset()) -> None:
        """Declares the slots that the job needs in total, and that it wants no new ones of `blocked`."""
        self._wanted = (requirements, blocked)
        self._declare_if_needed()

    async def addresses_with_slots(self) -> list[str]:
        """Returns the addresses of the TaskExecutors that hold slots of the job, according to the ResourceManager.

        Raises: FlinkError if it does not answer.
        """
        if self._gateway is None:
            raise RpcUnavailableError("no ResourceManager leads at the moment")
        answer = await self._gateway.request_task_manager_info(
            resourcemanager_pb2.TaskManagerInfoRequest(), timeout_s=self._timeout_s
        )
        return [
            info.address for info in answer.task_managers if any(slot.job_id == self._job_id for slot in info.slots)
        ]

    async def disconnect(self, reason: str) -> None:
        """Withdraws all requirements and disconnects, because the job has ended. Best effort."""
        was_registered = self.is_registered
        self.close()
        if not was_registered:
            return
        request = resourcemanager_pb2.DisconnectRequest(
            resource_id=self._resource_id, job_id=self._job_id, reason=reason
        )
        try:
            await self._gateway.declare_required_resources(self._requirements(_NOTHING), timeout_s=self._timeout_s)
            await self._gateway.disconnect_job_master(request, timeout_s=self._timeout_s)
        except FlinkError as error:
            logger.debug("disconnecting from the ResourceManager failed: %s", error)

    def _declare_if_needed(self) -> None:
        if not self.is_registered or self._is_declaring or self._wanted == self._acknowledged:
            return
        if self._acknowledged is None and self._wanted[0] == _NOTHING:
            return  # the job has not needed any slot yet
        self._is_declaring = True
        wanted = self._wanted

        def done(_: Any, error: BaseException | None) -> None:
            self._is_declaring = False
            if error is None:
                self._acknowledged = wanted
                self._declare_if_needed()
            elif isinstance(error, RpcUnavailableError | RpcTimeoutError):
                self._endpoint.schedule(DECLARE_RETRY_DELAY_MS, self._declare_if_needed)
            else:
                self.lose(str(error))

        call = self._gateway.declare_required_resources(self._requirements(*wanted), timeout_s=self._timeout_s)
        self.call(call, done, "declare required resources to")

    def _requirements(
        self, requirements: ResourceCounter, blocked: frozenset[ResourceID] = frozenset()
    ) -> resourcemanager_pb2.ResourceRequirements:
        self._sequence_number += 1
        return resourcemanager_pb2.ResourceRequirements(
            job_id=self._job_id,
            job_master_id=self._job_master_id,
            job_master_address=self._job_master_address,
            requirements=[
                resourcemanager_pb2.ResourceRequirement(
                    num_slots=num_slots,
                    resource_profile=self._environment_profile,
                    resources=resource_profile_to_proto(resources),
                )
                for resources, num_slots in requirements
            ],
            sequence_number=self._sequence_number,
            blocked_resource_ids=sorted(map(str, blocked)),
            num_slots_at_once=self._slots_at_once,
            adopted_allocation_ids=sorted(map(str, self.adopted_allocations)),
        )

    # ---- PeerConnection

    async def _register(self, timeout_s: float) -> Any:
        request = resourcemanager_pb2.RegisterJobMasterRequest(
            job_id=self._job_id,
            job_master_id=self._job_master_id,
            resource_id=self._resource_id,
            address=self._job_master_address,
        )
        response = await self._gateway.register_job_master(request, timeout_s=timeout_s)
        check_leader(response.resource_manager_id, self._fencing_token, self.address)
        return response

    def _on_registered(self, response: Any) -> None:
        logger.info("job %s is registered at the ResourceManager %s", self._job_id, self.address)
        self._use_fencing_token(response.resource_manager_id)
        self._acknowledged = None
        self._is_declaring = False
        self._declare_if_needed()

    async def _send_heartbeat(self) -> Any:
        request = resourcemanager_pb2.JobMasterHeartbeat(resource_id=self._resource_id, job_id=self._job_id)
        return await self._gateway.heartbeat_from_job_master(request, timeout_s=self._timeout_s)

    def _on_heartbeat_answer(self, answer: Any) -> None:
        if answer.registered:
            self.heard()
        else:
            self.lose("it does not know this job")

    def _on_lost(self, reason: str) -> None:
        logger.warning("the ResourceManager %s is lost: %s; the job continues, registering again", self.address, reason)

    def _on_leader_changed(self, leader: LeaderInformation | None) -> None:
        if leader is None:
            logger.warning("job %s: no ResourceManager leads at the moment; the job continues", self._job_id)
