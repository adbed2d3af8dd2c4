"""Election and retrieval without high availability: the only candidate leads, and addresses are configured.

Source: org.apache.flink.runtime.highavailability.nonha.standalone.StandaloneHaServices.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.common.ids import StringId
from flinkpy.highavailability.leader_election import LeaderContender, LeaderInformation, Leadership


class StandaloneLeaderElection:
    """Grants leadership once, under a new token.

    Differs: Flink's standalone cluster has a fixed fencing token. With a new one, calls that were meant for an earlier
    process at this address are refused.
    """

    def __init__(self, new_token: Callable[[], str] = lambda: str(StringId.generate())) -> None:
        self._token = new_token()
        self._contender: LeaderContender | None = None
        self._leader: LeaderInformation | None = None

    def start(self, contender: LeaderContender) -> None:
        if self._contender is not None:
            raise RuntimeError("a standalone election has one contender")
        self._contender = contender
        contender.grant_leadership(self._token)

    def confirm_leadership(self, fencing_token: str, address: str) -> None:
        if self.has_leadership(fencing_token):
            self._leader = LeaderInformation(address, fencing_token)

    def has_leadership(self, fencing_token: str) -> bool:
        return self._contender is not None and fencing_token == self._token

    @property
    def leadership(self) -> Leadership | None:
        return None if self._contender is None else Leadership(self._token)

    @property
    def leader(self) -> LeaderInformation | None:
        """The contender after it has confirmed its leadership."""
        return self._leader

    def close(self) -> None:
        self._contender = None
        self._leader = None


class SingleLeadership:
    """The contender of a standalone election, which is granted leadership once."""

    def __init__(self) -> None:
        self.token = ""

    def grant_leadership(self, fencing_token: str) -> None:
        self.token = fencing_token

    def revoke_leadership(self) -> None:
        raise AssertionError("a standalone election does not revoke")


class StandaloneLeaderRetrieval:
    """Reports the configured address. The leader tells its token at registration."""

    def __init__(self, address: str) -> None:
        self._leader = LeaderInformation(address)

    def start(self, on_leader_changed: Callable[[LeaderInformation | None], None]) -> None:
        on_leader_changed(self._leader)

    def close(self) -> None:
        """Does nothing."""
