"""The ZooKeeper requests of elections and stores, independent of kazoo. Tests use a simulated ZooKeeper.

Source: org.apache.zookeeper.{ZooKeeper,Op}.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class ConnectionState(enum.Enum):
    """The state of the connection. SUSPENDED: the session may still exist. LOST: the session has ended."""

    CONNECTED = enum.auto()
    SUSPENDED = enum.auto()
    LOST = enum.auto()


class NodeMissingError(Exception):
    """A node does not exist. `index` is the index of the operation in its transaction."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"there is no node {path}")
        self.path = path
        self.index = index


class NodeThereError(Exception):
    """A node exists already."""

    def __init__(self, path: str) -> None:
        super().__init__(f"there is a node {path} already")
        self.path = path


class RequestError(Exception):
    """A request failed. If the connection was the reason, it may have been executed nevertheless."""


@dataclass(frozen=True, slots=True)
class Check:
    """Fails the transaction if the node does not exist."""

    path: str


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


Operation = Check | Create | SetData | Delete

#: Called once, on the loop, with the answer or with an error.
Done = Callable[[Any, Exception | None], None]


class AsyncZooKeeper(Protocol):
    """Asynchronous requests. Thread: the loop. `done` and watches are called there later, with the errors above."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def grace_left_s(self) -> float:
        """The seconds until two thirds of the session time-out have passed since the server was last heard."""
        ...

    @property
    def session_timeout_s(self) -> float: ...

    def add_listener(self, listener: Callable[[ConnectionState], None]) -> None: ...

    def remove_listener(self, listener: Callable[[ConnectionState], None]) -> None: ...

    def create_sequential(self, prefix: str, data: bytes, done: Done) -> None:
        """Creates an ephemeral sequential node and missing parents. The answer is its path."""
        ...

    def children(self, path: str, done: Done) -> None:
        """Lists the children. The answer is their names; empty if the node does not exist."""
        ...

    def exists(self, path: str, watch: Callable[[], None] | None, done: Done) -> None:
        """Checks if the node exists. The answer is True or False.

        `watch` is called once, when the node is created, changed or removed, and never before `done`. Watches end with
        the connection, without a call.
        """
        ...

    def get(self, path: str, done: Done) -> None:
        """Reads the data of the node."""
        ...

    def delete(self, path: str, done: Done) -> None: ...

    def transact(self, operations: Sequence[Operation], done: Done) -> None:
        """Executes all operations or none."""
        ...
