"""FakeRetrieval: the leader retrieval of a component, whose leader the test chooses."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.highavailability.leader_election import LeaderInformation


class FakeRetrieval:
    """A LeaderRetrieval that reports the leader set by the test."""

    def __init__(self, leader: LeaderInformation | None = None) -> None:
        self.leader = leader
        self.is_closed = False
        self._on_leader_changed: Callable[[LeaderInformation | None], None] | None = None

    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        self._on_leader_changed = on_leader_changed
        if self.leader is not None:
            on_leader_changed(self.leader)

    def lead(self, address: str, token: str) -> None:
        self._tell(LeaderInformation(address, token))

    def nobody_leads(self) -> None:
        self._tell(None)

    def close(self) -> None:
        self.is_closed = True

    def _tell(self, leader: LeaderInformation | None) -> None:
        self.leader = leader
        if self._on_leader_changed is not None and not self.is_closed:
            self._on_leader_changed(leader)
