"""FencedWrites: executes the writes of a leader only while its term lasts, even if the leader does not know its end.

Each write is one transaction with a check that the node of the term exists. The node is removed before the next leader
is granted, so a process that was suspended for longer than its session cannot overwrite data of its successor.
See docs/decisions/0019-fenced-writes-are-transactions.md. Blocking.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.common.errors import HighAvailabilityError, LeadershipLostError
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.requests import (
    Check,
    Create,
    NodeMissingError,
    NodeThereError,
    Operation,
    SetData,
)

#: A node that can neither be set nor created this often in a row is used by somebody else.
_ATTEMPTS = 5


class FencedWrites:
    def __init__(self, client: ZooKeeperClient, leadership: Leadership) -> None:
        if leadership.latch_path is None:
            raise ValueError("a leadership without a node cannot fence writes")
        self._client = client
        self._leadership = leadership
        self._latch_path = leadership.latch_path

    def write(self, operations: Sequence[Operation], what: str) -> None:
        """Executes all operations or none. Repeated after a failure of the connection: must be correct if done twice.

        Raises: LeadershipLostError; NodeMissingError, NodeThereError of the operations; HighAvailabilityError.
        """
        try:
            self._client.transact_and_wait([Check(self._latch_path), *operations], what)
        except NodeMissingError as error:
            if error.index > 0:
                raise NodeMissingError(error.path, error.index - 1) from None
            raise LeadershipLostError(
                f"the leadership under which this process wanted to {what} has ended",
                details={"path": self._latch_path, "fencing_token": self._leadership.token},
            ) from None

    def put(self, path: str, data: bytes, what: str) -> None:
        """Sets the data of a node, and creates it and its parents if needed. Raises as `write`."""
        for _ in range(_ATTEMPTS):
            try:
                self.write([SetData(path, data)], what)
                return
            except NodeMissingError:
                self._client.ensure(path.rpartition("/")[0])
            try:
                self.write([Create(path, data)], what)
                return
            except (NodeThereError, NodeMissingError):
                continue
        raise HighAvailabilityError(
            f"node {path} of ZooKeeper appears and disappears: another process uses it", details={"path": path}
        )

    def check(self, what: str) -> None:
        """Checks that the leadership lasts. It may end right after this.

        Raises: LeadershipLostError, HighAvailabilityError.
        """
        self.write((), what)
