"""What is asked of ZooKeeper, as the elections and stores see it: any tree of nodes with sessions will do.

Source: org.apache.zookeeper.{ZooKeeper,Op}.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class ConnectionState(enum.Enum):
    """CONNECTED: also again, with the session of before. SUSPENDED: the session may live on. LOST: it has ended."""

    CONNECTED = enum.auto()
    SUSPENDED = enum.auto()
    LOST = enum.auto()


class NodeMissingError(Exception):
    """There is no such node; `index` is that of the operation in a transaction."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"there is no node {path}")
        self.path = path
        self.index = index


class NodeThereError(Exception):
    """There is such a node already."""

    def __init__(self, path: str) -> None:
        super().__init__(f"there is a node {path} already")
        self.path = path


class RequestError(Exception):
    """The request failed, and may have been done all the same where that was because of the connection."""


@dataclass(frozen=True, slots=True)
class Check:
    """The node exists, or nothing of the transaction is done."""

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
    """Requests of a loop. Errors are those above. Thread: the loop; `done` and watches are called there, later."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def grace_left_s(self) -> float:
        """Seconds until two thirds of the session's time-out have passed since the last sign of the server."""
        ...

    @property
    def session_timeout_s(self) -> float: ...

    def add_listener(self, listener: Callable[[ConnectionState], None]) -> None: ...

    def remove_listener(self, listener: Callable[[ConnectionState], None]) -> None: ...

    def create_sequential(self, prefix: str, data: bytes, done: Done) -> None:
        """An ephemeral node with a running number, and its parents where they are missing; answers with its path."""
        ...

    def children(self, path: str, done: Done) -> None:
        """Answers with names; none where there is no such node."""
        ...

    def exists(self, path: str, watch: Callable[[], None] | None, done: Done) -> None:
        """Answers with whether there is the node; `watch` is called once, when it comes, changes or goes.

        Watches end with the connection without being called.
        """
        ...

    def get(self, path: str, done: Done) -> None:
        """Answers with the data."""
        ...

    def delete(self, path: str, done: Done) -> None: ...

    def transact(self, operations: Sequence[Operation], done: Done) -> None:
        """All or nothing."""
        ...
