"""ResourceManagerConnection: tells the ResourceManager how many slots the job wants, for as long as there is one.

Registers with back-off at whichever ResourceManager leads; when that is lost, or another one leads, the job goes on and
the registration starts anew. What is wanted is a number, and only the latest counts, so a declaration that failed is
simply made again.

Source: org.apache.flink.runtime.jobmaster.JobMaster.ResourceManagerConnection and
org.apache.flink.runtime.jobmaster.slotpool.DefaultDeclareResourceRequirementServiceConnectionManager.
Thread: main thread.
"""

from __future__ import annotations

import logging
from typing import Any, TypedDict

from flinkpy._proto import job_pb2, resourcemanager_pb2
from flinkpy.common.errors import FlinkError, RpcTimeoutError, RpcUnavailableError
from flinkpy.common.ids import ResourceID
from flinkpy.common.python_environment import environment_profile
from flinkpy.graph.required_slots import required_slots, runs_in_stages
from flinkpy.highavailability.leader_election import LeaderInformation, LeaderRetrieval
from flinkpy.jobmaster.options import JobMasterOptions
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle
from flinkpy.rpc.heartbeat import HeartbeatMonitor
from flinkpy.rpc.peers import Peers, PeerWatchHandle
from flinkpy.rpc.registration import RetryingRegistration, check_leader

logger = logging.getLogger(__name__)

#: Pause before a declaration that got no answer is made again.
DECLARE_RETRY_DELAY_MS = 500

_PEER = "ResourceManager"


#: So many slots, and none more of these TaskExecutors.
_Wanted = tuple[int, frozenset[ResourceID]]


class SlotWishes(TypedDict):
    """What a job says of all the slots it asks for."""

    resource_profile: str
    slots_at_once: int


def slot_wishes(job_graph: job_pb2.JobGraph) -> SlotWishes:
    return SlotWishes(
        resource_profile=environment_profile(job_graph.artifacts),
        slots_at_once=required_slots(job_graph) if runs_in_stages(job_graph) else 0,
    )


class ResourceManagerConnection:
    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        leaders: LeaderRetrieval,
        options: JobMasterOptions,
        *,
        job_id: str,
        job_master_id: str,
        resource_id: str,
        job_master_address: str,
        resource_profile: str = "",
        slots_at_once: int = 0,
    ) -> None:
        """Args:
        leaders: of the ResourceManager; closed with this.
        slots_at_once: what more slots than these are wanted for can wait, and is worth no further process.
        """
        self._endpoint = endpoint
        self._peers = peers
        self._leaders = leaders
        self._leader: LeaderInformation | None = None
        self._options = options
        self._job_id = job_id
        self._job_master_id = job_master_id
        self._resource_id = resource_id
        self._job_master_address = job_master_address
        self._resource_profile = resource_profile
        self._slots_at_once = slots_at_once
        self._timeout_s = options.rpc_timeout_ms / 1000
        self._monitor: HeartbeatMonitor[str] = HeartbeatMonitor(
            options.heartbeat_timeout_ms, options.heartbeat_rpc_failure_threshold
        )
        #: Of the registration now; None while there is none.
        self._gateway: Any = None
        self._watch: PeerWatchHandle | None = None
        self._registration: RetryingRegistration[Any] | None = None
        self._wanted: _Wanted = (0, frozenset())
        #: What the ResourceManager is known to know; None: nothing of this registration.
        self._acknowledged: _Wanted | None = None
        self._sequence_number = 0
        self._is_declaring = False
        self._retry_timer: TimerHandle | None = None
        self._is_closed = False

    @property
    def is_registered(self) -> bool:
        return self._gateway is not None

    def start(self) -> None:
        self._leaders.start(self._leader_changed)

    def declare(self, num_slots: int, blocked: frozenset[ResourceID] = frozenset()) -> None:
        """The job wants this many slots from now on, and none more of `blocked` TaskExecutors."""
        self._wanted = (num_slots, blocked)
        self._declare_if_needed()

    def send_heartbeat(self) -> None:
        """To be called every heartbeat interval."""
        gateway = self._gateway
        if gateway is None:
            return
        request = resourcemanager_pb2.JobMasterHeartbeat(resource_id=self._resource_id, job_id=self._job_id)

        def done(response: Any, error: BaseException | None) -> None:
            if gateway is not self._gateway:
                return
            if error is None and response.registered:
                self._monitor.received(_PEER, self._endpoint.awake_ms())
            elif error is None:
                self._lost("it does not know this job (any more)")
            elif isinstance(error, RpcUnavailableError):
                self._monitor.rpc_failed(_PEER)
            elif not isinstance(error, RpcTimeoutError):
                self._lost(str(error))

        self._endpoint.run_async(
            gateway.heartbeat_from_job_master(request, timeout_s=self._timeout_s), done, "heartbeat to ResourceManager"
        )
        if self._monitor.expired(self._endpoint.awake_ms()):
            self._lost(f"no heartbeat for {self._options.heartbeat_timeout_ms} ms, or it cannot be called")

    async def disconnect(self, reason: str) -> None:
        """The job is over: give up the claim and leave; best effort."""
        gateway = self._gateway
        self.close()
        if gateway is None:
            return
        request = resourcemanager_pb2.DisconnectRequest(
            resource_id=self._resource_id, job_id=self._job_id, reason=reason
        )
        try:
            await gateway.declare_required_resources(self._requirements(0), timeout_s=self._timeout_s)
            await gateway.disconnect_job_master(request, timeout_s=self._timeout_s)
        except FlinkError as error:
            logger.debug("disconnecting from the ResourceManager: %s", error)

    def close(self) -> None:
        self._is_closed = True
        self._leaders.close()
        self._drop_registration()

    # Inside

    def _leader_changed(self, leader: LeaderInformation | None) -> None:
        if self._is_closed or leader == self._leader:
            return
        self._leader = leader
        self._drop_registration()
        if leader is None:
            logger.warning("job %s: no ResourceManager leads just now; the job goes on", self._job_id)
        else:
            self._register(leader)

    def _register(self, leader: LeaderInformation) -> None:
        request = resourcemanager_pb2.RegisterJobMasterRequest(
            job_id=self._job_id,
            job_master_id=self._job_master_id,
            resource_id=self._resource_id,
            address=self._job_master_address,
        )
        gateway = self._peers.gateway("ResourceManager", leader.address, leader.fencing_token)

        async def register(timeout_s: float) -> Any:
            response = await gateway.register_job_master(request, timeout_s=timeout_s)
            check_leader(response.resource_manager_id, leader.fencing_token, leader.address)
            return response

        self._registration = registration = RetryingRegistration(
            self._endpoint,
            f"job {self._job_id} at the ResourceManager",
            register,
            # One that has been given up may have had its answer already.
            lambda response: self._registered(leader, response) if registration is self._registration else None,
            options=self._options.registration,
            on_refused=lambda error: not self._is_closed,
        )
        self._registration.start()

    def _registered(self, leader: LeaderInformation, response: Any) -> None:
        logger.info("job %s is registered at the ResourceManager %s", self._job_id, leader.address)
        self._gateway = self._peers.gateway("ResourceManager", leader.address, response.resource_manager_id)
        self._monitor.add_target(_PEER, self._endpoint.awake_ms())
        self._watch = self._peers.watch_peer(leader.address, lambda: self._lost("its connection broke"))
        self._acknowledged = None
        self._declare_if_needed()

    def _declare_if_needed(self) -> None:
        gateway = self._gateway
        if gateway is None or self._is_declaring or self._wanted == self._acknowledged:
            return
        if self._acknowledged is None and self._wanted[0] == 0:
            return  # nothing has been asked for yet
        self._is_declaring = True
        wanted = self._wanted

        def done(_: Any, error: BaseException | None) -> None:
            self._is_declaring = False
            if gateway is not self._gateway:
                self._declare_if_needed()  # registered anew in the meantime
            elif error is None:
                self._acknowledged = wanted
                self._declare_if_needed()
            elif isinstance(error, RpcUnavailableError | RpcTimeoutError):
                self._retry_timer = self._endpoint.schedule(DECLARE_RETRY_DELAY_MS, self._declare_if_needed)
            else:
                self._lost(str(error))

        call = gateway.declare_required_resources(self._requirements(*wanted), timeout_s=self._timeout_s)
        self._endpoint.run_async(call, done, "declare required resources")

    def _requirements(
        self, num_slots: int, blocked: frozenset[ResourceID] = frozenset()
    ) -> resourcemanager_pb2.ResourceRequirements:
        self._sequence_number += 1
        wanted = resourcemanager_pb2.ResourceRequirement(num_slots=num_slots, resource_profile=self._resource_profile)
        return resourcemanager_pb2.ResourceRequirements(
            job_id=self._job_id,
            job_master_id=self._job_master_id,
            job_master_address=self._job_master_address,
            requirements=[wanted] if num_slots else [],
            sequence_number=self._sequence_number,
            blocked_resource_ids=sorted(map(str, blocked)),
            num_slots_at_once=self._slots_at_once,
        )

    def _lost(self, reason: str) -> None:
        leader = self._leader
        if self._is_closed or self._gateway is None or leader is None:
            return
        logger.warning("the ResourceManager %s is lost: %s; the job goes on, registering again", leader.address, reason)
        self._drop_registration()
        self._register(leader)

    def _drop_registration(self) -> None:
        self._gateway = None
        self._monitor.remove(_PEER)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._registration is not None:
            self._registration.cancel()
            self._registration = None
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
