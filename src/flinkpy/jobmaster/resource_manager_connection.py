"""ResourceManagerConnection: declares at the ResourceManager how many slots the job needs.

It registers at the leading ResourceManager, with a growing delay between attempts. If the ResourceManager is lost, or
another one leads, the job continues and the registration starts again. A declaration is the total number of slots, so
only the latest one matters, and a failed one is repeated.

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

#: The pause before an unanswered declaration is repeated.
DECLARE_RETRY_DELAY_MS = 500

_PEER = "ResourceManager"


#: The number of slots, and the TaskExecutors of which the job wants no new ones.
_Wanted = tuple[int, frozenset[ResourceID]]


class SlotWishes(TypedDict):
    """The properties that all slot requests of a job share."""

    resource_profile: str
    slots_at_once: int


def slot_wishes(job_graph: job_pb2.JobGraph) -> SlotWishes:
    return SlotWishes(
        resource_profile=environment_profile(job_graph.artifacts),
        slots_at_once=required_slots(job_graph) if runs_in_stages(job_graph) else 0,
    )


class ResourceManagerConnection:
    """The connection of one job to the leading ResourceManager."""

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
        """Creates the connection.

        Args:
            leaders: finds the leading ResourceManager. Closed with this connection.
            slots_at_once: the number of slots that the job can use at the same time, for a job that runs in stages.
                Further slots are not worth new processes. 0: the job needs all slots at once.
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
        #: The gateway of the current registration; None while not registered.
        self._gateway: Any = None
        self._watch: PeerWatchHandle | None = None
        self._registration: RetryingRegistration[Any] | None = None
        self._wanted: _Wanted = (0, frozenset())
        #: The last declaration that the ResourceManager acknowledged in this registration.
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
        """Declares the number of slots that the job needs in total, and that it wants no new ones of `blocked`."""
        self._wanted = (num_slots, blocked)
        self._declare_if_needed()

    def send_heartbeat(self) -> None:
        """Sends a heartbeat. Call it every heartbeat interval."""
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
                self._lost("it does not know this job")
            elif isinstance(error, RpcUnavailableError):
                self._monitor.rpc_failed(_PEER)
            elif not isinstance(error, RpcTimeoutError):
                self._lost(str(error))

        self._endpoint.run_async(
            gateway.heartbeat_from_job_master(request, timeout_s=self._timeout_s), done, "heartbeat to ResourceManager"
        )
        if self._monitor.expired(self._endpoint.awake_ms()):
            self._lost(f"no heartbeat for {self._options.heartbeat_timeout_ms} ms, or it cannot be reached")

    async def disconnect(self, reason: str) -> None:
        """Withdraws all requirements and disconnects, because the job has ended. Best effort."""
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
            logger.debug("disconnecting from the ResourceManager failed: %s", error)

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
            logger.warning("job %s: no ResourceManager leads at the moment; the job continues", self._job_id)
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

        def registered(response: Any) -> None:
            # A registration that was dropped may have an answer on its way.
            if registration is self._registration:
                self._registered(leader, response)

        registration: RetryingRegistration[Any] = RetryingRegistration(
            self._endpoint,
            f"job {self._job_id} at the ResourceManager",
            register,
            registered,
            options=self._options.registration,
            on_refused=lambda error: not self._is_closed,
        )
        self._registration = registration
        registration.start()

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
            return  # the job has not needed any slot yet
        self._is_declaring = True
        wanted = self._wanted

        def done(_: Any, error: BaseException | None) -> None:
            self._is_declaring = False
            if gateway is not self._gateway:
                self._declare_if_needed()  # registered again in the meantime
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
        logger.warning(
            "the ResourceManager %s is lost: %s; the job continues, registering again", leader.address, reason
        )
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
