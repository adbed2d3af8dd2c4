"""LeaderBlobs: the files of a job, from whichever Dispatcher leads. Thread: the process's loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from flinkpy._proto import dispatcher_pb2
from flinkpy.common.clock import Clock
from flinkpy.common.errors import NotLeaderError, RpcUnavailableError
from flinkpy.rpc.peers import Peers

#: How long a file is waited for while there is no Dispatcher to fetch it from, and how often one is asked.
FETCH_TIMEOUT_MS = 60_000
RETRY_PAUSE_S = 1.0


class LeaderBlobs:
    """Args:
    address: of the Dispatcher that is taken to lead.
    leader_changed: returns when that has changed, or after so many seconds.
    others_may_lead: False: one that cannot be reached is an error at once.
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
        """Where the leader changes in the middle the rest comes from the next one. Raises: FlinkError."""
        deadline_ms = self._clock.monotonic_ms() + FETCH_TIMEOUT_MS
        num_bytes = 0
        while True:
            gateway = self._peers.gateway("BlobServer", self._address())
            position = 0
            try:
                async for chunk in gateway.get_blob(dispatcher_pb2.BlobKey(sha256=blob_key)):
                    news = chunk.data[max(0, num_bytes - position) :]
                    position += len(chunk.data)
                    num_bytes += len(news)
                    if news:
                        yield news
                return
            except (RpcUnavailableError, NotLeaderError):
                if not self._others_may_lead or self._clock.monotonic_ms() >= deadline_ms:
                    raise
                await self._leader_changed(RETRY_PAUSE_S)
