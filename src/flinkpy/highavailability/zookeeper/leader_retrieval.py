"""ZooKeeperLeaderRetrieval: follows the node in which the leader of one component publishes its address.

While the connection is suspended, no leader is known. If suspended connections are tolerated, the last leader counts
until the session time-out has passed.

Source: org.apache.flink.runtime.leaderretrieval.ZooKeeperLeaderRetrievalDriver.
Thread: one loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from flinkpy.common.errors import HighAvailabilityError
from flinkpy.highavailability.leader_election import LeaderInformation
from flinkpy.highavailability.zookeeper.leader_information import decode
from flinkpy.highavailability.zookeeper.requests import AsyncZooKeeper, ConnectionState, NodeMissingError

logger = logging.getLogger(__name__)


class ZooKeeperLeaderRetrieval:
    """Follows the leader of one component.

    Args:
        path: the node of the component, e.g. `/flink/default/leader/dispatcher`.
        tells_absence: also calls back at the start if nobody leads.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        zookeeper: AsyncZooKeeper,
        path: str,
        *,
        tolerates_suspension: bool = False,
        retry_delay_s: float = 1.0,
        tells_absence: bool = False,
    ) -> None:
        self._loop = loop
        self._zookeeper = zookeeper
        self._path = f"{path}/connection_info"
        self._tolerates_suspension = tolerates_suspension
        self._retry_delay_s = retry_delay_s
        self._on_leader_changed: Callable[[LeaderInformation | None], None] | None = None
        self._leader: LeaderInformation | None = None
        self._has_told = not tells_absence
        #: The number of the current read. Watches and answers of earlier reads are ignored.
        self._reading = 0
        self._clearance: asyncio.TimerHandle | None = None

    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        if self._on_leader_changed is not None:
            raise RuntimeError("a retrieval has one listener: create another retrieval for another listener")
        self._on_leader_changed = on_leader_changed
        self._zookeeper.add_listener(self._on_connection)
        if self._zookeeper.is_connected:
            self._read()

    def close(self) -> None:
        self._zookeeper.remove_listener(self._on_connection)
        self._cancel_clearance()
        self._reading += 1
        self._on_leader_changed = None

    def _on_connection(self, state: ConnectionState) -> None:
        self._cancel_clearance()
        if state is ConnectionState.CONNECTED:
            self._read()
            return
        self._reading += 1
        if state is ConnectionState.SUSPENDED and self._tolerates_suspension:
            # Leaders stop after two thirds of the time-out.
            delay_s = self._zookeeper.grace_left_s + self._zookeeper.session_timeout_s / 3
            self._clearance = self._loop.call_later(delay_s, lambda: self._tell(None))
            return
        self._tell(None)

    def _read(self) -> None:
        self._reading += 1
        reading = self._reading

        def changed() -> None:
            if reading == self._reading:
                self._read()

        def is_current(error: Exception | None) -> bool:
            if reading != self._reading:
                return False
            if error is not None and not isinstance(error, NodeMissingError):
                logger.warning("reading the leader at %s failed and is repeated: %s", self._path, error)
                self._loop.call_later(self._retry_delay_s, changed)
                return False
            return True

        def found(exists: bool, error: Exception | None) -> None:
            if not is_current(error):
                return
            if exists:
                self._zookeeper.get(self._path, told)
            else:
                self._tell(None)

        def told(data: bytes | None, error: Exception | None) -> None:
            if not is_current(error):
                return
            try:
                self._tell(None if data is None else decode(data, self._path))
            except HighAvailabilityError as foreign:
                logger.error("%s", foreign)
                self._tell(None)

        self._zookeeper.exists(self._path, changed, found)

    def _tell(self, leader: LeaderInformation | None) -> None:
        if self._on_leader_changed is None or (self._has_told and leader == self._leader):
            return
        self._leader = leader
        self._has_told = True
        self._on_leader_changed(leader)

    def _cancel_clearance(self) -> None:
        if self._clearance is not None:
            self._clearance.cancel()
            self._clearance = None
