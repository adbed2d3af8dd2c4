"""SimulatedZooKeeperClient: the part of kazoo's KazooClient that flinkpy uses, on a SimulatedZooKeeper and virtual
time.

It reports states as kazoo does: SUSPENDED after its connection broke, or after two thirds of the session timeout
without an answer. CONNECTED after the session was resumed. LOST when the servers say that it has expired, and then
CONNECTED with a new session. Watches are dropped when the connection breaks, and receive an event without a kind.

Requests (`create_async`, ...) take time and are answered in order. When the connection breaks, unanswered requests
raise ConnectionLoss, whether they were carried out or not. Plain calls (`create`, ...) are carried out at once if
possible.

Answers and watch events arrive in the order of the servers. Then kazoo hands them over by two threads, so that an event
may overtake an answer that arrived before it, and the other way round.

Source: kazoo.client.KazooClient.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat
from simulated_threads import wait_until
from simulated_zookeeper import Operation, Session, SimulatedZooKeeper, parent_of

WatchFunction = Callable[[WatchedEvent], None]


class SimulatedZooKeeperClient:
    """The ZooKeeper client of one process. `cut` and `heal` change the network path from its host to the servers."""

    def __init__(
        self,
        zookeeper: SimulatedZooKeeper,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        timeout_s: float = 4.0,
        context: contextvars.Context | None = None,
    ) -> None:
        """Args:
        context: the context of the process in which callbacks run.
        """
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
        self._is_closed_by_server = False
        self._has_connection = False
        self._is_pinging = False
        #: Unsent requests, requests lost on the way, and messages from the servers: answers and events in one order.
        self._requests: deque[SimulatedResult] = deque()
        self._lost: deque[SimulatedResult] = deque()
        self._incoming: deque[tuple[SimulatedResult | None, Any, Any]] = deque()
        #: The queues of kazoo's two threads: calls with answers, and calls with events.
        self._completions: deque[Callable[[], None]] = deque()
        self._callbacks: deque[Callable[[], None]] = deque()
        self._connection = SimpleNamespace(_read_socket=lambda: None, _invoke=lambda *_: None)
        #: The share of requests that lose their connection after they were carried out.
        self.fault_probability = 0.0
        #: True for a process that was suspended: it notices a silent connection later than others.
        self.is_slow_to_notice = False

    @property
    def now_s(self) -> Callable[[], float]:
        return self._loop.time

    # Life

    def start(self, timeout: float = 15) -> None:
        """Connects at once if possible, and otherwise as soon as possible."""
        self._is_started = True
        self._reconnect()

    def stop(self) -> None:
        """Ends the session if the servers can be reached."""
        if not self._is_started:
            return
        self._is_started = False
        if self._session is not None and self._is_reachable and self._has_connection:
            self._drop_connection()
            self._zookeeper.close_session(self._session.id)
        self._drop_connection()
        self._fail_requests(ConnectionClosedError)
        self._change_state(KazooState.LOST)

    def close(self) -> None:
        """Does nothing: the client holds no resources."""

    def die(self) -> None:
        """Simulates the death of the process: no callback runs, and the session expires after its timeout."""
        self._is_dead = True
        self._is_started = False
        self._listeners.clear()
        self._data_watchers.clear()
        self._child_watchers.clear()
        self._drop_connection()

    def cut(self) -> None:
        """Drops all messages in both directions without notice."""
        if self._is_cut:
            return
        self._is_cut = True
        if self._has_connection:
            longest = 1.6 if self.is_slow_to_notice else 0.66
            self._later(self._random.uniform(0.33, longest) * self._timeout_s, self._notice)

    def heal(self) -> None:
        """Delivers messages again. Pending requests are sent again unless the connection was given up."""
        self._is_cut = False
        if self._is_closed_by_server:
            self.connection_broke()
        self._requests.extendleft(reversed(self._lost))
        self._lost.clear()
        if self._has_connection:
            self._flush()
            for _ in range(len(self._incoming)):
                self._later(self._delay_s, self._receive)

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

    # Pending requests: answered later and in order, or with the loss of the connection

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_async") or name.startswith("_"):
            raise AttributeError(name)
        operation = getattr(self, name.removesuffix("_async"))

        def request(*args: Any, **kwargs: Any) -> SimulatedResult:
            return self.request(lambda: operation(*args, **kwargs))

        return request

    def start_async(self) -> Any:
        self.start()
        return SimulatedConnected(self, self._loop.time)

    def request(self, operation: Callable[[], Any]) -> SimulatedResult:
        result = SimulatedResult(self, operation)
        if not self._is_started or self._is_dead:
            result.settle(None, ConnectionClosedError("the client has been closed"))
        elif self.state == KazooState.LOST:
            result.settle(None, SessionExpiredError())
        else:
            self._requests.append(result)
            if self._has_connection:
                self._later(self._delay_s, self._send)
        return result

    @property
    def _delay_s(self) -> float:
        return self._random.uniform(0.0005, 0.004)

    def _send(self) -> None:
        """Carries out the oldest request, and schedules its answer."""
        if not self._has_connection or not self._requests:
            return
        result = self._requests.popleft()
        if not self._is_reachable:
            self._lost.append(result)  # until the client notices the loss
            return
        try:
            answer: tuple[Any, Exception | None] = (result.operation(), None)
        except KazooException as error:
            answer = (None, error)
        if self._random.random() < self.fault_probability:
            self._later(self._delay_s / 2, self.connection_broke)
        self._incoming.append((result, *answer))
        self._later(self._delay_s, self._receive)

    def watch_fired(self, kind: str, path: str) -> None:
        """Schedules a watch event after all earlier answers."""
        self._incoming.append((None, kind, path))
        self._later(self._delay_s, self._receive)

    def _receive(self) -> None:
        if not self._has_connection or not self._incoming or not self._is_reachable:
            return
        result, one, other = self._incoming.popleft()
        if result is not None:
            result.settle(one, other)
            return
        watchers: dict[WatchFunction, None] = {}
        if one != EventType.CHILD:
            watchers.update(self._data_watchers.pop(other, {}))
        if one in (EventType.CHILD, EventType.DELETED):
            watchers.update(self._child_watchers.pop(other, {}))
        self._tell(watchers, WatchedEvent(one, KeeperState.CONNECTED, other))

    def complete(self, call: Callable[[], None]) -> None:
        """Hands an answer over, after those before it. Called by the result of a request."""
        self._hand_over(self._completions, call)

    def _hand_over(self, calls: deque[Callable[[], None]], call: Callable[[], None]) -> None:
        calls.append(call)
        self._later(self._random.uniform(0.0, 0.002), lambda: calls.popleft()())  # noqa: PLW0108 - the oldest call at that time

    def _fail_requests(self, error: type[KazooException]) -> None:
        unanswered = [result for result, _, _ in self._incoming if result is not None]
        failed = [*self._lost, *unanswered, *self._requests]
        for some in (self._lost, self._incoming, self._requests):
            some.clear()
        for result in failed:
            result.settle(None, error())

    def _flush(self) -> None:
        for _ in range(len(self._requests)):
            self._later(self._delay_s, self._send)

    # Operations that are carried out at once

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

    def get_acls(self, path: str) -> tuple[list[Any], ZnodeStat]:
        """Returns no ACLs: all clients belong to one cluster."""
        return [], self.get(path)[1]

    def sync(self, path: str) -> str:
        self._reach()
        return path

    def transaction(self) -> SimulatedTransaction:
        return SimulatedTransaction(self)

    def run_all(self, operations: list[Operation]) -> list[object]:
        session = self._reach()
        return self._zookeeper.run_all(session.id, operations)

    def _run(self, operation: Operation) -> Any:
        session = self._reach()
        return self._zookeeper.run(session.id, operation)

    def _read(self, read: Callable[[Any], Any], watchers: Any, path: str, watch: WatchFunction | None) -> Any:
        self._reach()
        result = read(None if watch is None else self)
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

    # The connection

    @property
    def _is_reachable(self) -> bool:
        return self._zookeeper.is_up and not self._is_cut

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, lambda: None if self._is_dead else action(), context=self._context)

    def _notice(self) -> None:
        if self._is_cut and self._has_connection:
            self.connection_broke()

    def closed_by_server(self) -> None:
        """Handles the end of the connection by the servers. A client that is cut off does not notice it."""
        if self._is_cut:
            self._is_closed_by_server = True
        else:
            self.connection_broke()

    def connection_broke(self) -> None:
        if not self._has_connection:
            return
        self._drop_connection()
        self._later(self._random.uniform(0.0, 0.02), self._suspend)

    def _suspend(self) -> None:
        if self._has_connection or not self._is_started:
            return
        self._fail_requests(ConnectionLoss)
        if self.state == KazooState.CONNECTED:
            self._change_state(KazooState.SUSPENDED)
        self._reset_watchers()
        self._later(self._random.uniform(0.0, 0.5), self._reconnect)

    def _drop_connection(self) -> None:
        self._has_connection = self._is_closed_by_server = False
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
            self._fail_requests(SessionExpiredError)
            self._change_state(KazooState.LOST)
            self._later(self._random.uniform(0.0, 0.05), self._reconnect)
            return
        self._has_connection = True
        self._note_contact()
        self._change_state(KazooState.CONNECTED)
        self._flush()
        if not self._is_pinging:
            self._is_pinging = True
            self._ping()

    def _ping(self) -> None:
        self._is_pinging = self._is_started
        if not self._is_started:
            return
        if self._has_connection and self._is_reachable and self._session is not None:
            self._zookeeper.heard_of(self._session.id)
            self._note_contact()
        self._later(self._timeout_s / 3, self._ping)

    def _note_contact(self) -> None:
        """Notifies code that replaces the socket read of a real client."""
        self._connection._read_socket()

    def _change_state(self, state: str) -> None:
        if state == self.state:
            return
        self.state = state
        for listener in list(self._listeners):
            listener(state)

    def _reset_watchers(self) -> None:
        everything: dict[WatchFunction, None] = {}
        for watches in (self._data_watchers, self._child_watchers):
            for of_path in watches.values():
                everything.update(of_path)
            watches.clear()
        self._tell(everything, WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None))

    def _tell(self, watchers: dict[WatchFunction, None], event: WatchedEvent) -> None:
        for watch in watchers:
            self._hand_over(self._callbacks, partial(watch, event))


class SimulatedTransaction:
    """A transaction like kazoo's TransactionRequest. `commit` returns a list that contains errors if it failed."""

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

    def commit_async(self) -> SimulatedResult:
        return self._client.request(self.commit)


class SimulatedResult:
    """A result like kazoo's IAsyncResult."""

    def __init__(self, client: SimulatedZooKeeperClient, operation: Callable[[], Any]) -> None:
        self._client = client
        self.operation = operation
        self._outcome: tuple[Any, Exception | None] | None = None
        self._links: list[Callable[[SimulatedResult], None]] = []

    def settle(self, value: Any, error: Exception | None) -> None:
        self._outcome = (value, error)
        links, self._links = self._links, []
        for link in links:
            self._client.complete(partial(link, self))

    def ready(self) -> bool:
        return self._outcome is not None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not wait_until(self.ready, timeout, self._client.now_s):
            raise KazooTimeoutError
        assert self._outcome is not None
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def rawlink(self, link: Callable[[SimulatedResult], None]) -> None:
        if self._outcome is None:
            self._links.append(link)
        else:
            self._client.complete(partial(link, self))


class SimulatedConnected:
    """The result of `start_async`."""

    def __init__(self, client: SimulatedZooKeeperClient, now_s: Callable[[], float]) -> None:
        self._client = client
        self._now_s = now_s

    def wait(self, timeout: float | None = None) -> bool:
        return wait_until(lambda: self._client.connected, timeout, self._now_s)
