"""Leader election and retrieval as the services see them.

A service never asks how a leader is found: it is *granted* leadership under a fencing token of its own, or has it
revoked, and looks others up through a retrieval that calls back at every change.

Source: org.apache.flink.runtime.leaderelection.{LeaderElection, LeaderContender},
org.apache.flink.runtime.leaderretrieval.LeaderRetrievalService.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeaderInformation:
    """Where a leader is, and the token its calls are fenced with (None: the leader tells it at registration)."""

    address: str
    fencing_token: str | None = None


@dataclass(frozen=True, slots=True)
class Leadership:
    """One term of one leader: what its writes are fenced with.

    Attributes:
        token: of the term, drawn anew at each grant.
        latch_path: the node that lives exactly as long as the term; None without ZooKeeper, where no term ends.
    """

    token: str
    latch_path: str | None = None


class LeaderContender(Protocol):
    """What stands for election. Thread: called on the contender's loop."""

    def grant_leadership(self, fencing_token: str) -> None: ...

    def revoke_leadership(self) -> None: ...


class LeaderElection(Protocol):
    """The election of one component."""

    def start(self, contender: LeaderContender) -> None:
        """Stand for election; the contender is called back, at once or later, any number of times."""
        ...

    def confirm_leadership(self, fencing_token: str, address: str) -> None:
        """The contender acts as leader now and is reached at `address`; stale tokens are ignored."""
        ...

    def has_leadership(self, fencing_token: str) -> bool: ...

    @property
    def leadership(self) -> Leadership | None:
        """The present term; None while another leads, or nobody. Set before `grant_leadership` is called."""
        ...

    def close(self) -> None:
        """Stand back: a leader is revoked without being called, and another may lead. Does not block; idempotent."""
        ...


class LeaderRetrieval(Protocol):
    """Who leads one component."""

    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        """Call back with the present leader if there is one, and at every change (None: there is none just now)."""
        ...

    def close(self) -> None: ...
