"""A tree of nodes on one loop. It answers in the next turn of the loop, and fails requests that a test selects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from flinkpy.highavailability.zookeeper.requests import (
    Check,
    ConnectionState,
    Create,
    Delete,
    Done,
    NodeMissingError,
    NodeThereError,
    Operation,
    RequestError,
    SetData,
)


class FakeZooKeeper:
    """The nodes of all clients."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes] = {}
        self.owners: dict[str, FakeClient] = {}
        self.sequence = 0
        self.watches: list[tuple[FakeClient, str, Callable[[], None]]] = []

    def fire(self, path: str) -> None:
        for watch in [watch for watch in self.watches if watch[1] == path]:
            self.watches.remove(watch)
            asyncio.get_running_loop().call_soon(watch[2])

    def apply(self, operations: Sequence[Operation], client: FakeClient) -> None:
        """Applies all operations or none."""
        nodes = dict(self.nodes)
        for index, operation in enumerate(operations):
            is_there = operation.path in nodes
            if isinstance(operation, Create):
                if is_there:
                    raise NodeThereError(operation.path)
                nodes[operation.path] = operation.data
                if operation.is_ephemeral:
                    self.owners[operation.path] = client
                continue
            if not is_there:
                raise NodeMissingError(operation.path, index)
            if isinstance(operation, Delete):
                del nodes[operation.path]
            elif isinstance(operation, SetData):
                nodes[operation.path] = operation.data
        self.nodes = nodes
        for operation in operations:
            if not isinstance(operation, Check):
                self.fire(operation.path)


class FakeClient:
    """Implements AsyncZooKeeper.

    Attributes:
        failures: how many of the next requests fail before they are done, by the name of the method.
        requests: the names of all requests, in order.
    """

    session_timeout_s = 9.0
    grace_left_s = 6.0

    def __init__(self, zookeeper: FakeZooKeeper, *, is_connected: bool = True) -> None:
        self.zookeeper = zookeeper
        self.is_connected = is_connected
        self.failures: dict[str, int] = {}
        self.requests: list[str] = []
        self._listeners: list[Callable[[ConnectionState], None]] = []

    def add_listener(self, listener: Callable[[ConnectionState], None]) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[ConnectionState], None]) -> None:
        self._listeners.remove(listener)

    def connect(self) -> None:
        self._tell(ConnectionState.CONNECTED)

    def suspend(self) -> None:
        self.zookeeper.watches = [watch for watch in self.zookeeper.watches if watch[0] is not self]
        self._tell(ConnectionState.SUSPENDED)

    def expire(self) -> None:
        for path in [path for path, owner in self.zookeeper.owners.items() if owner is self]:
            del self.zookeeper.owners[path]
            if self.zookeeper.nodes.pop(path, None) is not None:
                self.zookeeper.fire(path)
        self._tell(ConnectionState.LOST)

    def _tell(self, state: ConnectionState) -> None:
        self.is_connected = state is ConnectionState.CONNECTED
        for listener in list(self._listeners):
            listener(state)

    def create_sequential(self, prefix: str, data: bytes, done: Done) -> None:
        def create() -> str:
            path = f"{prefix}{self.zookeeper.sequence:010d}"
            self.zookeeper.sequence += 1
            self.zookeeper.apply([Create(path, data, is_ephemeral=True)], self)
            return path

        self._request("create_sequential", create, done)

    def children(self, path: str, done: Done) -> None:
        def names() -> list[str]:
            return [node.removeprefix(f"{path}/") for node in self.zookeeper.nodes if node.startswith(f"{path}/")]

        self._request("children", names, done)

    def exists(self, path: str, watch: Callable[[], None] | None, done: Done) -> None:
        def exists() -> bool:
            if watch is not None:
                self.zookeeper.watches.append((self, path, watch))
            return path in self.zookeeper.nodes

        self._request("exists", exists, done)

    def get(self, path: str, done: Done) -> None:
        def get() -> bytes:
            if path not in self.zookeeper.nodes:
                raise NodeMissingError(path)
            return self.zookeeper.nodes[path]

        self._request("get", get, done)

    def delete(self, path: str, done: Done) -> None:
        self._request("delete", lambda: self.zookeeper.apply([Delete(path)], self), done)

    def transact(self, operations: Sequence[Operation], done: Done) -> None:
        self._request("transact", lambda: self.zookeeper.apply(operations, self), done)

    def _request(self, name: str, do: Callable[[], Any], done: Done) -> None:
        self.requests.append(name)

        def serve() -> None:
            answer, error = None, None
            if not self.is_connected or self.failures.get(name, 0) > 0:
                self.failures[name] = self.failures.get(name, 1) - 1
                error = RequestError(name)
            else:
                try:
                    answer = do()
                except (NodeMissingError, NodeThereError) as told:
                    error = told
            asyncio.get_running_loop().call_soon(done, answer, error)

        asyncio.get_running_loop().call_soon(serve)
