"""A ZooKeeper ensemble in memory on virtual time: its tree, its sessions, and its connections.

Clients observe the guarantees of real servers: every operation is atomic, and all are in one order. The number of a
sequential node counts all children ever created. A watch fires once. An ephemeral node disappears with its session. A
session expires after its timeout without contact, and the timeout restarts with the servers. `SimulatedZooKeeperClient`
(simulated_zookeeper_client.py) is the other side.

Source: org.apache.zookeeper.server.{DataTree, PrepRequestProcessor, SessionTrackerImpl}.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from kazoo.exceptions import (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)
from kazoo.protocol.states import EventType, ZnodeStat

#: The interval in which servers look for expired sessions.
TICK_S = 0.5


@dataclass(slots=True)
class Node:
    data: bytes
    owner: int = 0
    version: int = 0
    created_zxid: int = 0
    modified_zxid: int = 0
    num_created: int = 0
    children: dict[str, None] = field(default_factory=dict)

    def stat(self, at_ms: int = 0) -> ZnodeStat:
        return ZnodeStat(
            czxid=self.created_zxid,
            mzxid=self.modified_zxid,
            ctime=at_ms,
            mtime=at_ms,
            version=self.version,
            cversion=2 * self.num_created - len(self.children),
            aversion=0,
            ephemeralOwner=self.owner,
            dataLength=len(self.data),
            numChildren=len(self.children),
            pzxid=self.modified_zxid,
        )


class Watcher(Protocol):
    """The client's side of a connection."""

    def watch_fired(self, kind: str, path: str) -> None: ...

    def closed_by_server(self) -> None: ...


@dataclass(slots=True)
class Session:
    id: int
    timeout_s: float
    expires_s: float
    connection: Watcher | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a transaction. `kind` is create, delete, set or check."""

    kind: str
    path: str
    data: bytes = b""
    version: int = -1
    is_ephemeral: bool = False
    is_sequential: bool = False


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class SimulatedZooKeeper:
    """All servers as one. `is_up` is false while the ensemble has no quorum."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self._loop = loop
        self.random = random
        self.nodes: dict[str, Node] = {"/": Node(b"")}
        self.sessions: dict[int, Session] = {}
        self.is_up = True
        self.zxid = 0
        self._num_sessions = 0
        self._data_watches: dict[str, dict[int, Watcher]] = {}
        self._child_watches: dict[str, dict[int, Watcher]] = {}
        #: Called for every change with operation, path and session.
        self.on_change: Callable[[str, str, int], None] = lambda kind, path, session: None
        self._is_ticking = False

    # Sessions

    def open_session(self, connection: Watcher, timeout_s: float, session_id: int = 0) -> Session | None:
        """Resumes a session, or starts one with id 0. Returns None if it has expired. Requires `is_up`."""
        assert self.is_up
        if session_id:
            session = self.sessions.get(session_id)
            if session is None:
                return None
        else:
            self._num_sessions += 1
            session = Session(0x1000 + self._num_sessions, timeout_s, 0.0)
            self.sessions[session.id] = session
        session.connection = connection
        self._touch(session)
        self._keep_ticking()
        return session

    def _touch(self, session: Session) -> None:
        session.expires_s = self._loop.time() + session.timeout_s

    def heard_of(self, session_id: int) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            self._touch(session)

    def connection_gone(self, session_id: int, connection: Watcher) -> None:
        """Removes a connection and its watches. The session continues."""
        session = self.sessions.get(session_id)
        if session is not None and session.connection is connection:
            session.connection = None
        for watches in (self._data_watches, self._child_watches):
            for of_path in watches.values():
                of_path.pop(id(connection), None)

    def close_session(self, session_id: int) -> None:
        """Closes a session and removes its ephemeral nodes."""
        if self.sessions.pop(session_id, None) is None:
            return
        self.zxid += 1
        for path in sorted((path for path, node in self.nodes.items() if node.owner == session_id), reverse=True):
            self._remove(path, session_id)

    def stop(self) -> None:
        """Stops all servers."""
        self.is_up = False
        for session in list(self.sessions.values()):
            connection, session.connection = session.connection, None
            if connection is not None:
                connection.closed_by_server()
        self._data_watches.clear()
        self._child_watches.clear()

    def start(self) -> None:
        """Starts the servers with the same data. The timeout of every session restarts."""
        self.is_up = True
        for session in self.sessions.values():
            self._touch(session)
        self._keep_ticking()

    def expire(self, session_id: int) -> None:
        """Expires a session, as a server does after its timeout."""
        session = self.sessions.get(session_id)
        if session is not None:
            connection, session.connection = session.connection, None
            self.close_session(session_id)
            if connection is not None:
                connection.closed_by_server()

    def _keep_ticking(self) -> None:
        if not self._is_ticking and self.sessions:
            self._is_ticking = True
            self._loop.call_later(TICK_S, self._tick, context=contextvars.Context())  # belongs to no client

    def _tick(self) -> None:
        self._is_ticking = False
        if not self.is_up:
            return
        for session in list(self.sessions.values()):
            if session.expires_s <= self._loop.time():
                self.expire(session.id)
        self._keep_ticking()

    # Reading

    def get(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        node = self._node(path)
        self._watch(self._data_watches, path, watcher)
        return node.data, node.stat()

    def exists(self, path: str, watcher: Watcher | None = None) -> ZnodeStat | None:
        node = self.nodes.get(path)
        self._watch(self._data_watches, path, watcher)
        return None if node is None else node.stat()

    def get_children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        """Returns the children in a random order."""
        node = self._node(path)
        self._watch(self._child_watches, path, watcher)
        children = list(node.children)
        self.random.shuffle(children)
        return children

    # Writing

    def run(self, session_id: int, operation: Operation) -> str | ZnodeStat | bool:
        """Applies one operation. Raises the error that a server returns."""
        self.zxid += 1
        result, events = self._apply(session_id, operation)
        self._fire(events)
        self._changed(session_id, operation, result)
        return result

    def run_all(self, session_id: int, operations: list[Operation]) -> list[object]:
        """Applies all operations or none. If one fails, the results are its error and rollback errors."""
        before = {path: replace(node, children=dict(node.children)) for path, node in self.nodes.items()}
        self.zxid += 1
        results: list[object] = []
        events: list[tuple[str, str]] = []
        for number, operation in enumerate(operations):
            try:
                result, caused = self._apply(session_id, operation)
            except ZookeeperError as error:
                self.nodes = before
                rest = [RuntimeInconsistency() for _ in operations[number + 1 :]]
                return [*(RolledBackError() for _ in results), error, *rest]
            results.append(result)
            events += caused
        self._fire(events)
        for operation, result in zip(operations, results, strict=True):
            self._changed(session_id, operation, result)
        return results

    def _changed(self, session_id: int, operation: Operation, result: object) -> None:
        if operation.kind != "check":
            self.on_change(operation.kind, result if isinstance(result, str) else operation.path, session_id)

    def _apply(self, session_id: int, operation: Operation) -> tuple[str | ZnodeStat | bool, list[tuple[str, str]]]:
        if operation.kind == "create":
            return self._create(session_id, operation)
        node = self._node(operation.path)
        if operation.version not in (-1, node.version):
            raise BadVersionError
        if operation.kind == "check":
            return True, []
        if operation.kind == "set":
            node.data = operation.data
            node.version += 1
            node.modified_zxid = self.zxid
            return node.stat(), [(EventType.CHANGED, operation.path)]
        assert operation.kind == "delete", operation
        if node.children:
            raise NotEmptyError
        return True, self._unlink(operation.path)

    def _create(self, session_id: int, operation: Operation) -> tuple[str, list[tuple[str, str]]]:
        parent_path = parent_of(operation.path)
        parent = self._node(parent_path)
        if parent.owner:
            raise NoChildrenForEphemeralsError
        path = operation.path
        if operation.is_sequential:
            path += f"{parent.num_created:010d}"
        if path in self.nodes:
            raise NodeExistsError
        owner = session_id if operation.is_ephemeral else 0
        self.nodes[path] = Node(operation.data, owner, 0, self.zxid, self.zxid)
        parent.num_created += 1
        parent.children[path.rpartition("/")[2]] = None
        return path, [(EventType.CREATED, path), (EventType.CHILD, parent_path)]

    def _unlink(self, path: str) -> list[tuple[str, str]]:
        parent_path = parent_of(path)
        del self.nodes[path]
        del self.nodes[parent_path].children[path.rpartition("/")[2]]
        return [(EventType.DELETED, path), (EventType.CHILD, parent_path)]

    def _remove(self, path: str, session_id: int) -> None:
        self._fire(self._unlink(path))
        self.on_change("delete", path, session_id)

    def _node(self, path: str) -> Node:
        try:
            return self.nodes[path]
        except KeyError:
            raise NoNodeError(path) from None

    # Watches

    def _watch(self, watches: dict[str, dict[int, Watcher]], path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            watches.setdefault(path, {})[id(watcher)] = watcher

    def _fire(self, events: list[tuple[str, str]]) -> None:
        """Notifies each client once about a change of a node, even if it has several watches on it."""
        for kind, path in events:
            told: dict[int, Watcher] = {}
            if kind != EventType.CHILD:
                told.update(self._data_watches.pop(path, {}))
            if kind in (EventType.CHILD, EventType.DELETED):
                told.update(self._child_watches.pop(path, {}))
            for watcher in told.values():
                watcher.watch_fired(kind, path)
