"""The interfaces of leader election and leader retrieval.

A service does not know how leaders are elected. It is granted leadership under a fencing token, or has it revoked. It
finds other leaders through a retrieval, which calls back at every change.

Source: org.apache.flink.runtime.leaderelection.{LeaderElection, LeaderContender},
org.apache.flink.runtime.leaderretrieval.LeaderRetrievalService.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeaderInformation:
    """The address of a leader and the fencing token of calls to it. None: the leader tells it at registration."""

    address: str
    fencing_token: str | None = None


@dataclass(frozen=True, slots=True)
class Leadership:
    """One term of a leader. Its writes are fenced with it.

    Attributes:
        token: the fencing token, which is new for each term.
        latch_path: the ZooKeeper node that exists as long as the term; None without ZooKeeper, where no term ends.
    """

    token: str
    latch_path: str | None = None


class LeaderContender(Protocol):
    """A candidate of an election. Thread: called on the contender's loop."""

    def grant_leadership(self, fencing_token: str) -> None: ...

    def revoke_leadership(self) -> None: ...


class LeaderElection(Protocol):
    """The election of one component."""

    def start(self, contender: LeaderContender) -> None:
        """Enters the election. The contender is called at once or later, any number of times."""
        ...

    def confirm_leadership(self, fencing_token: str, address: str) -> None:
        """Publishes that the contender acts as leader now and is reached at `address`. Ignores stale tokens."""
        ...

    def has_leadership(self, fencing_token: str) -> bool: ...

    @property
    def leadership(self) -> Leadership | None:
        """The current term; None while the contender does not lead. Set before `grant_leadership` is called."""
        ...

    def close(self) -> None:
        """Leaves the election. A leader's term ends without a callback. Does not block. Idempotent."""
        ...


class LeaderRetrieval(Protocol):
    """Follows the leader of one component."""

    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        """Calls back with the current leader, if there is one, and at every change. None: there is no leader now."""
        ...

    def close(self) -> None: ...
