"""LeaderBlobs: fetches the files of a job from the leading Dispatcher. Thread: the event loop of the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.clock import Clock
from flinkpy.common.errors import NotLeaderError, RpcUnavailableError
from flinkpy.rpc.peer_connection import Peers

#: How long a fetch waits while no Dispatcher can be reached, and the pause between two attempts.
FETCH_TIMEOUT_MS = 60_000
RETRY_PAUSE_S = 1.0


class LeaderBlobs:
    """Fetches files from the leading Dispatcher.

    Args:
        address: returns the address of the leading Dispatcher.
        leader_changed: waits until the leader changes, or for the given number of seconds.
        others_may_lead: False if there is only one Dispatcher. If it cannot be reached, the fetch fails at once.
    """

    def __init__(
        self,
        peers: Peers,
        clock: Clock,
        address: Callable[[], str],
        leader_changed: Callable[[float], Awaitable[None]],
        *,
        others_may_lead: bool,
    ) -> None:
        self._peers = peers
        self._clock = clock
        self._address = address
        self._leader_changed = leader_changed
        self._others_may_lead = others_may_lead

    async def fetch(self, blob_key: str) -> AsyncIterator[bytes]:
        """Yields the content of a file.

        If the leader changes, fetches the rest from the next one. Raises: FlinkError.
        """
        deadline_ms = self._clock.monotonic_ms() + FETCH_TIMEOUT_MS
        num_bytes = 0
        while True:
            gateway = self._peers.gateway("BlobServer", self._address())
            position = 0
            try:
                async for chunk in gateway.get_blob(dispatcher_pb2.BlobKey(sha256=blob_key)):
                    new_data = chunk.data[max(0, num_bytes - position) :]
                    position += len(chunk.data)
                    num_bytes += len(new_data)
                    if new_data:
                        yield new_data
                return
            except (RpcUnavailableError, NotLeaderError):
                if not self._others_may_lead or self._clock.monotonic_ms() >= deadline_ms:
                    raise
                await self._leader_changed(RETRY_PAUSE_S)
