"""SimulatedZooKeeperClient: what flinkpy uses of kazoo's KazooClient, over a SimulatedZooKeeper and virtual time.

It reports as kazoo does: SUSPENDED when its connection broke, or nothing came for two thirds of the session time-out;
CONNECTED when the session could be resumed; LOST when the servers say that it has expired, and CONNECTED with a new one
after that. Watches are dropped, and told so by an event of no kind, when the connection breaks.

Calls are done at once: blocking ones are called where time stands still. One that cannot reach the servers raises
ConnectionLoss where a KazooClient would wait first, and where the network is bad an operation that was carried out may
raise it as well.

Source: kazoo.client.KazooClient.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat
from simulated_zookeeper import Operation, Session, SimulatedZooKeeper, parent_of

WatchFunction = Callable[[WatchedEvent], None]


class SimulatedZooKeeperClient:
    """One process's session. `cut` and `heal` are of its host's way to the servers."""

    def __init__(
        self,
        zookeeper: SimulatedZooKeeper,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        timeout_s: float = 4.0,
        context: contextvars.Context | None = None,
    ) -> None:
        """`context`: of the process, in which everything is called back."""
        self._context = context or contextvars.copy_context()
        self._zookeeper = zookeeper
        self._loop = loop
        self._random = random
        self._timeout_s = timeout_s
        self._session: Session | None = None
        self._listeners: list[Callable[[str], object]] = []
        self._data_watchers: dict[str, dict[WatchFunction, None]] = {}
        self._child_watchers: dict[str, dict[WatchFunction, None]] = {}
        self.state = KazooState.LOST
        self._is_started = False
        self._is_dead = False
        self._is_cut = False
        self._has_connection = False
        self._is_pinging = False
        self._undelivered: deque[tuple[dict[WatchFunction, None], WatchedEvent]] = deque()
        #: Of calls: how many lose their connection, half of them after they were carried out.
        self.fault_probability = 0.0
        #: Longer than others before it notices that nothing comes: a process that stood still.
        self.is_slow_to_notice = False

    # Life

    def start(self, timeout: float = 15) -> None:
        """Connects at once where it can; otherwise as soon as it can."""
        self._is_started = True
        self._reconnect()

    def stop(self) -> None:
        """Ends the session, where the servers can be told."""
        if not self._is_started:
            return
        self._is_started = False
        if self._session is not None and self._is_reachable and self._has_connection:
            self._drop_connection()
            self._zookeeper.close_session(self._session.id)
        self._drop_connection()
        self._change_state(KazooState.LOST)

    def close(self) -> None:
        """Nothing is held."""

    def die(self) -> None:
        """The process is gone: nobody is told, and the session ends in its own time."""
        self._is_dead = True
        self._is_started = False
        self._listeners.clear()
        self._data_watchers.clear()
        self._child_watchers.clear()
        self._drop_connection()

    def cut(self) -> None:
        """Nothing gets through, in either direction; nobody is told."""
        if self._is_cut:
            return
        self._is_cut = True
        if self._has_connection:
            longest = 1.6 if self.is_slow_to_notice else 0.66
            self._later(self._random.uniform(0.33, longest) * self._timeout_s, self._notice)

    def heal(self) -> None:
        self._is_cut = False

    @property
    def connected(self) -> bool:
        return self.state == KazooState.CONNECTED

    @property
    def client_state(self) -> str:
        return {
            KazooState.CONNECTED: KeeperState.CONNECTED,
            KazooState.SUSPENDED: KeeperState.CONNECTING,
        }.get(self.state, KeeperState.CLOSED)

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        return None if self._session is None else (self._session.id, b"")

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def add_listener(self, listener: Callable[[str], object]) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[str], object]) -> None:
        self._listeners.remove(listener)

    # Operations

    def get(self, path: str, watch: WatchFunction | None = None) -> tuple[bytes, ZnodeStat]:
        return self._read(lambda watcher: self._zookeeper.get(path, watcher), self._data_watchers, path, watch)

    def exists(self, path: str, watch: WatchFunction | None = None) -> ZnodeStat | None:
        return self._read(lambda watcher: self._zookeeper.exists(path, watcher), self._data_watchers, path, watch)

    def get_children(self, path: str, watch: WatchFunction | None = None, include_data: bool = False) -> Any:
        assert not include_data
        read = lambda watcher: self._zookeeper.get_children(path, watcher)  # noqa: E731 - as its siblings
        return self._read(read, self._child_watchers, path, watch)

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: object = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> str:
        if makepath:
            self.ensure_path(parent_of(path))
        return self._run(Operation("create", path, value, is_ephemeral=ephemeral, is_sequential=sequence))

    def ensure_path(self, path: str, acl: object = None) -> bool:
        if path != "/" and self.exists(path) is None:
            self.ensure_path(parent_of(path))
            try:
                self.create(path)
            except NodeExistsError:
                return True
        return True

    def set(self, path: str, value: bytes, version: int = -1) -> ZnodeStat:
        return self._run(Operation("set", path, value, version))

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> bool:
        if recursive:
            try:
                for child in sorted(self.get_children(path)):
                    self.delete(f"{path}/{child}", recursive=True)
            except NoNodeError:
                return True
            try:
                return self._run(Operation("delete", path))
            except NoNodeError:
                return True
        return self._run(Operation("delete", path, version=version))

    def sync(self, path: str) -> str:
        self._reach()
        return path

    def transaction(self) -> SimulatedTransaction:
        return SimulatedTransaction(self)

    def run_all(self, operations: list[Operation]) -> list[object]:
        session = self._reach()
        return self._answered(lambda: self._zookeeper.run_all(session.id, operations))

    def _run(self, operation: Operation) -> Any:
        session = self._reach()
        return self._answered(lambda: self._zookeeper.run(session.id, operation))

    def _read(self, read: Callable[[Any], Any], watchers: Any, path: str, watch: WatchFunction | None) -> Any:
        self._reach()
        result = self._answered(lambda: read(None if watch is None else self))
        if watch is not None:
            watchers.setdefault(path, {})[watch] = None
        return result

    def _reach(self) -> Session:
        if not self._is_started or self._is_dead:
            raise ConnectionClosedError("the client has been closed")
        if self.state == KazooState.LOST:
            raise SessionExpiredError
        if not self._has_connection or not self._is_reachable or self._session is None:
            raise ConnectionLoss
        if self._session.id not in self._zookeeper.sessions:
            raise ConnectionLoss
        self._zookeeper.heard_of(self._session.id)
        return self._session

    def _answered(self, do: Callable[[], Any]) -> Any:
        fate = self._random.random() if self.fault_probability else 1.0
        if fate < self.fault_probability / 2:
            self._later(0.0, self.connection_broke)
            raise ConnectionLoss
        result = do()
        if fate < self.fault_probability:
            self._later(0.0, self.connection_broke)
            raise ConnectionLoss
        return result

    # The connection

    @property
    def _is_reachable(self) -> bool:
        return self._zookeeper.is_up and not self._is_cut

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, lambda: None if self._is_dead else action(), context=self._context)

    def _notice(self) -> None:
        if self._is_cut and self._has_connection:
            self.connection_broke()

    def connection_broke(self) -> None:
        """Also what the servers call when they stop, or give the session up."""
        if not self._has_connection:
            return
        self._drop_connection()
        self._later(self._random.uniform(0.0, 0.02), self._suspend)

    def _suspend(self) -> None:
        if self._has_connection or not self._is_started:
            return
        if self.state == KazooState.CONNECTED:
            self._change_state(KazooState.SUSPENDED)
        self._reset_watchers()
        self._later(self._random.uniform(0.0, 0.5), self._reconnect)

    def _drop_connection(self) -> None:
        self._has_connection = False
        if self._session is not None:
            self._zookeeper.connection_gone(self._session.id, self)

    def _reconnect(self) -> None:
        if not self._is_started or self._has_connection:
            return
        if not self._is_reachable:
            self._later(self._random.uniform(0.05, 0.5), self._reconnect)
            return
        former = self._session
        session = self._zookeeper.open_session(self, self._timeout_s, 0 if former is None else former.id)
        self._session = session
        if session is None:
            self._change_state(KazooState.LOST)
            self._later(self._random.uniform(0.0, 0.05), self._reconnect)
            return
        self._has_connection = True
        self._change_state(KazooState.CONNECTED)
        if not self._is_pinging:
            self._is_pinging = True
            self._ping()

    def _ping(self) -> None:
        self._is_pinging = self._is_started
        if not self._is_started:
            return
        if self._has_connection and self._is_reachable and self._session is not None:
            self._zookeeper.heard_of(self._session.id)
        self._later(self._timeout_s / 3, self._ping)

    def _change_state(self, state: str) -> None:
        if state == self.state:
            return
        self.state = state
        for listener in list(self._listeners):
            listener(state)

    def watch_fired(self, kind: str, path: str) -> None:
        """In the order of the changes."""
        watchers: dict[WatchFunction, None] = {}
        if kind != EventType.CHILD:
            watchers.update(self._data_watchers.pop(path, {}))
        if kind in (EventType.CHILD, EventType.DELETED):
            watchers.update(self._child_watchers.pop(path, {}))
        self._undelivered.append((watchers, WatchedEvent(kind, KeeperState.CONNECTED, path)))
        self._later(0.001, self._deliver)

    def _deliver(self) -> None:
        """The oldest: timers of one moment go off in any order."""
        self._tell(*self._undelivered.popleft())

    def _reset_watchers(self) -> None:
        everything: dict[WatchFunction, None] = {}
        for watches in (self._data_watchers, self._child_watchers):
            for of_path in watches.values():
                everything.update(of_path)
            watches.clear()
        self._tell(everything, WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None))

    def _tell(self, watchers: dict[WatchFunction, None], event: WatchedEvent) -> None:
        for watch in watchers:
            watch(event)


class SimulatedTransaction:
    """As kazoo's TransactionRequest: `commit` answers a list, with errors in it where it was not done."""

    def __init__(self, client: SimulatedZooKeeperClient) -> None:
        self._client = client
        self.operations: list[Operation] = []

    def create(
        self, path: str, value: bytes = b"", acl: object = None, ephemeral: bool = False, sequence: bool = False
    ) -> None:
        self.operations.append(Operation("create", path, value, is_ephemeral=ephemeral, is_sequential=sequence))

    def delete(self, path: str, version: int = -1) -> None:
        self.operations.append(Operation("delete", path, version=version))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        self.operations.append(Operation("set", path, value, version))

    def check(self, path: str, version: int) -> None:
        self.operations.append(Operation("check", path, version=version))

    def commit(self) -> list[object]:
        return self._client.run_all(self.operations)
