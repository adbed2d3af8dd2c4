"""ZooKeeperHaServices: the elections, retrievals and stores of a process, on one ZooKeeper session.

Source: org.apache.flink.runtime.leaderelection.ZooKeeperLeaderElectionHaServices.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from flinkpy.common.errors import HighAvailabilityError
from flinkpy.common.ids import JobID
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories
from flinkpy.highavailability.leader_election import LeaderInformation, Leadership
from flinkpy.highavailability.leader_latch import token_of
from flinkpy.highavailability.zookeeper.checkpoint_stores import (
    ZooKeeperCheckpointIDCounter,
    ZooKeeperCheckpointPointerStore,
)
from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.fenced_writes import FencedWrites
from flinkpy.highavailability.zookeeper.job_graph_store import ZooKeeperJobGraphStore
from flinkpy.highavailability.zookeeper.job_result_store import SharedJobResultStore
from flinkpy.highavailability.zookeeper.leader_election import ZooKeeperLeaderElection
from flinkpy.highavailability.zookeeper.leader_information import decode
from flinkpy.highavailability.zookeeper.leader_retrieval import ZooKeeperLeaderRetrieval
from flinkpy.highavailability.zookeeper.requests import Check, Delete, NodeMissingError, Operation
from flinkpy.highavailability.zookeeper.settings import ZooKeeperSettings
from flinkpy.highavailability.zookeeper.storage import HaStorage

if TYPE_CHECKING:
    from flinkpy.security import SecurityContext

logger = logging.getLogger(__name__)

#: The data of the cluster's node. It distinguishes the node from one of another system, or of Flink.
CLUSTER_MARK = b"flinkpy 1"

_DISPATCHER = "dispatcher"
_RESOURCE_MANAGER = "resource_manager"
#: The processes that use the storage directory.
_STORING_PROCESSES = ("dispatcher", "jobmaster")
_MASTERS = (*_STORING_PROCESSES, "resourcemanager")
#: The longest pause before a request of an election is repeated. Nobody leads meanwhile.
_MAX_ELECTION_RETRY_S = 1.0
_MAX_WATCH_S = 1.0


class ZooKeeperHaServices:
    """See `HighAvailabilityServices`."""

    is_highly_available = True

    def __init__(
        self, client: ZooKeeperClient, loop: asyncio.AbstractEventLoop | None, storage: HaStorage | None
    ) -> None:
        self._client = client
        self._settings = client.settings
        self._loop = loop
        self._open_storage = storage

    @classmethod
    def connect(
        cls,
        configuration: AnyConfiguration,
        security: SecurityContext,
        loop: asyncio.AbstractEventLoop | None,
        *,
        process: str,
    ) -> ZooKeeperHaServices:
        """Connects to ZooKeeper and checks the nodes of the cluster. Blocking.

        Raises: ConfigurationError, HighAvailabilityError.
        """
        settings = ZooKeeperSettings.of(configuration, security)
        storage = HaStorage(configuration) if process in _STORING_PROCESSES else None
        if settings.is_open and process in _MASTERS:
            logger.warning("every client of ZooKeeper at %s may change the nodes of this cluster", settings.quorum)
        client = ZooKeeperClient(settings, loop)
        client.connect()
        try:
            if process in _MASTERS:
                client.ensure(settings.root, is_shared=True)
                client.ensure(settings.cluster, CLUSTER_MARK)
            _check_cluster_node(client)
            _check_owners(client, [settings.cluster])
            if process in _MASTERS:
                # A node with a child cannot be replaced, not even by the owner of the root.
                client.ensure(f"{settings.cluster}/leader")
            _check_owners(client, _nodes_that_are_trusted(settings), with_children=process == _DISPATCHER)
            if storage is not None:
                storage.open(client)
        except BaseException:
            client.close()
            raise
        return cls(client, loop, storage)

    @property
    def client(self) -> ZooKeeperClient:
        return self._client

    # --- leaders

    def dispatcher_election(self) -> ZooKeeperLeaderElection:
        return self._election(_DISPATCHER)

    def dispatcher_retrieval(self) -> ZooKeeperLeaderRetrieval:
        return self._retrieval(_DISPATCHER)

    def resource_manager_election(self) -> ZooKeeperLeaderElection:
        return self._election(_RESOURCE_MANAGER)

    def resource_manager_retrieval(self) -> ZooKeeperLeaderRetrieval:
        return self._retrieval(_RESOURCE_MANAGER)

    def job_master_election(self, job_id: JobID, job_master_id: str) -> ZooKeeperLeaderElection:
        return self._election(str(job_id), job_master_id)

    def job_master_retrieval(self, job_id: JobID) -> ZooKeeperLeaderRetrieval:
        return self._retrieval(str(job_id), tells_absence=True)

    def find_dispatcher(self, timeout_s: float) -> LeaderInformation:
        deadline = time.monotonic() + timeout_s
        path = self._settings.connection_info(_DISPATCHER)
        while True:
            changed = threading.Event()
            data = self._client.get_data(path) if self._client.exists_and_watch(path, changed.set) else None
            if data is not None:
                return decode(data, path)
            # A watch ends with the connection, so the wait is short.
            if (
                not changed.wait(max(min(deadline - time.monotonic(), _MAX_WATCH_S), 0))
                and time.monotonic() >= deadline
            ):
                raise HighAvailabilityError(
                    f"no Dispatcher leads cluster '{self._settings.cluster_id}' in ZooKeeper at {self._settings.quorum}"
                    f" (node {path}): none has been started, or high-availability.cluster-id is that of another one",
                    details={"path": path},
                )

    # --- stores

    def job_graph_store(self, leadership: Leadership) -> ZooKeeperJobGraphStore:
        storage = self._storage
        return ZooKeeperJobGraphStore(
            self._client,
            FencedWrites(self._client, leadership),
            storage.execution_plans,
            lambda: storage.verify(self._client),
        )

    def job_result_store(self, leadership: Leadership) -> SharedJobResultStore:
        return SharedJobResultStore(self._storage.results, FencedWrites(self._client, leadership))

    def checkpoint_pointer_store(self, job_id: JobID, leadership: Leadership) -> ZooKeeperCheckpointPointerStore:
        return ZooKeeperCheckpointPointerStore(self._client, FencedWrites(self._client, leadership), job_id)

    def checkpoint_id_counter(
        self, job_id: JobID, leadership: Leadership, at_least: int = 1
    ) -> ZooKeeperCheckpointIDCounter:
        return ZooKeeperCheckpointIDCounter(self._client, FencedWrites(self._client, leadership), job_id, at_least)

    def recovery_directories(self, leadership: Leadership | None = None) -> JobRecoveryDirectories:
        if leadership is None:
            return JobRecoveryDirectories(self._storage.recovery)
        writes = FencedWrites(self._client, leadership)
        return JobRecoveryDirectories(self._storage.recovery, lambda: writes.check("remove directories of jobs"))

    def blob_directory(self) -> Path:
        return self._storage.blobs

    # --- clean-up

    def release_dead_leader(self, job_id: JobID, job_master_id: str) -> None:
        latch = self._settings.latch(str(job_id))
        for name in self._client.get_children(latch):
            if token_of(name) == job_master_id:
                self._remove_latch_node(f"{latch}/{name}", str(job_id))

    def _remove_latch_node(self, path: str, component: str) -> None:
        """Removes the latch node, and the address that its owner has published."""
        published = self._settings.connection_info(component)
        what = f"release {path}"
        withdrawals: tuple[list[Operation], ...] = ([Check(path), Delete(published), Delete(path)], [Delete(path)])
        data = self._client.get_data(published)
        if data is None or decode(data, published).fencing_token != token_of(path.rpartition("/")[2]):
            withdrawals = withdrawals[1:]
        for operations in withdrawals:
            try:
                self._client.transact_and_wait(operations, what)
                return
            except NodeMissingError:
                continue

    def clean_up_job(self, job_id: JobID) -> None:
        self._client.delete_tree(self._settings.job(job_id))
        self._client.delete_tree(f"{self._settings.job_graphs}/{job_id}")
        self._client.delete_tree(self._settings.leader(str(job_id)))

    def close(self) -> None:
        self._client.close()

    # --- inside

    @property
    def _storage(self) -> HaStorage:
        if self._open_storage is None:
            raise HighAvailabilityError("only Dispatchers and JobMasters use the storage directory")
        return self._open_storage

    def _election(self, component: str, fixed_token: str | None = None) -> ZooKeeperLeaderElection:
        return ZooKeeperLeaderElection(
            self._running_loop,
            self._client,
            self._settings.leader(component),
            fixed_token=fixed_token,
            tolerates_suspension=self._settings.tolerates_suspension,
            retry_delay_s=min(self._settings.retry_wait_s, _MAX_ELECTION_RETRY_S),
        )

    def _retrieval(self, component: str, *, tells_absence: bool = False) -> ZooKeeperLeaderRetrieval:
        return ZooKeeperLeaderRetrieval(
            self._running_loop,
            self._client,
            self._settings.leader(component),
            tolerates_suspension=self._settings.tolerates_suspension,
            retry_delay_s=min(self._settings.retry_wait_s, _MAX_ELECTION_RETRY_S),
            tells_absence=tells_absence,
        )

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise HighAvailabilityError("these services were created without an event loop")
        return self._loop


def _check_cluster_node(client: ZooKeeperClient) -> None:
    """Checks that the cluster's node is of flinkpy. Raises: HighAvailabilityError."""
    settings = client.settings
    data = client.get_data(settings.cluster)
    if data is None:
        return  # no master has been here yet
    if data != CLUSTER_MARK:
        raise HighAvailabilityError(
            f"node {settings.cluster} of ZooKeeper at {settings.quorum} was created by another system: choose another "
            "high-availability.cluster-id or high-availability.zookeeper.path.root",
            details={"path": settings.cluster},
        )


def _nodes_that_are_trusted(settings: ZooKeeperSettings) -> list[str]:
    """Returns the nodes by which leaders and jobs are found."""
    nodes = [settings.cluster, f"{settings.cluster}/leader", f"{settings.cluster}/jobs", settings.job_graphs]
    nodes.append(settings.storage_id)
    for component in (_DISPATCHER, _RESOURCE_MANAGER):
        nodes += [settings.leader(component), settings.latch(component), settings.connection_info(component)]
    return nodes


def _check_owners(client: ZooKeeperClient, nodes: list[str], *, with_children: bool = False) -> None:
    """Checks that only this cluster may use these nodes. Somebody else may have created them before.

    The owner of a node can create children in it, for example one that names another leader. In a node that only this
    cluster may use, nobody else can. Therefore every process checks the few nodes by which it finds others. A
    Dispatcher, which starts rarely, also checks everything below them.

    Raises: HighAvailabilityError naming the node.
    """
    if client.settings.is_open:
        return
    seen: set[str] = set()
    awaited = list(nodes)
    while awaited:
        path = awaited.pop()
        if path in seen:
            continue
        seen.add(path)
        others = client.others_who_may_use(path)
        if others:
            raise _foreign(client.settings, path, others)
        if with_children:
            awaited += [f"{path}/{name}" for name in client.get_children(path)]


def _foreign(settings: ZooKeeperSettings, path: str, others: list[str]) -> HighAvailabilityError:
    if any(name.startswith("world:") for name in others):
        problem = (
            f"anybody may change node {path} of ZooKeeper at {settings.quorum}: it was created with "
            "high-availability.zookeeper.client.acl: open, or without a secret, or by somebody else"
        )
    else:
        problem = f"others than this cluster may use node {path} of ZooKeeper at {settings.quorum}: {', '.join(others)}"
    return HighAvailabilityError(
        f"{problem}; remove it, or choose another high-availability.cluster-id", details={"path": path}
    )
