"""ZooKeeperLeaderElection: runs a LeaderLatch against ZooKeeper, and publishes the leader.

Source: org.apache.flink.runtime.leaderelection.{ZooKeeperLeaderElectionDriver,DefaultLeaderElectionService}.
Thread: one loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from flinkpy.common.ids import StringId
from flinkpy.highavailability import leader_latch as latch
from flinkpy.highavailability.leader_election import LeaderContender, LeaderInformation, Leadership
from flinkpy.highavailability.zookeeper.leader_information import encode
from flinkpy.highavailability.zookeeper.requests import (
    AsyncZooKeeper,
    Check,
    ConnectionState,
    Create,
    Delete,
    Done,
    NodeMissingError,
    NodeThereError,
    Operation,
)

logger = logging.getLogger(__name__)


class ZooKeeperLeaderElection:
    """The election of one component.

    Args:
        path: the node of the component, e.g. `/flink/default/leader/dispatcher`.
        fixed_token: the contender leads at most once, under this token.
        retry_delay_s: the pause before a failed request is repeated.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        zookeeper: AsyncZooKeeper,
        path: str,
        *,
        fixed_token: str | None = None,
        tolerates_suspension: bool = False,
        retry_delay_s: float = 1.0,
        new_token: Callable[[], str] = lambda: str(StringId.generate()),
    ) -> None:
        self._loop = loop
        self._zookeeper = zookeeper
        self._latch_path = f"{path}/latch"
        self._connection_info_path = f"{path}/connection_info"
        self._retry_delay_s = retry_delay_s
        self._latch = latch.LeaderLatch(new_token, fixed_token=fixed_token, tolerates_suspension=tolerates_suspension)
        self._contender: LeaderContender | None = None
        self._grace: asyncio.TimerHandle | None = None
        #: The address of this leader in the current term, after it is confirmed.
        self._published: LeaderInformation | None = None
        #: The token of the term whose address may still be published.
        self._published_token = ""

    def start(self, contender: LeaderContender) -> None:
        if self._contender is not None:
            raise RuntimeError("an election has one contender: create another election for another contender")
        self._contender = contender
        self._zookeeper.add_listener(self._on_connection)
        self._handle(latch.Stand(self._zookeeper.is_connected))

    def confirm_leadership(self, fencing_token: str, address: str) -> None:
        if self.has_leadership(fencing_token):
            self._published = LeaderInformation(address, fencing_token)
            self._published_token = fencing_token
            self._publish(self._published)

    def has_leadership(self, fencing_token: str) -> bool:
        return self._latch.leading_token == fencing_token

    @property
    def leadership(self) -> Leadership | None:
        token = self._latch.leading_token
        return None if token is None else Leadership(token, f"{self._latch_path}/{self._latch.node_name}")

    def close(self) -> None:
        if self._contender is None:
            return
        self._zookeeper.remove_listener(self._on_connection)
        self._published = None
        self._handle(latch.Close())

    # --- the machine

    def _on_connection(self, state: ConnectionState) -> None:
        match state:
            case ConnectionState.CONNECTED:
                self._handle(latch.Connected())
            case ConnectionState.SUSPENDED:
                self._handle(latch.Suspended())
            case ConnectionState.LOST:
                self._handle(latch.SessionLost())

    def _handle(self, event: latch.LatchEvent) -> None:
        for effect in self._latch.handle(event):
            self._run(effect)

    def _run(self, effect: latch.LatchEffect) -> None:
        match effect:
            case latch.CreateNode(request, prefix):
                self._zookeeper.create_sequential(
                    f"{self._latch_path}/{prefix}",
                    b"",
                    self._answer(request, lambda path: latch.NodeCreated(request, path.rpartition("/")[2])),
                )
            case latch.ListNodes(request):
                self._zookeeper.children(
                    self._latch_path, self._answer(request, lambda names: latch.NodesListed(request, tuple(names)))
                )
            case latch.WatchNode(request, name):
                self._zookeeper.exists(
                    f"{self._latch_path}/{name}",
                    lambda: self._handle(latch.NodeChanged(name)),
                    self._answer(request, lambda exists: latch.NodeWatched(request, exists)),
                )
            case latch.RemoveNodes(request, names):
                self._remove(request, names)
            case latch.Grant(token, name):
                logger.info("leadership of %s is granted (%s)", self._latch_path, name)
                if self._contender is not None:
                    self._contender.grant_leadership(token)
            case latch.Revoke():
                logger.warning("leadership of %s is lost", self._latch_path)
                self._published = None
                if self._contender is not None:
                    self._contender.revoke_leadership()
            case latch.StartGrace():
                self._grace = self._loop.call_later(
                    self._zookeeper.grace_left_s, lambda: self._handle(latch.GraceOver())
                )
            case latch.CancelGrace():
                if self._grace is not None:
                    self._grace.cancel()
                    self._grace = None
            case latch.RetryLater(request):
                self._loop.call_later(self._retry_delay_s, lambda: self._handle(latch.RetryDue(request)))

    def _answer(self, request: int, event: Callable[[Any], latch.LatchEvent]) -> Done:
        def answered(answer: Any, error: Exception | None) -> None:
            if error is None:
                self._handle(event(answer))
                return
            logger.warning("a request of the election at %s failed and is repeated: %s", self._latch_path, error)
            self._handle(latch.RequestFailed(request))

        return answered

    def _remove(self, request: int, names: tuple[str, ...]) -> None:
        awaited = set(names)
        failures: list[Exception] = []

        def removed(name: str, error: Exception | None) -> None:
            awaited.discard(name)
            if error is not None and not isinstance(error, NodeMissingError):
                failures.append(error)
            if not awaited and request:
                self._handle(latch.RequestFailed(request) if failures else latch.NodesRemoved(request))

        def removal_of(name: str) -> Done:
            return lambda _, error: removed(name, error)

        for name in names:
            path = f"{self._latch_path}/{name}"
            if latch.token_of(name) == self._published_token:
                self._withdraw(path, removal_of(name))
            else:
                self._zookeeper.delete(path, removal_of(name))

    def _withdraw(self, path: str, done: Done) -> None:
        """Removes the node and the published address. While the node exists, the address is not of another leader."""

        def withdrawn(_: Any, error: Exception | None) -> None:
            if isinstance(error, NodeMissingError):
                self._zookeeper.delete(path, done)
            else:
                done(None, error)

        self._zookeeper.transact([Check(path), Delete(self._connection_info_path), Delete(path)], withdrawn)

    # --- the leader's address

    def _publish(self, information: LeaderInformation, *, replace: bool = False) -> None:
        leadership = self.leadership
        if information is not self._published or leadership is None:
            return  # the term has ended
        assert leadership.latch_path is not None
        path = self._connection_info_path
        operations: list[Operation] = [Check(leadership.latch_path)]
        if replace:
            operations.append(Delete(path))
        operations.append(Create(path, encode(information), is_ephemeral=True))

        def published(_: Any, error: Exception | None) -> None:
            if isinstance(error, NodeThereError):
                self._publish(information, replace=True)
            elif isinstance(error, NodeMissingError) and error.index > 0:
                self._publish(information)
            elif error is not None:
                # If the latch node is gone, the term has ended, and the machine will notice. Else it is tried again.
                logger.warning("the address of the leader at %s is not published yet: %s", path, error)
                self._loop.call_later(self._retry_delay_s, lambda: self._publish(information))

        self._zookeeper.transact(operations, published)
